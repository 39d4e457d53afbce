/* SPDX-License-Identifier: MIT */
/* sampler: see sampler.h. */
#include "cli/ab/run/sampler.h"

#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdlib.h>

#include "cli/kit/util.h"
#include "cli/system/procfs.h"
#include "cli/system/tree.h"

/* A process's counters. They are opened anew when the process has become another program. */
struct sampler_watch {
    pid_t pid;
    uint64_t start_ticks;
    bool is_open;
    struct stats stats;
};

struct sampler sampler_start(pid_t root, uint64_t start_ns)
{
    return (struct sampler){.root = root, .start_ns = start_ns};
}

static void close_watch(struct sampler_watch *watch)
{
    if (watch->is_open)
        stats_close(&watch->stats);
    watch->is_open = false;
}

static struct sampler_watch *find_watch(struct sampler *sampler, const struct tree_process *process)
{
    for (size_t i = 0; i < sampler->watch_count; i++) {
        struct sampler_watch *watch = &sampler->watches[i];
        if (watch->pid == process->pid && watch->start_ticks == process->start_ticks)
            return watch;
    }
    sampler->watches = must_grow(sampler->watches, sampler->watch_count, sizeof *sampler->watches);
    struct sampler_watch *watch = &sampler->watches[sampler->watch_count++];
    *watch = (struct sampler_watch){.pid = process->pid, .start_ticks = process->start_ticks};
    return watch;
}

static bool open_watch(struct sampler_watch *watch)
{
    const uint64_t label_at = stats_find_label(watch->pid);
    if (label_at == 0)
        return false;
    CLEANUP_FREE char *reason = stats_open_process(&watch->stats, watch->pid, label_at);
    watch->is_open = !reason;
    return watch->is_open;
}

static bool read_watch(struct sampler_watch *watch, struct stats_sample *counters)
{
    if (!watch->is_open && !open_watch(watch))
        return false;
    CLEANUP_FREE char *reason = stats_read(&watch->stats, counters);
    if (reason)
        close_watch(watch);
    return !reason;
}

static void add_pools(struct sampler *sampler, const struct tree_process *process, struct sample *sample)
{
    enum { TRIES = 2 }; /* once more, opened anew: it may have become another program */
    struct stats_sample counters;
    struct sampler_watch *watch = find_watch(sampler, process);
    bool is_read = false;
    for (unsigned tries = 0; tries < TRIES && !is_read; tries++)
        is_read = read_watch(watch, &counters);
    if (!is_read)
        return;
    sample->with_pinpool++;
    for (unsigned tier = 0; tier < stats_tier_count(&watch->stats); tier++) {
        const struct stats_gauge gauge = stats_gauge_of_tier(&watch->stats, &counters, tier);
        stats_add_gauge(&sample->gauge, &gauge);
    }
}

static void add_process(struct sampler *sampler, const struct tree_process *process, struct sample *sample)
{
    struct procfs_memory memory;
    if (process->state == 'Z' || procfs_read_memory(process->pid, true, &memory) != 0)
        return;
    sample->has_pss &= memory.has_pss;
    sample->processes++;
    sample->rss_bytes += memory.rss_bytes;
    sample->pss_bytes += memory.pss_bytes;
    add_pools(sampler, process, sample);
}

/* What was opened of processes that are gone would stay open. */
static void drop_ended(struct sampler *sampler, const struct tree *tree)
{
    size_t kept = 0;
    for (size_t i = 0; i < sampler->watch_count; i++) {
        struct sampler_watch *watch = &sampler->watches[i];
        bool is_alive = false;
        for (size_t at = 0; at < tree->count && !is_alive; at++)
            is_alive = tree->processes[at].pid == watch->pid &&
                       tree->processes[at].start_ticks == watch->start_ticks;
        if (!is_alive)
            close_watch(watch);
        else
            sampler->watches[kept++] = *watch;
    }
    sampler->watch_count = kept;
}

