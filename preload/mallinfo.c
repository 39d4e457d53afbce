/* SPDX-License-Identifier: MIT */
/* mallinfo: mallinfo2 of the next allocator, with what the pool holds added. */
#include <malloc.h>
#include <string.h>

#include "base/counters.h"
#include "preload/interpose.h"
#include "preload/lifecycle.h"
#include "preload/next.h"

/* arena: held bytes; uordblks: live; fordblks: held and not live. Sums of one moment, give or take calls in
 * flight. */
EXPORT struct mallinfo2 mallinfo2(void)
{
    uint64_t of_heap[COUNTER_COUNT] = {0}, of_tier[TIERS_MAX][TIER_COUNTER_COUNT] = {{0}};
    struct mallinfo2 info;

    memset(&info, 0, sizeof info);
    if (!lifecycle_start())
        return info;
    if (next.mallinfo2 != NULL)
        info = next.mallinfo2();
    pool_sum_counters_sigsafe(&pool, of_heap, of_tier);
    for (unsigned t = 0; t < pool.tiers.count; t++) {
        const uint64_t *tier = of_tier[t];
        size_t blocks = tier[TIER_COUNTER_opened_fresh_blocks] + tier[TIER_COUNTER_opened_released_blocks] -
                        tier[TIER_COUNTER_released_blocks];
        size_t held = blocks * tier_block_bytes(&pool.tiers, t);
        size_t live = tier[TIER_COUNTER_carved_bytes] - tier[TIER_COUNTER_freed_local_bytes] -
                      tier[TIER_COUNTER_freed_remote_bytes];

        info.arena += held;
        info.uordblks += live;
        info.fordblks += held - live;
    }
    return info;
}
