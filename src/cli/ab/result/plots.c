/* SPDX-License-Identifier: MIT */
/* plots: see plots.h. */
#include "cli/ab/result/plots.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ab/result/plot.h"
#include "cli/kit/util.h"

static const double mib = 1 << 20;

/* Sizes are drawn in MiB, the rest as it is. */
static bool is_size(const struct metrics *metrics, size_t measure)
{
    return strcmp(measure_unit(metrics, measure), "bytes") == 0;
}

static double scale_of(const struct metrics *metrics, size_t measure)
{
    return is_size(metrics, measure) ? mib : 1;
}

/* "rss_load_bytes, MiB (lower is better)"; to be freed. */
static char *axis_title(const struct metrics *metrics, size_t measure)
{
    const char *unit = is_size(metrics, measure) ? "MiB" : measure_unit(metrics, measure);
    return must_format("%s%s%s (%s is better)", measure_name(metrics, measure), *unit ? ", " : "", unit,
                       measure_higher_is_better(metrics, measure) ? "higher" : "lower");
}

static void keep(struct pictures *pictures, struct plot *plot, char *caption)
{
    CLEANUP_FREE char *name = must_copy_text(plot->name);
    char *reason = plot_end(plot);
    if (reason) {
        free(pictures->problem);
        pictures->problem = reason;
        free(caption);
        return;
    }
    pictures->items = must_grow(pictures->items, pictures->count, sizeof *pictures->items);
    pictures->items[pictures->count++] = (struct picture){.name = must_copy_text(name), .caption = caption};
}

/* ---- Distributions ---- */

/* Points of one arm beside each other, in the order of the rounds: a drift over the experiment shows too. */
static void put_points(struct plot *plot, const double *values, size_t rounds, double at, double scale)
{
    for (size_t round = 0; round < rounds; round++) {
        const double place = rounds > 1 ? (double)round / (double)(rounds - 1) - 0.5 : 0;
        plot_row(plot, at + 0.5 * place, values[round] / scale);
    }
}

static void draw_distribution(struct pictures *pictures, const struct ab_result *result, size_t measure)
{
    const struct settings *settings = &result->experiment->settings;
    const struct metrics *metrics = &settings->metrics;
    CLEANUP_FREE char *name = must_format("distribution-%s", measure_name(metrics, measure));
    CLEANUP_FREE char *y_title = axis_title(metrics, measure);
    struct plot plot =
        plot_begin(result->experiment->out, name, measure_name(metrics, measure), NULL, y_title);
    plot_command(&plot, "set key off\nset style boxplot nooutliers\nset xrange [0.4:%g]\nset xtics ()",
                 (double)settings->arm_count + 0.6);
    for (size_t arm = 0; arm < settings->arm_count; arm++)
        plot_x_name(&plot, (double)arm + 1, settings->arms[arm].name);
    for (size_t arm = 0; arm < settings->arm_count; arm++) {
        CLEANUP_FREE double *values = experiment_values(result->experiment, arm, measure);
        const struct summary *summary = result_find_summary(result, arm, measure);
        if (!summary)
            continue;
        plot_begin_data(&plot);
        put_points(&plot, values, settings->rounds, (double)arm + 1, scale_of(metrics, measure));
        CLEANUP_FREE char *box = must_format("using (%zu):2 with boxplot linewidth 1.5", arm + 1);
        plot_end_data(&plot, "using 1:2 with points pointtype 7 pointsize 0.7", (unsigned)arm + 1, NULL);
        plot_again(&plot, box, (unsigned)arm + 1, NULL);
    }
    keep(pictures, &plot,
         must_format("%s by arm: every run, in the order of the rounds, and median and quartiles.",
                     measure_name(metrics, measure)));
}

/* ---- Curves ---- */

enum { SAMPLE_RSS = 3, SAMPLE_STRANDED = 8 }; /* columns of a run's samples.csv, from 0 */

/* Field `column` of one line of samples.csv; NAN when it is empty. */
static double sample_field(char *line, unsigned column)
{
    const char *field = line;
    for (unsigned i = 0; i < column && field; i++) {
        field = strchr(field, ',');
        field += field != NULL;
    }
    char *end;
    const double value = field ? strtod(field, &end) : NAN;
    return field && end != field ? value : NAN;
}

/* One run's curve. Returns how many points it has. */
static size_t put_curve(struct plot *plot, const struct ab_result *result, const struct run *run,
                        unsigned column)
{
    char line[512];
    size_t points = 0;
    CLEANUP_FREE char *directory = run_directory(result->experiment, run);
    CLEANUP_FREE char *path = must_format("%s/samples.csv", directory);
    CLEANUP_FREE char *no_file = NULL;
    CLEANUP_FCLOSE FILE *file = open_regular_stream(path, UINT64_MAX, &no_file);
    while (file && fgets(line, sizeof line, file)) {
        const double time_s = sample_field(line, 0), value = sample_field(line, column);
        if (isnan(time_s) || isnan(value))
            continue; /* its heading, too */
        plot_row(plot, time_s, value / mib);
        points++;
    }
    return points;
}

static bool has_curve(const struct ab_result *result, size_t arm, unsigned column)
{
    return column == SAMPLE_RSS || result->experiment->settings.arms[arm].kind == ARM_POOLS;
}

