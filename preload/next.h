/* SPDX-License-Identifier: MIT */
/*
 * next: the allocator behind us, and what serves until it is found.
 *
 * dlsym may allocate while it looks for malloc. Such requests, and any others of that moment, come from
 * a static arena that only grows; free, realloc and malloc_usable_size know its addresses for ever.
 */
#ifndef PINPOOL_PRELOAD_NEXT_H
#define PINPOOL_PRELOAD_NEXT_H

#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/base.h"

enum { BOOTSTRAP_BYTES = 256 << 10 };

typedef void (*signal_handler)(int number);

/*
 * Only functions that every allocator replaces together: a family half of one and half of another
 * would free blocks that it does not know. valloc, pvalloc, reallocarray and the sized frees are made
 * of these.
 */
struct next {
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t bytes);
    void *(*realloc)(void *address, size_t bytes);
    void (*free)(void *address);
    void *(*memalign)(size_t alignment, size_t bytes);
    void *(*aligned_alloc)(size_t alignment, size_t bytes);
    int (*posix_memalign)(void **result, size_t alignment, size_t bytes);
    size_t (*malloc_usable_size)(void *address);
    int (*malloc_trim)(size_t pad);      /* may be NULL */
    struct mallinfo2 (*mallinfo2)(void); /* may be NULL */
    struct mallinfo (*mallinfo)(void);   /* may be NULL */
    int (*sigaction)(int number, const struct sigaction *action, struct sigaction *old);
    signal_handler (*signal)(int number, signal_handler handler);
    signal_handler (*sysv_signal)(int number, signal_handler handler);
    signal_handler (*sigset)(int number, signal_handler handler);
    int (*sigignore)(int number);
    int (*siginterrupt)(int number, int interrupts);
    int (*sigwait)(const sigset_t *set, int *number);
    int (*sigtimedwait)(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);
};

/* Hidden: reached directly, not through the GOT. */
extern struct next next __attribute__((visibility("hidden")));
extern char bootstrap_arena[BOOTSTRAP_BYTES] __attribute__((visibility("hidden")));

/*
 * The next definition of `name` behind ours, or NULL. A name that nobody defines leaves no message for the
 * program's dlerror(), and no malloc is called for one.
 */
void *next_find(const char *name);

/* Fills `libc` and `next`. Once, by the thread that starts us; ends the process if there is no malloc behind us. */
void next_resolve(void);

/* The path of the object that holds next.malloc, or "". Valid as long as the object is loaded. */
const char *next_path(void);

/* Zeroed memory from the arena; NULL with ENOMEM when it is used up. Any thread. */
void *bootstrap_allocate(size_t bytes, size_t alignment);

INLINE bool bootstrap_owns(const void *address)
{
    return (uintptr_t)address - (uintptr_t)bootstrap_arena < BOOTSTRAP_BYTES;
}

/* What was asked for. */
size_t bootstrap_size(const void *address);

#endif
