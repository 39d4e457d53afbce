/* SPDX-License-Identifier: MIT */
/*
 * dump: the account written as JSON lines into PINPOOL_DIR/pinpool.<pid>.<seq>.jsonl.
 *
 * Format 1. One object a line, the kind in "type"; bytes end in _bytes, times in _ns or _ms. base/dump.def has
 * every record and field.
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
