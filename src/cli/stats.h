/* SPDX-License-Identifier: MIT */
/*
 * stats: a live process's counters, read from its stats file (src/evidence/statsfile.h), and the
 * gauges that are differences of them:
 *
 *   current blocks = opened (fresh + empty + released) - retired
 *   pinned  blocks = retired - emptied
 *   empty   blocks = emptied - opened from empty ones - released
 *   live           = carved - freed by the owner - freed by others
 *
 * The process counts while we read, so a difference can be off by the calls in flight, and never is below
 * zero. How much of the live bytes is in pinned blocks is not counted; hence bounds for what is
 * stranded: at least pinned - live (all that is live is in pinned blocks), at most pinned + current -
 * live (the current blocks are full of it).
 */
#ifndef PINPOOL_CLI_STATS_H
#define PINPOOL_CLI_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "evidence/statsfile.h"

struct stats {
    const struct statsfile_header *header; /* the mapped file */
    size_t mapped_bytes;
    int fd;
};

/* One look at the counters, summed over the heaps. */
struct stats_sample {
    uint64_t monotonic_ns, unix_ns; /* when */
    uint64_t of_heap[COUNTER_COUNT];
    uint64_t of_tier[COUNTERS_TIERS_MAX][TIER_COUNTER_COUNT];
    uint32_t slots;          /* in use, that of threads without a heap included */
    uint32_t unlisted_heaps; /* heaps without a slot: the sums lack them */
    uint64_t reserved_bytes, metadata_bytes;
};

/* What holds at the moment of a sample, of one tier or summed. */
struct stats_gauge {
    uint64_t current_blocks, pinned_blocks, empty_blocks;
    uint64_t live_slices, live_bytes, held_bytes;
    uint64_t stranded_low_bytes, stranded_high_bytes;
    uint64_t opened_blocks, emptied_blocks, released_blocks; /* ever */
};

/*
 * Maps the open file `fd`, which belongs to *stats from then on. Returns NULL, or why it is no stats
 * file that this pinpool can read, to be freed; the descriptor is still the caller's then.
 */
char *stats_open(struct stats *stats, int fd);
void stats_close(struct stats *stats);

/* NULL, or why it cannot be read any more (somebody cut the file), to be freed. */
char *stats_read(const struct stats *stats, struct stats_sample *sample);

/* The number of tiers that the process has. */
unsigned stats_tier_count(const struct stats *stats);

struct stats_gauge stats_gauge_of_tier(const struct stats *stats, const struct stats_sample *sample,
                                       unsigned tier);
void stats_add_gauge(struct stats_gauge *sum, const struct stats_gauge *gauge);

#endif
