/* SPDX-License-Identifier: MIT */
/* report: `pinpool report FILE...`. */
#include "cli/dumpfile/show.h"

#include <argp.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/kit/util.h"

enum { DEFAULT_BLOCKS = 10, DEFAULT_THREADS = 10, KEY_JSON = 'j', KEY_BLOCKS = 'b', KEY_ALL = 'a' };

struct request {
    struct report_limits limits;
    bool json;
    char **paths;
    int path_count;
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct request *request = state->input;
    uint64_t blocks;
    switch (key) {
    case KEY_JSON:
        request->json = true;
        return 0;
    case KEY_BLOCKS:
        if (!parse_count(value, SIZE_MAX, &blocks))
            argp_error(state, "--blocks=%s: not a number", value);
        request->limits.blocks = blocks;
        return 0;
    case KEY_ALL:
        request->limits = (struct report_limits){SIZE_MAX, SIZE_MAX, true};
        return 0;
    case ARGP_KEY_ARGS:
        request->paths = &state->argv[state->next];
        request->path_count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which dump?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* False when the file could not be read to its end. */
static bool report_file(const struct request *request, const char *path)
{
    struct dump_file file;
    CLEANUP_FREE char *reason = reader_load(&file, path);
    if (reason) {
        warn_user("%s", reason);
        return false;
    }
    const bool is_whole = !file.damage;
    if (!is_whole)
        warn_user("%s: %s; here is what is left of it", path, file.damage);
    if (request->json)
        report_print_json(&file);
    else
        report_print_text(&file, &request->limits);
    reader_free(&file);
    return is_whole;
}

int command_report(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", KEY_JSON, NULL, 0, "One JSON object a file, with exact bytes", 0},
        {"blocks", KEY_BLOCKS, "N", 0, "Show the N blocks that strand most (10)", 0},
        {"all", KEY_ALL, NULL, 0, "Show every block, thread and counter", 0},
        {0},
    };
    static const struct argp argp = {.options = options,
                                     .parser = parse_option,
                                     .args_doc = "FILE...",
                                     .doc = "Shows dumps as tables. FILE may be - for standard input."};
    struct request request = {.limits = {DEFAULT_BLOCKS, DEFAULT_THREADS, false}};
    argp_parse(&argp, argc, argv, 0, NULL, &request);
    int status = EXIT_SUCCESS;
    for (int i = 0; i < request.path_count; i++) {
        if (i > 0 && !request.json)
            printf("\n");
        if (!report_file(&request, request.paths[i]))
            status = EXIT_FAILURE;
    }
    return status;
}
