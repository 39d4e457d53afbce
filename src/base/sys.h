/* SPDX-License-Identifier: MIT */
/*
 * sys: the only raw system calls of the library. Each returns 0 or a count, or -errno, and leaves
 * errno alone, so all of them may be called by any thread and in the signal handler.
 *
 * After start an allocation path makes only mmap, madvise and futex, and gettid once a thread.
 */
#ifndef PINPOOL_BASE_SYS_H
#define PINPOOL_BASE_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Maps `bytes` of zeroed private memory. 0 and *address, or -errno. */
int sys_map(size_t bytes, void **address);

/* The same at `wanted` and not elsewhere: -EEXIST when something is there. Before Linux 4.17 it is a hint. */
int sys_map_exactly(void *wanted, size_t bytes, void **address);

/* Maps `bytes` of the file, shared and writable, or private and read-only. */
int sys_map_file_shared(int fd, size_t bytes, void **address);
int sys_map_file_sealed(int fd, size_t bytes, void **address);

/* Unmaps; only what was mapped a moment ago and is not needed, and a parent's stats file in its child. */
int sys_unmap(void *address, size_t bytes);

/* Gives whole pages back; they read as zero afterwards. */
int sys_discard(void *address, size_t bytes);

/* In a child these pages will be zero. */
int sys_wipe_on_fork(void *address, size_t bytes);

/* One byte a page, bit 0 set when the page is in memory. */
int sys_mincore(void *address, size_t bytes, unsigned char *pages);

int sys_open(const char *path, int flags, mode_t mode); /* the descriptor, or -errno */
int sys_close(int fd);
ssize_t sys_read(int fd, void *bytes, size_t count); /* restarts after EINTR */
ssize_t sys_pread(int fd, void *bytes, size_t count, uint64_t offset);
int sys_write_all(int fd, const void *bytes, size_t count); /* 0 when everything was written */
ssize_t sys_pwrite(int fd, const void *bytes, size_t count, uint64_t offset);
ssize_t sys_readlink(const char *path, char *target, size_t size);
int sys_truncate(int fd, uint64_t bytes);
uint64_t sys_file_limit_bytes(void); /* RLIMIT_FSIZE: a write beyond it is a signal that ends the program */
int sys_memfd(const char *name);
int sys_unlink(const char *path);

int32_t sys_getpid(void); /* never cached: vfork and clone children ask too */
int32_t sys_gettid(void);

/* Sleeps while *word == expected; returns at a wake, at a change, at a signal. */
void sys_futex_wait(_Atomic(uint32_t) *word, uint32_t expected);
void sys_futex_wake_one(_Atomic(uint32_t) *word);

uint64_t sys_now_ns(void);        /* CLOCK_MONOTONIC */
uint64_t sys_now_coarse_ns(void); /* the same clock at the resolution of the tick, for a few ns */
uint64_t sys_unix_ns(void);       /* CLOCK_REALTIME */

size_t sys_page_bytes(void);

#endif
