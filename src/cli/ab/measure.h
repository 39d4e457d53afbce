/* SPDX-License-Identifier: MIT */
/*
 * measure: what a run is measured by. The rows of measure.def come first, then the user's metrics, in
 * one numbering; a run's values are an array in that numbering, NAN where there is none.
 *
 * A metric is a regular expression (PCRE2) whose first group is found in the output: the last match
 * counts, because programs print their progress first and their result last. The group holds a
 * number, perhaps with a unit of time (ns us ms s min h: the value is in seconds then, so that a program
 * which changes from ms to s does not look faster) or with k, M or G for thousands.
 */
#ifndef PINPOOL_CLI_AB_MEASURE_H
#define PINPOOL_CLI_AB_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

enum measure_id {
#define MEASURE(name, unit, better, sentence) MEASURE_##name,
#include "cli/ab/measure.def"
    MEASURE_COUNT /* metrics are numbered from here on */
};

struct metric;

struct metrics {
    struct metric *items;
    size_t count;
};

/* Adds "NAME=REGEX[:higher|lower]"; higher if it does not say. Returns NULL, or why not, to be freed. */
char *metrics_add(struct metrics *metrics, const char *text);
void metrics_free(struct metrics *metrics);

/* Number of measures, metrics included. */
size_t measure_count(const struct metrics *metrics);

const char *measure_name(const struct metrics *metrics, size_t id);
const char *measure_unit(const struct metrics *metrics,
                         size_t id); /* "" for a metric, or "s" for one of time */
bool measure_higher_is_better(const struct metrics *metrics, size_t id);
const char *measure_sentence(const struct metrics *metrics, size_t id);

/* The one of that name, or measure_count() when there is none. */
size_t measure_find(const struct metrics *metrics, const char *name);

/* A new array of values, all NAN; to be freed. */
double *measure_new_values(const struct metrics *metrics);

/*
 * Finds every metric in the file at `path` and puts its value into `values`. Returns NULL, or which one is
 * not there and how the output ends, to be freed.
 */
char *metrics_read(struct metrics *metrics, const char *path, double *values);

/* A former run has shown that it is a time. */
void metrics_set_time(struct metrics *metrics, size_t id);

/* What the rows say, for --help; to be freed. */
char *measure_describe(void);

/* A value as a person reads it, with its unit: "51.2 MiB", "12.3 ms", "254311". */
const char *measure_format(char text[32], const char *unit, double value);

#endif
