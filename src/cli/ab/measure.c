/* SPDX-License-Identifier: MIT */
/* measure: see measure.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "cli/ab/measure.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/files.h"
#include "cli/kit/util.h"

enum {
    OUTPUT_BYTES_MAX = 64 << 20, /* of a run's output that is searched: its end */
    TAIL_BYTES = 400             /* of it that an error message shows */
};

struct metric {
    char *name;
    char *pattern;
    pcre2_code *code;
    bool higher_is_better;
    bool is_time; /* values had a unit of time */
};

struct measure {
    const char *name, *unit, *sentence;
    bool higher_is_better;
};

enum { LOWER, HIGHER };

static const struct measure measures[MEASURE_COUNT] = {
#define MEASURE(name, unit, better, sentence) {#name, unit, sentence, (better) == HIGHER},
#include "cli/ab/measure.def"
};

static const struct metric *metric_at(const struct metrics *metrics, size_t id)
{
    return &metrics->items[id - MEASURE_COUNT];
}

size_t measure_count(const struct metrics *metrics)
{
    return MEASURE_COUNT + metrics->count;
}

const char *measure_name(const struct metrics *metrics, size_t id)
{
    return id < MEASURE_COUNT ? measures[id].name : metric_at(metrics, id)->name;
}

const char *measure_unit(const struct metrics *metrics, size_t id)
{
    if (id < MEASURE_COUNT)
        return measures[id].unit;
    return metric_at(metrics, id)->is_time ? "s" : "";
}

bool measure_higher_is_better(const struct metrics *metrics, size_t id)
{
    return id < MEASURE_COUNT ? measures[id].higher_is_better : metric_at(metrics, id)->higher_is_better;
}

const char *measure_sentence(const struct metrics *metrics, size_t id)
{
    return id < MEASURE_COUNT ? measures[id].sentence : metric_at(metrics, id)->pattern;
}

size_t measure_find(const struct metrics *metrics, const char *name)
{
    size_t id = 0;
    while (id < measure_count(metrics) && strcmp(measure_name(metrics, id), name) != 0)
        id++;
    return id;
}

double *measure_new_values(const struct metrics *metrics)
{
    double *values = must_allocate(measure_count(metrics) * sizeof *values);
    for (size_t id = 0; id < measure_count(metrics); id++)
        values[id] = NAN;
    return values;
}

char *measure_describe(void)
{
    char *text = must_copy_text("");
    for (size_t id = 0; id < MEASURE_COUNT; id++) {
        CLEANUP_FREE char *before = text;
        text = must_format("%s  %-31s %s\n", before, measures[id].name, measures[id].sentence);
    }
    return text;
}

const char *measure_format(char text[32], const char *unit, double value)
{
    static const struct {
        double from;
        double divisor;
        const char *name;
    } times[] = {{1, 1, "s"}, {1e-3, 1e-3, "ms"}, {1e-6, 1e-6, "us"}, {0, 1e-9, "ns"}};
    const double size = fabs(value);
    if (isnan(value)) {
        strcpy(text, "-");
    } else if (strncmp(unit, "bytes", 5) == 0) {
        char bytes[UTIL_TEXT_MAX];
        format_bytes(bytes, (uint64_t)llround(size));
        snprintf(text, 32, "%s%.20s%s", value < 0 ? "-" : "", bytes, unit[5] ? unit + 5 : "");
    } else if (strcmp(unit, "s") == 0) {
        size_t i = 0;
        while (size < times[i].from)
            i++;
        snprintf(text, 32, "%.4g %s", value / times[i].divisor, size == 0 ? "s" : times[i].name);
    } else if (size >= 1e5) {
        snprintf(text, 32, "%.0f", value);
    } else {
        snprintf(text, 32, "%.5g", value);
    }
    return text;
}

/* ---- Metrics ---- */

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return length > 0 && !isdigit((unsigned char)text[0]);
}

/* Cuts ":higher" or ":lower" from the end of a pattern. */
static bool cut_direction(char *pattern)
{
    static const char *const words[] = {":lower", ":higher"};
    const size_t length = strlen(pattern);
    for (size_t i = 0; i < 2; i++) {
        const size_t word = strlen(words[i]);
        if (length >= word && strcmp(pattern + length - word, words[i]) == 0) {
            pattern[length - word] = '\0';
            return i == 1;
        }
    }
    return true;
}

