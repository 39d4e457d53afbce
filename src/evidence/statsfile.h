/* SPDX-License-Identifier: MIT */
/*
 * statsfile: the counters in a shared file, pinpool.<pid>.stats, for live readers (PINPOOL_STATS=1).
 *
 *   low                                                                         high
 *   +----------------+-----------+-----------+-----------+---- ... ----+
 *   | header, 4 KiB  | slot 0    | slot 1    | slot 2    |             |
 *   +----------------+-----------+-----------+-----------+---- ... ----+
 *                      shared      heap 1      heap 2                  slot_count slots
 *
 * A heap's slot has the heap's number, so there may be slots in use up to heaps + unlisted_heaps. The
 * file is sparse and has its full size from the start, so a reader maps it once. A slot is one
 * heap's `struct counters`, which live here and nowhere else; a reader adds up the slots. Each word
 * is written whole, so a reader needs no lock; figures of one moment differ by the few calls in
 * flight. The same machine and the same layout number on both sides are assumed; a reader checks.
 */
#ifndef PINPOOL_EVIDENCE_STATSFILE_H
#define PINPOOL_EVIDENCE_STATSFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

struct options;
struct pool;

enum {
    STATSFILE_LAYOUT = 1,
    STATSFILE_HEADER_BYTES = 4096,
    STATSFILE_SLOT_COUNT = 4096, /* heaps beyond this many count in private memory: see unlisted_heaps */
    STATSFILE_TIERS_MAX = 4,
};

#define STATSFILE_MAGIC "pinpool" /* 8 bytes with its NUL; written last, so a file with it is complete */

struct statsfile_header {
    char magic[8];
    uint32_t layout;
    uint32_t header_bytes;
    uint32_t slot_bytes;
    uint32_t slot_count;
    uint32_t counter_count;      /* COUNTER rows of the library that wrote the file */
    uint32_t tier_counter_count; /* TIER_COUNTER rows */
    int32_t pid;                 /* as the process itself sees it */
    uint32_t active;             /* 1: serving requests; 0: loaded but passing everything on */
    uint64_t start_unix_ns;
    uint64_t block_bytes[STATSFILE_TIERS_MAX]; /* 0 past the last tier */
    char version[16];
    char policy[16];
    _Atomic(uint32_t) heaps; /* slots in use, the shared slot 0 included */
    _Atomic(uint32_t)
        unlisted_heaps; /* heaps that found no slot: the sums lack them, and theirs stays zero */
    struct pool_figures figures;
};

/*
 * The library's side. All of it is signal-safe; one thread at a time.
 *
 * statsfile_create_sigsafe makes and maps the file of this process; the pool's shared counters move
 * into slot 0 before anything was counted. False when there can be no file; then counting goes on in
 * private memory. statsfile_counters_sigsafe hands out the slot of a new heap, or NULL; any thread.
 * statsfile_after_fork_sigsafe gives a child a file of its own, whose counters start at the child's
 * balance (what lives in it, what it holds) so that the gauges made from them are right at once.
 */
bool statsfile_create_sigsafe(struct pool *pool, const struct options *options);
struct counters *statsfile_counters_sigsafe(uint32_t heap_id);
void statsfile_after_fork_sigsafe(void);

_Static_assert(sizeof(struct statsfile_header) <= STATSFILE_HEADER_BYTES, "the header fits its page");
_Static_assert(sizeof(struct counters) % 64 == 0, "slots do not share cache lines");

#endif
