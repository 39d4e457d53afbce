/* SPDX-License-Identifier: MIT */
/*
 * options: the PINPOOL_* variables. They are parsed once, at start; afterwards nothing writes them.
 * The parser allocates nothing and uses no stdio, for it runs inside the first malloc of a process.
 */
#ifndef PINPOOL_BASE_OPTIONS_H
#define PINPOOL_BASE_OPTIONS_H

#include "base/base.h"

enum {
    OPTIONS_BLOCK_BYTES_MIN = 4096,
    OPTIONS_BLOCK_BYTES_MAX = 4 << 20,
    OPTIONS_DIR_MAX = 200, /* bytes, without the NUL */
    OPTIONS_TEXT_MAX = 216 /* any option printed as text, with the NUL */
};

enum policy { POLICY_REUSE, POLICY_BUMP };

enum stats_mode { STATS_NONE, STATS_SHOWN, STATS_KEEP };

struct options {
    size_t block_bytes[TIERS_MAX]; /* ascending; 0 past the last */
    unsigned pool_count;
    size_t min_bytes;
    enum policy policy;
    int signal; /* 0: off */
    bool signal_chain;
    bool dump_at_exit;
    enum stats_mode stats;
    bool off;
    bool verbose;
    uint64_t decay_ms;
    char dir[OPTIONS_DIR_MAX + 1];
};

enum option_id {
#define OPTION(NAME, field, kind, def, range, sentence) OPTION_##NAME,
#include "base/options.def"
    OPTION_COUNT
};

/* A row of the table, for whoever prints it. */
struct option_row {
    const char *name;         /* "PINPOOL_POOLS" */
    const char *default_text; /* "" when it is worked out at start */
    const char *range;
    const char *sentence;
};

extern const struct option_row option_rows[OPTION_COUNT];

/* Looks a variable up; NULL when unset. */
typedef const char *(*options_getenv)(const char *name);

/* Hears of a bad value: one whole line, without "pinpool: " and newline. */
typedef void (*options_complain)(const char *line);

/*
 * Fills *options from the environment. A bad value is told to `complain` and replaced by its
 * default, so the result is always valid. Signal-safe if the two callbacks are.
 */
void options_read(struct options *options, options_getenv lookup, options_complain complain);

/*
 * Parses one value into *options. Returns NULL, or why the value is bad ("not a power of two"), and
 * then leaves *options alone. For the tool, which checks --pools and the like before it runs anything.
 */
const char *options_parse(struct options *options, enum option_id id, const char *value);

/* "reuse". Any thread, and the handler. */
const char *options_policy_name(enum policy policy);

/* Writes an option's value in the form the parser takes. `text` has OPTIONS_TEXT_MAX bytes. */
void options_format_sigsafe(const struct options *options, enum option_id id, char *text);

/* "USR1", "10", "SIGUSR1", "RTMIN+3" -> the signal's number; 0 for "off"; -1 when it is none. */
int options_parse_signal(const char *value);

#endif
