/* SPDX-License-Identifier: MIT */
/* statistics: see statistics.h. */
#include "cli/ab/result/statistics.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

enum { RANK_SUM_MAX = STATISTICS_EXACT_BELOW * (STATISTICS_EXACT_BELOW - 1) / 2 };

static const double significant = 0.05;

static double *copy_sorted(const double *values, size_t count)
{
    double *sorted = must_allocate(count * sizeof *sorted);
    if (count)
        memcpy(sorted, values, count * sizeof *sorted);
    gsl_sort(sorted, 1, count);
    return sorted;
}

double statistics_mean(const double *values, size_t count)
{
    return count ? gsl_stats_mean(values, 1, count) : NAN;
}

double statistics_median(const double *values, size_t count)
{
    return statistics_quantile(values, count, 0.5);
}

double statistics_sd(const double *values, size_t count)
{
    return count > 1 ? gsl_stats_sd(values, 1, count) : NAN;
}

double statistics_quantile(const double *values, size_t count, double fraction)
{
    if (count == 0)
        return NAN;
    CLEANUP_FREE double *sorted = copy_sorted(values, count);
    return gsl_stats_quantile_from_sorted_data(sorted, 1, count, fraction);
}

double statistics_change_percent(double arm, double baseline)
{
    return baseline != 0 ? (arm - baseline) / fabs(baseline) * 100 : NAN;
}

/* ---- Welch ---- */

static double half_interval_percent(double level, double df, double standard_error, double baseline_mean)
{
    if (baseline_mean == 0)
        return NAN;
    return gsl_cdf_tdist_Pinv(0.5 + level / 2, df) * standard_error / fabs(baseline_mean) * 100;
}

struct statistics_welch statistics_welch(const double *arm, size_t arm_count, const double *baseline,
                                         size_t baseline_count)
{
    struct statistics_welch welch = {.t = NAN,
                                     .df = NAN,
                                     .p = NAN,
                                     .accuracy95_percent = NAN,
                                     .accuracy99_percent = NAN,
                                     .accuracy999_percent = NAN};
    const double arm_mean = statistics_mean(arm, arm_count);
    const double baseline_mean = statistics_mean(baseline, baseline_count);
    welch.improvement_percent = statistics_change_percent(arm_mean, baseline_mean);
    if (arm_count < 2 || baseline_count < 2)
        return welch;
    const double of_arm = gsl_stats_variance(arm, 1, arm_count) / (double)arm_count;
    const double of_baseline = gsl_stats_variance(baseline, 1, baseline_count) / (double)baseline_count;
    const double squared_error = of_arm + of_baseline;
    if (!(squared_error > 0))
        return welch; /* every value is the same: nothing to test against */
    const double standard_error = sqrt(squared_error);
    welch.t = (arm_mean - baseline_mean) / standard_error;
    /* Welch and Satterthwaite's degrees of freedom. */
    welch.df = squared_error * squared_error /
               (of_arm * of_arm / (double)(arm_count - 1) +
                of_baseline * of_baseline / (double)(baseline_count - 1));
    welch.p = 2 * gsl_cdf_tdist_Q(fabs(welch.t), welch.df);
    welch.accuracy95_percent = half_interval_percent(0.95, welch.df, standard_error, baseline_mean);
    welch.accuracy99_percent = half_interval_percent(0.99, welch.df, standard_error, baseline_mean);
    welch.accuracy999_percent = half_interval_percent(0.999, welch.df, standard_error, baseline_mean);
    return welch;
}

const char *statistics_stars(double p)
{
    if (p < 0.001)
        return "***";
    if (p < 0.01)
        return "**";
    return p < significant ? "*" : "";
}

/* ---- The bootstrap ---- */

/*
 * The median of a resample of `sorted`. How often each value was drawn says it all: no sorting.
 * `drawn` has room for `count`.
 */
static double resample_median(gsl_rng *random, const double *sorted, size_t count, unsigned *drawn)
{
    memset(drawn, 0, count * sizeof *drawn);
    for (size_t i = 0; i < count; i++)
        drawn[gsl_rng_uniform_int(random, (unsigned long)count)]++;
    const size_t low_rank = (count - 1) / 2, high_rank = count / 2; /* the same for an odd count */
    double low = 0;
    size_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t before = seen;
        seen += drawn[i];
        if (before <= low_rank && low_rank < seen)
            low = sorted[i];
        if (before <= high_rank && high_rank < seen)
            return (low + sorted[i]) / 2;
    }
    return sorted[count - 1];
}

