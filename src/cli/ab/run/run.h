/* SPDX-License-Identifier: MIT */
/* run: what runs of commands and of services have in common. For command.c and service.c. */
#ifndef PINPOOL_CLI_AB_RUN_RUN_H
#define PINPOOL_CLI_AB_RUN_RUN_H

#include <sys/resource.h>
#include <sys/types.h>

#include "cli/ab/experiment.h"
#include "cli/ab/run/watch.h"

/* How long a process may take to end after SIGTERM. */
#define RUN_GRACE_NS (5 * NS_PER_S)

/* Keeps the reason, which belongs to the run from then on. */
void run_fail(struct run *run, char *reason);

void run_take_usage(struct run *run, const struct rusage *usage);

/* Judges whether the arm was what it says; false after run_fail(). */
bool run_prove(struct run *run, const struct arm *arm, const struct watch *watch, const char *stats_dir,
               pid_t main_pid);

/* A new directory for the run's stats files; to be freed, and to be removed. */
char *run_make_stats_dir(const struct experiment *experiment, const struct run *run);

/* "the command ended with exit status 3; its last output: ..."; to be freed. */
char *run_describe_end(const char *what, int status, const char *output_path);

#endif
