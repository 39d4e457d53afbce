/* SPDX-License-Identifier: MIT */
/*
 * counters: what counters.def says, as a type. A block of counters has one writer (its heap's
 * owner); anybody may read, each word on its own. They only grow: gauges are differences.
 */
#ifndef PINPOOL_BASE_COUNTERS_H
#define PINPOOL_BASE_COUNTERS_H

#include "base/base.h"

enum counter_id {
#define COUNTER(name, unit, sentence) COUNTER_##name,
#include "base/counters.def"
    COUNTER_COUNT
};

enum tier_counter_id {
#define TIER_COUNTER(name, unit, sentence) TIER_COUNTER_##name,
#include "base/counters.def"
    TIER_COUNTER_COUNT,
    TIER_COUNTER_ROOM = 16 /* a power of two, so that a tier's counters are found by a shift */
};

_Static_assert(TIER_COUNTER_COUNT <= TIER_COUNTER_ROOM, "a tier's counters fit their room");

struct counters {
    _Alignas(64) _Atomic(uint64_t) of_heap[COUNTER_COUNT];
    _Atomic(uint64_t) of_tier[TIERS_MAX][TIER_COUNTER_ROOM];
};

/* What the pool costs beside its blocks; several writers, so added to atomically. */
struct pool_figures {
    _Atomic(uint64_t) reserved_bytes; /* address space mapped, for blocks and for what lies beside them */
    _Atomic(uint64_t) metadata_bytes; /* of it, handed out for our own structures */
};

/* A row of the table, for whoever prints it. */
struct counter_row {
    const char *name;
    const char *unit;
    const char *sentence;
};

extern const struct counter_row counter_rows[COUNTER_COUNT];
extern const struct counter_row tier_counter_rows[TIER_COUNTER_COUNT];

/*
 * Adds to a counter; the one writer only. A plain load and store: no other writer exists. Returns what it was.
 */
static inline uint64_t counter_add(_Atomic(uint64_t) *counter, uint64_t amount)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, before + amount, memory_order_relaxed);
    return before;
}

/* Adds to a counter that several threads write: slot 0 only. */
static inline void counter_add_shared(_Atomic(uint64_t) *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

/* Adds every counter of `from` to `sum`. Any thread, and the signal handler. */
void counters_sum_sigsafe(uint64_t of_heap[COUNTER_COUNT], uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT],
                          const struct counters *from);

#endif
