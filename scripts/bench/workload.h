/* SPDX-License-Identifier: MIT */
/*
 * workload: what the bundled workloads share: failing, a clock, random numbers, touching pages. Only what
 * prints or dies calls malloc, so nothing here shows in what they measure. They end on the first thing that
 * fails.
 */
#ifndef PINPOOL_BENCH_WORKLOAD_H
#define PINPOOL_BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/random.h"

enum { WORKLOAD_CACHE_LINE = 64 };

/* Says "PROGRAM: what" on stderr and ends with status 1. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with the reason that errno gives. */
_Noreturn void die_errno(const char *what);

/* Monotonic time. */
uint64_t clock_ns(void);

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

#endif
