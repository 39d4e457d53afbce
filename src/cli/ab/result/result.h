/* SPDX-License-Identifier: MIT */
/* result: what the finished runs say. Made from an experiment as it stands, complete or not. */
#ifndef PINPOOL_CLI_AB_RESULT_RESULT_H
#define PINPOOL_CLI_AB_RESULT_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/ab/experiment.h"
#include "cli/ab/result/statistics.h"

/* One arm and measure. */
struct summary {
    size_t arm, measure;
    size_t count;
    double mean, median, sd, least, most;
};

/* One arm against the baseline, in one measure. Changes are in % of the baseline, up is positive. */
struct comparison {
    size_t arm, measure;
    size_t arm_count, baseline_count, pair_count;
    double arm_mean, baseline_mean, arm_median, baseline_median;
    struct statistics_welch welch;
    struct statistics_interval paired;
    double wilcoxon_p;
    double holm_p;        /* of welch.p, over all comparisons */
    double paired_holm_p; /* of wilcoxon_p, likewise */
    double noise_percent; /* standard deviation of the rounds' differences */
    enum statistics_verdict verdict;
};

/* Whether a service's memory has reached a plateau in the second half of its load. */
enum shape_word { SHAPE_UNRESOLVED, SHAPE_PLATEAU, SHAPE_CLIMBS, SHAPE_FALLS };

struct shape {
    size_t arm, measure;
    struct statistics_interval per_minute; /* over the rounds */
    double percent_over_load; /* what the median slope adds up to in that half, in % of the mean RSS */
    enum shape_word word;
};

struct ab_result {
    const struct experiment *experiment;
    bool is_complete;
    uint64_t end_unix_ns;
    struct summary *summaries;
    size_t summary_count;
    struct comparison *comparisons; /* by measure, then by arm */
    size_t comparison_count;
    struct shape *shapes;
    size_t shape_count;
    char **warnings;
    size_t warning_count;
};

struct ab_result result_make(const struct experiment *experiment);
void result_free(struct ab_result *result);

const char *shape_name(enum shape_word word);

/* The measures that a reader looks at first: the metrics, and time or memory. */
bool result_is_primary(const struct experiment *experiment, size_t measure);

/* Measures in the order in which they are shown: primary ones first. `order` has room for all of them. */
size_t result_order_measures(const struct experiment *experiment, size_t *order);

const struct comparison *result_find(const struct ab_result *result, size_t arm, size_t measure);
const struct summary *result_find_summary(const struct ab_result *result, size_t arm, size_t measure);

/* Before the first run: says on stderr when that many rounds will not do. */
void result_warn_of_few_rounds(unsigned rounds);

#endif
