/* SPDX-License-Identifier: MIT */
/*
 * sampler: the memory of a running service over time: RSS and PSS of all its processes, and what their
 * pools hold, from their memory. It reads; the service does nothing for it.
 */
#ifndef PINPOOL_CLI_AB_RUN_SAMPLER_H
#define PINPOOL_CLI_AB_RUN_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/system/stats.h"

enum sampler_phase { PHASE_BEFORE, PHASE_LOAD, PHASE_END, PHASE_SETTLE }; /* end: just after the load */

/* Summed over the service's processes at one moment. */
struct sample {
    double time_s; /* since the service was started */
    enum sampler_phase phase;
    unsigned processes;
    unsigned with_pinpool; /* of them; the gauge is theirs */
    uint64_t rss_bytes, pss_bytes;
    bool has_pss; /* of all of them */
    double cpu_s; /* so far */
    struct stats_gauge gauge;
};

struct sampler_watch;

struct sampler {
    pid_t root;
    uint64_t start_ns;             /* CLOCK_MONOTONIC */
    struct sampler_watch *watches; /* processes whose counters are open */
    size_t watch_count;
    struct sample *samples;
    size_t count;
};

struct sampler sampler_start(pid_t root, uint64_t start_ns);

/* Takes a sample; `other` is the load's process (0 for none), which does not belong to the service. */
const struct sample *sampler_take(struct sampler *sampler, enum sampler_phase phase, pid_t other);

/* Closes what is open and keeps the samples. */
void sampler_stop(struct sampler *sampler);
void sampler_free(struct sampler *sampler);

const char *sampler_phase_name(enum sampler_phase phase);

/* Mean of a figure over the second half of a phase; NAN when there is no sample. */
double sampler_late_mean(const struct sampler *sampler, enum sampler_phase phase,
                         double (*figure)(const struct sample *));

/* Slope of the least-squares line through the same samples, per second; NAN below three samples. */
double sampler_late_slope(const struct sampler *sampler, enum sampler_phase phase,
                          double (*figure)(const struct sample *));

/* The last sample of a phase, or NULL. */
const struct sample *sampler_last(const struct sampler *sampler, enum sampler_phase phase);

double sample_rss(const struct sample *sample);
double sample_pss(const struct sample *sample);      /* NAN where it may not be read */
double sample_stranded(const struct sample *sample); /* the upper bound; NAN without pinpool */

#endif
