/* SPDX-License-Identifier: MIT */
/* settings: see settings.h. */
#include "cli/ab/settings.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

enum {
    KEY_ARM = 'a',
    KEY_ROUNDS = 'n',
    KEY_METRIC = 'm',
    KEY_OUT = 'o',
    KEY_AA = 0x100,
    KEY_SEED,
    KEY_WARMUP,
    KEY_READY,
    KEY_LOAD,
    KEY_SETTLE,
    KEY_TIMEOUT,
    KEY_MARGIN,
    KEY_MMAP_LOCK,
    KEY_LIB,
    KEY_RESUME,
    KEY_FORMAT,
    DEFAULT_ROUNDS = 20,
    ROUNDS_MAX = 100000,
    ARMS_MAX = 64
};

static const struct argp_option options[] = {
    {"arm", KEY_ARM, "NAME=SPEC", 0, "Adds an arm; the first is the baseline (off, 8k:bump and 64k:bump)", 0},
    {"aa", KEY_AA, NULL, 0, "Adds the baseline once more, as an arm that has to come out the same", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Measured rounds (20); each runs every arm once, in random order", 0},
    {"warmup", KEY_WARMUP, "N", 0, "Rounds before them whose figures are dropped (1)", 0},
    {"seed", KEY_SEED, "S", 0, "Of the order of the arms and of the bootstrap (random, and printed)", 0},
    {"metric", KEY_METRIC, "NAME=REGEX[:higher|lower]", 0,
     "Adds a figure: the first group of REGEX (PCRE2) where it matches last in the output of COMMAND, or of "
     "the load",
     0},
    {"margin", KEY_MARGIN, "PERCENT", 0, "A difference that is too small to matter (1)", 0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "How long a command, a load or getting ready may take (3600; 60 for getting ready)", 0},
    {"load", KEY_LOAD, "CMD", 0, "COMMAND is a service, and CMD (for sh -c) makes it work", 1},
    {"ready", KEY_READY, "CMD", 0, "The service is ready when CMD (for sh -c) succeeds", 1},
    {"settle", KEY_SETTLE, "SECONDS", 0, "Wait this long before the load and once more after it (5)", 1},
    {"mmap-lock", KEY_MMAP_LOCK, NULL, 0,
     "Adds a traced run to every run: waits for mmap_lock and counts of system calls", 1},
    {"out", KEY_OUT, "DIR", 0, "Where the results go (pinpool-ab-DATE)", 2},
    {"resume", KEY_RESUME, NULL, 0, "Goes on with the experiment in DIR", 2},
    {"format", KEY_FORMAT, "FORMAT", 0, "What is printed at the end: text, md, json, csv or html (text)", 2},
    {"lib", KEY_LIB, "FILE", 0,
     "Use this libpinpool.so (else $PINPOOL_LIB, else the one beside this program)", 2},
    {0},
};

static void add_word(struct settings *settings, char *word)
{
    settings->words = must_grow(settings->words, settings->word_count, sizeof(char *));
    settings->words[settings->word_count++] = word;
}

static const char *name_of(int key)
{
    for (const struct argp_option *option = options; option->name; option++)
        if (option->key == key)
            return option->name;
    return "?";
}

/* Keeps an option that makes the experiment what it is. */
static void keep_option(struct settings *settings, int key, const char *value)
{
    if (key >= ARGP_KEY_FINI || strcmp(name_of(key), "?") == 0 || key == KEY_OUT || key == KEY_RESUME ||
        key == KEY_FORMAT)
        return;
    add_word(settings,
             value ? must_format("--%s=%s", name_of(key), value) : must_format("--%s", name_of(key)));
}

static void add_arm(struct settings *settings, struct arm arm)
{
    settings->arms = must_grow(settings->arms, settings->arm_count, sizeof *settings->arms);
    settings->arms[settings->arm_count++] = arm;
}

static bool has_arm(const struct settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->arm_count; i++)
        if (strcmp(settings->arms[i].name, name) == 0)
            return true;
    return false;
}

