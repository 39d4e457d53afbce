/* SPDX-License-Identifier: MIT */
/* json: see json.h. */
#include "cli/ab/result/json.h"

#include <math.h>
#include <string.h>

#include "cli/ab/result/result.h"
#include "cli/ab/store.h"
#include "cli/kit/files.h"
#include "cli/kit/json.h"
#include "cli/kit/util.h"

enum { RESULT_FORMAT = 1 };

static struct json_object *arms_to_json(const struct experiment *experiment)
{
    struct json_object *arms = json_object_new_array();
    for (size_t i = 0; i < experiment->settings.arm_count; i++) {
        const struct arm *arm = &experiment->settings.arms[i];
        struct json_object *json = json_object_new_object();
        json_add_text(json, "name", arm->name);
        json_add_text(json, "spec", arm->spec);
        json_object_object_add(json, "is_baseline", json_object_new_boolean(i == 0));
        json_object_object_add(json, "is_control", json_object_new_boolean(arm->repeats_baseline));
        json_object_object_add(json, "environment",
                               arm_environment_difference(arm, &experiment->base, experiment->pinpool));
        json_add_u64(json, "runs", experiment_done(experiment, i));
        json_object_array_add(arms, json);
    }
    return arms;
}

static struct json_object *command_to_json(const struct settings *settings)
{
    struct json_object *command = json_object_new_array();
    for (char **word = settings->command; *word; word++)
        json_object_array_add(command, json_object_new_string(*word));
    return command;
}

static struct json_object *settings_to_json(const struct settings *settings)
{
    struct json_object *json = json_object_new_object();
    json_add_u64(json, "rounds", settings->rounds);
    json_add_u64(json, "warmup", settings->warmup);
    json_add_u64(json, "seed", settings->seed);
    json_add_number(json, "margin_percent", settings->margin_percent);
    json_add_number(json, "timeout_s", (double)settings->timeout_ns / 1e9);
    json_add_text(json, "ready", settings->ready);
    json_add_text(json, "load", settings->load);
    if (settings_is_service(settings))
        json_add_number(json, "settle_s", (double)settings->settle_ns / 1e9);
    json_object_object_add(json, "mmap_lock", json_object_new_boolean(settings->traces_mmap_lock));
    return json;
}

static const char *better_word(const struct metrics *metrics, size_t measure)
{
    return measure_higher_is_better(metrics, measure) ? "higher" : "lower";
}

static struct json_object *measures_to_json(const struct ab_result *result)
{
    const struct metrics *metrics = &result->experiment->settings.metrics;
    struct json_object *measures = json_object_new_array();
    for (size_t id = 0; id < measure_count(metrics); id++) {
        if (!experiment_has_measure(result->experiment, id))
            continue;
        struct json_object *json = json_object_new_object();
        json_add_text(json, "name", measure_name(metrics, id));
        json_add_text(json, "unit", measure_unit(metrics, id));
        json_add_text(json, "better", better_word(metrics, id));
        json_add_text(json, id < MEASURE_COUNT ? "meaning" : "expression", measure_sentence(metrics, id));
        json_object_array_add(measures, json);
    }
    return measures;
}

static struct json_object *comparison_to_json(const struct ab_result *result,
                                              const struct comparison *comparison)
{
    const struct settings *settings = &result->experiment->settings;
    const struct statistics_welch *welch = &comparison->welch;
    struct json_object *json = json_object_new_object();
    json_add_text(json, "arm", settings->arms[comparison->arm].name);
    json_add_text(json, "baseline", settings->arms[0].name);
    json_add_text(json, "metric", measure_name(&settings->metrics, comparison->measure));
    json_add_text(json, "unit", measure_unit(&settings->metrics, comparison->measure));
    json_add_text(json, "better", better_word(&settings->metrics, comparison->measure));
    json_add_u64(json, "n_arm", comparison->arm_count);
    json_add_u64(json, "n_baseline", comparison->baseline_count);
    json_add_number(json, "mean_arm", comparison->arm_mean);
    json_add_number(json, "mean_baseline", comparison->baseline_mean);
    json_add_number(json, "median_arm", comparison->arm_median);
    json_add_number(json, "median_baseline", comparison->baseline_median);
    json_add_number(json, "improvement_percent", welch->improvement_percent);
    json_add_number(json, "welch_p", welch->p);
    json_add_text(json, "confidence", statistics_stars(welch->p));
    json_add_number(json, "accuracy95_percent", welch->accuracy95_percent);
    json_add_number(json, "accuracy99_percent", welch->accuracy99_percent);
    json_add_number(json, "accuracy999_percent", welch->accuracy999_percent);
    json_add_u64(json, "n_pairs", comparison->pair_count);
    json_add_number(json, "paired_percent", comparison->paired.median);
    json_add_number(json, "paired_low95_percent", comparison->paired.low);
    json_add_number(json, "paired_high95_percent", comparison->paired.high);
    json_add_number(json, "paired_sd_percent", comparison->noise_percent);
    json_add_number(json, "wilcoxon_p", comparison->wilcoxon_p);
    json_add_number(json, "holm_p", comparison->holm_p);
    json_add_number(json, "wilcoxon_holm_p", comparison->paired_holm_p);
    json_add_text(json, "verdict", statistics_verdict_word(comparison->verdict));
    return json;
}

