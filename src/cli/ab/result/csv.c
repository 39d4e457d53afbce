/* SPDX-License-Identifier: MIT */
/*
 * csv: the CSV files of a comparison, see report.h. Quoting as in RFC 4180; texts are printable,
 * because
 * --format=csv sends them to a terminal.
 */
#include <math.h>
#include <string.h>

#include "cli/ab/result/report.h"
#include "cli/kit/files.h"
#include "cli/kit/util.h"

static void put_text(const char *text, FILE *to)
{
    CLEANUP_FREE char *printable = text_printable(text);
    fputc('"', to);
    for (const char *at = printable; *at; at++) {
        if (*at == '"')
            fputc('"', to);
        fputc(*at, to);
    }
    fputc('"', to);
}

/* ---- Node's ---- */

static void put_node_row(const struct ab_result *result, const char *binary, const struct run *run,
                         const char *command, const char *configuration, size_t measure, FILE *to)
{
    const size_t time = settings_is_service(&result->experiment->settings) ? MEASURE_load_s : MEASURE_wall_s;
    put_text(binary, to);
    fputc(',', to);
    put_text(command, to);
    fputc(',', to);
    put_text(configuration, to);
    fprintf(to, ",%.15g,%.15g\n", run->values[measure], run->values[time]);
}

static void put_node_configuration(const struct ab_result *result, size_t arm, size_t measure,
                                   const char *command, FILE *to)
{
    const struct experiment *experiment = result->experiment;
    const struct settings *settings = &experiment->settings;
    CLEANUP_FREE char *configuration = must_format(
        "arm='%s' metric='%s'%s", settings->arms[arm].name, measure_name(&settings->metrics, measure),
        measure_higher_is_better(&settings->metrics, measure) ? "" : " (lower is better)");
    for (size_t i = 0; i < experiment->run_count; i++) {
        const struct run *run = &experiment->runs[i];
        if (!run->is_done || run->is_warmup || isnan(run->values[measure]) ||
            (run->arm != arm && run->arm != 0))
            continue;
        put_node_row(result, run->arm == 0 ? "old" : "new", run, command, configuration, measure, to);
    }
}

void report_write_node_csv(const struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    CLEANUP_FREE char *command = report_command_line(&experiment->settings);
    struct result_file *file = files_open_result(experiment->out, "runs.csv");
    fputs("\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n", file->file);
    for (size_t i = 0; i < result->comparison_count; i++)
        put_node_configuration(result, result->comparisons[i].arm, result->comparisons[i].measure, command,
                               file->file);
    files_close_result(file);
}

/* ---- Long ---- */

static void put_long_rows(const struct experiment *experiment, const struct run *run, FILE *to)
{
    const struct metrics *metrics = &experiment->settings.metrics;
    for (size_t measure = 0; measure < measure_count(metrics); measure++) {
        if (isnan(run->values[measure]))
            continue;
        fprintf(to, "%zu,%u,%d,", run->index, run->round, run->is_warmup);
        put_text(run_arm(experiment, run)->name, to);
        fprintf(to, ",%.3f,%s,%s,%s,%.15g\n", (double)run->start_unix_ns / 1e9,
                measure_name(metrics, measure), measure_unit(metrics, measure),
                measure_higher_is_better(metrics, measure) ? "higher" : "lower", run->values[measure]);
    }
}

void report_write_long_csv(const struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    struct result_file *file = files_open_result(experiment->out, "long.csv");
    fputs("run,round,warmup,arm,start_unix_s,metric,unit,better,value\n", file->file);
    for (size_t i = 0; i < experiment->run_count; i++)
        if (experiment->runs[i].is_done)
            put_long_rows(experiment, &experiment->runs[i], file->file);
    files_close_result(file);
}

/* ---- Samples ---- */

static void put_samples(const struct experiment *experiment, const struct run *run, FILE *to)
{
    char line[512];
    CLEANUP_FREE char *directory = run_directory(experiment, run);
    CLEANUP_FREE char *path = must_format("%s/samples.csv", directory);
    CLEANUP_FREE char *no_file = NULL;
    CLEANUP_FCLOSE FILE *from = open_regular_stream(path, UINT64_MAX, &no_file);
    if (!from || !fgets(line, sizeof line, from)) { /* its heading */
        warn_user("%s: %s", path, from ? "empty" : no_file);
        return;
    }
    while (fgets(line, sizeof line, from)) {
        fprintf(to, "%zu,%u,%d,", run->index, run->round, run->is_warmup);
        put_text(run_arm(experiment, run)->name, to);
        line[strcspn(line, "\n")] = '\0';
        CLEANUP_FREE char *printable = text_printable(line);
        fprintf(to, ",%s\n", printable);
    }
}

void report_write_samples_csv(const struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    if (!settings_is_service(&experiment->settings))
        return;
    struct result_file *file = files_open_result(experiment->out, "samples.csv");
    fputs("run,round,warmup,arm,time_s,phase,processes,rss_bytes,pss_bytes,live_bytes,held_bytes,stranded_"
          "low_bytes,"
          "stranded_high_bytes,pinned_blocks\n",
          file->file);
    for (size_t i = 0; i < experiment->run_count; i++)
        if (experiment->runs[i].is_done)
            put_samples(experiment, &experiment->runs[i], file->file);
    files_close_result(file);
}
