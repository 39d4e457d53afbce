/* SPDX-License-Identifier: MIT */
/*
 * libc: functions of the C library itself, found in its own table of symbols and not by name. What we call by
 * name may be another preload's: a wrapper with a lock that another thread holds at a fork, or with an
 * initialiser that calls malloc. So from malloc, free, fork, the handler and start nothing is called by a
 * name that could be wrapped, but for dlsym, which finds the allocator behind us
 * (tests/fault/undefined_symbols lists what is left, with reasons).
 *
 * madvise and munmap are libc's on purpose, not system calls of ours: caches of registered memory (RDMA)
 * rewrite these two to hear which pages go away.
 */
#ifndef PINPOOL_BASE_LIBC_H
#define PINPOOL_BASE_LIBC_H

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct libc {
    int (*clock_gettime)(clockid_t clock, struct timespec *now);
    int (*madvise)(void *address, size_t bytes, int advice);
    int (*munmap)(void *address, size_t bytes);
    unsigned long (*getauxval)(unsigned long type);
    char *(*secure_getenv)(const char *name);
    int (*sigaction)(int number, const struct sigaction *action, struct sigaction *old);
    int (*key_create)(pthread_key_t *key, void (*destructor)(void *));
    int (*setspecific)(pthread_key_t key, const void *value);
    int (*register_atfork)(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);
    int (*dladdr)(const void *address, Dl_info *info);
};

/* Filled by libc_find, and not changed afterwards. Hidden: reached directly, not through the GOT. */
extern struct libc libc __attribute__((visibility("hidden")));

/*
 * Fills `libc`. False when something is missing: this is no C library that we know. By one thread, before any other
 * function of `base` that reads a clock, the page size or the environment, or gives memory back.
 */
bool libc_find(void);

#endif
