/* SPDX-License-Identifier: MIT */
/*
 * dump: `pinpool dump PID`. Sends a process its dump signal and waits for the file that it then
 * writes. The signal kills a process that does not expect it, so everything is checked first.
 *
 * A dump is new when its number was not in the directory before the signal, and whole when it ends
 * with an `end` record that counts the lines before it.
 */
#include "cli/command.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "cli/procfs.h"
#include "cli/reader.h"
#include "cli/target.h"
#include "cli/util.h"

enum { DEFAULT_TIMEOUT_S = 10, POLL_MS = 5, KEY_TIMEOUT = 't', KEY_DIR = 'd', KEY_SIGNAL = 's' };

static const uint64_t ns_per_s = 1000000000;

struct request {
    pid_t pid;
    uint64_t timeout_ns;
    const char *dir; /* as we see it; NULL: where the process says */
    int signal;      /* -1: the one the process says */
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct request *request = state->input;
    switch (key) {
    case KEY_TIMEOUT:
        if (!parse_seconds(value, &request->timeout_ns))
            argp_error(state, "--timeout=%s: not a number of seconds above 0", value);
        return 0;
    case KEY_DIR:
        request->dir = value;
        return 0;
    case KEY_SIGNAL:
        request->signal = options_parse_signal(value);
        if (request->signal <= 0)
            argp_error(state, "--signal=%s: no usable signal", value);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "one process at a time");
        if (!parse_pid(value, &request->pid))
            argp_error(state, "%s: not a process id", value);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which process?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The numbers <seq> of the files pinpool.<pid>.<seq>.jsonl in a directory. */
struct numbers {
    uint64_t *items;
    size_t count;
};

static bool has_number(const struct numbers *numbers, uint64_t number)
{
    for (size_t i = 0; i < numbers->count; i++)
        if (numbers->items[i] == number)
            return true;
    return false;
}

static bool parse_dump_name(const char *name, pid_t own_pid, uint64_t *seq)
{
    char expected[64];
    const char *dot = strrchr(name, '.');
    const int prefix = snprintf(expected, sizeof expected, "pinpool.%d.", (int)own_pid);
    if (!dot || strncmp(name, expected, (size_t)prefix) != 0 || sscanf(name + prefix, "%" SCNu64, seq) != 1)
        return false;
    snprintf(expected, sizeof expected, "pinpool.%d.%" PRIu64 ".jsonl", (int)own_pid, *seq);
    return strcmp(name, expected) == 0; /* no sign, no leading zero, nothing after it */
}

static struct numbers list_dumps(int dir_fd, pid_t own_pid)
{
    struct numbers numbers = {NULL, 0};
    const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        die("cannot list its directory: %s", strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        uint64_t seq;
        if (!parse_dump_name(entry->d_name, own_pid, &seq))
            continue;
        numbers.items = must_grow(numbers.items, numbers.count, sizeof *numbers.items);
        numbers.items[numbers.count++] = seq;
    }
    closedir(dir);
    return numbers;
}

/* Where a wait stands. */
struct wait {
    const struct target *target;
    int dir_fd;
    const char *dir_path;
    struct numbers before;
    char *begun; /* path of a new dump that is not whole yet */
};

/* The path of a new and whole dump, to be freed, or NULL. */
static char *find_new_dump(struct wait *wait)
{
    const struct numbers now = list_dumps(wait->dir_fd, wait->target->own_pid);
    char *found = NULL;
    for (size_t i = 0; i < now.count && !found; i++) {
        if (has_number(&wait->before, now.items[i]))
            continue;
        CLEANUP_FREE char *name =
            must_format("pinpool.%d.%" PRIu64 ".jsonl", (int)wait->target->own_pid, now.items[i]);
        char *path = must_format("%s/%s", wait->dir_path, name);
        CLEANUP_CLOSE const int fd =
            openat(wait->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == EACCES)
            die("%s: a dump was written, but cannot be read: %s", path, strerror(errno));
        if (fd >= 0 && reader_is_whole(fd)) {
            found = path;
        } else {
            free(wait->begun);
            wait->begun = path;
        }
    }
    free(now.items);
    return found;
}

static _Noreturn void die_of_timeout(const struct wait *wait, int signal)
{
    const struct target *target = wait->target;
    CLEANUP_FREE char *signal_name = target_signal_name(signal);
    struct procfs_status status;
    unsigned threads = 0, blocking = 0;
    if (wait->begun)
        die("%d (%s): timeout: the dump %s has no end yet", (int)target->pid, target->name, wait->begun);
    if (procfs_read_status(target->pid, &status) == 0 && (status.state == 'T' || status.state == 't'))
        die("%d (%s): timeout: it is stopped; the dump is written when it continues", (int)target->pid,
            target->name);
    if (procfs_count_blocking(target->pid, signal, &threads, &blocking) == 0 && threads &&
        threads == blocking)
        die("%d (%s): timeout: signal %s is blocked in every thread (%u); the dump is written when one "
            "unblocks it",
            (int)target->pid, target->name, signal_name, threads);
    die("%d (%s): timeout: no new dump in %s; can the process write there?", (int)target->pid, target->name,
        wait->dir_path);
}

/* Waits till the dump is whole; returns its path. */
static char *wait_for_dump(struct wait *wait, int signal, uint64_t timeout_ns)
{
    const uint64_t deadline_ns = now_monotonic_ns() + timeout_ns;
    for (;;) {
        const bool has_ended = target_has_ended(wait->target); /* before the look: it may dump and end */
        const bool is_late = now_monotonic_ns() >= deadline_ns;
        char *path = find_new_dump(wait);
        if (path)
            return path;
        if (has_ended)
            die("%d (%s): it ended before the dump was whole", (int)wait->target->pid, wait->target->name);
        if (is_late)
            die_of_timeout(wait, signal);
        poll(NULL, 0, POLL_MS);
    }
}

static void dump_process(const struct request *request)
{
    struct target target;
    CLEANUP_FREE char *no_target = target_open(&target, request->pid);
    if (no_target)
        die("%s", no_target);
    const int signal = request->signal >= 0 ? request->signal : target.signal;
    if (signal == 0)
        die("%d (%s): its dump signal is off (PINPOOL_SIGNAL); nothing was sent", (int)target.pid,
            target.name);

    CLEANUP_FREE char *dir_path = NULL;
    const char *dir = request->dir ? request->dir : target.dir;
    CLEANUP_CLOSE const int dir_fd = request->dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                                  : target_open_dir(&target, dir, &dir_path);
    if (dir_fd < 0)
        die("%d (%s): cannot open the directory of its dumps, %s: %s", (int)target.pid, target.name, dir,
            strerror(request->dir ? errno : -dir_fd));

    struct wait wait = {.target = &target,
                        .dir_fd = dir_fd,
                        .dir_path = request->dir ? request->dir : dir_path,
                        .before = list_dumps(dir_fd, target.own_pid)};
    CLEANUP_FREE char *not_sent = target_send_signal(&target, signal);
    if (not_sent)
        die("%s", not_sent);
    CLEANUP_FREE char *path = wait_for_dump(&wait, signal, request->timeout_ns);
    printf("%s\n", path);
    free(wait.before.items);
    free(wait.begun);
    target_close(&target);
}

int command_dump(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"timeout", KEY_TIMEOUT, "SECONDS", 0, "Wait this long for the dump (10)", 0},
        {"dir", KEY_DIR, "DIR", 0, "Look for the dump here, not where the process says that it writes", 0},
        {"signal", KEY_SIGNAL, "SIGNAL", 0, "Send this, not what the process says that it dumps on", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "PID",
        .doc = "Has a process that runs with pinpool write a dump, and prints the dump's path.\v"
               "Nothing is sent to a process that pinpool is not loaded into, or that does not catch the "
               "signal."};
    struct request request = {.timeout_ns = DEFAULT_TIMEOUT_S * ns_per_s, .signal = -1};
    argp_parse(&argp, argc, argv, 0, NULL, &request);
    dump_process(&request);
    return EXIT_SUCCESS;
}
