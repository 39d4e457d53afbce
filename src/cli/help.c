/* SPDX-License-Identifier: MIT */
/*
 * help: `pinpool help [COMMAND | variables | counters | records]`. The tables come from options.def, counters.def
 * and dump.def; --format writes them for the manual page and for docs/using.md, which are generated with it, so
 * that there is one copy of each sentence.
 */
#include "cli/command.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "base/options.h"
#include "cli/kit/util.h"

enum { KEY_FORMAT = 'f' };

/* A row of dump.def: a record, whose field is NULL, or a field. */
struct dump_row {
    const char *type, *field, *unit, *sentence;
};

static const struct dump_row dump_rows[] = {
#define RECORD(name, type, sentence) {type, NULL, "", sentence},
#define NUMBER(record, name, presence, max, unit, sentence) {"", #name, unit, sentence},
#define ADDRESS(record, name, sentence) {"", #name, "hex", sentence},
#define TEXT(record, name, sentence) {"", #name, "text", sentence},
#include "base/dump.def"
};

/* How the tables are written. `kept_by` says whether a counter is one of a heap or of a tier in it. */
struct format {
    const char *name;
    const char *head_of_variables, *head_of_counters, *head_of_records;
    void (*print_variable)(const struct option_row *row);
    void (*print_counter)(const struct counter_row *row, const char *kept_by);
    void (*print_dump)(const struct dump_row *row);
};

/* ---- Text ---- */

static const char *default_of(const struct option_row *row)
{
    return row->default_text[0] ? row->default_text : "see below";
}

static void print_text_variable(const struct option_row *row)
{
    printf("%s (default %s)\n    %s\n    Values: %s.\n", row->name, default_of(row), row->sentence,
           row->range);
}

static void print_text_counter(const struct counter_row *row, const char *kept_by)
{
    printf("%s (%s, by %s)\n    %s\n", row->name, row->unit, kept_by, row->sentence);
}

static void print_text_dump(const struct dump_row *row)
{
    if (row->field)
        printf("    %s%s%s%s\n        %s\n", row->field, row->unit[0] ? " (" : "", row->unit,
               row->unit[0] ? ")" : "", row->sentence);
    else
        printf("%s\n    %s\n", row->type, row->sentence);
}

/* ---- roff ---- */

/* A backslash, a leading dot or quote and a dash are not themselves in roff. */
static void print_roff(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
}

static void print_roff_variable(const struct option_row *row)
{
    fputs(".TP\n.B ", stdout);
    print_roff(row->name);
    putchar('\n');
    print_roff(row->sentence);
    fputs("\n.br\nValues: ", stdout);
    print_roff(row->range);
    if (row->default_text[0]) {
        fputs("; default ", stdout);
        print_roff(row->default_text);
    }
    fputs(".\n", stdout);
}

static void print_roff_counter(const struct counter_row *row, const char *kept_by)
{
    fputs(".TP\n.BR ", stdout);
    print_roff(row->name);
    printf(" \" (%s, by %s)\"\n", row->unit, kept_by);
    print_roff(row->sentence);
    putchar('\n');
}

static void print_roff_dump(const struct dump_row *row)
{
    if (row->field && row->unit[0])
        printf(".TP\n.BR \\ \\ %s \" (%s)\"\n", row->field, row->unit);
    else
        printf(".TP\n.B %s%s\n", row->field ? "\\ \\ " : "", row->field ? row->field : row->type);
    print_roff(row->sentence);
    putchar('\n');
}

/* ---- Markdown ---- */

/* A bar would end the cell. */
static void print_markdown(const char *text)
{
    for (; *text; text++)
        if (*text == '|')
            fputs("\\|", stdout);
        else
            putchar(*text);
}

static void print_markdown_variable(const struct option_row *row)
{
    printf("| `%s` | %s%s%s | ", row->name, row->default_text[0] ? "`" : "", row->default_text,
           row->default_text[0] ? "`" : "");
    print_markdown(row->range);
    fputs(" | ", stdout);
    print_markdown(row->sentence);
    fputs(" |\n", stdout);
}

static void print_markdown_counter(const struct counter_row *row, const char *kept_by)
{
    printf("| `%s` | %s | %s | ", row->name, row->unit, kept_by);
    print_markdown(row->sentence);
    fputs(" |\n", stdout);
}

static void print_markdown_dump(const struct dump_row *row)
{
    if (row->field)
        printf("| | `%s` | %s | ", row->field, row->unit);
    else
        printf("| `%s` | | | ", row->type);
    print_markdown(row->sentence);
    fputs(" |\n", stdout);
}

static const struct format formats[] = {
    {"text", "", "", "", print_text_variable, print_text_counter, print_text_dump},
    {"roff", "", "", "", print_roff_variable, print_roff_counter, print_roff_dump},
    {"markdown", "| variable | default | values | meaning |\n|---|---|---|---|\n",
     "| counter | unit | kept by | meaning |\n|---|---|---|---|\n",
     "| record | field | unit | meaning |\n|---|---|---|---|\n", print_markdown_variable,
     print_markdown_counter, print_markdown_dump},
};

/* ---- The topics ---- */

static int print_variables(const struct format *format)
{
    fputs(format->head_of_variables, stdout);
    for (int id = 0; id < OPTION_COUNT; id++)
        format->print_variable(&option_rows[id]);
    return EXIT_SUCCESS;
}

static int print_counters(const struct format *format)
{
    fputs(format->head_of_counters, stdout);
    for (int id = 0; id < COUNTER_COUNT; id++)
        format->print_counter(&counter_rows[id], "heap");
    for (int id = 0; id < TIER_COUNTER_COUNT; id++)
        format->print_counter(&tier_counter_rows[id], "heap and tier");
    return EXIT_SUCCESS;
}

static int print_records(const struct format *format)
{
    fputs(format->head_of_records, stdout);
    for (size_t i = 0; i < sizeof dump_rows / sizeof dump_rows[0]; i++)
        format->print_dump(&dump_rows[i]);
    return EXIT_SUCCESS;
}

static const struct {
    const char *name;
    int (*print)(const struct format *format);
} topics[] = {{"variables", print_variables}, {"counters", print_counters}, {"records", print_records}};

struct request {
    const struct format *format;
    const char *topic; /* NULL: the tool itself */
};

static const struct format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct request *request = state->input;
    switch (key) {
    case KEY_FORMAT:
        request->format = find_format(value);
        if (!request->format)
            argp_error(state, "--format=%s: neither text, roff nor markdown", value);
        return 0;
    case ARGP_KEY_ARG:
        if (request->topic)
            argp_error(state, "one topic at a time");
        request->topic = value;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int show_help_of(const struct command *command)
{
    char name[] = "", help[] = "--help";
    char *argv[] = {name, help, NULL};
    return command_run(command, 2, argv);
}

int command_help(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"format", KEY_FORMAT, "FORMAT", 0, "Write a table as text, roff or markdown", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "COMMAND\nvariables\ncounters\nrecords",
        .doc =
            "Shows the help of a command, or what the PINPOOL_* variables, the counters or the records and "
            "fields of a dump mean."};
    struct request request = {&formats[0], NULL};
    argp_parse(&argp, argc, argv, 0, NULL, &request);
    if (!request.topic) {
        show_tool_help();
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        if (strcmp(topics[i].name, request.topic) == 0)
            return topics[i].print(request.format);
    const struct command *command = command_find(request.topic);
    if (command)
        return show_help_of(command);
    warn_user("help: there is no command or topic '%s'", request.topic);
    return EXIT_USAGE;
}
