/* SPDX-License-Identifier: MIT */
/* experiment: see experiment.h. */
#include "cli/ab/experiment.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

void experiment_plan(struct experiment *experiment)
{
    const struct settings *settings = &experiment->settings;
    const unsigned rounds = settings->warmup + settings->rounds;
    CLEANUP_FREE size_t *order = must_allocate(settings->arm_count * sizeof *order);
    gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
    if (!random)
        die("out of memory");
    gsl_rng_set(random, (unsigned long)settings->seed);
    experiment->run_count = rounds * settings->arm_count;
    experiment->runs = must_allocate(experiment->run_count * sizeof *experiment->runs);
    for (size_t arm = 0; arm < settings->arm_count; arm++)
        order[arm] = arm;
    for (size_t index = 0; index < experiment->run_count; index++) {
        const size_t position = index % settings->arm_count;
        if (position == 0)
            gsl_ran_shuffle(random, order, settings->arm_count, sizeof *order);
        const unsigned round = (unsigned)(index / settings->arm_count);
        experiment->runs[index] = (struct run){.index = index,
                                               .round = round,
                                               .arm = order[position],
                                               .is_warmup = round < settings->warmup,
                                               .notes = must_copy_text(""),
                                               .other_cores = NAN,
                                               .values = measure_new_values(&settings->metrics)};
    }
    gsl_rng_free(random);
}

double *experiment_values(const struct experiment *experiment, size_t arm, size_t measure)
{
    const struct settings *settings = &experiment->settings;
    double *values = must_allocate(settings->rounds * sizeof *values);
    for (unsigned round = 0; round < settings->rounds; round++)
        values[round] = NAN;
    for (size_t i = 0; i < experiment->run_count; i++) {
        const struct run *run = &experiment->runs[i];
        if (run->is_done && !run->is_warmup && run->arm == arm)
            values[run->round - settings->warmup] = run->values[measure];
    }
    return values;
}

size_t experiment_done(const struct experiment *experiment, size_t arm)
{
    size_t done = 0;
    for (size_t i = 0; i < experiment->run_count; i++) {
        const struct run *run = &experiment->runs[i];
        done += run->is_done && !run->is_warmup && run->arm == arm;
    }
    return done;
}

bool experiment_is_complete(const struct experiment *experiment)
{
    for (size_t i = 0; i < experiment->run_count; i++)
        if (!experiment->runs[i].is_done)
            return false;
    return true;
}

bool experiment_has_measure(const struct experiment *experiment, size_t measure)
{
    for (size_t i = 0; i < experiment->run_count; i++) {
        const struct run *run = &experiment->runs[i];
        if (run->is_done && !run->is_warmup && !isnan(run->values[measure]) && run->values[measure] != 0)
            return true;
    }
    return false;
}

void run_note(struct run *run, const char *format, ...)
{
    CLEANUP_FREE char *before = run->notes;
    va_list arguments;
    va_start(arguments, format);
    CLEANUP_FREE char *sentence = must_format_list(format, arguments);
    va_end(arguments);
    run->notes = must_format("%s%s%s", before, *before ? "; " : "", sentence);
}

char *run_directory(const struct experiment *experiment, const struct run *run)
{
    CLEANUP_FREE char *arm = arm_file_name(run_arm(experiment, run));
    return must_format("%s/runs/%05zu-round%u-%s", experiment->out, run->index, run->round, arm);
}
