/* SPDX-License-Identifier: MIT */
/*
 * sys: the only system calls of the library. Each returns 0 or a count, or -errno, and leaves errno alone, so
 * all of them may be called by any thread and in the signal handler. None goes through a name that a preload
 * could wrap: see syscall.h, and libc.h for those that are libc's on purpose; libc_find comes first.
 *
 * After start an allocation path makes only mmap, madvise and futex, and gettid once a thread.
 */
#ifndef PINPOOL_BASE_SYS_H
#define PINPOOL_BASE_SYS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include "base/base.h"

/* Maps `bytes` of zeroed private memory. 0 and *address, or -errno. */
int sys_map(size_t bytes, void **address);

/* The same, but a forked child has the same memory and not a copy. No file: nobody can cut it. */
int sys_map_shared(size_t bytes, void **address);

/* Private memory at `wanted` and not elsewhere: -EEXIST when something is there. Before Linux 4.17 it is a hint. */
int sys_map_exactly(void *wanted, size_t bytes, void **address);

/* Maps `bytes` of the file, private and read-only. */
int sys_map_file_sealed(int fd, size_t bytes, void **address);

/* Unmaps, by libc's munmap; only what was mapped a moment ago and is not needed. */
int sys_unmap(void *address, size_t bytes);

/*
 * Gives whole pages back, by libc's madvise. They should read as zero afterwards; there are kernels and
 * filters that answer 0 and do nothing, so who relies on it looks.
 */
int sys_discard(void *address, size_t bytes);

/* In a child these pages will be zero, unless the kernel only says so. */
int sys_wipe_on_fork(void *address, size_t bytes);

/* One byte a page, bit 0 set when the page is in memory. */
int sys_mincore(void *address, size_t bytes, unsigned char *pages);

int sys_open(const char *path, int flags, mode_t mode); /* the descriptor, or -errno */
int sys_close(int fd);
ssize_t sys_read(int fd, void *bytes, size_t count); /* restarts after EINTR */
ssize_t sys_pread(int fd, void *bytes, size_t count, uint64_t offset);
int sys_write_all(int fd, const void *bytes, size_t count); /* 0 when everything was written */
ssize_t sys_readlink(const char *path, char *target, size_t size);
int sys_stat(const char *path, struct stat *file); /* follows links */
uint64_t sys_file_limit_bytes(void); /* RLIMIT_FSIZE: a write beyond it is a signal that ends the program */
int sys_memfd(const char *name);
int sys_unlink(const char *path);
int sys_uname(struct utsname *name);

int32_t sys_getpid(void); /* never cached: vfork and clone children ask too */
int32_t sys_gettid(void);

/*
 * Masks as the kernel has them: bit n - 1 is signal n. All of them means all, those that libc keeps for
 * itself included, so nothing cancels or interrupts a thread in between.
 */
uint64_t sys_block_signals(void); /* all of them; returns the mask before */
void sys_restore_signals(uint64_t mask);
uint64_t sys_change_signal_mask(int how, uint64_t set); /* SIG_BLOCK, SIG_UNBLOCK; returns the mask before */

/* Sends to a thread of this process; the second hands a signal on with what came with it. */
int sys_signal_thread(int32_t tid, int number);
int sys_pass_signal_on(int32_t tid, int number, siginfo_t *info);

_Noreturn void sys_abort(void);

/* Sleeps while *word == expected; returns at a wake, a change, a signal, or after timeout_ns (0: never). */
void sys_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, uint64_t timeout_ns);
void sys_futex_wake(_Atomic(uint32_t) *word, uint32_t most);

uint64_t sys_now_ns(void);        /* CLOCK_MONOTONIC */
uint64_t sys_now_coarse_ns(void); /* the same clock at the resolution of the tick, for a few ns */
uint64_t sys_unix_ns(void);       /* CLOCK_REALTIME */

size_t sys_page_bytes(void);

#endif
