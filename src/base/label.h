/* SPDX-License-Identifier: MIT */
/*
 * label: what a process says of itself to whoever looks at it from outside. It lies at the beginning of the
 * sealed page that holds the settings, whose mapping is found by its name in /proc/PID/maps:
 *
 *   /memfd:pinpool:signal=10:dir=/tmp (deleted)         signal 0: off. dir is last and may hold anything
 *
 * The label says where in the process the counters are, so a reader with the rights of a debugger reads them
 * through /proc/PID/mem while the process works: it does nothing for it. They are private memory: nobody can
 * take it away, as a shared file can be cut, and a forked child has its own without doing anything.
 *
 *   label                     a heap                     its counters
 *   +----------------+        +----------------+         +----------------+
 *   | heaps_at ------+-> * -> | next           | -> ...  | of_heap[]      |
 *   | shared_at -----+--+     | counters ------+-------> | of_tier[][]    |
 *   | figures_at     |  |     +----------------+         +----------------+
 *   +----------------+  +-> the counters of threads without a heap
 *
 * Each word is written whole, so a reader needs no lock; figures of one moment differ by the few calls in
 * flight. A reader checks magic, layout and the counts; the same kind of machine is assumed.
 */
#ifndef PINPOOL_BASE_LABEL_H
#define PINPOOL_BASE_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

enum { LABEL_LAYOUT = 2 };

#define LABEL_MAGIC "pinpool" /* 8 bytes with its NUL */
#define LABEL_NAME "pinpool:" /* with which the name of the mapping begins */

struct label {
    char magic[8];
    uint32_t layout;
    uint32_t label_bytes;
    uint32_t counter_count;      /* COUNTER rows of the library that wrote it */
    uint32_t tier_counter_count; /* TIER_COUNTER rows */
    uint32_t counters_bytes;     /* of one struct counters */
    uint32_t active;             /* 1: serving requests; 0: loaded but passing everything on */
    uint64_t start_unix_ns;
    uint64_t block_bytes[TIERS_MAX]; /* 0 past the last tier */
    char version[16];
    char policy[16];

    /* Addresses in the process, and places in a heap, in bytes from its start. */
    uint64_t shared_at;     /* struct counters */
    uint64_t figures_at;    /* struct pool_figures */
    uint64_t heaps_at;      /* a word: the address of the newest heap, 0 without one */
    uint64_t heap_count_at; /* uint32_t */
    uint32_t heap_next;     /* a word: the address of the next heap */
    uint32_t heap_counters; /* a word: the address of its counters */
};

/*
 * The file pinpool.<pid>.stats (PINPOOL_STATS): the label, and the sums as they were when it was written. It
 * is written when the process starts, and with PINPOOL_STATS=keep once more when it ends.
 */
struct statsfile {
    struct label label;
    int32_t pid;       /* as the process itself sees it */
    uint32_t is_final; /* 1: written when the process ended */
    uint64_t written_unix_ns;
    uint64_t heaps;
    uint64_t reserved_bytes, metadata_bytes;
    uint64_t of_heap[COUNTER_COUNT];
    uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT];
};

#endif
