/* SPDX-License-Identifier: MIT */
/*
 * run: `pinpool run [OPTION...] -- COMMAND [ARGUMENT...]`. Sets PINPOOL_* and LD_PRELOAD and becomes the
 * command.
 *
 * The options that set variables are made from the rows of options.def: a new row there needs
 * nothing here. Values are checked before the command is started, by the library's own parser; the
 * library itself would say a line and go on with its default, which a measurement may not notice.
 */
#include "cli/command.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "cli/kit/util.h"
#include "cli/system/library.h"
#include "cli/system/program.h"

enum {
    KEY_LIB = 0x100,
    KEY_NEXT,
    KEY_FORCE,
    KEY_VARIABLE, /* + enum option_id */
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127
};

struct request {
    const char *values[OPTION_COUNT]; /* NULL: the variable stays as it is */
    const char *library;
    const char *next;
    bool force;
    char **command; /* with its arguments, NULL-terminated */
};

/* ---- The options, from the rows ---- */

static const char *const option_kinds[OPTION_COUNT] = {
#define OPTION(NAME, field, kind, def, range, sentence) #kind,
#include "base/options.def"
};

static bool is_flag(int id)
{
    return strcmp(option_kinds[id], "flag") == 0 || strcmp(option_kinds[id], "stats") == 0;
}

/* PINPOOL_DECAY_MS -> decay-ms; to be freed. */
static char *option_name(int id)
{
    char *name = must_copy_text(strchr(option_rows[id].name, '_') + 1);
    for (char *letter = name; *letter; letter++)
        *letter = *letter == '_' ? '-' : (char)tolower((unsigned char)*letter);
    return name;
}

/* What stands for the value in --help: "LIST" for POOLS, else the kind. To be freed. */
static char *option_argument(int id)
{
    char *name = must_copy_text(strcmp(option_kinds[id], "pools") == 0 ? "list" : option_kinds[id]);
    for (char *letter = name; *letter; letter++)
        *letter = (char)toupper((unsigned char)*letter);
    return name;
}

static char *option_doc(int id)
{
    const struct option_row *row = &option_rows[id];
    if (row->default_text[0])
        return must_format("%s (%s; default %s)", row->sentence, row->range, row->default_text);
    return must_format("%s (%s)", row->sentence, row->range);
}

enum { FIXED_OPTIONS = 3 };

/* argp's table. It lives as long as the process, which is about to become another. */
static struct argp_option *make_options(void)
{
    static const struct argp_option fixed[FIXED_OPTIONS] = {
        {"lib", KEY_LIB, "FILE", 0,
         "Use this libpinpool.so (else $PINPOOL_LIB, else the one beside this program)", 1},
        {"next", KEY_NEXT, "LIBRARY", 0,
         "Put this allocator behind pinpool: a path, or a name such as libjemalloc.so.2", 1},
        {"force", KEY_FORCE, NULL, 0, "Start the command even if pinpool will not be loaded into it", 1},
    };
    struct argp_option *options = must_allocate((OPTION_COUNT + FIXED_OPTIONS + 1) * sizeof *options);
    for (int id = 0; id < OPTION_COUNT; id++)
        options[id] = (struct argp_option){.name = option_name(id),
                                           .key = KEY_VARIABLE + id,
                                           .arg = is_flag(id) ? "0|1" : option_argument(id),
                                           .flags = is_flag(id) ? OPTION_ARG_OPTIONAL : 0,
                                           .doc = option_doc(id)};
    memcpy(options + OPTION_COUNT, fixed, sizeof fixed);
    return options;
}

/* --pools=9k: checks the value and keeps it. */
static void take_value(struct request *request, int id, const char *value, struct argp_state *state)
{
    struct options scratch;
    struct stat file;
    memset(&scratch, 0, sizeof scratch);
    if (!value)
        value = "1"; /* a flag alone */
    CLEANUP_FREE char *name = option_name(id);
    const char *reason = options_parse(&scratch, (enum option_id)id, value);
    if (reason)
        argp_error(state, "--%s=%s: %s", name, value, reason);
    /* Where nothing can be written the library stays silent, and the files are missed much later. */
    if (strcmp(option_kinds[id], "dir") == 0) {
        if (stat(value, &file) != 0 || access(value, W_OK | X_OK) != 0)
            die("--%s=%s: %s", name, value, strerror(errno));
        if (!S_ISDIR(file.st_mode))
            die("--%s=%s: %s", name, value, strerror(ENOTDIR));
    }
    request->values[id] = value;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct request *request = state->input;
    if (key >= KEY_VARIABLE && key < KEY_VARIABLE + OPTION_COUNT) {
        take_value(request, key - KEY_VARIABLE, value, state);
        return 0;
    }
    switch (key) {
    case KEY_LIB:
        request->library = value;
        return 0;
    case KEY_NEXT:
        request->next = value;
        return 0;
    case KEY_FORCE:
        request->force = true;
        return 0;
    case ARGP_KEY_ARG:
        request->command = &state->argv[state->next - 1];
        state->next = state->argc; /* its options are not ours */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which command?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- The environment ---- */

static void set_variable(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0)
        die("%s: %s", name, strerror(errno));
}

/* Ours first, then --next, then whatever was preloaded before: never instead of it. */
static void set_preload(const char *library, const char *next)
{
    const char *before = getenv("LD_PRELOAD");
    CLEANUP_FREE char *list = must_format("%s%s%s%s%s", library, next ? ":" : "", next ? next : "",
                                          before && *before ? ":" : "", before ? before : "");
    set_variable("LD_PRELOAD", list);
}

static void refuse_if_not_loaded(const char *command, const char *library)
{
    CLEANUP_FREE char *program = program_find(command);
    if (!program)
        return; /* exec says why */
    CLEANUP_FREE char *reason = program_reason_not_to_preload(program, library);
    if (reason)
        die("%s (--force starts it all the same)", reason);
}

static _Noreturn void execute(char **command)
{
    execvp(command[0], command);
    int error = errno;
    /* A folder of PATH that may not be searched: execvp() says EACCES, though the command is nowhere. */
    if (error == EACCES && !strchr(command[0], '/') && !program_is_there(command[0]))
        error = ENOENT;
    die_with_status(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE, "%s: %s", command[0],
                    strerror(error));
}

int command_run_program(int argc, char **argv)
{
    const struct argp argp = {
        .options = make_options(),
        .parser = parse_option,
        .args_doc = "[--] COMMAND [ARGUMENT...]",
        .doc = "Starts COMMAND with pinpool in front of its allocator. The options set the PINPOOL_* "
               "variables of the "
               "same names; what is not given is taken from the environment.\v"
               "The exit status is the command's; 127 if it was not found, 126 if it could not be executed, "
               "1 if pinpool would not be loaded into it, 2 for a bad option."};
    struct request request = {{NULL}, NULL, NULL, false, NULL};
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &request);

    CLEANUP_FREE char *library = library_find(request.library);
    CLEANUP_FREE char *next = request.next ? library_find_next(request.next) : NULL;
    if (!request.force)
        refuse_if_not_loaded(request.command[0], library);
    for (int id = 0; id < OPTION_COUNT; id++)
        if (request.values[id])
            set_variable(option_rows[id].name, request.values[id]);
    set_preload(library, next);
    execute(request.command);
}
