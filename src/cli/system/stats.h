/* SPDX-License-Identifier: MIT */
/*
 * stats: a process's counters, read from its memory while it lives, or from the file that it left
 * (src/base/label.h), and the gauges that are differences of them:
 *
 *   current blocks = opened (fresh + empty + released + filed) - retired
 *   pinned  blocks = retired - emptied - opened from filed ones; with those whose slices are all in caches
 *   empty   blocks = emptied - opened from empty ones - released
 *   live           = carved - freed by the owner - freed by others
 *
 * The process counts while we read, so a difference can be off by the calls in flight, and never is below
 * zero. How much of the live bytes is in pinned blocks is not counted; hence bounds for what is
 * stranded: at least pinned - live (all that is live is in pinned blocks), at most pinned + current -
 * live (the current blocks are full of it).
 */
#ifndef PINPOOL_CLI_SYSTEM_STATS_H
#define PINPOOL_CLI_SYSTEM_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/counters.h"
#include "base/label.h"
#include "cli/system/procfs.h"

struct stats {
    struct label label;
    int memory_fd;         /* /proc/PID/mem of a process; -1: a file was read */
    struct statsfile file; /* the file, when one was read */
};

/* One look at the counters, summed over the heaps. */
struct stats_sample {
    uint64_t monotonic_ns, unix_ns; /* when; of a file when it was written */
    uint64_t of_heap[COUNTER_COUNT];
    uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT];
    uint64_t heaps;
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
 * Opens the counters of a live process; label_at is where its sealed page is mapped (stats_find_label). It
 * takes the rights of a debugger. Returns NULL, or why not, a phrase to be freed.
 */
char *stats_open_process(struct stats *stats, pid_t pid, uint64_t label_at);

/* Is this mapping a sealed page of pinpool's? */
bool stats_is_label(const struct procfs_map *map);

/* Where the sealed page of a process is mapped; 0: it has none, or may not be looked at. */
uint64_t stats_find_label(pid_t pid);

/* Reads a stats file; the same results. */
char *stats_open_file(struct stats *stats, const char *path);

void stats_close(struct stats *stats);

/*
 * NULL, or why the counters cannot be read any more (the process has ended or become another program), to be
 * freed.
 */
char *stats_read(const struct stats *stats, struct stats_sample *sample);

/* The number of tiers that the process has. */
unsigned stats_tier_count(const struct stats *stats);

struct stats_gauge stats_gauge_of_tier(const struct stats *stats, const struct stats_sample *sample,
                                       unsigned tier);
void stats_add_gauge(struct stats_gauge *sum, const struct stats_gauge *gauge);

#endif
