/* SPDX-License-Identifier: MIT */
/* arm: see arm.h. */
#include "cli/ab/arm.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "cli/kit/util.h"
#include "cli/system/library.h"

/* ---- Environments ---- */

static bool is_variable(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static void add_entry(struct environment *environment, char *entry)
{
    environment->variables = must_grow(environment->variables, environment->count, sizeof(char *));
    environment->variables[environment->count++] = entry;
}

/* The list always ends with a NULL that `count` does not count. */
static void terminate(struct environment *environment)
{
    add_entry(environment, NULL);
    environment->count--;
}

void environment_set(struct environment *environment, const char *name, const char *value)
{
    char *entry = must_format("%s=%s", name, value);
    for (size_t i = 0; i < environment->count; i++)
        if (is_variable(environment->variables[i], name)) {
            free(environment->variables[i]);
            environment->variables[i] = entry;
            return;
        }
    add_entry(environment, entry);
    terminate(environment);
}

const char *environment_get(const struct environment *environment, const char *name)
{
    for (size_t i = 0; i < environment->count; i++)
        if (is_variable(environment->variables[i], name))
            return strchr(environment->variables[i], '=') + 1;
    return NULL;
}

void environment_free(struct environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->variables[i]);
    free(environment->variables);
    *environment = (struct environment){NULL, 0};
}

/* LD_PRELOAD without libpinpool.so; to be freed. It is parted by colons or spaces. */
static char *without_pinpool(const char *preload)
{
    char *kept = must_copy_text("");
    while (*preload) {
        const size_t length = strcspn(preload, ": ");
        CLEANUP_FREE char *one = must_format("%.*s", (int)length, preload);
        if (length && !strstr(one, "libpinpool.so")) {
            CLEANUP_FREE char *before = kept;
            kept = must_format("%s%s%s", before, *before ? ":" : "", one);
        }
        preload += length + (preload[length] != '\0');
    }
    return kept;
}

static void note_dropped(char **dropped, const char *entry)
{
    /* These are the tool's, and mean nothing to the library. */
    if (is_variable(entry, "PINPOOL_LIB") || is_variable(entry, "PINPOOL_MMAP_LOCK") ||
        is_variable(entry, "PINPOOL_GNUPLOT"))
        return;
    CLEANUP_FREE char *before = *dropped;
    *dropped = must_format("%s%s%.*s", before, *before ? " " : "", (int)strcspn(entry, "="), entry);
}

struct environment environment_base(char **dropped)
{
    struct environment base = {NULL, 0};
    *dropped = must_copy_text("");
    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, "PINPOOL_", 8) == 0) {
            note_dropped(dropped, *entry);
        } else if (is_variable(*entry, "LD_PRELOAD")) {
            CLEANUP_FREE char *kept = without_pinpool(*entry + strlen("LD_PRELOAD="));
            if (*kept)
                add_entry(&base, must_format("LD_PRELOAD=%s", kept));
            if (strlen(kept) + strlen("LD_PRELOAD=") < strlen(*entry))
                note_dropped(dropped, *entry);
        } else {
            add_entry(&base, must_copy_text(*entry));
        }
    }
    terminate(&base);
    return base;
}

/* ---- Parsing ---- */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Whether a part begins here: only at such a place does a '+' part two of them, so values may hold one. */
static bool is_part_start(const char *text)
{
    const size_t word = strcspn(text, "+");
    if ((word == 3 && has_prefix(text, "off")) || (word == 4 && has_prefix(text, "idle")))
        return true;
    if (has_prefix(text, "lib:") || has_prefix(text, "env:"))
        return true;
    const size_t digits = strspn(text, "0123456789");
    return digits && text[digits] && strchr("kKmM", text[digits]) && strchr(",:+", text[digits + 1]);
}

static size_t part_length(const char *text)
{
    const char *plus = strchr(text, '+');
    while (plus && !is_part_start(plus + 1))
        plus = strchr(plus + 1, '+');
    return plus ? (size_t)(plus - text) : strlen(text);
}

