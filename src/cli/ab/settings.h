/* SPDX-License-Identifier: MIT */
/* settings: what the command line of `pinpool ab` says, checked. */
#ifndef PINPOOL_CLI_AB_SETTINGS_H
#define PINPOOL_CLI_AB_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/ab/arm.h"
#include "cli/ab/measure.h"

enum ab_format { FORMAT_TEXT, FORMAT_MD, FORMAT_JSON, FORMAT_CSV, FORMAT_HTML };

struct settings {
    struct arm *arms; /* the first is the baseline */
    size_t arm_count;
    struct metrics metrics;
    unsigned rounds; /* measured ones */
    unsigned warmup; /* rounds before them, whose figures are dropped */
    uint64_t seed;
    bool has_seed;
    const char *ready, *load; /* NULL for a command; both for a service */
    uint64_t settle_ns;
    uint64_t timeout_ns;       /* of the command or the load */
    uint64_t ready_timeout_ns; /* of getting ready */
    double margin_percent;
    bool repeats_baseline; /* --aa */
    bool traces_mmap_lock;
    const char *library; /* --lib, or NULL */
    const char *out;     /* --out, or NULL */
    bool resumes;
    enum ab_format format;
    char **command; /* NULL-terminated; NULL if there was none */

    /* All of the above that make the experiment what it is, as words that give them again. */
    char **words;
    size_t word_count;
};

static inline bool settings_is_service(const struct settings *settings)
{
    return settings->load;
}

/*
 * Parses a command line; ends the tool when it is wrong. With --resume there may be no command.
 * argv is used as long as the settings are.
 */
void settings_parse(struct settings *settings, int argc, char **argv);

/* Parses the words that a former settings_parse() has left, to be kept as long as the settings are. */
void settings_parse_words(struct settings *settings, char **words, size_t count);

void settings_free(struct settings *settings);

#endif
