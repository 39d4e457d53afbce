/* SPDX-License-Identifier: MIT */
/*
 * lock: --mmap-lock. scripts/mmap-lock traces the waits for mmap_lock and counts system calls. Tracing
 * slows what it traces, so every run gets a second, traced one beside it, whose times count for nothing.
 */
#ifndef PINPOOL_CLI_AB_RUN_LOCK_H
#define PINPOOL_CLI_AB_RUN_LOCK_H

#include "cli/ab/experiment.h"

/* Finds the script and has it say whether tracing works here; fills in mmap_lock or lock_note. */
void lock_prepare(struct experiment *experiment);

/* argv that runs the command in that environment under the script, which writes `figures`. */
char **lock_wrap(const struct experiment *experiment, const struct environment *environment,
                 const char *figures);
void lock_free_wrap(char **argv);

/* Reads what the script wrote. Returns NULL, or why not, to be freed. */
char *lock_read(const char *figures, double *values);

#endif