/* Checks a PINPOOL_* value with the library's own parser. Returns why it is bad, to be freed, or NULL. */
static char *check_option(enum option_id id, const char *value)
{
    struct options scratch;
    memset(&scratch, 0, sizeof scratch);
    const char *reason = options_parse(&scratch, id, value);
    return reason ? must_format("%s: %s", value, reason) : NULL;
}

static char *parse_pools(struct arm *arm, const char *part)
{
    if (arm->pools || arm->kind == ARM_IDLE)
        return must_copy_text("pools are given twice, or together with idle");
    const size_t length = strcspn(part, ":");
    arm->kind = ARM_POOLS;
    arm->pools = must_format("%.*s", (int)length, part);
    if (part[length] == ':')
        arm->policy = must_copy_text(part + length + 1);
    char *reason = check_option(OPTION_POOLS, arm->pools);
    if (!reason && arm->policy)
        reason = check_option(OPTION_POLICY, arm->policy);
    return reason;
}

/* The variables that make an arm what its name says are not for env: to set. */
static char *check_variable(const char *variable)
{
    static const char *const ours[] = {"LD_PRELOAD",     "PINPOOL_STATS", "PINPOOL_DIR",     "PINPOOL_POOLS",
                                       "PINPOOL_POLICY", "PINPOOL_OFF",   "PINPOOL_VERBOSE", "PINPOOL_LIB"};
    const char *equals = strchr(variable, '=');
    if (!equals || equals == variable)
        return must_format("env:%s: not NAME=VALUE", variable);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (is_variable(variable, ours[i]))
            return must_format("env:%s: that is for the other parts of SPEC to say", variable);
    for (int id = 0; id < OPTION_COUNT; id++)
        if (is_variable(variable, option_rows[id].name))
            return check_option((enum option_id)id, equals + 1);
    return NULL;
}

static char *parse_part(struct arm *arm, const char *part)
{
    if (strcmp(part, "off") == 0)
        return NULL;
    if (strcmp(part, "idle") == 0) {
        if (arm->pools)
            return must_copy_text("idle together with pools");
        arm->kind = ARM_IDLE;
        return NULL;
    }
    if (has_prefix(part, "lib:")) {
        if (arm->library)
            return must_copy_text("lib: twice");
        arm->library = library_find_next(part + 4);
        return NULL;
    }
    if (has_prefix(part, "env:")) {
        char *reason = check_variable(part + 4);
        if (reason)
            return reason;
        arm->variables = must_grow(arm->variables, arm->variable_count, sizeof(char *));
        arm->variables[arm->variable_count++] = must_copy_text(part + 4);
        return NULL;
    }
    if (isdigit((unsigned char)part[0]))
        return parse_pools(arm, part);
    return must_format("'%s' is neither off, idle, POOLS[:POLICY], lib:LIBRARY nor env:NAME=VALUE", part);
}

static char *parse_spec(struct arm *arm, const char *spec)
{
    if (!*spec)
        return must_copy_text("SPEC is empty");
    for (;;) {
        const size_t length = part_length(spec);
        CLEANUP_FREE char *part = must_format("%.*s", (int)length, spec);
        char *reason = parse_part(arm, part);
        if (reason)
            return reason;
        if (!spec[length])
            return NULL;
        spec += length + 1;
    }
}

/* Where SPEC begins: behind the first '=', unless that one belongs to env:. */
static const char *find_spec(const char *text)
{
    const char *equals = strchr(text, '=');
    const char *variable = strstr(text, "env:");
    return equals && (!variable || equals < variable) ? equals + 1 : text;
}

char *arm_parse(struct arm *arm, const char *text)
{
    const char *spec = find_spec(text);
    *arm = (struct arm){.spec = must_copy_text(spec)};
    arm->name = spec == text ? must_copy_text(spec) : must_format("%.*s", (int)(spec - text - 1), text);
    char *reason = *arm->name ? parse_spec(arm, spec) : must_copy_text("NAME is empty");
    if (reason)
        arm_free(arm);
    return reason;
}

