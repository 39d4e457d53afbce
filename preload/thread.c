/* SPDX-License-Identifier: MIT */
/* thread: see thread.h. */
#include "preload/thread.h"

#include <errno.h>
#include <pthread.h>

#include "base/libc.h"
#include "base/sys.h"
#include "preload/fork.h"

/*
 * A heap that serves nothing: every size is sent to the slow path, where no class of the cache has a slice and no
 * block has room. Its granules are so large that any request takes one or two, 0 bytes included.
 */
#define GATE                                                                                                 \
    {                                                                                                        \
        .tiers = {.min_bytes = 0, .span_bytes = SIZE_MAX, .block_shift = {63 + BLOCK_GRANULES_LOG2}},        \
        .pool = &pool, .counters = &pool.shared, .current = {                                                \
            &block_closed,                                                                                   \
            &block_closed,                                                                                   \
            &block_closed,                                                                                   \
            &block_closed                                                                                    \
        }                                                                                                    \
    }

struct pool pool;
struct heap heap_none = GATE;
struct heap heap_busy = GATE;
struct heap heap_dying = GATE;
TLS struct heap *self = &heap_none;
TLS struct heap *mine;

static pthread_key_t key;
static bool has_key;

/*
 * In a child that is not in order yet only the thread that forked has a heap, and it puts the child in order.
 */
static void thread_ends(void *heap)
{
    (void)fork_is_in_order();
    (void)thread_enter();
    mine = NULL; /* before others may have it: a fork in a signal handler looks here */
    heap_release(heap);
    thread_leave(&heap_dying);
}

void thread_init(void)
{
    has_key = libc.key_create(&key, thread_ends) == 0;
}

/*
 * pthread_setspecific may allocate (for keys beyond the first 32): `self` is busy then, so that
 * request goes to the next allocator.
 */
void thread_attach(void)
{
    int errno_of_program = errno;
    struct heap *heap;

    (void)thread_enter();
    heap = heap_acquire(&pool, &self, sys_gettid());
    if (heap && (!has_key || libc.setspecific(key, heap) != 0)) {
        heap_release(heap); /* nobody would tell us when the thread ends */
        heap = NULL;
    }
    mine = heap;
    if (heap)
        store_relaxed(&heap->state,
                      HEAP_LIVE); /* again: a fork in a signal handler may just have put it up for adoption */
    thread_leave(heap ? heap : &heap_dying);
    errno = errno_of_program;
}
