/* SPDX-License-Identifier: MIT */
/* warnings: see warnings.h. */
#include "cli/ab/result/warnings.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/util.h"

static const double worth_percent = 5;     /* an experiment that cannot see this much is too small */
static const double hopeless_percent = 25; /* half an interval: the machine was too noisy to say anything */
static const double busy_share = 0.1;      /* of the cores, used by others */

static void add(struct ab_result *result, const char *format, ...) PRINTF_LIKE(2, 3);

static void add(struct ab_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = must_format_list(format, arguments);
    va_end(arguments);
    result->warnings = must_grow(result->warnings, result->warning_count, sizeof(char *));
    result->warnings[result->warning_count++] = text;
}

static void warn_of_state(struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    size_t done = 0;
    for (size_t i = 0; i < experiment->run_count; i++)
        done += experiment->runs[i].is_done;
    if (!result->is_complete)
        add(result, "The experiment is not complete: %zu of %zu runs are done. --resume goes on.", done,
            experiment->run_count);
    for (size_t i = 0; i < experiment->run_count; i++) {
        const struct run *run = &experiment->runs[i];
        if (run->failure)
            add(result, "Round %u, arm %s failed: %s.", run->round, run_arm(experiment, run)->name,
                run->failure);
    }
    if (*experiment->dropped)
        add(result, "No arm had these variables of the caller's environment: %s.", experiment->dropped);
    if (experiment->lock_note)
        add(result, "No waits for mmap_lock were measured: %s.", experiment->lock_note);
}

static const char *arm_name(const struct ab_result *result, const struct comparison *comparison)
{
    return result->experiment->settings.arms[comparison->arm].name;
}

/* --aa: two equal arms came out different, so the experiment finds what is not there. */
static void warn_of_control(struct ab_result *result)
{
    const struct settings *settings = &result->experiment->settings;
    for (size_t i = 0; i < result->comparison_count; i++) {
        const struct comparison *comparison = &result->comparisons[i];
        if (settings->arms[comparison->arm].repeats_baseline &&
            (comparison->verdict == VERDICT_BETTER || comparison->verdict == VERDICT_WORSE))
            add(result,
                "The control arm %s, which is the baseline once more, came out %s in %s: do not trust "
                "differences of "
                "that size.",
                arm_name(result, comparison), statistics_verdict_word(comparison->verdict),
                measure_name(&settings->metrics, comparison->measure));
    }
}

static void warn_of_noise(struct ab_result *result)
{
    const struct settings *settings = &result->experiment->settings;
    for (size_t i = 0; i < result->comparison_count; i++) {
        const struct comparison *comparison = &result->comparisons[i];
        const double half = (comparison->paired.high - comparison->paired.low) / 2;
        const char *measure = measure_name(&settings->metrics, comparison->measure);
        if (!result_is_primary(result->experiment, comparison->measure) ||
            comparison->verdict != VERDICT_UNRESOLVED)
            continue;
        if (half > hopeless_percent)
            add(result,
                "The machine was too noisy to say anything about %s of %s: the interval is %+.1f to %+.1f "
                "%%.",
                measure, arm_name(result, comparison), comparison->paired.low, comparison->paired.high);
        else if (half > worth_percent)
            add(result,
                "%zu rounds do not resolve %g %% in %s of %s: rounds vary by %.1f %%; about %.0f rounds "
                "would do.",
                comparison->pair_count, worth_percent, measure, arm_name(result, comparison),
                comparison->noise_percent,
                statistics_rounds_needed(comparison->noise_percent, worth_percent));
    }
}

static void warn_of_few_rounds(struct ab_result *result)
{
    for (size_t arm = 0; arm < result->experiment->settings.arm_count; arm++) {
        const size_t done = experiment_done(result->experiment, arm);
        if (done >= STATISTICS_PAIRS_FOR_95)
            continue;
        add(result, "Arm %s has %zu rounds: no interval for a median reaches 95 %% with fewer than %d.",
            result->experiment->settings.arms[arm].name, done, STATISTICS_PAIRS_FOR_95);
        return; /* they all have about as many */
    }
}

/* How much of the machine others used while the runs ran. */
static void warn_of_others(struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < experiment->run_count; i++) {
        const struct run *run = &experiment->runs[i];
        if (!run->is_done || run->is_warmup || isnan(run->other_cores))
            continue;
        sum += run->other_cores;
        known++;
    }
    if (known && sum / (double)known > busy_share * cores)
        add(result, "Other programs used %.1f of %.0f cores while the runs ran: times are noisier for it.",
            sum / (double)known, cores);
}

static void warn_of_notes(struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    size_t noted = 0;
    const struct run *first = NULL;
    for (size_t i = 0; i < experiment->run_count; i++)
        if (experiment->runs[i].is_done && *experiment->runs[i].notes) {
            noted++;
            first = first ? first : &experiment->runs[i];
        }
    if (first)
        add(result, "%zu of the runs have a note; round %u, arm %s: %s.", noted, first->round,
            run_arm(experiment, first)->name, first->notes);
}

void warnings_collect(struct ab_result *result)
{
    warn_of_state(result);
    warn_of_control(result);
    warn_of_few_rounds(result);
    warn_of_noise(result);
    warn_of_others(result);
    warn_of_notes(result);
}
