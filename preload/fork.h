/* SPDX-License-Identifier: MIT */
/*
 * fork: a forked child finds locks and heaps of threads that it does not have, and is put in order before it
 * uses the pool. There is no handler before a fork: it waits for nothing and nothing waits for it. What other
 * threads were in the middle of is told from the states of heaps and locks, here in the child.
 *
 * Only the thread that forked does so, for only it knows what is its own: it may have forked in a signal
 * handler that interrupted our slow path, and then a lock that looks orphaned is the one it goes on with.
 * Another library's handler may start threads in the child before that. They do not wait, for the thread that
 * forked may wait for them: until the child is in order they are served by the next allocator, and free as
 * threads without a heap do, which touches nothing that is being put in order (heap_free_to_block).
 *
 * Who comes first is told by a page that is zero in a child (MADV_WIPEONFORK, Linux 4.14), so that neither a
 * raw clone, nor a handler that runs before ours, finds us unprepared. Where the kernel does not have it, or
 * says so and does not do it, our handler knows that it is in a child.
 */
#ifndef PINPOOL_PRELOAD_FORK_H
#define PINPOOL_PRELOAD_FORK_H

#include "base/base.h"

#pragma GCC visibility push(hidden)

enum { FORK_LIVES_ON = 1 }; /* 0 in a process that has just been forked */

/* In a page of its own, which is lost in a child whole. */
struct fork_page {
    _Atomic(uint32_t) word;
    _Atomic(uint32_t) was_wiped; /* 1: this process found the page wiped, and has put itself in order */
};

extern struct fork_page *fork_page;

/* At start, and in the constructor. */
void fork_init(void);
void fork_install_handler(void);

COLD bool fork_child_starts(void);

/*
 * True when the pool may be used. Whoever goes into a slow path asks first. False only for threads other than
 * the one that forked, in a child that is not in order yet. Any thread, and the handler.
 */
INLINE bool fork_is_in_order(void)
{
    /* acquire: pairs with the release in fork_child_starts. */
    return likely(atomic_load_explicit(&fork_page->word, memory_order_acquire) == FORK_LIVES_ON) ||
           fork_child_starts();
}

#pragma GCC visibility pop

#endif
