/* SPDX-License-Identifier: MIT */
/* report: the tables of a comparison, see report.h. One description of them serves the terminal and
 * Markdown. */
#include "cli/ab/result/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/ab/provenance.h"
#include "cli/kit/files.h"
#include "cli/kit/table.h"
#include "cli/kit/util.h"

struct report {
    const struct ab_result *result;
    const struct page *page;
};

static const struct settings *settings_of(const struct report *report)
{
    return &report->result->experiment->settings;
}

/* ---- Forms ---- */

/* A word as a shell reads it: in single quotes, where each quote of its own is '\'' instead. */
static void put_word(FILE *line, const char *word)
{
    const bool is_plain =
        *word && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-") ==
                     strlen(word);
    if (is_plain) {
        fputs(word, line);
        return;
    }
    fputc('\'', line);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", line);
        else
            fputc(*word, line);
    fputc('\'', line);
}

char *report_command_line(const struct settings *settings)
{
    char *text;
    size_t bytes;
    FILE *line = open_memstream(&text, &bytes);
    if (!line)
        die("out of memory");
    for (char **word = settings->command; *word; word++) {
        if (word != settings->command)
            fputc(' ', line);
        put_word(line, *word);
    }
    if (fclose(line) != 0)
        die("out of memory");
    return text;
}

static void add_percent(struct table *table, double percent)
{
    if (isnan(percent))
        table_add(table, "-");
    else
        table_add(table, "%+.2f %%", percent);
}

static void add_p(struct table *table, double p)
{
    if (isnan(p))
        table_add(table, "-");
    else
        table_add(table, p < 0.0001 ? "%.0e" : "%.4f", p);
}

static void add_value(struct table *table, const struct report *report, size_t measure, double value)
{
    char text[32];
    table_add(table, "%s", measure_format(text, measure_unit(&settings_of(report)->metrics, measure), value));
}

static void add_name(struct table *table, const struct report *report, size_t measure)
{
    const struct metrics *metrics = &settings_of(report)->metrics;
    table_add(table, "%s%s", measure_name(metrics, measure),
              measure_higher_is_better(metrics, measure) ? "" : " (lower is better)");
}

/* ---- Verdicts ---- */

static const struct table_column verdict_columns[] = {
    {"measure", TABLE_LEFT},       {"arm", TABLE_LEFT},      {"n", TABLE_RIGHT},
    {"median", TABLE_RIGHT},       {"against", TABLE_RIGHT}, {"change", TABLE_RIGHT},
    {"95 % interval", TABLE_LEFT}, {"p Welch", TABLE_RIGHT}, {"p paired", TABLE_RIGHT},
    {"verdict", TABLE_LEFT},
};

static void add_verdict(const struct report *report, struct table *table, const struct comparison *comparison)
{
    const struct statistics_interval *paired = &comparison->paired;
    add_name(table, report, comparison->measure);
    table_add(table, "%s", settings_of(report)->arms[comparison->arm].name);
    table_add(table, "%zu", comparison->pair_count);
    add_value(table, report, comparison->measure, comparison->arm_median);
    add_value(table, report, comparison->measure, comparison->baseline_median);
    add_percent(table, paired->median);
    if (isnan(paired->low))
        table_add(table, "-");
    else
        table_add(table, "%+.2f to %+.2f %%", paired->low, paired->high);
    add_p(table, comparison->holm_p);
    add_p(table, comparison->paired_holm_p);
    table_add(table, "%s", statistics_verdict_word(comparison->verdict));
}

static void put_verdicts(const struct report *report, bool primary)
{
    const struct ab_result *result = report->result;
    struct table table = TABLE_OF(verdict_columns);
    for (size_t i = 0; i < result->comparison_count; i++)
        if (result_is_primary(result->experiment, result->comparisons[i].measure) == primary)
            add_verdict(report, &table, &result->comparisons[i]);
    if (table.cell_count == 0)
        return;
    CLEANUP_FREE char *heading =
        must_format("%s against %s", primary ? "What counts" : "The rest", settings_of(report)->arms[0].name);
    page_heading(report->page, heading);
    page_table(report->page, &table);
}

/* ---- Node's table ---- */

static const struct table_column node_columns[] = {
    {"", TABLE_LEFT},
    {"confidence", TABLE_RIGHT},
    {"improvement", TABLE_RIGHT},
    {"accuracy (*)", TABLE_RIGHT},
    {"(**)", TABLE_RIGHT},
    {"(***)", TABLE_RIGHT},
};

