/* SPDX-License-Identifier: MIT */
/*
 * tier: which block size serves a request. A request goes to the smallest block whose half holds it,
 * so the tiers' ranges join without gaps: (min .. b0/2], (b0/2 .. b1/2], ...
 *
 * The table is filled once and only read afterwards. Powers of two make the tier a function of the
 * request's bit width alone: n <= 2^w exactly when bit_width(n - 1) <= w.
 */
#ifndef PINPOOL_POOL_TIER_H
#define PINPOOL_POOL_TIER_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/options.h"
#include "pool/block.h"

enum { TIER_WIDTHS = 65 /* of any size_t */ };

struct tiers {
    size_t min_bytes;              /* smallest request served */
    size_t span_bytes;             /* largest - smallest: n is ours when n - min_bytes <= span_bytes */
    uint8_t of_width[TIER_WIDTHS]; /* bit_width(n - 1) -> tier; the last one for what none serves */
    uint8_t count;
    uint8_t block_shift[TIERS_MAX]; /* log2 of the block's bytes */
};

/*
 * Fills the table. block_bytes: `count` ascending powers of two, 1 <= count <= TIERS_MAX. When
 * min_bytes exceeds half the largest block nothing is served: span and min are such that no n fits.
 */
void tiers_init(struct tiers *tiers, const size_t *block_bytes, unsigned count, size_t min_bytes);

/* Is a request of n bytes ours? One subtraction and one comparison; n is anything. */
INLINE bool tiers_serve(const struct tiers *tiers, size_t n)
{
    return n - tiers->min_bytes <= tiers->span_bytes;
}

/* The tier of a request that is ours. */
INLINE unsigned tier_of(const struct tiers *tiers, size_t n)
{
    /* n - 1 | 1: the width of 0 is that of 1 here, which spares a branch and changes no tier. 63 ^ clz is
       the index of the highest one; as a subtraction compilers do not see through it. */
    return tiers->of_width[(63U ^ (unsigned)__builtin_clzll((n - 1) | 1)) + 1];
}

INLINE size_t tier_block_bytes(const struct tiers *tiers, unsigned tier)
{
    return (size_t)1 << tiers->block_shift[tier];
}

/* The smallest and the largest request of a tier, in bytes; smallest > largest when it serves none. */
size_t tier_smallest(const struct tiers *tiers, unsigned tier);
size_t tier_largest(const struct tiers *tiers, unsigned tier);

#endif