static char *copy_or_null(const char *text)
{
    return text ? must_copy_text(text) : NULL;
}

struct arm arm_repeat(const struct arm *baseline, const char *name)
{
    struct arm arm = *baseline;
    arm.name = must_copy_text(name);
    arm.spec = must_copy_text(baseline->spec);
    arm.pools = copy_or_null(baseline->pools);
    arm.policy = copy_or_null(baseline->policy);
    arm.library = copy_or_null(baseline->library);
    arm.repeats_baseline = true;
    arm.variables = NULL;
    for (size_t i = 0; i < arm.variable_count; i++) {
        arm.variables = must_grow(arm.variables, i, sizeof(char *));
        arm.variables[i] = must_copy_text(baseline->variables[i]);
    }
    return arm;
}

void arm_free(struct arm *arm)
{
    for (size_t i = 0; i < arm->variable_count; i++)
        free(arm->variables[i]);
    free(arm->variables);
    free(arm->name);
    free(arm->spec);
    free(arm->pools);
    free(arm->policy);
    free(arm->library);
    *arm = (struct arm){.name = NULL};
}

char *arm_file_name(const struct arm *arm)
{
    char *name = must_copy_text(arm->name);
    for (char *letter = name; *letter; letter++)
        if (!isalnum((unsigned char)*letter) && !strchr("-_,", *letter))
            *letter = '-';
    return name;
}

/* ---- From an arm to its environment ---- */

/* Ours first, then the other allocator, then what was preloaded anyway. */
static void set_preload(struct environment *environment, const struct arm *arm, const char *pinpool)
{
    const char *const parts[] = {arm->kind == ARM_OFF ? NULL : pinpool, arm->library,
                                 environment_get(environment, "LD_PRELOAD")};
    char *list = must_copy_text("");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!parts[i])
            continue;
        CLEANUP_FREE char *before = list;
        list = must_format("%s%s%s", before, *before ? ":" : "", parts[i]);
    }
    if (*list)
        environment_set(environment, "LD_PRELOAD", list);
    free(list);
}

struct environment arm_environment(const struct arm *arm, const struct environment *base, const char *pinpool,
                                   const char *stats_dir)
{
    struct environment environment = {NULL, 0};
    for (size_t i = 0; i < base->count; i++)
        add_entry(&environment, must_copy_text(base->variables[i]));
    terminate(&environment);
    for (size_t i = 0; i < arm->variable_count; i++) {
        const char *variable = arm->variables[i];
        CLEANUP_FREE char *name = must_format("%.*s", (int)strcspn(variable, "="), variable);
        environment_set(&environment, name, strchr(variable, '=') + 1);
    }
    environment_set(&environment, "PINPOOL_STATS", "keep");
    environment_set(&environment, "PINPOOL_DIR", stats_dir);
    if (arm->kind == ARM_IDLE)
        environment_set(&environment, "PINPOOL_OFF", "1");
    if (arm->pools)
        environment_set(&environment, "PINPOOL_POOLS", arm->pools);
    if (arm->policy)
        environment_set(&environment, "PINPOOL_POLICY", arm->policy);
    set_preload(&environment, arm, pinpool);
    return environment;
}

struct json_object *arm_environment_difference(const struct arm *arm, const struct environment *base,
                                               const char *pinpool)
{
    struct json_object *difference = json_object_new_array();
    struct environment environment = arm_environment(arm, base, pinpool, "");
    for (size_t i = 0; i < environment.count; i++) {
        const char *entry = environment.variables[i];
        CLEANUP_FREE char *name = must_format("%.*s", (int)strcspn(entry, "="), entry);
        const char *before = environment_get(base, name);
        if (strcmp(name, "PINPOOL_DIR") != 0 && (!before || strcmp(before, strchr(entry, '=') + 1) != 0))
            json_object_array_add(difference, json_object_new_string(entry));
    }
    environment_free(&environment);
    return difference;
}
