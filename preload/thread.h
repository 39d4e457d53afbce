/* SPDX-License-Identifier: MIT */
/*
 * thread: a thread's heap. `self` is what its calls use; all states but the own heap own no block, serve
 * nothing and send every call into a slow path, so the fast paths need no test for them:
 *
 *            first call                  thread ends
 *   none ----------------> its own heap ------------> dying
 *                             |      ^
 *                  slow path  v      |                `mine` stays the own heap meanwhile
 *                             busy --+
 *
 *   busy   a signal handler that interrupts our slow path sees it: it allocates from the next
 *          allocator and frees as another thread would
 *   dying  destructors that run after ours allocate from the next allocator and free likewise
 */
#ifndef PINPOOL_PRELOAD_THREAD_H
#define PINPOOL_PRELOAD_THREAD_H

#include "base/base.h"
#include "pool/heap.h"

/* Hidden also where they are only declared: reached directly, not through the GOT. */
#pragma GCC visibility push(hidden)

#define TLS __thread __attribute__((tls_model("initial-exec")))

extern struct pool pool;
extern struct heap heap_none, heap_busy, heap_dying;
extern TLS struct heap *self; /* what this thread's calls use */
extern TLS struct heap *mine; /* this thread's own heap, or NULL */

/* At start: from now on the ends of threads are heard of. */
void thread_init(void);

/* Gives a thread that has none its heap; afterwards `self` is that heap, or dying when there is none. */
COLD void thread_attach(void);

/* Around a slow path of the calling thread's heap. Returns the heap. */
INLINE struct heap *thread_enter(void)
{
    struct heap *heap = self;

    self = &heap_busy;
    atomic_signal_fence(memory_order_seq_cst); /* a handler sees `busy` before anything half done */
    return heap;
}

INLINE void thread_leave(struct heap *heap)
{
    atomic_signal_fence(memory_order_seq_cst);
    self = heap;
}

#pragma GCC visibility pop

#endif
