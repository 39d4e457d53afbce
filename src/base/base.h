/* SPDX-License-Identifier: MIT */
/*
 * base: attributes, sizes and bit helpers. No dependencies, no state.
 */
#ifndef PINPOOL_BASE_BASE_H
#define PINPOOL_BASE_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((cold, noinline))
#define INLINE static inline __attribute__((always_inline))

/* Relaxed accesses, short enough to read. Whatever is not relaxed is spelled out and names its partner. */
#define load_relaxed(object) atomic_load_explicit((object), memory_order_relaxed)
#define store_relaxed(object, value) atomic_store_explicit((object), (value), memory_order_relaxed)

/*
 * What we keep apart so that two writers do not share it. Only speed depends on it: on a machine
 * with longer lines everything stays correct.
 */
enum { CACHE_LINE_BYTES = 64 };

/* Block sizes that a process has at most. The layouts of counters, label and dump follow from it. */
enum { TIERS_MAX = 4 };

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

INLINE bool is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* How many bits n takes: 0 -> 0, 1 -> 1, 2..3 -> 2, 4..7 -> 3. */
INLINE unsigned bit_width(uint64_t n)
{
    return n == 0 ? 0 : 64 - (unsigned)__builtin_clzll(n);
}

/* log2 of a power of two. */
INLINE unsigned log2_exact(size_t power_of_two)
{
    return (unsigned)__builtin_ctzll(power_of_two);
}

/* Rounds up to a multiple of a power of two. The caller knows that it does not overflow. */
INLINE size_t align_up(size_t n, size_t power_of_two)
{
    return (n + power_of_two - 1) & ~(power_of_two - 1);
}

INLINE size_t align_down(size_t n, size_t power_of_two)
{
    return n & ~(power_of_two - 1);
}

INLINE size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

INLINE size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

INLINE uint64_t bit_at(unsigned index)
{
    return (uint64_t)1 << index;
}

/* `count` ones from bit `start` on; 1 <= count, start + count <= 64. */
INLINE uint64_t run_of_bits(unsigned start, unsigned count)
{
    return (~(uint64_t)0 >> ((64 - count) & 63)) << start; /* & 63: what the machine does anyway */
}

INLINE unsigned count_bits(uint64_t word)
{
    return (unsigned)__builtin_popcountll(word);
}

#endif
