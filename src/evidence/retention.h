/* SPDX-License-Identifier: MIT */
/*
 * retention: the account. One walk over all blocks gives every figure about them. Nothing is locked
 * and nothing allocated: the walk runs in the signal handler while other threads work. Each block is
 * read once and counted in one class, so the sums always agree with each other; they are exact when
 * the pool is at rest, and otherwise true of each block at the moment it was read.
 */
#ifndef PINPOOL_EVIDENCE_RETENTION_H
#define PINPOOL_EVIDENCE_RETENTION_H

#include <stdint.h>

#include "pool/heap.h"

enum {
    OCCUPANCY_CLASSES = 7, /* live slices 1, 2, 3-4, 5-8, 9-16, 17-32, 33-64 */
    AGE_CLASSES = 8,       /* see retention_age_from_ms */
    WORST_BLOCKS_MAX = 256,
    RETENTION_HEAPS_MAX = 1024, /* of so many, the latest, it is known what each has */
};

struct retention_class {
    uint64_t blocks, stranded_bytes;
};

struct retention_tier {
    uint64_t current_blocks, pinned_blocks, empty_blocks, released_blocks;
    uint64_t live_slices, live_bytes; /* in current and pinned blocks */
    uint64_t cached_bytes;            /* in the caches of threads */
    uint64_t pinned_live_bytes;       /* of them in pinned blocks */
    uint64_t sole_pinner_blocks;      /* pinned by one slice */
    uint64_t stranded_bytes, stranded_resident_bytes;
    struct retention_class occupancy[OCCUPANCY_CLASSES], age[AGE_CLASSES];
};

struct retention_block {
    const struct chunk *chunk;
    const struct block *block;
    uint64_t live_slices, live_bytes, stranded_bytes, stranded_resident_bytes, age_ns;
    uint32_t heap_id;
};

struct retention_heap {
    uint64_t held_bytes, live_bytes, stranded_bytes, pinned_blocks;
};

struct retention {
    struct retention_tier tiers[TIERS_MAX];
    struct retention_block worst[WORST_BLOCKS_MAX]; /* by stranded bytes, most first */
    unsigned worst_count;
    uint32_t latest_heap;                             /* ids are 1, 2, ... */
    struct retention_heap heaps[RETENTION_HEAPS_MAX]; /* at id % RETENTION_HEAPS_MAX */
    unsigned char residency[CHUNK_BYTES / 4096];      /* scratch: mincore's answer for one chunk */
};

/* What a heap has; NULL of one that is not among the latest, or came during the walk. */
struct retention_heap *retention_heap_of(struct retention *retention, uint32_t id);

/*
 * Fills *retention. One caller at a time: the thread that writes the dump. now_ns is monotonic. Without `with_residency` no system call is made and stranded_resident
 * figures are 0.
 */
void retention_walk_sigsafe(struct retention *retention, struct pool *pool, uint64_t now_ns,
                            bool with_residency);

/* Lower bounds of the classes: live slices, and milliseconds since the block was retired. */
unsigned retention_occupancy_from(unsigned index);
uint64_t retention_age_from_ms(unsigned index);

#endif
