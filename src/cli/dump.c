/* SPDX-License-Identifier: MIT */
/* dump: `pinpool dump PID`. Has a process write a dump, and prints its path. */
#include "cli/command.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "cli/dumpfile/dumping.h"
#include "cli/kit/util.h"

enum { DEFAULT_TIMEOUT_S = 10, KEY_TIMEOUT = 't', KEY_DIR = 'd', KEY_SIGNAL = 's', KEY_CHAIN = 0x100 };

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct dumping *dumping = state->input;
    switch (key) {
    case KEY_TIMEOUT:
        if (!parse_seconds(value, &dumping->timeout_ns))
            argp_error(state, "--timeout=%s: not a number of seconds above 0", value);
        return 0;
    case KEY_DIR:
        dumping->dir = value;
        return 0;
    case KEY_SIGNAL:
        dumping->signal = options_parse_signal(value);
        if (dumping->signal <= 0)
            argp_error(state, "--signal=%s: no usable signal", value);
        return 0;
    case KEY_CHAIN:
        dumping->chain = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "one process at a time");
        if (!parse_pid(value, &dumping->pid))
            argp_error(state, "%s: not a process id", value);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which process?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_dump(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "Wait this long for the dump (10)", 0},
        {"dir", KEY_DIR, "DIR", 0, "Look for the dump here, not where the process says that it writes", 0},
        {"signal", KEY_SIGNAL, "SIGNAL", 0, "Send this, not what the process says that it dumps on", 0},
        {"chain", KEY_CHAIN, NULL, 0, "Let the program's own handler for the signal run, too, after the dump",
         0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "PID",
        .doc =
            "Has a process that runs with pinpool write a dump, and prints the dump's path.\v"
            "Nothing is sent to a process that pinpool is not loaded into, that does not catch the signal, "
            "or that cannot write to its directory. The program's own handler for the signal does not run."};
    struct dumping dumping = {.timeout_ns = DEFAULT_TIMEOUT_S * NS_PER_S, .signal = -1};
    char *path;
    argp_parse(&argp, argc, argv, 0, NULL, &dumping);
    CLEANUP_FREE char *reason = dumping_take(&dumping, &path);
    if (reason)
        die("%s", reason);
    printf("%s\n", path);
    free(path);
    return EXIT_SUCCESS;
}
