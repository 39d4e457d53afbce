/* SPDX-License-Identifier: MIT */
/*
 * workload: what the bundled workloads share: a clock, random numbers, request sizes, the resident
 * set, and the proof of which allocator is in the process. Only what prints or dies calls malloc, so
 * nothing here shows in what the workloads measure. They end on the first thing that fails.
 */
#ifndef PINPOOL_TESTS_WORKLOAD_H
#define PINPOOL_TESTS_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { WORKLOAD_SIZES = 4096, WORKLOAD_CACHE_LINE = 64 };

enum distribution {
    DISTRIBUTION_LOG,    /* every doubling of the size is equally likely: buffers are mostly small */
    DISTRIBUTION_UNIFORM /* every size is equally likely */
};

/* Request sizes as 4096 equally likely values, so that drawing one costs one load and no logarithm. */
struct sizes {
    uint32_t low_bytes;
    uint32_t high_bytes;
    enum distribution distribution;
    uint32_t bytes[WORKLOAD_SIZES]; /* ascending */
};

struct random {
    uint64_t state; /* never 0 */
};

/* Says "PROGRAM: what" on stderr and ends with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with the reason that errno gives. */
_Noreturn void die_errno(const char *what);

/* Monotonic time. */
uint64_t clock_ns(void);

void sleep_ns(uint64_t duration_ns);

/* Zeroed memory that malloc does not know; it becomes resident where it is written. */
void *memory_map(size_t bytes);

/* Resident bytes of this process, from /proc/self/statm. */
uint64_t rss_bytes(void);

void random_seed(struct random *random, uint64_t seed);

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016). */
static inline uint64_t random_next(struct random *random)
{
    uint64_t x = random->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * UINT64_C(2685821657736338717);
}

/* Evenly from [0, bound), bound below 2^32: the high half of the product (Lemire's reduction). */
static inline uint32_t random_below(struct random *random, uint32_t bound)
{
    return (uint32_t)(((random_next(random) >> 32) * bound) >> 32);
}

/* Sets low_bytes and high_bytes from "LO:HI"; false when it is not that. */
bool sizes_parse(struct sizes *sizes, const char *text);

/* Fills the table from the other fields. */
void sizes_fill(struct sizes *sizes);

static inline uint32_t sizes_draw(const struct sizes *sizes, struct random *random)
{
    return sizes->bytes[random_next(random) >> 52]; /* the top 12 bits */
}

/* A whole number between low and high, or the program ends, naming the option. */
uint64_t number_parse(const char *option, const char *text, uint64_t low, uint64_t high);

/* Writes one byte of each page that [address, address + bytes) covers: what makes it resident. */
static inline void touch_pages(void *address, size_t bytes, size_t page_bytes)
{
    volatile char *const start = address;
    size_t offset = 0;
    while (offset < bytes) {
        start[offset] = 1;
        offset += page_bytes - ((uintptr_t)(start + offset) & (page_bytes - 1));
    }
}

/*
 * Prints the file names of the allocators mapped into this process, as a JSON array: the proof that
 * an arm of a comparison ran what it was meant to run. Reads /proc/self/maps.
 */
void libraries_print_json(FILE *to);

#endif
