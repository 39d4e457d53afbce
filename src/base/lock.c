/* SPDX-License-Identifier: MIT */
/* lock: the contended half of lock.h. */
#include "base/lock.h"

void lock_wait_slow(struct lock *lock)
{
    enum { SPINS = 64 }; /* sections under our locks are some tens of instructions */

    for (int spin = 0; spin < SPINS; spin++) {
        uint32_t expected = 0;

        /* acquire: as in lock_take. */
        if (load_relaxed(&lock->word) == 0 &&
            atomic_compare_exchange_weak_explicit(&lock->word, &expected, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    /* acquire: pairs with the release in lock_drop. Having slept, we cannot know whether others do: 2. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        sys_futex_wait(&lock->word, 2, 0);
}
