/* SPDX-License-Identifier: MIT */
/* mallinfo: mallinfo2 and mallinfo of the next allocator, with what the pool holds added. */
#include <malloc.h>
#include <string.h>

#include "base/counters.h"
#include "preload/interpose.h"
#include "preload/next.h"
#include "preload/start.h"
#include "preload/thread.h"

struct figures {
    uint64_t held_bytes, live_bytes;
};

/* Sums of one moment, give or take calls in flight. */
static struct figures sum_tiers(void)
{
    uint64_t of_heap[COUNTER_COUNT] = {0}, of_tier[TIERS_MAX][TIER_COUNTER_COUNT] = {{0}};
    struct figures sum = {0, 0};

    pool_sum_counters_sigsafe(&pool, of_heap, of_tier);
    for (unsigned t = 0; t < pool.tiers.count; t++) {
        const uint64_t *tier = of_tier[t];
        uint64_t blocks = tier[TIER_COUNTER_opened_fresh_blocks] + tier[TIER_COUNTER_opened_released_blocks] -
                          tier[TIER_COUNTER_released_blocks];

        sum.held_bytes += blocks * tier_block_bytes(&pool.tiers, t);
        sum.live_bytes += tier[TIER_COUNTER_carved_bytes] - tier[TIER_COUNTER_freed_local_bytes] -
                          tier[TIER_COUNTER_freed_remote_bytes];
    }
    return sum;
}

/* arena: held bytes; uordblks: live; fordblks: held and not live. */
EXPORT struct mallinfo2 mallinfo2(void)
{
    struct mallinfo2 info;
    struct figures ours;

    memset(&info, 0, sizeof info);
    if (!start_is_done())
        return info;
    if (next.mallinfo2)
        info = next.mallinfo2();
    ours = sum_tiers();
    info.arena += ours.held_bytes;
    info.uordblks += ours.live_bytes;
    info.fordblks += ours.held_bytes - ours.live_bytes;
    return info;
}

/* The old form, whose fields are ints: what does not fit wraps round, as in glibc. */
EXPORT struct mallinfo mallinfo(void)
{
    struct mallinfo info;
    struct figures ours;

    memset(&info, 0, sizeof info);
    if (!start_is_done())
        return info;
    if (next.mallinfo)
        info = next.mallinfo();
    ours = sum_tiers();
    info.arena = (int)((unsigned)info.arena + (unsigned)ours.held_bytes);
    info.uordblks = (int)((unsigned)info.uordblks + (unsigned)ours.live_bytes);
    info.fordblks = (int)((unsigned)info.fordblks + (unsigned)(ours.held_bytes - ours.live_bytes));
    return info;
}
