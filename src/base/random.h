/* SPDX-License-Identifier: MIT */
/*
 * random: the one generator of random numbers, for the library, the benchmarks and the tests: splitmix64 (G. Steele,
 * D. Lea, C. Flood: "Fast splittable pseudorandom number generators", 2014; the constants are Stafford's variant
 * 13). Any state will do as a seed, neighbouring ones too; the same numbers on every machine.
 */
#ifndef PINPOOL_BASE_RANDOM_H
#define PINPOOL_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* Evenly from [0, bound), bound below 2^32: the high half of the product (D. Lemire's reduction). */
static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(((random_next(state) >> 32) * bound) >> 32);
}

#endif
