/* SPDX-License-Identifier: MIT */
/*
 * start: the library's beginning and end, and its settings.
 *
 * Start has two halves. start_is_done runs the first inside the first call of any function of ours, perhaps
 * before our constructor and before most of the process exists: next allocator, options, pool. The
 * constructor does the rest: what allocates, and the signal.
 */
#ifndef PINPOOL_PRELOAD_START_H
#define PINPOOL_PRELOAD_START_H

#include "base/base.h"
#include "base/options.h"

#pragma GCC visibility push(hidden)

/* The settings in force; sealed. Valid once start_is_done has returned true. */
extern const struct options *settings;

enum start_phase { NOT_STARTED, RESOLVING, RESOLVED, STARTING, READY };

extern _Atomic(uint32_t) start_phase; /* enum start_phase */
COLD bool start_slow(void);

/*
 * The first half of start. True when the library is ready. False while the same or another thread is in
 * the middle of it, and before there is an environment: the next allocator serves then, or the bootstrap
 * arena. Any thread, any number of times.
 */
INLINE bool start_is_done(void)
{
    /* acquire: pairs with the release in start_slow. */
    return likely(atomic_load_explicit(&start_phase, memory_order_acquire) == READY) || start_slow();
}

#pragma GCC visibility pop

#endif
