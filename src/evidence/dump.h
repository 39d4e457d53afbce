/* SPDX-License-Identifier: MIT */
/*
 * dump: the account written as JSON lines into PINPOOL_DIR/pinpool.<pid>.<seq>.jsonl.
 *
 * Format 1. One object a line, the kind in "type"; bytes end in _bytes, times in _ns or _ms.
 * Readers must skip kinds and fields they do not know.
 *
 *   dump       format version pid seq reason(signal|exit) time_unix_ns uptime_ns exe page_bytes
 *              kernel thp next filtered(1: stranded_resident_bytes and build ids are left out, because a
 *              system call filter might kill for them) settings{PINPOOL_*: text}
 *   memory     reserved_bytes chunks metadata_bytes heaps         (our own cost, apart from blocks)
 *   tier       block_bytes granule_bytes min_request_bytes max_request_bytes current_blocks
 *              pinned_blocks empty_blocks released_blocks live_slices live_bytes cached_bytes
 *              pinned_live_bytes sole_pinner_blocks stranded_bytes stranded_resident_bytes held_bytes
 *   occupancy  block_bytes from_slices to_slices blocks stranded_bytes     (pinned blocks, by live slices)
 *   age        block_bytes from_ms to_ms(absent in the last) blocks stranded_bytes   (by time pinned)
 *   block      block_bytes address heap live_slices live_bytes stranded_bytes stranded_resident_bytes
 *              age_ms                               (the worst by stranded bytes, worst first)
 *   thread     heap tid state(live|waiting|lost) held_bytes pinned_blocks live_bytes stranded_bytes
 *   counter    name unit value [block_bytes]        (block_bytes on those kept by tier)
 *   map        start end offset_bytes build_id(may be "") path     (executable mappings)
 *   end        records(lines before this one) duration_ns
 *
 * held = (current + pinned + empty) * block_bytes holds in every dump by construction: each block is
 * read once and put into one class. Everything is written inside the signal handler, by code that
 * takes no lock, allocates nothing and starts no thread.
 */
#ifndef PINPOOL_EVIDENCE_DUMP_H
#define PINPOOL_EVIDENCE_DUMP_H

#include <stdbool.h>
#include <stdint.h>

struct options;
struct pool;

/* By a plain signal; because somebody asked for it (the tool); because the process ends. */
enum dump_reason { DUMP_SIGNAL, DUMP_REQUEST, DUMP_EXIT };

/* So many dumps by plain signals a process keeps: when one more is written the oldest goes. */
enum { DUMP_UNASKED_MAX = 16 };

/* What every dump says, found out at start where that is not safe in a handler. It must outlive us. */
struct dump_context {
    struct pool *pool;
    const struct options *options;
    uint64_t start_ns;     /* monotonic */
    const char *next_path; /* the object that malloc calls are passed on to */
    const char *kernel;    /* as uname -r says */
    const char *exe;       /* path of the executable, "" when it is not known */
};

/* Before the first dump. */
void dump_init(const struct dump_context *context);

/* Waits while a dump is written, at most timeout_ns. Not in a handler: it may be the writer's. */
void dump_wait(uint64_t timeout_ns);

/* In a forked child: a dump that a vanished thread was writing is nobody's; numbers start again. */
void dump_after_fork_sigsafe(void);

/*
 * Writes one dump, or, when another thread is writing one, leaves word that one more is wanted.
 * Any thread, and the signal handler, with all signals blocked. It needs a few hundred bytes of stack. errno
 * is kept. What became of it is counted (dumps_written, dumps_failed).
 */
void dump_write_sigsafe(enum dump_reason reason);

#endif
