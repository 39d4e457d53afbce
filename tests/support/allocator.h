/* SPDX-License-Identifier: MIT */
/*
 * allocator: the allocator under test, as a table, so that one torture program serves several:
 * allocator_libc.c is the C library's family (and so whatever is preloaded over it). A file that
 * binds another one defines `allocator` and is linked in its place.
 *
 * All functions mean what the C library's do. Any thread may call them at any time between
 * `start` and the end of the process: also before its thread_begin, after its thread_end (from the
 * destructors of thread-specific data), and in a forked child. A binding that needs to know about
 * forks registers with pthread_atfork in `start`.
 */
#ifndef PINPOOL_TESTS_SUPPORT_ALLOCATOR_H
#define PINPOOL_TESTS_SUPPORT_ALLOCATOR_H

#include <stddef.h>

struct allocator {
    const char *name;
    void (*start)(void);        /* once, before any other call, by the only thread; may be NULL */
    void (*thread_begin)(void); /* first thing in a thread; may be NULL */
    void (*thread_end)(void);   /* last thing in a thread's function; may be NULL */
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t bytes);
    void *(*realloc)(void *pointer, size_t bytes);
    void (*free)(void *pointer);
    void *(*aligned_alloc)(size_t alignment, size_t bytes);
    int (*posix_memalign)(void **pointer, size_t alignment, size_t bytes);
    size_t (*usable_size)(void *pointer);
};

extern const struct allocator allocator;

#endif
