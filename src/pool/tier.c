/* SPDX-License-Identifier: MIT */
/* tier: see tier.h. */
#include "pool/tier.h"

#include <string.h>

void tiers_init(struct tiers *tiers, const size_t *block_bytes, unsigned count, size_t min_bytes)
{
    size_t largest = block_bytes[count - 1] / 2;

    memset(tiers, 0, sizeof *tiers);
    tiers->count = (uint8_t)count;
    for (unsigned t = 0; t < count; t++)
        tiers->block_shift[t] = (uint8_t)log2_exact(block_bytes[t]);
    for (unsigned width = 0, t = 0; width < TIER_WIDTHS; width++) {
        /* the largest request of this width is 2^width */
        while (t + 1 < count && width > log2_exact(block_bytes[t] / 2))
            t++;
        tiers->of_width[width] = (uint8_t)t;
    }
    if (min_bytes <= largest) {
        tiers->min_bytes = min_bytes;
        tiers->span_bytes = largest - min_bytes;
    } else {
        /* only SIZE_MAX passes n - SIZE_MAX <= 0, and no allocator has that much: it goes to the slow path */
        tiers->min_bytes = SIZE_MAX;
        tiers->span_bytes = 0;
    }
}

size_t tier_smallest(const struct tiers *tiers, unsigned tier)
{
    size_t above_lower_tier = tier == 0 ? 1 : tier_block_bytes(tiers, tier - 1) / 2 + 1;

    return max_size(above_lower_tier, tiers->min_bytes);
}

size_t tier_largest(const struct tiers *tiers, unsigned tier)
{
    return tier_block_bytes(tiers, tier) / 2;
}
