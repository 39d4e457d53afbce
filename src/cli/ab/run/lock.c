/* SPDX-License-Identifier: MIT */
/* lock: see lock.h. */
#include "cli/ab/run/lock.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/files.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"

static const uint64_t check_timeout_ns = 30 * NS_PER_S;

/*
 * The script beside this program's build folder, or where it is installed; PINPOOL_MMAP_LOCK says otherwise.
 */
static char *find_script(void)
{
    static const char *const places[] = {"../scripts", "../share/pinpool/scripts"};
    const char *given = getenv("PINPOOL_MMAP_LOCK");
    if (given && *given)
        return must_copy_text(given);
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return NULL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        CLEANUP_FREE char *path = must_format("%s/%s/mmap-lock", program, places[i]);
        char *resolved = access(path, X_OK) == 0 ? realpath(path, NULL) : NULL;
        if (resolved)
            return resolved;
    }
    return NULL;
}

void lock_prepare(struct experiment *experiment)
{
    static char option[] = "--check";
    char *script = find_script();
    if (!script) {
        experiment->lock_note = must_copy_text("scripts/mmap-lock is not beside this program");
        return;
    }
    CLEANUP_FREE char *output = must_format("%s/mmap-lock-check", experiment->scratch);
    char *const argv[] = {script, option, NULL};
    const struct process_spec spec = {
        .argv = argv, .envp = experiment->base.variables, .output_path = output};
    CLEANUP_FREE char *reason = process_run(&spec, check_timeout_ns);
    CLEANUP_FREE char *tail = files_read_tail(output);
    unlink(output);
    if (!reason) {
        experiment->mmap_lock = script;
        return;
    }
    experiment->lock_note = must_copy_text(*tail ? tail : reason);
    free(script);
}

/* SCRIPT --json FILE --quiet --syscalls -- /usr/bin/env NAME=VALUE... COMMAND... */
char **lock_wrap(const struct experiment *experiment, const struct environment *environment,
                 const char *figures)
{
    const char *const head[] = {experiment->mmap_lock, "--json", figures, "--quiet",
                                "--syscalls",          "--",     "env"};
    const size_t head_count = sizeof head / sizeof head[0];
    size_t command_count = 0;
    while (experiment->settings.command[command_count])
        command_count++;
    char **argv = must_allocate((head_count + environment->count + command_count + 1) * sizeof *argv);
    size_t count = 0;
    for (size_t i = 0; i < head_count; i++)
        argv[count++] = must_copy_text(head[i]);
    for (size_t i = 0; i < environment->count; i++) {
        const char *entry = environment->variables[i];
        CLEANUP_FREE char *name = must_format("%.*s", (int)strcspn(entry, "="), entry);
        const char *before = environment_get(&experiment->base, name);
        if (!before || strcmp(before, entry + strlen(name) + 1) != 0)
            argv[count++] = must_copy_text(entry);
    }
    for (size_t i = 0; i < command_count; i++)
        argv[count++] = must_copy_text(experiment->settings.command[i]);
    return argv;
}

void lock_free_wrap(char **argv)
{
    for (char **word = argv; *word; word++)
        free(*word);
    free(argv);
}

static bool find_number(struct json_object *json, const char *part, const char *name, double *number)
{
    struct json_object *inner, *value;
    if (!json_object_object_get_ex(json, part, &inner) || !json_object_object_get_ex(inner, name, &value))
        return false;
    *number = json_object_get_double(value);
    return true;
}

char *lock_read(const char *figures, double *values)
{
    static const struct {
        const char *part, *name;
        enum measure_id measure;
        double factor;
        bool is_needed; /* a system call that was never made may be missing */
    } fields[] = {
        {"write", "acquired", MEASURE_lock_write_acquisitions, 1, true},
        {"write", "waited", MEASURE_lock_write_waits, 1, true},
        {"write", "total_ns", MEASURE_lock_write_wait_s, 1e-9, true},
        {"write", "p99_ns", MEASURE_lock_write_p99_s, 1e-9, true},
        {"read", "acquired", MEASURE_lock_read_acquisitions, 1, true},
        {"read", "waited", MEASURE_lock_read_waits, 1, true},
        {"read", "total_ns", MEASURE_lock_read_wait_s, 1e-9, true},
        {"read", "p99_ns", MEASURE_lock_read_p99_s, 1e-9, true},
        {"syscalls", "mmap", MEASURE_calls_mmap, 1, false},
        {"syscalls", "munmap", MEASURE_calls_munmap, 1, false},
        {"syscalls", "madvise", MEASURE_calls_madvise, 1, false},
        {"syscalls", "brk", MEASURE_calls_brk, 1, false},
        {"syscalls", "mprotect", MEASURE_calls_mprotect, 1, false},
    };
    struct json_object *json = json_object_from_file(figures);
    if (!json)
        return must_format("%s: the tracer wrote no figures", figures);
    char *reason = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && !reason; i++) {
        double number = 0;
        if (!find_number(json, fields[i].part, fields[i].name, &number) && fields[i].is_needed)
            reason = must_format("%s: has no %s.%s", figures, fields[i].part, fields[i].name);
        values[fields[i].measure] = number * fields[i].factor;
    }
    json_object_put(json);
    return reason;
}