static void take_arm(struct settings *settings, const char *text, struct argp_state *state)
{
    struct arm arm;
    CLEANUP_FREE char *reason = arm_parse(&arm, text);
    if (reason)
        argp_error(state, "--arm=%s: %s", text, reason);
    if (has_arm(settings, arm.name))
        argp_error(state, "--arm=%s: there is an arm %s already", text, arm.name);
    if (settings->arm_count == ARMS_MAX)
        argp_error(state, "--arm=%s: more than %d arms", text, ARMS_MAX);
    add_arm(settings, arm);
}

static void take_metric(struct settings *settings, const char *text, struct argp_state *state)
{
    CLEANUP_FREE char *reason = metrics_add(&settings->metrics, text);
    if (reason)
        argp_error(state, "--metric=%s: %s", text, reason);
}

static unsigned take_number(int key, const char *text, uint64_t least, uint64_t most,
                            struct argp_state *state)
{
    uint64_t number = 0;
    if (!parse_count(text, most, &number) || number < least)
        argp_error(state, "--%s=%s: not a whole number from %llu to %llu", name_of(key), text,
                   (unsigned long long)least, (unsigned long long)most);
    return (unsigned)number;
}

static uint64_t take_seconds(int key, const char *text, bool may_be_zero, struct argp_state *state)
{
    uint64_t ns = 0;
    if (!(may_be_zero && strcmp(text, "0") == 0) && !parse_seconds(text, &ns))
        argp_error(state, "--%s=%s: not a number of seconds%s", name_of(key), text,
                   may_be_zero ? "" : " above 0");
    return ns;
}

static double take_percent(const char *text, struct argp_state *state)
{
    char *end;
    const double percent = strtod(text, &end);
    if (end == text || *end || !(percent >= 0) || percent > 100)
        argp_error(state, "--margin=%s: not a percentage from 0 to 100", text);
    return percent;
}

static enum ab_format take_format(const char *text, struct argp_state *state)
{
    static const char *const names[] = {"text", "md", "json", "csv", "html"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], text) == 0)
            return (enum ab_format)i;
    argp_error(state, "--format=%s: neither text, md, json, csv nor html", text);
    return FORMAT_TEXT;
}

static void add_default_arms(struct settings *settings)
{
    static const char *const specs[] = {"off", "8k:bump", "64k:bump"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct arm arm;
        CLEANUP_FREE char *reason = arm_parse(&arm, specs[i]);
        if (reason)
            die("default arm %s: %s", specs[i], reason);
        add_arm(settings, arm);
    }
}