const struct sample *sampler_take(struct sampler *sampler, enum sampler_phase phase, pid_t other)
{
    struct sample sample = {.phase = phase, .has_pss = true};
    struct tree tree = tree_read();
    tree_mark_service(&tree, sampler->root, other);
    sample.time_s = (double)(now_monotonic_ns() - sampler->start_ns) / 1e9;
    sample.cpu_s = tree_cpu_s(&tree);
    for (size_t i = 0; i < tree.count; i++)
        if (tree.processes[i].is_member)
            add_process(sampler, &tree.processes[i], &sample);
    drop_ended(sampler, &tree);
    tree_free(&tree);
    sampler->samples = must_grow(sampler->samples, sampler->count, sizeof *sampler->samples);
    sampler->samples[sampler->count] = sample;
    return &sampler->samples[sampler->count++];
}

void sampler_stop(struct sampler *sampler)
{
    for (size_t i = 0; i < sampler->watch_count; i++)
        close_watch(&sampler->watches[i]);
    free(sampler->watches);
    sampler->watches = NULL;
    sampler->watch_count = 0;
}

void sampler_free(struct sampler *sampler)
{
    sampler_stop(sampler);
    free(sampler->samples);
    sampler->samples = NULL;
    sampler->count = 0;
}

const char *sampler_phase_name(enum sampler_phase phase)
{
    static const char *const names[] = {"before", "load", "end", "settle"};
    return names[phase];
}

/* ---- Figures ---- */

double sample_rss(const struct sample *sample)
{
    return (double)sample->rss_bytes;
}

double sample_pss(const struct sample *sample)
{
    return sample->has_pss ? (double)sample->pss_bytes : NAN;
}

double sample_stranded(const struct sample *sample)
{
    return sample->with_pinpool ? (double)sample->gauge.stranded_high_bytes : NAN;
}

const struct sample *sampler_last(const struct sampler *sampler, enum sampler_phase phase)
{
    const struct sample *last = NULL;
    for (size_t i = 0; i < sampler->count; i++)
        if (sampler->samples[i].phase == phase)
            last = &sampler->samples[i];
    return last;
}

/* When the second half of a phase begins, by its samples' times. */
static double half_time(const struct sampler *sampler, enum sampler_phase phase)
{
    double first = NAN, last = NAN;
    for (size_t i = 0; i < sampler->count; i++) {
        if (sampler->samples[i].phase != phase)
            continue;
        first = isnan(first) ? sampler->samples[i].time_s : first;
        last = sampler->samples[i].time_s;
    }
    return (first + last) / 2;
}

/* Times and figures of the second half of a phase; the arrays have room for all samples. */
static size_t late_figures(const struct sampler *sampler, enum sampler_phase phase,
                           double (*figure)(const struct sample *), double *times, double *figures)
{
    const double from = half_time(sampler, phase);
    size_t count = 0;
    for (size_t i = 0; i < sampler->count; i++) {
        const struct sample *sample = &sampler->samples[i];
        if (sample->phase != phase || sample->time_s < from || isnan(figure(sample)))
            continue;
        times[count] = sample->time_s;
        figures[count++] = figure(sample);
    }
    return count;
}

double sampler_late_mean(const struct sampler *sampler, enum sampler_phase phase,
                         double (*figure)(const struct sample *))
{
    CLEANUP_FREE double *times = must_allocate(sampler->count * sizeof *times);
    CLEANUP_FREE double *figures = must_allocate(sampler->count * sizeof *figures);
    const size_t count = late_figures(sampler, phase, figure, times, figures);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += figures[i];
    return count ? sum / (double)count : NAN;
}

double sampler_late_slope(const struct sampler *sampler, enum sampler_phase phase,
                          double (*figure)(const struct sample *))
{
    CLEANUP_FREE double *times = must_allocate(sampler->count * sizeof *times);
    CLEANUP_FREE double *figures = must_allocate(sampler->count * sizeof *figures);
    const size_t count = late_figures(sampler, phase, figure, times, figures);
    double intercept, slope, var_intercept, covariance, var_slope, residual;
    if (count < 3)
        return NAN;
    gsl_fit_linear(times, 1, figures, 1, count, &intercept, &slope, &var_intercept, &covariance, &var_slope,
                   &residual);
    return slope;
}
