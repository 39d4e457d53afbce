/* SPDX-License-Identifier: MIT */
/*
 * main: the command table, and the words before the command. Exit status: 0 success, 1 failure,
 * 2 usage; `pinpool run` ends with that of the command it starts.
 */
#include "cli/command.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

static char tool_name[] = "pinpool";
static const char arguments[] = "COMMAND [ARGUMENT...]";

const char *argp_program_version = "pinpool " PINPOOL_VERSION;

const struct command commands[] = {
    {"run", command_run_program, "Start a program with pinpool in front of its allocator"},
    {"dump", command_dump, "Have a running process write its retention to a file"},
    {"report", command_report, "Show a dump as tables"},
    {"log", command_log, "Follow a running process's retention, one JSON line at a time"},
    {"ab", command_ab, "Compare allocators and settings on a command or a service, in random order"},
    {"help", command_help, "Help on a command, the variables or the counters"},
    {NULL, NULL, NULL},
};

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}

int command_run(const struct command *command, int argc, char **argv)
{
    argv[0] = must_format("pinpool %s", command->name); /* kept: argp's messages point at it */
    return command->run(argc, argv);
}

struct choice {
    const struct command *command;
    int argc;
    char **argv; /* the command's name and what follows it */
};

static error_t parse_word(int key, char *word, struct argp_state *state)
{
    struct choice *choice = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        choice->command = command_find(word);
        if (!choice->command)
            argp_error(state, "there is no command '%s'", word);
        choice->argv = &state->argv[state->next - 1];
        choice->argc = state->argc - (state->next - 1);
        state->next = state->argc; /* the rest is the command's to parse */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What `pinpool --help` says. A vertical tab parts what stands before and after the options. */
static char *describe_commands(void)
{
    char *text = must_copy_text("Shows how much memory a few small live allocations keep alive, and "
                                "what pools gain and cost in a program as it is.\v"
                                "Commands:\n");
    for (const struct command *command = commands; command->name; command++) {
        CLEANUP_FREE char *before = text;
        text = must_format("%s  %-8s %s\n", before, command->name, command->summary);
    }
    CLEANUP_FREE char *before = text;
    return must_format("%s\n'pinpool COMMAND --help' says more about one of them.", before);
}

void show_tool_help(void)
{
    CLEANUP_FREE char *doc = describe_commands();
    const struct argp argp = {.parser = parse_word, .args_doc = arguments, .doc = doc};
    argp_help(&argp, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, tool_name);
}

int main(int argc, char **argv)
{
    atexit(close_stdout_or_fail);
    argp_err_exit_status = EXIT_USAGE;
    if (argc > 0)
        argv[0] = tool_name;

    CLEANUP_FREE char *doc = describe_commands();
    const struct argp argp = {.parser = parse_word, .args_doc = arguments, .doc = doc};
    struct choice choice = {NULL, 0, NULL};
    const error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    if (error)
        die("command line: %s", strerror(error));
    return command_run(choice.command, choice.argc, choice.argv);
}