static void check_all(struct settings *settings, struct argp_state *state)
{
    if (!settings->command && !settings->resumes)
        argp_error(state, "which command?");
    if (settings->resumes && !settings->out)
        argp_error(state, "--resume: which experiment? Give its --out=DIR");
    if (!settings->ready != !settings->load)
        argp_error(state, settings->ready ? "--ready without --load" : "--load without --ready");
    if (settings->arm_count == 0)
        add_default_arms(settings);
    if (settings->repeats_baseline) {
        CLEANUP_FREE char *name = must_format("%s-again", settings->arms[0].name);
        if (has_arm(settings, name))
            argp_error(state, "--aa: there is an arm %s already", name);
        add_arm(settings, arm_repeat(&settings->arms[0], name));
    }
    if (settings->arm_count < 2)
        argp_error(state, "there is nothing to compare with the one arm %s: add --arm or --aa",
                   settings->arms[0].name);
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct settings *settings = state->input;
    keep_option(settings, key, value);
    switch (key) {
    case KEY_ARM:
        take_arm(settings, value, state);
        return 0;
    case KEY_AA:
        settings->repeats_baseline = true;
        return 0;
    case KEY_ROUNDS:
        settings->rounds = take_number(key, value, 2, ROUNDS_MAX, state);
        return 0;
    case KEY_WARMUP:
        settings->warmup = take_number(key, value, 0, ROUNDS_MAX, state);
        return 0;
    case KEY_SEED:
        settings->seed = take_number(key, value, 0, UINT32_MAX, state);
        settings->has_seed = true;
        return 0;
    case KEY_METRIC:
        take_metric(settings, value, state);
        return 0;
    case KEY_MARGIN:
        settings->margin_percent = take_percent(value, state);
        return 0;
    case KEY_TIMEOUT:
        settings->timeout_ns = settings->ready_timeout_ns = take_seconds(key, value, false, state);
        return 0;
    case KEY_LOAD:
        settings->load = value;
        return 0;
    case KEY_READY:
        settings->ready = value;
        return 0;
    case KEY_SETTLE:
        settings->settle_ns = take_seconds(key, value, true, state);
        return 0;
    case KEY_MMAP_LOCK:
        settings->traces_mmap_lock = true;
        return 0;
    case KEY_LIB:
        settings->library = value;
        return 0;
    case KEY_OUT:
        settings->out = value;
        return 0;
    case KEY_RESUME:
        settings->resumes = true;
        return 0;
    case KEY_FORMAT:
        settings->format = take_format(value, state);
        return 0;
    case ARGP_KEY_ARG:
        settings->command = &state->argv[state->next - 1];
        state->next = state->argc; /* its options are not ours */
        return 0;
    case ARGP_KEY_END:
        check_all(settings, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What stands below the options in --help. */
static char *make_doc(void)
{
    CLEANUP_FREE char *measures = measure_describe();
    return must_format(
        "Compares arms: runs COMMAND with one allocator and another in front of it, in rounds whose order is "
        "random, "
        "and says what differs and how surely.\v"
        "SPEC is one of these, or several joined by +:\n"
        "  off              no preload\n"
        "  8k:bump          pinpool with pools of 8 KiB and that policy; 8k,64k; the policy may be left out\n"
        "  idle             pinpool loaded and passing everything on (PINPOOL_OFF=1)\n"
        "  lib:LIBRARY      another allocator: a path, or a name such as libjemalloc.so.2\n"
        "  env:NAME=VALUE   a variable of the environment\n"
        "Without NAME= an arm is named as its SPEC. A run whose arm is not proved to have been active fails, "
        "and the "
        "experiment stops; --resume goes on with it.\n\n"
        "Measured besides the metrics:\n%s",
        measures);
}

void settings_parse(struct settings *settings, int argc, char **argv)
{
    CLEANUP_FREE char *doc = make_doc();
    const struct argp argp = {.options = options,
                              .parser = parse_option,
                              .args_doc = "[--] COMMAND [ARGUMENT...]\n--resume --out=DIR",
                              .doc = doc};
    *settings = (struct settings){.rounds = DEFAULT_ROUNDS,
                                  .warmup = 1,
                                  .settle_ns = 5 * NS_PER_S,
                                  .timeout_ns = 3600 * NS_PER_S,
                                  .ready_timeout_ns = 60 * NS_PER_S,
                                  .margin_percent = 1};
    const error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, settings);
    if (error)
        die("command line: %s", strerror(error));
    if (!settings->command)
        return;
    add_word(settings, must_copy_text("--"));
    for (char **word = settings->command; *word; word++)
        add_word(settings, must_copy_text(*word));
}

void settings_parse_words(struct settings *settings, char **words, size_t count)
{
    static char name[] = "pinpool ab";
    char **argv = must_allocate((count + 2) * sizeof *argv); /* the settings point into it */
    argv[0] = name;
    memcpy(&argv[1], words, count * sizeof *argv);
    settings_parse(settings, (int)count + 1, argv);
}

void settings_free(struct settings *settings)
{
    for (size_t i = 0; i < settings->arm_count; i++)
        arm_free(&settings->arms[i]);
    free(settings->arms);
    metrics_free(&settings->metrics);
    for (size_t i = 0; i < settings->word_count; i++)
        free(settings->words[i]);
    free(settings->words);
    *settings = (struct settings){.arms = NULL};
}
