/* SPDX-License-Identifier: MIT */
/*
 * options: see options.h. Each kind of option has a parser: it returns NULL when the value is good,
 * or the reason why it is not, and writes its field only when it is.
 */
#include "base/options.h"

#include <signal.h>
#include <string.h>

#include "base/base.h"
#include "base/out.h"

const struct option_row option_rows[OPTION_COUNT] = {
#define OPTION(NAME, field, kind, def, range, sentence) {"PINPOOL_" #NAME, def, range, sentence},
#include "base/options.def"
};

static const char *parse_u64(const char *text, const char **end, uint64_t *value)
{
    uint64_t sum = 0;

    if (*text < '0' || *text > '9')
        return "not a number";
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(sum, (uint64_t)10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum))
            return "too large";
    *end = text;
    *value = sum;
    return NULL;
}

/* Digits and perhaps k or m. */
static const char *parse_size(const char *text, const char **end, uint64_t *bytes)
{
    uint64_t value = 0;
    const char *reason = parse_u64(text, end, &value);
    unsigned shift = 0;

    if (reason)
        return reason;
    if (**end == 'k' || **end == 'K')
        shift = 10;
    else if (**end == 'm' || **end == 'M')
        shift = 20;
    if (shift != 0)
        (*end)++;
    if (value > UINT64_MAX >> shift)
        return "too large";
    *bytes = value << shift;
    return NULL;
}

static const char *parse_pools(struct options *options, const char *value)
{
    size_t block_bytes[TIERS_MAX] = {0};
    unsigned count = 0;

    for (const char *at = value;; at++) {
        uint64_t bytes = 0;
        const char *reason;

        if (count == TIERS_MAX)
            return "more than 4 sizes";
        reason = parse_size(at, &at, &bytes);
        if (reason)
            return reason;
        if (!is_power_of_two(bytes))
            return "not a power of two";
        if (bytes < OPTIONS_BLOCK_BYTES_MIN || bytes > OPTIONS_BLOCK_BYTES_MAX)
            return "not between 4k and 4m";
        if (count > 0 && bytes <= block_bytes[count - 1])
            return "not ascending";
        block_bytes[count++] = bytes;
        if (*at == '\0')
            break;
        if (*at != ',')
            return "not a list of sizes";
    }
    memcpy(options->block_bytes, block_bytes, sizeof block_bytes);
    options->pool_count = count;
    return NULL;
}

static const char *parse_bytes(size_t *field, const char *value)
{
    const char *end;
    uint64_t bytes = 0;
    const char *reason = parse_size(value, &end, &bytes);

    if (reason)
        return reason;
    if (*end != '\0')
        return "not a number";
    if (bytes < 1 || bytes > OPTIONS_BLOCK_BYTES_MAX / 2)
        return "not between 1 and 2m";
    *field = bytes;
    return NULL;
}

static const char *parse_ms(uint64_t *field, const char *value)
{
    enum { DAY_MS = 86400000 };
    const char *end;
    uint64_t ms = 0;
    const char *reason = parse_u64(value, &end, &ms);

    if (reason)
        return reason;
    if (*end != '\0')
        return "not a number";
    if (ms > DAY_MS)
        return "more than 86400000";
    *field = ms;
    return NULL;
}

static const char *parse_flag(bool *field, const char *value)
{
    if ((value[0] != '0' && value[0] != '1') || value[1] != '\0')
        return "neither 0 nor 1";
    *field = value[0] == '1';
    return NULL;
}

static const char *const policy_names[] = {[POLICY_REUSE] = "reuse", [POLICY_BUMP] = "bump"};

const char *options_policy_name(enum policy policy)
{
    return policy_names[policy];
}

static const char *parse_policy(enum policy *field, const char *value)
{
    for (unsigned policy = 0; policy < sizeof policy_names / sizeof policy_names[0]; policy++)
        if (strcmp(value, policy_names[policy]) == 0) {
            *field = (enum policy)policy;
            return NULL;
        }
    return "no such policy";
}

