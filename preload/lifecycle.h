/* SPDX-License-Identifier: MIT */
/*
 * lifecycle: start, threads, fork, exit.
 *
 * Start has two halves. lifecycle_start runs inside the first call of any function of ours, perhaps
 * before our constructor and before most of the process exists: next allocator, options, pool. The
 * constructor does the rest: what allocates, and the signal.
 *
 * A thread's heap. `self` is what its calls use; all states but the last own no block, serve nothing and
 * send every call into a slow path, so the fast paths need no test for them:
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
#ifndef PINPOOL_PRELOAD_LIFECYCLE_H
#define PINPOOL_PRELOAD_LIFECYCLE_H

#include "base/base.h"
#include "base/options.h"
#include "pool/heap.h"

/* Hidden also where they are only declared: reached directly, not through the GOT. */
#pragma GCC visibility push(hidden)

#define TLS __thread __attribute__((tls_model("initial-exec")))

extern struct pool pool;
extern struct heap heap_none, heap_busy, heap_dying;
extern TLS struct heap *self; /* what this thread's calls use */
extern TLS struct heap *mine; /* this thread's own heap, or NULL */

/* The settings in force; sealed. Valid once lifecycle_start has returned true. */
extern const struct options *settings;

enum lifecycle_phase { NOT_STARTED, RESOLVING, RESOLVED, STARTING, READY };

extern _Atomic(uint32_t) lifecycle_phase; /* enum lifecycle_phase */
COLD bool lifecycle_start_slow(void);

/*
 * The first half of start. True when the library is ready. False while the same or another thread is in
 * the middle of it, and before there is an environment: the next allocator serves then, or the bootstrap
 * arena. Any thread, any number of times.
 */
INLINE bool lifecycle_start(void)
{
    /* acquire: pairs with the release in lifecycle_start_slow. */
    return likely(atomic_load_explicit(&lifecycle_phase, memory_order_acquire) == READY) ||
           lifecycle_start_slow();
}

/* Gives a thread that has none its heap; afterwards `self` is that heap, or dying when there is none. */
COLD void lifecycle_attach(void);

/*
 * A word in a page that is zero in a child (MADV_WIPEONFORK, Linux 4.14; else never): LIVES_ON in a process
 * that has put itself in order, 0 in one that has just been forked.
 */
enum { LIVES_ON = 1, STARTS_AS_CHILD = 2 };
extern _Atomic(uint32_t) *lifecycle_word;
COLD void lifecycle_child_starts(void);

/*
 * Our own handler for a fork may be late: those of libraries whose constructors ran before ours run
 * before it in the child, and they may allocate or start threads. A raw clone calls none at all. So
 * whoever goes into a slow path looks first. Signal-safe.
 */
INLINE void lifecycle_look_for_fork(void)
{
    /* acquire: pairs with the release in lifecycle_child_starts. */
    if (unlikely(atomic_load_explicit(lifecycle_word, memory_order_acquire) != LIVES_ON))
        lifecycle_child_starts();
}

/* Around a slow path of the calling thread's heap. Returns the heap. */
INLINE struct heap *lifecycle_enter(void)
{
    struct heap *heap = self;

    lifecycle_look_for_fork();

    self = &heap_busy;
    atomic_signal_fence(memory_order_seq_cst); /* a handler sees `busy` before anything half done */
    return heap;
}

INLINE void lifecycle_leave(struct heap *heap)
{
    atomic_signal_fence(memory_order_seq_cst);
    self = heap;
}

#pragma GCC visibility pop

#endif