/* Hesterberg's level for one tail of a 95 % interval. */
static double expanded_tail(size_t count)
{
    const double n = (double)count;
    return gsl_cdf_ugaussian_P(-sqrt(n / (n - 1)) * gsl_cdf_tdist_Pinv(0.975, n - 1));
}

struct statistics_interval statistics_bootstrap_median(const double *differences, size_t count, uint64_t seed)
{
    struct statistics_interval interval = {
        .median = statistics_median(differences, count), .low = NAN, .high = NAN, .count = count};
    if (count < 2)
        return interval;
    CLEANUP_FREE double *sorted = copy_sorted(differences, count);
    if (count < STATISTICS_PAIRS_FOR_95) {
        interval.low = sorted[0];
        interval.high = sorted[count - 1];
        return interval;
    }
    CLEANUP_FREE unsigned *drawn = must_allocate(count * sizeof *drawn);
    CLEANUP_FREE double *medians = must_allocate(STATISTICS_RESAMPLES * sizeof *medians);
    gsl_rng *random = gsl_rng_alloc(gsl_rng_mt19937);
    if (!random)
        die("out of memory");
    gsl_rng_set(random, (unsigned long)seed);
    for (size_t i = 0; i < STATISTICS_RESAMPLES; i++)
        medians[i] = resample_median(random, sorted, count, drawn);
    gsl_rng_free(random);
    gsl_sort(medians, 1, STATISTICS_RESAMPLES);
    const double tail = expanded_tail(count);
    interval.low = gsl_stats_quantile_from_sorted_data(medians, 1, STATISTICS_RESAMPLES, tail);
    interval.high = gsl_stats_quantile_from_sorted_data(medians, 1, STATISTICS_RESAMPLES, 1 - tail);
    return interval;
}

/* ---- Wilcoxon ---- */

/* A difference without its sign, and the sign. */
struct magnitude {
    double size;
    int is_positive;
};

static int compare_magnitudes(const void *left, const void *right)
{
    const struct magnitude *a = left, *b = right;
    return (a->size > b->size) - (a->size < b->size);
}

/* What the ranks of the magnitudes add up to. */
struct rank_sums {
    size_t count;     /* without zeros */
    double positive;  /* V */
    double tie_cubes; /* sum of t^3 - t over groups of t equal magnitudes */
    int is_tied;      /* equal magnitudes, or zeros that were left out */
};

static struct rank_sums sum_ranks(const double *differences, size_t count)
{
    struct rank_sums sums = {0, 0, 0, 0};
    CLEANUP_FREE struct magnitude *magnitudes = must_allocate(count * sizeof *magnitudes);
    for (size_t i = 0; i < count; i++) {
        if (differences[i] == 0)
            sums.is_tied = 1;
        else
            magnitudes[sums.count++] =
                (struct magnitude){.size = fabs(differences[i]), .is_positive = differences[i] > 0};
    }
    qsort(magnitudes, sums.count, sizeof *magnitudes, compare_magnitudes);
    for (size_t first = 0, next; first < sums.count; first = next) {
        for (next = first + 1; next < sums.count && magnitudes[next].size == magnitudes[first].size;)
            next++;
        const double tied = (double)(next - first);
        const double rank = (double)(first + 1 + next) / 2; /* ranks first + 1 to next, shared */
        for (size_t i = first; i < next; i++)
            sums.positive += magnitudes[i].is_positive ? rank : 0;
        sums.tie_cubes += tied * tied * tied - tied;
        sums.is_tied |= tied > 1;
    }
    return sums;
}

