/* SPDX-License-Identifier: MIT */
/*
 * experiment: the state of one comparison: its settings, its plan and the runs that are finished. What the
 * other ab_ files share.
 *
 *   plan    round 0..warmup-1: dropped    round warmup..warmup+rounds-1: measured
 *           each round: every arm once, in an order drawn from the seed
 */
#ifndef PINPOOL_CLI_AB_EXPERIMENT_H
#define PINPOOL_CLI_AB_EXPERIMENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/ab/settings.h"

/* One run: an arm in a round. */
struct run {
    size_t index;   /* in the plan */
    unsigned round; /* warm-up rounds count */
    size_t arm;
    bool is_warmup;
    bool is_done;  /* it has values */
    char *failure; /* why it has none, or NULL */
    char *notes;   /* what else is worth knowing; "" for nothing */
    uint64_t start_unix_ns;
    uint64_t duration_ns; /* all of it, for the ETA */
    double load_average;  /* of one minute, when it began */
    double other_cores;   /* CPU that was used on the machine by others meanwhile; NAN unknown */
    double *values;       /* by measure; NAN where there is none */
    struct json_object *proof;
};

struct experiment {
    struct settings settings;
    struct environment base;
    char *dropped;    /* variables of the caller's that no arm gets */
    char *pinpool;    /* libpinpool.so, NULL if no arm needs it */
    char *mmap_lock;  /* scripts/mmap-lock, NULL without --mmap-lock or where tracing is not possible */
    char *lock_note;  /* why not, or NULL */
    char *out;        /* the directory of results, absolute */
    char *scratch;    /* of stats files, gone at the end */
    struct run *runs; /* the whole plan */
    size_t run_count;
    uint64_t start_unix_ns;
    struct json_object *provenance;
    int log_fd; /* runs.jsonl */
};

static inline const struct arm *run_arm(const struct experiment *experiment, const struct run *run)
{
    return &experiment->settings.arms[run->arm];
}

/* Draws the plan from settings.seed. */
void experiment_plan(struct experiment *experiment);

/* Values of one arm and measure over the measured rounds, round by round, NAN where a round has none. To be
 * freed. */
double *experiment_values(const struct experiment *experiment, size_t arm, size_t measure);

/* The measured runs of an arm that are done. */
size_t experiment_done(const struct experiment *experiment, size_t arm);

bool experiment_is_complete(const struct experiment *experiment);

/* Some run has a value for it that is not 0. */
bool experiment_has_measure(const struct experiment *experiment, size_t measure);

/* Adds a sentence to a run's notes. */
void run_note(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The directory of a run's files, below out; to be freed. */
char *run_directory(const struct experiment *experiment, const struct run *run);

enum run_end { RUN_DONE, RUN_FAILED, RUN_STOPPED };

/*
 * Runs the command, or the service and its load. RUN_FAILED leaves run->failure, RUN_STOPPED (Ctrl-C)
 * nothing. Either way no process is left.
 */
enum run_end run_command(struct experiment *experiment, struct run *run, const char *directory);
enum run_end run_service(struct experiment *experiment, struct run *run, const char *directory);

/* The same once more under the tracer, for its measures alone; also for a service. */
enum run_end run_traced_command(struct experiment *experiment, struct run *run, const char *directory);
enum run_end run_traced_service(struct experiment *experiment, struct run *run, const char *directory);

#endif
