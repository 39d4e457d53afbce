/* SPDX-License-Identifier: MIT */
/* result: see result.h. The warnings are in warnings.c. */
#include "cli/ab/result/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

static const double rounds_noise_percent = 4; /* of single runs; what the note before the first run assumes */
static const double worth_percent = 5;        /* a difference that an experiment should be able to see */

/* A slope around 0 has no change in %: it has its own table, shapes. */
static bool is_slope(size_t measure)
{
    return measure == MEASURE_rss_climb_bytes_per_min || measure == MEASURE_stranded_climb_bytes_per_min;
}

bool result_is_primary(const struct experiment *experiment, size_t measure)
{
    if (measure >= MEASURE_COUNT)
        return true;
    if (settings_is_service(&experiment->settings))
        return measure == MEASURE_rss_load_bytes || measure == MEASURE_rss_settled_bytes ||
               measure == MEASURE_stranded_load_bytes || measure == MEASURE_load_cpu_s;
    return measure == MEASURE_wall_s || measure == MEASURE_peak_rss_bytes ||
           measure == MEASURE_lock_write_wait_s || measure == MEASURE_lock_read_wait_s;
}

size_t result_order_measures(const struct experiment *experiment, size_t *order)
{
    const size_t all = measure_count(&experiment->settings.metrics);
    size_t count = 0;
    for (size_t measure = MEASURE_COUNT; measure < all; measure++)
        order[count++] = measure;
    for (size_t measure = 0; measure < MEASURE_COUNT; measure++)
        if (result_is_primary(experiment, measure))
            order[count++] = measure;
    for (size_t measure = 0; measure < MEASURE_COUNT; measure++)
        if (!result_is_primary(experiment, measure))
            order[count++] = measure;
    return count;
}

/* ---- Summaries and comparisons ---- */

/* Moves the numbers to the front; returns how many. */
static size_t drop_nans(double *values, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            values[kept++] = values[i];
    return kept;
}

static void add_summary(struct ab_result *result, size_t arm, size_t measure)
{
    CLEANUP_FREE double *values = experiment_values(result->experiment, arm, measure);
    const size_t count = drop_nans(values, result->experiment->settings.rounds);
    if (count == 0)
        return;
    struct summary summary = {.arm = arm,
                              .measure = measure,
                              .count = count,
                              .mean = statistics_mean(values, count),
                              .median = statistics_median(values, count),
                              .sd = statistics_sd(values, count),
                              .least = statistics_quantile(values, count, 0),
                              .most = statistics_quantile(values, count, 1)};
    result->summaries = must_grow(result->summaries, result->summary_count, sizeof summary);
    result->summaries[result->summary_count++] = summary;
}

/* The rounds that have both arms: their differences in % of the baseline. */
static void compare_pairs(struct comparison *comparison, const double *arm, const double *baseline,
                          size_t rounds, uint64_t seed)
{
    CLEANUP_FREE double *differences = must_allocate(rounds * sizeof *differences);
    for (size_t i = 0; i < rounds; i++)
        differences[i] =
            statistics_change_percent(arm[i], baseline[i]); /* NAN if one is, or for a baseline of 0 */
    comparison->pair_count = drop_nans(differences, rounds);
    comparison->paired = statistics_bootstrap_median(differences, comparison->pair_count, seed);
    comparison->wilcoxon_p = statistics_wilcoxon(differences, comparison->pair_count).p;
    comparison->noise_percent = statistics_sd(differences, comparison->pair_count);
}

static void add_comparison(struct ab_result *result, size_t arm, size_t measure)
{
    const struct experiment *experiment = result->experiment;
    const size_t rounds = experiment->settings.rounds;
    CLEANUP_FREE double *of_arm = experiment_values(experiment, arm, measure);
    CLEANUP_FREE double *of_baseline = experiment_values(experiment, 0, measure);
    struct comparison comparison = {.arm = arm, .measure = measure};
    compare_pairs(&comparison, of_arm, of_baseline, rounds,
                  experiment->settings.seed + 1000 * (uint64_t)measure + (uint64_t)arm);
    comparison.arm_count = drop_nans(of_arm, rounds);
    comparison.baseline_count = drop_nans(of_baseline, rounds);
    if (comparison.arm_count < 2 || comparison.baseline_count < 2)
        return;
    comparison.arm_mean = statistics_mean(of_arm, comparison.arm_count);
    comparison.baseline_mean = statistics_mean(of_baseline, comparison.baseline_count);
    comparison.arm_median = statistics_median(of_arm, comparison.arm_count);
    comparison.baseline_median = statistics_median(of_baseline, comparison.baseline_count);
    comparison.welch = statistics_welch(of_arm, comparison.arm_count, of_baseline, comparison.baseline_count);
    result->comparisons = must_grow(result->comparisons, result->comparison_count, sizeof comparison);
    result->comparisons[result->comparison_count++] = comparison;
}