static void add_accuracy(struct table *table, double percent)
{
    if (isnan(percent))
        table_add(table, "NA");
    else
        table_add(table, "\xc2\xb1%.2f%%", percent);
}

static void put_node_table(const struct report *report)
{
    const struct ab_result *result = report->result;
    struct table table = TABLE_OF(node_columns);
    for (size_t i = 0; i < result->comparison_count; i++) {
        const struct comparison *comparison = &result->comparisons[i];
        const struct statistics_welch *welch = &comparison->welch;
        const struct metrics *metrics = &settings_of(report)->metrics;
        if (!result_is_primary(result->experiment, comparison->measure))
            continue;
        table_add(&table, "%s %s%s", measure_name(metrics, comparison->measure),
                  settings_of(report)->arms[comparison->arm].name,
                  measure_higher_is_better(metrics, comparison->measure) ? "" : " (lower is better)");
        table_add(&table, "%s", isnan(welch->p) ? "NA" : statistics_stars(welch->p));
        if (isnan(welch->improvement_percent))
            table_add(&table, "NA");
        else
            table_add(&table, "%.2f %%", welch->improvement_percent);
        add_accuracy(&table, welch->accuracy95_percent);
        add_accuracy(&table, welch->accuracy99_percent);
        add_accuracy(&table, welch->accuracy999_percent);
    }
    if (table.cell_count == 0)
        return;
    page_heading(report->page, "As Node's compare.R prints it (unpaired, Welch's t)");
    page_table(report->page, &table);
}

/* ---- Every arm by itself ---- */

static const struct table_column summary_columns[] = {
    {"measure", TABLE_LEFT}, {"arm", TABLE_LEFT}, {"n", TABLE_RIGHT},     {"median", TABLE_RIGHT},
    {"mean", TABLE_RIGHT},   {"sd", TABLE_RIGHT}, {"least", TABLE_RIGHT}, {"most", TABLE_RIGHT},
};

/* All of them, or only what the baseline has no value for, so that no comparison shows it. */
static void put_summaries(const struct report *report, bool only_incomparable)
{
    const struct ab_result *result = report->result;
    struct table table = TABLE_OF(summary_columns);
    for (size_t i = 0; i < result->summary_count; i++) {
        const struct summary *summary = &result->summaries[i];
        if (only_incomparable && result_find_summary(result, 0, summary->measure))
            continue;
        add_name(&table, report, summary->measure);
        table_add(&table, "%s", settings_of(report)->arms[summary->arm].name);
        table_add(&table, "%zu", summary->count);
        add_value(&table, report, summary->measure, summary->median);
        add_value(&table, report, summary->measure, summary->mean);
        add_value(&table, report, summary->measure, summary->sd);
        add_value(&table, report, summary->measure, summary->least);
        add_value(&table, report, summary->measure, summary->most);
    }
    if (table.cell_count == 0)
        return;
    page_heading(report->page, only_incomparable ? "What the baseline does not have" : "Every arm by itself");
    page_table(report->page, &table);
}

/* ---- Shapes ---- */

static const struct table_column shape_columns[] = {
    {"curve", TABLE_LEFT},         {"arm", TABLE_LEFT},   {"per minute", TABLE_RIGHT},
    {"95 % interval", TABLE_LEFT}, {"shape", TABLE_LEFT},
};

static void put_shapes(const struct report *report)
{
    const struct ab_result *result = report->result;
    struct table table = TABLE_OF(shape_columns);
    for (size_t i = 0; i < result->shape_count; i++) {
        const struct shape *shape = &result->shapes[i];
        char middle[32], low[32], high[32];
        table_add(&table, "%s", shape->measure == MEASURE_rss_climb_bytes_per_min ? "resident" : "stranded");
        table_add(&table, "%s", settings_of(report)->arms[shape->arm].name);
        table_add(&table, "%s", measure_format(middle, "bytes", shape->per_minute.median));
        table_add(&table, "%s to %s", measure_format(low, "bytes", shape->per_minute.low),
                  measure_format(high, "bytes", shape->per_minute.high));
        table_add(&table, "%s", shape_name(shape->word));
    }
    if (table.cell_count == 0)
        return;
    page_heading(report->page, "Memory over the second half of the load: which curve climbs");
    page_table(report->page, &table);
}

/* ---- Provenance ---- */

static const struct table_column provenance_columns[] = {{"", TABLE_LEFT}, {"", TABLE_LEFT}};