static void draw_curves(struct pictures *pictures, const struct ab_result *result, unsigned column,
                        const char *name, const char *title)
{
    const struct experiment *experiment = result->experiment;
    struct plot plot =
        plot_begin(experiment->out, name, title, "seconds since the service was started", "MiB");
    size_t curves = 0;
    plot_command(&plot, "set yrange [0:*]");
    for (size_t arm = 0; arm < experiment->settings.arm_count; arm++) {
        const char *legend = experiment->settings.arms[arm].name;
        for (size_t i = 0; i < experiment->run_count && has_curve(result, arm, column); i++) {
            const struct run *run = &experiment->runs[i];
            if (!run->is_done || run->is_warmup || run->arm != arm)
                continue;
            plot_begin_data(&plot);
            /* A block without a row is an error: a run that was over before the first sample. */
            if (put_curve(&plot, result, run, column) == 0)
                fputs("0 0\n", plot.script);
            plot_end_data(&plot, "using 1:2 with lines linewidth 1.5", (unsigned)arm + 1, legend);
            legend = NULL; /* one entry for all runs of an arm */
            curves++;
        }
    }
    if (curves == 0) {
        plot_begin_data(&plot);
        fputs("0 0\n", plot.script);
        plot_end_data(&plot, "using 1:2 with points", 1, NULL);
    }
    keep(pictures, &plot, must_format("%s, a line for each run.", title));
}

static bool has_pool_arm(const struct ab_result *result)
{
    for (size_t arm = 0; arm < result->experiment->settings.arm_count; arm++)
        if (result->experiment->settings.arms[arm].kind == ARM_POOLS &&
            experiment_done(result->experiment, arm))
            return true;
    return false;
}

/* ---- The frontier ---- */

static void draw_frontier(struct pictures *pictures, const struct ab_result *result, size_t speed,
                          size_t memory)
{
    const struct settings *settings = &result->experiment->settings;
    CLEANUP_FREE char *x_title = axis_title(&settings->metrics, memory);
    CLEANUP_FREE char *y_title = axis_title(&settings->metrics, speed);
    struct plot plot =
        plot_begin(result->experiment->out, "frontier", "Throughput against memory", x_title, y_title);
    const double x_scale = scale_of(&settings->metrics, memory),
                 y_scale = scale_of(&settings->metrics, speed);
    for (size_t arm = 0; arm < settings->arm_count; arm++) {
        const struct summary *of_speed = result_find_summary(result, arm, speed);
        const struct summary *of_memory = result_find_summary(result, arm, memory);
        if (!of_speed || !of_memory)
            continue;
        CLEANUP_FREE double *speeds = experiment_values(result->experiment, arm, speed);
        CLEANUP_FREE double *memories = experiment_values(result->experiment, arm, memory);
        plot_begin_data(&plot);
        for (size_t round = 0; round < settings->rounds; round++)
            plot_row(&plot, memories[round] / x_scale, speeds[round] / y_scale);
        plot_end_data(&plot, "using 1:2 with points pointtype 6 pointsize 0.7", (unsigned)arm + 1, NULL);
        plot_begin_data(&plot);
        plot_row(&plot, of_memory->median / x_scale, of_speed->median / y_scale);
        plot_end_data(&plot, "using 1:2 with points pointtype 7 pointsize 1.6", (unsigned)arm + 1,
                      settings->arms[arm].name);
    }
    keep(pictures, &plot,
         must_format("%s against %s: a small ring for each run, the arm's medians as a dot.",
                     measure_name(&settings->metrics, speed), measure_name(&settings->metrics, memory)));
}

/* ---- All of them ---- */

static bool is_measured(const struct ab_result *result, size_t measure)
{
    return result_find_summary(result, 0, measure) != NULL;
}

struct pictures plots_draw(const struct ab_result *result)
{
    struct pictures pictures = {NULL, 0, NULL};
    const struct experiment *experiment = result->experiment;
    const bool is_service = settings_is_service(&experiment->settings);
    if (!plot_is_wanted() || result->summary_count == 0)
        return pictures;
    CLEANUP_FREE char *reason = plot_reason_not_possible();
    if (reason) {
        pictures.problem = must_format("There are no plots: %s.", reason);
        return pictures;
    }
    CLEANUP_FREE size_t *order = must_allocate(measure_count(&experiment->settings.metrics) * sizeof *order);
    const size_t count = result_order_measures(experiment, order);
    const size_t memory = is_service ? MEASURE_rss_load_bytes : MEASURE_peak_rss_bytes;
    const size_t speed = experiment->settings.metrics.count ? MEASURE_COUNT
                         : is_service                       ? MEASURE_load_cpu_s
                                                            : MEASURE_wall_s;
    if (is_measured(result, speed) && is_measured(result, memory))
        draw_frontier(&pictures, result, speed, memory);
    if (is_service)
        draw_curves(&pictures, result, SAMPLE_RSS, "rss-over-time", "Resident size over time");
    if (is_service && has_pool_arm(result))
        draw_curves(&pictures, result, SAMPLE_STRANDED, "stranded-over-time",
                    "Stranded bytes (upper bound) over time");
    for (size_t i = 0; i < count; i++)
        if (result_is_primary(experiment, order[i]) && is_measured(result, order[i]))
            draw_distribution(&pictures, result, order[i]);
    return pictures;
}

void pictures_free(struct pictures *pictures)
{
    for (size_t i = 0; i < pictures->count; i++) {
        free(pictures->items[i].name);
        free(pictures->items[i].caption);
    }
    free(pictures->items);
    free(pictures->problem);
    *pictures = (struct pictures){NULL, 0, NULL};
}