/* Only now that all of them are there. */
static void judge_all(struct ab_result *result)
{
    const size_t count = result->comparison_count;
    const struct settings *settings = &result->experiment->settings;
    CLEANUP_FREE double *p = must_allocate(count * sizeof *p);
    CLEANUP_FREE double *paired_p = must_allocate(count * sizeof *paired_p);
    CLEANUP_FREE double *holm = must_allocate(count * sizeof *holm);
    CLEANUP_FREE double *paired_holm = must_allocate(count * sizeof *paired_holm);
    for (size_t i = 0; i < count; i++) {
        p[i] = result->comparisons[i].welch.p;
        paired_p[i] = result->comparisons[i].wilcoxon_p;
    }
    statistics_holm(p, count, holm);
    statistics_holm(paired_p, count, paired_holm);
    for (size_t i = 0; i < count; i++) {
        struct comparison *comparison = &result->comparisons[i];
        comparison->holm_p = holm[i];
        comparison->paired_holm_p = paired_holm[i];
        comparison->verdict = statistics_judge(
            &comparison->paired, measure_higher_is_better(&settings->metrics, comparison->measure), holm[i],
            paired_holm[i], settings->margin_percent);
    }
}

/* ---- Shapes ---- */

static enum shape_word judge_shape(const struct shape *shape, double margin_percent)
{
    if (isnan(shape->per_minute.low) || isnan(shape->percent_over_load))
        return SHAPE_UNRESOLVED;
    const bool is_large = fabs(shape->percent_over_load) > margin_percent;
    if (!is_large)
        return SHAPE_PLATEAU;
    if (shape->per_minute.low > 0)
        return SHAPE_CLIMBS;
    return shape->per_minute.high < 0 ? SHAPE_FALLS : SHAPE_UNRESOLVED;
}

static double median_of(const struct ab_result *result, size_t arm, size_t measure)
{
    const struct summary *summary = result_find_summary(result, arm, measure);
    return summary ? summary->median : NAN;
}

static void add_shape(struct ab_result *result, size_t arm, size_t measure)
{
    const struct settings *settings = &result->experiment->settings;
    CLEANUP_FREE double *slopes = experiment_values(result->experiment, arm, measure);
    const size_t count = drop_nans(slopes, settings->rounds);
    if (count == 0)
        return;
    struct shape shape = {.arm = arm, .measure = measure};
    shape.per_minute = statistics_bootstrap_median(slopes, count, settings->seed + arm);
    const double half_load_min = median_of(result, arm, MEASURE_load_s) / 2 / 60;
    shape.percent_over_load =
        shape.per_minute.median * half_load_min / median_of(result, arm, MEASURE_rss_load_bytes) * 100;
    shape.word = judge_shape(&shape, settings->margin_percent);
    result->shapes = must_grow(result->shapes, result->shape_count, sizeof shape);
    result->shapes[result->shape_count++] = shape;
}

const char *shape_name(enum shape_word word)
{
    static const char *const names[] = {"unresolved", "plateau", "climbs", "falls"};
    return names[word];
}

/* ---- The whole ---- */

struct ab_result result_make(const struct experiment *experiment)
{
    struct ab_result result = {.experiment = experiment,
                               .is_complete = experiment_is_complete(experiment),
                               .end_unix_ns = now_unix_ns()};
    const size_t arms = experiment->settings.arm_count;
    CLEANUP_FREE size_t *order = must_allocate(measure_count(&experiment->settings.metrics) * sizeof *order);
    const size_t count = result_order_measures(experiment, order);
    for (size_t i = 0; i < count; i++) {
        if (!experiment_has_measure(experiment, order[i]))
            continue;
        for (size_t arm = 0; arm < arms; arm++)
            add_summary(&result, arm, order[i]);
        for (size_t arm = 1; arm < arms && !is_slope(order[i]); arm++)
            add_comparison(&result, arm, order[i]);
    }
    for (size_t arm = 0; arm < arms; arm++) {
        add_shape(&result, arm, MEASURE_rss_climb_bytes_per_min);
        add_shape(&result, arm, MEASURE_stranded_climb_bytes_per_min);
    }
    judge_all(&result);
    return result;
}

void result_free(struct ab_result *result)
{
    free(result->summaries);
    free(result->comparisons);
    free(result->shapes);
    for (size_t i = 0; i < result->warning_count; i++)
        free(result->warnings[i]);
    free(result->warnings);
    *result = (struct ab_result){.experiment = NULL};
}

const struct comparison *result_find(const struct ab_result *result, size_t arm, size_t measure)
{
    for (size_t i = 0; i < result->comparison_count; i++)
        if (result->comparisons[i].arm == arm && result->comparisons[i].measure == measure)
            return &result->comparisons[i];
    return NULL;
}

const struct summary *result_find_summary(const struct ab_result *result, size_t arm, size_t measure)
{
    for (size_t i = 0; i < result->summary_count; i++)
        if (result->summaries[i].arm == arm && result->summaries[i].measure == measure)
            return &result->summaries[i];
    return NULL;
}

void result_warn_of_few_rounds(unsigned rounds)
{
    /* The difference of two runs varies by the square root of 2 more than one of them. */
    const double needed = statistics_rounds_needed(rounds_noise_percent * M_SQRT2, worth_percent);
    if (rounds < STATISTICS_PAIRS_FOR_95)
        warn_user("%u rounds are too few for a 95 %% interval: it takes %d", rounds, STATISTICS_PAIRS_FOR_95);
    if ((double)rounds < needed)
        warn_user("%u rounds will not resolve %g %% if single runs vary by %g %%: that takes %.0f", rounds,
                  worth_percent, rounds_noise_percent, needed);
}
