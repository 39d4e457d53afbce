/* SPDX-License-Identifier: MIT */
/*
 * statistics: what a comparison of two arms rests on. Pure functions on arrays; no state, no output.
 *
 * Two views of the same runs stand side by side. The unpaired one, Welch's t, is what Node's
 * benchmark/compare.R prints, so that people who know that table can read ours. The paired one uses
 * that each round has run both arms one after the other: what the machine did to a round it did to
 * both, and the difference within the round is free of it.
 *
 * A figure that cannot be had (too few values, no spread, a baseline of zero) is NAN, never a guess.
 */
#ifndef PINPOOL_CLI_AB_RESULT_STATISTICS_H
#define PINPOOL_CLI_AB_RESULT_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

enum {
    STATISTICS_RESAMPLES = 10000,
    STATISTICS_EXACT_BELOW = 50, /* pairs: below it Wilcoxon's p is exact, as in R */
};

double statistics_mean(const double *values, size_t count);   /* NAN for none */
double statistics_median(const double *values, size_t count); /* NAN for none */
double statistics_sd(const double *values, size_t count);     /* of the sample (n - 1); NAN below 2 */

/* Linear between order statistics, R's type 7. `fraction` from 0 to 1; NAN for no value. */
double statistics_quantile(const double *values, size_t count, double fraction);

/* (arm - baseline) / baseline * 100; NAN for a baseline of 0. */
double statistics_change_percent(double arm, double baseline);

/*
 * Welch's t-test of two samples: B. L. Welch, "The generalization of 'Student's' problem when several
 * different population variances are involved", Biometrika 34 (1947), and from it the columns of
 * Node's compare.R: the change of the mean in % of the baseline's mean, and as `accuracy` half the
 * 95, 99 and 99.9 % confidence interval of the difference, also in % of the baseline's mean.
 */
struct statistics_welch {
    double t, df, p;
    double improvement_percent; /* the change, whichever direction is the better one */
    double accuracy95_percent, accuracy99_percent, accuracy999_percent;
};

struct statistics_welch statistics_welch(const double *arm, size_t arm_count, const double *baseline,
                                         size_t baseline_count);

/* "***" p < 0.001, "**" p < 0.01, "*" p < 0.05, else "". As Node's column `confidence`. */
const char *statistics_stars(double p);

/*
 * Median of the per-round differences and its 95 % interval, by the bootstrap: 10,000 resamples of the
 * pairs, then the percentiles of their medians, at levels widened for small samples as in
 * T. Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69
 * (2015), section 4 ("expanded percentile"): Phi(-sqrt(n / (n - 1)) * t(0.975, n - 1)) instead of
 * 0.025. The plain percentiles cover too rarely below some 30 pairs (tests/unit/statistics.c holds the
 * coverage of this one).
 *
 * Below 6 pairs no interval for a median reaches 95 %, whatever the method: it is then the least and
 * the greatest difference, and says less than its name (2^(1-n) of such intervals miss).
 *
 * The same seed gives the same interval.
 */
struct statistics_interval {
    double median, low, high;
    size_t count; /* of pairs */
};

enum { STATISTICS_PAIRS_FOR_95 = 6 };

struct statistics_interval statistics_bootstrap_median(const double *differences, size_t count,
                                                       uint64_t seed);

/*
 * Wilcoxon's signed-rank test that the differences are symmetric around 0, two-sided, as R's
 * wilcox.test(paired = TRUE): zeros are left out; exact below 50 pairs without zeros and ties, else
 * normal with corrections for continuity and ties.
 */
struct statistics_wilcoxon {
    double v; /* sum of the ranks of the positive differences */
    double p;
};

struct statistics_wilcoxon statistics_wilcoxon(const double *differences, size_t count);

/*
 * S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
 * Statistics 6 (1979): adjusted p, as R's p.adjust(p, "holm"). NANs stay NAN and do not count.
 */
void statistics_holm(const double *p, size_t count, double *adjusted);

enum statistics_verdict { VERDICT_UNRESOLVED, VERDICT_SAME, VERDICT_BETTER, VERDICT_WORSE };

/*
 * One word. `interval` is in %, `margin_percent` what is too small to matter.
 *
 *   same         the interval lies within +- margin, and 6 pairs or more make it a 95 % interval
 *   better/worse the interval lies on one side of 0, and the smaller of the adjusted p is below 0.05
 *   unresolved   neither: too few rounds or too much noise to say
 *
 * `holm_p` and `paired_holm_p` may be NAN: then there was no spread at all, and the interval decides.
 */
enum statistics_verdict statistics_judge(const struct statistics_interval *interval, int higher_is_better,
                                         double holm_p, double paired_holm_p, double margin_percent);

const char *statistics_verdict_word(enum statistics_verdict verdict);

/*
 * The rounds it takes to tell a difference of `percent` in 4 of 5 experiments, when single runs vary by
 * `noise_percent` (standard deviation of the per-round difference): the usual normal approximation,
 * (1.96 + 0.84)^2 * (noise / percent)^2, times pi / 2 because a median needs that much more than a mean.
 */
double statistics_rounds_needed(double noise_percent, double percent);

#endif
