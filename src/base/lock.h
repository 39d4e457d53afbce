/* SPDX-License-Identifier: MIT */
/*
 * lock: a small mutex on one futex word, after "Futexes Are Tricky" (U. Drepper, 2011), mutex2.
 * Not recursive. A forked child may reset one that a vanished thread held; a pthread mutex has no
 * such operation. Any thread; never the dump.
 *
 * Rank, lowest first: region.growth, then the bins'. No system call but futex is made under a lock of the bins.
 */
#ifndef PINPOOL_BASE_LOCK_H
#define PINPOOL_BASE_LOCK_H

#include "base/base.h"
#include "base/sys.h"

struct lock {
    _Atomic(uint32_t) word;       /* 0 free, 1 held, 2 held and perhaps waited for */
    _Atomic(const void *) holder; /* who holds it, to be told apart after a fork; NULL when free */
};

COLD void lock_wait_slow(struct lock *lock);

/* `self` is anything that tells the calling thread from all others. */
INLINE void lock_take(struct lock *lock, const void *self)
{
    uint32_t expected = 0;

    /* acquire: pairs with the release exchange in lock_drop. */
    if (unlikely(!atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1, memory_order_acquire,
                                                          memory_order_relaxed)))
        lock_wait_slow(lock);
    store_relaxed(&lock->holder, self);
}

INLINE void lock_drop(struct lock *lock)
{
    store_relaxed(&lock->holder, NULL);
    /* release: pairs with the acquire in lock_take and lock_wait_slow. */
    if (unlikely(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
        sys_futex_wake(&lock->word, 1);
}

/* In a forked child only: does a thread that did not survive hold it? */
INLINE bool lock_is_orphaned(struct lock *lock, const void *self)
{
    return load_relaxed(&lock->word) != 0 && load_relaxed(&lock->holder) != self;
}

/* In a forked child only, for an orphaned lock. */
INLINE void lock_reset(struct lock *lock)
{
    store_relaxed(&lock->holder, NULL);
    store_relaxed(&lock->word, 0);
}

#endif