static struct json_object *comparisons_to_json(const struct ab_result *result)
{
    struct json_object *comparisons = json_object_new_array();
    for (size_t i = 0; i < result->comparison_count; i++)
        json_object_array_add(comparisons, comparison_to_json(result, &result->comparisons[i]));
    return comparisons;
}

static struct json_object *summaries_to_json(const struct ab_result *result)
{
    const struct settings *settings = &result->experiment->settings;
    struct json_object *summaries = json_object_new_array();
    for (size_t i = 0; i < result->summary_count; i++) {
        const struct summary *summary = &result->summaries[i];
        struct json_object *json = json_object_new_object();
        json_add_text(json, "arm", settings->arms[summary->arm].name);
        json_add_text(json, "metric", measure_name(&settings->metrics, summary->measure));
        json_add_text(json, "unit", measure_unit(&settings->metrics, summary->measure));
        json_add_u64(json, "n", summary->count);
        json_add_number(json, "mean", summary->mean);
        json_add_number(json, "median", summary->median);
        json_add_number(json, "sd", summary->sd);
        json_add_number(json, "min", summary->least);
        json_add_number(json, "max", summary->most);
        json_object_array_add(summaries, json);
    }
    return summaries;
}

static struct json_object *shapes_to_json(const struct ab_result *result)
{
    const struct settings *settings = &result->experiment->settings;
    struct json_object *shapes = json_object_new_array();
    for (size_t i = 0; i < result->shape_count; i++) {
        const struct shape *shape = &result->shapes[i];
        struct json_object *json = json_object_new_object();
        json_add_text(json, "arm", settings->arms[shape->arm].name);
        json_add_text(json, "metric", measure_name(&settings->metrics, shape->measure));
        json_add_number(json, "median_bytes_per_min", shape->per_minute.median);
        json_add_number(json, "low95_bytes_per_min", shape->per_minute.low);
        json_add_number(json, "high95_bytes_per_min", shape->per_minute.high);
        json_add_number(json, "percent_over_half_load", shape->percent_over_load);
        json_add_text(json, "shape", shape_name(shape->word));
        json_object_array_add(shapes, json);
    }
    return shapes;
}

static struct json_object *runs_to_json(const struct experiment *experiment)
{
    struct json_object *runs = json_object_new_array();
    for (size_t i = 0; i < experiment->run_count; i++)
        if (experiment->runs[i].is_done || experiment->runs[i].failure)
            json_object_array_add(runs, store_run_to_json(experiment, &experiment->runs[i]));
    return runs;
}

/* The plan's machine and libraries, and what was in force while the runs ran. */
static struct json_object *provenance_to_json(const struct ab_result *result)
{
    static const char *const kept[] = {"pinpool_version", "machine",   "program",
                                       "libraries",       "directory", "words"};
    const struct experiment *experiment = result->experiment;
    struct json_object *json = json_object_new_object();
    struct json_object *value;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (json_object_object_get_ex(experiment->provenance, kept[i], &value))
            json_object_object_add(json, kept[i], json_object_get(value));
    double least = NAN, most = NAN;
    for (size_t i = 0; i < experiment->run_count; i++)
        if (experiment->runs[i].is_done) {
            least = fmin(least, experiment->runs[i].load_average);
            most = fmax(most, experiment->runs[i].load_average);
        }
    json_add_u64(json, "start_unix_ns", experiment->start_unix_ns);
    json_add_u64(json, "end_unix_ns", result->end_unix_ns);
    json_add_number(json, "load_average_min", least);
    json_add_number(json, "load_average_max", most);
    json_add_text(json, "environment_dropped", experiment->dropped);
    return json;
}

void json_write_result(const struct ab_result *result)
{
    const struct experiment *experiment = result->experiment;
    struct json_object *json = json_object_new_object();
    struct json_object *warnings = json_object_new_array();
    for (size_t i = 0; i < result->warning_count; i++)
        json_object_array_add(warnings, json_object_new_string(result->warnings[i]));
    json_add_u64(json, "format", RESULT_FORMAT);
    json_add_text(json, "kind", settings_is_service(&experiment->settings) ? "service" : "command");
    json_object_object_add(json, "complete", json_object_new_boolean(result->is_complete));
    json_object_object_add(json, "command", command_to_json(&experiment->settings));
    json_object_object_add(json, "settings", settings_to_json(&experiment->settings));
    json_object_object_add(json, "warnings", warnings);
    json_object_object_add(json, "arms", arms_to_json(experiment));
    json_object_object_add(json, "measures", measures_to_json(result));
    json_object_object_add(json, "comparisons", comparisons_to_json(result));
    json_object_object_add(json, "summaries", summaries_to_json(result));
    json_object_object_add(json, "shapes", shapes_to_json(result));
    json_object_object_add(json, "provenance", provenance_to_json(result));
    json_object_object_add(json, "runs", runs_to_json(experiment));
    struct result_file *file = files_open_result(experiment->out, "result.json");
    json_put(json, JSON_C_TO_STRING_PRETTY, file->file);
    files_close_result(file);
    json_object_put(json);
}