static void add_fact(struct table *table, const char *name, struct json_object *value)
{
    table_add(table, "%s", name);
    table_add(table, "%s", value ? json_object_get_string(value) : "unknown");
}

static void add_date(struct table *table, const struct experiment *experiment)
{
    char text[64];
    const time_t start = (time_t)(experiment->start_unix_ns / NS_PER_S);
    struct tm utc;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&start, &utc));
    table_add(table, "date");
    table_add(table, "%s", text);
}

static void add_arm(struct table *table, const struct experiment *experiment, const struct arm *arm)
{
    struct json_object *difference = arm_environment_difference(arm, &experiment->base, experiment->pinpool);
    table_add(table, "arm %s", arm->name);
    table_add(
        table, "%s",
        json_object_to_json_string_ext(difference, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(difference);
}

static void put_provenance(const struct report *report)
{
    const struct experiment *experiment = report->result->experiment;
    struct table table = TABLE_OF(provenance_columns);
    struct json_object *machine, *libraries;
    add_date(&table, experiment);
    if (json_object_object_get_ex(experiment->provenance, "machine", &machine)) {
        json_object_object_foreach(machine, name, value) add_fact(&table, name, value);
    }
    if (json_object_object_get_ex(experiment->provenance, "libraries", &libraries)) {
        json_object_object_foreach(libraries, path, facts)
        {
            struct json_object *hash = NULL;
            json_object_object_get_ex(facts, "sha256", &hash);
            table_add(&table, "SHA-256 of %s", path);
            table_add(&table, "%s", hash ? json_object_get_string(hash) : "unknown");
        }
    }
    for (size_t i = 0; i < experiment->settings.arm_count; i++)
        add_arm(&table, experiment, &experiment->settings.arms[i]);
    page_heading(report->page, "Where this comes from");
    page_table(report->page, &table);
}

/* ---- The whole ---- */

static void put_head(const struct report *report)
{
    const struct settings *settings = settings_of(report);
    CLEANUP_FREE char *command = report_command_line(settings);
    CLEANUP_FREE char *title = must_format("pinpool ab: %s", command);
    CLEANUP_FREE char *design =
        must_format("%u rounds of %zu arms in random order, seed %llu; %u warm-up round%s dropped.",
                    settings->rounds, settings->arm_count, (unsigned long long)settings->seed,
                    settings->warmup, settings->warmup == 1 ? "" : "s");
    CLEANUP_FREE char *machine = provenance_line(report->result->experiment->provenance);
    page_title(report->page, title);
    if (settings_is_service(settings)) {
        CLEANUP_FREE char *load = must_format("Load: %s", settings->load);
        page_paragraph(report->page, load);
    }
    page_paragraph(report->page, design);
    page_paragraph(report->page, machine);
    for (size_t i = 0; i < report->result->warning_count; i++)
        page_note(report->page, report->result->warnings[i]);
}

static void put_legend(const struct report *report)
{
    CLEANUP_FREE char *verdict =
        must_format("Verdict: same, if the interval of 6 or more pairs lies within %g %%; better or worse, "
                    "if it lies on one side of 0 "
                    "and one of the two p is below 0.05; else unresolved. Both are corrected for the number "
                    "of comparisons (Holm): "
                    "Welch's t, and Wilcoxon's signed ranks of the differences within rounds.",
                    settings_of(report)->margin_percent);
    if (report->page->style == PAGE_TEXT)
        fputc('\n', report->page->to);
    page_paragraph(report->page,
                   "Change: median of the differences within a round, in % of that round's baseline, and its "
                   "bootstrapped 95 % interval. Sizes are in powers of 1024.");
    page_paragraph(report->page, verdict);
}

void report_write_tables(const struct ab_result *result, const struct page *page)
{
    const struct report report = {result, page};
    put_head(&report);
    put_verdicts(&report, true);
    put_node_table(&report);
    put_shapes(&report);
    put_verdicts(&report, false);
    put_summaries(&report, page->style == PAGE_TEXT);
    if (page->style != PAGE_TEXT)
        put_provenance(&report);
    if (result->comparison_count)
        put_legend(&report);
}

void report_write_markdown(const struct ab_result *result)
{
    struct result_file *file = files_open_result(result->experiment->out, "report.md");
    const struct page page = {PAGE_MARKDOWN, file->file};
    report_write_tables(result, &page);
    files_close_result(file);
}