static char *compile(struct metric *metric)
{
    int error;
    PCRE2_SIZE at;
    uint32_t groups = 0;
    metric->code = pcre2_compile((PCRE2_SPTR)metric->pattern, PCRE2_ZERO_TERMINATED,
                                 PCRE2_MULTILINE | PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &at, NULL);
    if (!metric->code) {
        PCRE2_UCHAR text[256];
        pcre2_get_error_message(error, text, sizeof text);
        return must_format("%s: at character %zu of the expression: %s", metric->name, (size_t)at,
                           (const char *)text);
    }
    pcre2_pattern_info(metric->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    if (groups == 0)
        return must_format("%s: the expression has no group (...) around the number", metric->name);
    pcre2_jit_compile(metric->code, PCRE2_JIT_COMPLETE); /* without it, it is only slower */
    return NULL;
}

static void free_metric(struct metric *metric)
{
    free(metric->name);
    free(metric->pattern);
    pcre2_code_free(metric->code);
}

char *metrics_add(struct metrics *metrics, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || !is_name(text, (size_t)(equals - text)))
        return must_copy_text("not NAME=REGEX, where NAME is of letters, digits and _");
    CLEANUP_FREE char *name = must_format("%.*s", (int)(equals - text), text);
    if (measure_find(metrics, name) < measure_count(metrics))
        return must_format("%s: there is one of that name", name);
    struct metric metric = {.name = must_copy_text(name), .pattern = must_copy_text(equals + 1)};
    metric.higher_is_better = cut_direction(metric.pattern);
    char *reason = compile(&metric);
    if (reason) {
        free_metric(&metric);
        return reason;
    }
    metrics->items = must_grow(metrics->items, metrics->count, sizeof *metrics->items);
    metrics->items[metrics->count++] = metric;
    return NULL;
}

void metrics_free(struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->count; i++)
        free_metric(&metrics->items[i]);
    free(metrics->items);
    *metrics = (struct metrics){NULL, 0};
}

/* ---- Reading ---- */

/* "12.5", "1.2e6", "1,234" is none; "340us" -> 0.00034; "12k" -> 12000. */
static bool parse_value(const char *text, double *value, bool *is_time)
{
    static const struct {
        const char *name;
        double factor;
        bool is_time;
    } units[] = {{"", 1, false},
                 {"ns", 1e-9, true},
                 {"us", 1e-6, true},
                 {"\xc2\xb5s", 1e-6, true},
                 {"\xce\xbcs", 1e-6, true},
                 {"ms", 1e-3, true},
                 {"s", 1, true},
                 {"min", 60, true},
                 {"m", 60, true},
                 {"h", 3600, true},
                 {"k", 1e3, false},
                 {"K", 1e3, false},
                 {"M", 1e6, false},
                 {"G", 1e9, false}}; /* both letters of Unicode for micro */
    char *end;
    if (text[strspn(text, "+-")] == '\0' || strpbrk(text, "xXpP"))
        return false;
    const double number = strtod(text, &end);
    if (end == text || !isfinite(number))
        return false;
    end += strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].name) == 0) {
            *value = number * units[i].factor;
            *is_time |= units[i].is_time;
            return true;
        }
    return false;
}

/* The first group of the last match, to be freed; NULL when nothing matches. *error is PCRE2's, or 0. */
static char *find_last(const struct metric *metric, const char *text, size_t length, int *error)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(metric->code, NULL);
    if (!data)
        die("out of memory");
    char *found = NULL;
    PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    int result;
    for (PCRE2_SIZE from = 0; from <= length;) {
        result = pcre2_match(metric->code, (PCRE2_SPTR)text, length, from, 0, data, NULL);
        if (result < 0)
            break;
        if (result > 1 && ends[2] != PCRE2_UNSET) {
            free(found);
            found = must_format("%.*s", (int)(ends[3] - ends[2]), text + ends[2]);
        }
        from = ends[1] > from ? ends[1] : from + 1; /* an empty match: go on behind it */
    }
    *error = result < 0 && result != PCRE2_ERROR_NOMATCH ? result : 0;
    pcre2_match_data_free(data);
    return found;
}

static char *describe_miss(const struct metric *metric, const char *text, size_t length)
{
    if (length == 0)
        return must_format("metric %s: the output is empty", metric->name);
    const char *tail = length > TAIL_BYTES ? text + length - TAIL_BYTES : text;
    CLEANUP_FREE char *printable = text_printable(tail);
    return must_format("metric %s: '%s' matches nothing in the output, which ends with: %s", metric->name,
                       metric->pattern, printable);
}

static char *read_metric(struct metric *metric, const char *text, size_t length, double *value)
{
    int error = 0;
    CLEANUP_FREE char *found = find_last(metric, text, length, &error);
    if (error) {
        PCRE2_UCHAR why[256];
        pcre2_get_error_message(error, why, sizeof why);
        return must_format("metric %s: %s", metric->name, (const char *)why);
    }
    if (!found)
        return describe_miss(metric, text, length);
    if (!parse_value(found, value, &metric->is_time)) {
        CLEANUP_FREE char *printable = text_printable(found);
        return must_format("metric %s: '%s' is not a number", metric->name, printable);
    }
    return NULL;
}

char *metrics_read(struct metrics *metrics, const char *path, double *values)
{
    if (metrics->count == 0)
        return NULL;
    size_t length;
    CLEANUP_FREE char *text = files_read_end(path, OUTPUT_BYTES_MAX, &length);
    char *reason = text ? NULL : must_format("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < metrics->count && !reason; i++)
        reason = read_metric(&metrics->items[i], text, length, &values[MEASURE_COUNT + i]);
    return reason;
}

void metrics_set_time(struct metrics *metrics, size_t id)
{
    if (id >= MEASURE_COUNT)
        metrics->items[id - MEASURE_COUNT].is_time = true;
}