static const char *parse_stats(enum stats_mode *field, const char *value)
{
    bool is_on = false;

    if (strcmp(value, "keep") == 0)
        *field = STATS_KEEP;
    else if (!parse_flag(&is_on, value))
        *field = is_on ? STATS_SHOWN : STATS_NONE;
    else
        return "none of 0, 1 and keep";
    return NULL;
}

static const char *parse_dir(char *field, const char *value)
{
    if (value[0] != '/')
        return "not an absolute path";
    if (strlen(value) > OPTIONS_DIR_MAX)
        return "longer than 200 bytes";
    strcpy(field, value);
    return NULL;
}

struct signal_name {
    const char *name;
    int number;
};

/*
 * Those a dump may hang on. Not KILL and STOP, none that reports a fault of the program, and none whose
 * default the kernel itself acts upon (job control, children).
 */
static const struct signal_name signal_names[] = {
    {"HUP", SIGHUP},       {"INT", SIGINT},   {"QUIT", SIGQUIT},   {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
    {"ALRM", SIGALRM},     {"TERM", SIGTERM}, {"URG", SIGURG},     {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},
    {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", SIGPWR},
};

static bool is_usable_signal(uint64_t number)
{
    if (number >= (uint64_t)SIGRTMIN && number <= (uint64_t)SIGRTMAX)
        return true;
    for (size_t i = 0; i < sizeof signal_names / sizeof signal_names[0]; i++)
        if ((uint64_t)signal_names[i].number == number)
            return true;
    return false;
}

int options_parse_signal(const char *value)
{
    const char *end;
    uint64_t number = 0;

    if (strcmp(value, "off") == 0)
        return 0;
    if (!parse_u64(value, &end, &number))
        return *end == '\0' && is_usable_signal(number) ? (int)number : -1;
    if (strncmp(value, "SIG", 3) == 0)
        value += 3;
    if (strcmp(value, "RTMIN") == 0)
        return SIGRTMIN;
    if (strncmp(value, "RTMIN+", 6) == 0) {
        if (parse_u64(value + 6, &end, &number) || *end != '\0' || number > (uint64_t)(SIGRTMAX - SIGRTMIN))
            return -1;
        return SIGRTMIN + (int)number;
    }
    for (size_t i = 0; i < sizeof signal_names / sizeof signal_names[0]; i++)
        if (strcmp(value, signal_names[i].name) == 0)
            return signal_names[i].number;
    return -1;
}

static const char *parse_signal(int *field, const char *value)
{
    int number = options_parse_signal(value);

    if (number < 0)
        return "no usable signal";
    *field = number;
    return NULL;
}

const char *options_parse(struct options *options, enum option_id id, const char *value)
{
    switch (id) {
#define PARSE_pools(field) parse_pools(options, value)
#define PARSE_bytes(field) parse_bytes(&options->field, value)
#define PARSE_ms(field) parse_ms(&options->field, value)
#define PARSE_flag(field) parse_flag(&options->field, value)
#define PARSE_policy(field) parse_policy(&options->field, value)
#define PARSE_stats(field) parse_stats(&options->field, value)
#define PARSE_dir(field) parse_dir(options->field, value)
#define PARSE_signal(field) parse_signal(&options->field, value)
#define OPTION(NAME, field, kind, def, range, sentence)                                                      \
    case OPTION_##NAME:                                                                                      \
        return PARSE_##kind(field);
#include "base/options.def"
    case OPTION_COUNT:
        break;
    }
    return "no such option";
}

static void format_signal(struct out *out, int number)
{
    for (size_t i = 0; i < sizeof signal_names / sizeof signal_names[0]; i++)
        if (signal_names[i].number == number) {
            out_text_sigsafe(out, signal_names[i].name);
            return;
        }
    if (number == 0) {
        out_text_sigsafe(out, "off");
    } else {
        out_text_sigsafe(out, "RTMIN+");
        out_u64_sigsafe(out, (uint64_t)(number - SIGRTMIN));
    }
}

static void format_pools(struct out *out, const struct options *options)
{
    for (unsigned i = 0; i < options->pool_count; i++) {
        size_t kib = options->block_bytes[i] >> 10;

        if (i > 0)
            out_text_sigsafe(out, ",");
        out_u64_sigsafe(out, kib % 1024 == 0 ? kib / 1024 : kib);
        out_text_sigsafe(out, kib % 1024 == 0 ? "m" : "k");
    }
}

void options_format_sigsafe(const struct options *options, enum option_id id, char *text)
{
    struct out out;

    out_init_sigsafe(&out, -1, text, OPTIONS_TEXT_MAX);
    switch (id) {
#define FORMAT_pools(field) format_pools(&out, options)
#define FORMAT_bytes(field) out_u64_sigsafe(&out, options->field)
#define FORMAT_ms(field) out_u64_sigsafe(&out, options->field)
#define FORMAT_flag(field) out_text_sigsafe(&out, options->field ? "1" : "0")
#define FORMAT_policy(field) out_text_sigsafe(&out, options_policy_name(options->field))
#define FORMAT_stats(field)                                                                                  \
    out_text_sigsafe(&out, options->field == STATS_KEEP ? "keep" : options->field == STATS_SHOWN ? "1" : "0")
#define FORMAT_dir(field) out_text_sigsafe(&out, options->field)
#define FORMAT_signal(field) format_signal(&out, options->field)
#define OPTION(NAME, field, kind, def, range, sentence)                                                      \
    case OPTION_##NAME:                                                                                      \
        FORMAT_##kind(field);                                                                                \
        break;
#include "base/options.def"
    case OPTION_COUNT:
        break;
    }
    (void)out_finish_text_sigsafe(&out);
}

/* A value is shown up to this many bytes, and controls as '?': the line goes to somebody's terminal. */
enum { SHOWN_VALUE_MAX = 80 };

static void complain_about(enum option_id id, const char *value, const char *reason,
                           const struct options *options, options_complain complain)
{
    char line[512], used[OPTIONS_TEXT_MAX];
    struct out out;

    out_init_sigsafe(&out, -1, line, sizeof line);
    out_text_sigsafe(&out, option_rows[id].name);
    out_text_sigsafe(&out, "=");
    for (size_t i = 0; i < SHOWN_VALUE_MAX && value[i] != '\0'; i++) {
        char shown = (unsigned char)value[i] < 0x20 || value[i] == 0x7f ? '?' : value[i];

        out_bytes_sigsafe(&out, &shown, 1);
    }
    if (strlen(value) > SHOWN_VALUE_MAX)
        out_text_sigsafe(&out, "...");
    out_text_sigsafe(&out, ": ");
    out_text_sigsafe(&out, reason);
    out_text_sigsafe(&out, "; using ");
    options_format_sigsafe(options, id, used);
    out_text_sigsafe(&out, used);
    (void)out_finish_text_sigsafe(&out);
    complain(line);
}

/* $TMPDIR counts when it would be accepted as PINPOOL_DIR; nobody set it for us, so no complaint. */
static void default_dir(struct options *options, options_getenv lookup)
{
    const char *tmpdir = lookup("TMPDIR");

    if (!tmpdir || parse_dir(options->dir, tmpdir))
        strcpy(options->dir, "/tmp");
}

void options_read(struct options *options, options_getenv lookup, options_complain complain)
{
    memset(options, 0, sizeof *options);
    default_dir(options, lookup);
    for (enum option_id id = 0; id < OPTION_COUNT; id++) {
        const char *value = lookup(option_rows[id].name);
        const char *reason;

        if (option_rows[id].default_text[0] != '\0')
            (void)options_parse(options, id, option_rows[id].default_text);
        if (!value || value[0] == '\0') /* set to nothing: as good as unset */
            continue;
        reason = options_parse(options, id, value);
        if (reason)
            complain_about(id, value, reason, options, complain);
    }
}
