/* SPDX-License-Identifier: MIT */
/* counters: the table's texts and the sum; see counters.h. */
#include "base/counters.h"

const struct counter_row counter_rows[COUNTER_COUNT] = {
#define COUNTER(name, unit, sentence) {#name, unit, sentence},
#include "base/counters.def"
};

const struct counter_row tier_counter_rows[TIER_COUNTER_COUNT] = {
#define TIER_COUNTER(name, unit, sentence) {#name, unit, sentence},
#include "base/counters.def"
};

void counters_sum_sigsafe(uint64_t of_heap[COUNTER_COUNT], uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT],
                          const struct counters *from)
{
    for (unsigned i = 0; i < COUNTER_COUNT; i++)
        of_heap[i] += load_relaxed(&from->of_heap[i]);
    for (unsigned t = 0; t < TIERS_MAX; t++)
        for (unsigned i = 0; i < TIER_COUNTER_COUNT; i++)
            of_tier[t][i] += load_relaxed(&from->of_tier[t][i]);
}