/* P(V <= v): the share of the 2^n choices of ranks 1..n that add up to at most `v`. */
static double signed_rank_at_most(double v, size_t count)
{
    double ways[RANK_SUM_MAX + 1] = {1};
    size_t largest = 0;
    for (size_t rank = 1; rank <= count; rank++) {
        largest += rank;
        for (size_t sum = largest; sum >= rank; sum--)
            ways[sum] += ways[sum - rank];
    }
    double at_most = 0, all = 0;
    for (size_t sum = 0; sum <= largest; sum++) {
        all += ways[sum];
        if ((double)sum <= v)
            at_most += ways[sum];
    }
    return at_most / all;
}

/* The distribution is symmetric around n(n+1)/4, so the lower tail serves both sides. */
static double exact_p(const struct rank_sums *sums)
{
    const double n = (double)sums->count;
    const double other = n * (n + 1) / 2 - sums->positive;
    const double smaller = sums->positive < other ? sums->positive : other;
    const double p = 2 * signed_rank_at_most(smaller, sums->count);
    return p < 1 ? p : 1;
}

static double normal_p(const struct rank_sums *sums)
{
    const double n = (double)sums->count;
    const double distance = sums->positive - n * (n + 1) / 4;
    const double variance = n * (n + 1) * (2 * n + 1) / 24 - sums->tie_cubes / 48;
    const double correction = distance == 0 ? 0 : 0.5; /* continuity: towards the middle */
    const double p = 2 * gsl_cdf_ugaussian_Q((fabs(distance) - correction) / sqrt(variance));
    return p < 1 ? p : 1;
}

struct statistics_wilcoxon statistics_wilcoxon(const double *differences, size_t count)
{
    struct statistics_wilcoxon wilcoxon = {NAN, NAN};
    const struct rank_sums sums = sum_ranks(differences, count);
    if (sums.count == 0)
        return wilcoxon;
    wilcoxon.v = sums.positive;
    wilcoxon.p = sums.count < STATISTICS_EXACT_BELOW && !sums.is_tied ? exact_p(&sums) : normal_p(&sums);
    return wilcoxon;
}

/* ---- Holm ---- */

void statistics_holm(const double *p, size_t count, double *adjusted)
{
    CLEANUP_FREE size_t *at = must_allocate(count * sizeof *at);
    CLEANUP_FREE double *known = must_allocate(count * sizeof *known);
    CLEANUP_FREE size_t *order = must_allocate(count * sizeof *order);
    size_t tests = 0;
    for (size_t i = 0; i < count; i++) {
        adjusted[i] = NAN;
        if (isnan(p[i]))
            continue;
        at[tests] = i;
        known[tests++] = p[i];
    }
    gsl_sort_index(order, known, 1, tests);
    double largest = 0;
    for (size_t i = 0; i < tests; i++) {
        const double value = (double)(tests - i) * known[order[i]];
        if (value > largest)
            largest = value;
        adjusted[at[order[i]]] = largest < 1 ? largest : 1;
    }
}

/* ---- The word ---- */

enum statistics_verdict statistics_judge(const struct statistics_interval *interval, int higher_is_better,
                                         double holm_p, double paired_holm_p, double margin_percent)
{
    if (isnan(interval->low) || isnan(interval->high))
        return VERDICT_UNRESOLVED;
    if (interval->low >= -margin_percent && interval->high <= margin_percent)
        return interval->count >= STATISTICS_PAIRS_FOR_95 ? VERDICT_SAME : VERDICT_UNRESOLVED;
    const double p = fmin(holm_p, paired_holm_p); /* the other one, if one is NAN */
    const int is_above = interval->low > 0, is_below = interval->high < 0;
    if ((!is_above && !is_below) || p >= significant)
        return VERDICT_UNRESOLVED;
    return is_above == (higher_is_better != 0) ? VERDICT_BETTER : VERDICT_WORSE;
}

const char *statistics_verdict_word(enum statistics_verdict verdict)
{
    static const char *const words[] = {[VERDICT_UNRESOLVED] = "unresolved",
                                        [VERDICT_SAME] = "same",
                                        [VERDICT_BETTER] = "better",
                                        [VERDICT_WORSE] = "worse"};
    return words[verdict];
}

double statistics_rounds_needed(double noise_percent, double percent)
{
    static const double z = 1.959964 + 0.841621; /* two-sided 5 %, power 80 % */
    return ceil(z * z * noise_percent * noise_percent / (percent * percent) * M_PI / 2);
}
