/* SPDX-License-Identifier: MIT */
/*
 * dumping: see dumping.h.
 *
 * A dump is new when its number was not in the directory before the signal, and whole when it ends with an
 * `end` record that counts the lines before it. That one failed is told from the process's own count of
 * failures, where we may read it; else from the time that passes.
 */
#include "cli/dumpfile/dumping.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/request.h"
#include "cli/dumpfile/reader.h"
#include "cli/kit/util.h"
#include "cli/system/procfs.h"
#include "cli/system/stats.h"
#include "cli/system/target.h"

enum { POLL_MS = 5 };

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
    char expected[PATHS_NAME_MAX];
    if (sscanf(name, PATHS_PREFIX "%*d.%" SCNu64 ".", seq) != 1)
        return false;
    path_name_sigsafe(expected, own_pid, *seq);
    return strcmp(name, expected) == 0; /* no sign, no leading zero, nothing after it */
}

/* 0 or -errno. */
static int list_dumps(int dir_fd, pid_t own_pid, struct numbers *numbers)
{
    *numbers = (struct numbers){NULL, 0};
    const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return -errno;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        uint64_t seq;
        if (!parse_dump_name(entry->d_name, own_pid, &seq))
            continue;
        numbers->items = must_grow(numbers->items, numbers->count, sizeof *numbers->items);
        numbers->items[numbers->count++] = seq;
    }
    closedir(dir);
    return 0;
}

/* Where a wait stands. */
struct wait {
    const struct target *target;
    int signal;
    unsigned request; /* with its number */
    int dir_fd;
    const char *dir_path;
    struct numbers before;
    char *begun; /* path of a new dump that is not whole yet */
    bool has_counters;
    struct stats stats;
    uint64_t failed_before; /* dumps that the process could not write */
};

/* "1234 (redis-server): and the sentence"; takes the sentence. */
static char *about(const struct target *target, char *sentence)
{
    char *text = must_format("%d (%s): %s", (int)target->pid, target->name, sentence);
    free(sentence);
    return text;
}

/* Looks for a new and whole dump: NULL, and then *path is it or NULL; or why one cannot be read. */
static char *find_new_dump(struct wait *wait, char **path)
{
    struct numbers now;
    char *reason = NULL;
    *path = NULL;
    const int error = list_dumps(wait->dir_fd, wait->target->own_pid, &now);
    if (error)
        return must_format("%s: %s", wait->dir_path, strerror(-error));
    for (size_t i = 0; i < now.count && !*path && !reason; i++) {
        if (has_number(&wait->before, now.items[i]))
            continue;
        char name[PATHS_NAME_MAX];
        path_name_sigsafe(name, wait->target->own_pid, now.items[i]);
        char *found = must_format("%s/%s", wait->dir_path, name);
        CLEANUP_CLOSE const int fd =
            openat(wait->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 && errno == EACCES)
            reason = must_format("%s: a dump was written, but cannot be read: %s", found, strerror(errno));
        if (fd >= 0 && reader_is_whole(fd)) {
            *path = found;
        } else {
            free(wait->begun);
            wait->begun = found;
        }
    }
    free(now.items);
    return reason;
}

static char *say_timeout(const struct wait *wait)
{
    const struct target *target = wait->target;
    CLEANUP_FREE char *signal_name = target_signal_name(wait->signal);
    struct procfs_status status;
    unsigned threads = 0, blocking = 0;
    if (wait->begun)
        return about(target, must_format("timeout: the dump %s has no end yet", wait->begun));
    if (procfs_read_status(target->pid, &status) == 0 && (status.state == 'T' || status.state == 't'))
        return about(target, must_copy_text("timeout: it is stopped; the dump is written when it continues"));
    if (procfs_count_blocking(target->pid, wait->signal, &threads, &blocking) == 0 && threads &&
        threads == blocking)
        return about(target,
                     must_format("timeout: signal %s is blocked in every thread (%u); the dump is written "
                                 "when one unblocks it",
                                 signal_name, threads));
    return about(target,
                 must_format("timeout: no new dump in %s; can the process write there?", wait->dir_path));
}

static bool read_failures(const struct wait *wait, uint64_t *failed)
{
    struct stats_sample sample;
    CLEANUP_FREE char *reason = stats_read(&wait->stats, &sample);
    *failed = sample.of_heap[COUNTER_dumps_failed];
    return !reason;
}

/* It tried, and could not: the disk is full, a limit is in the way. */
static bool has_failed(const struct wait *wait)
{
    uint64_t failed;
    return wait->has_counters && read_failures(wait, &failed) && failed > wait->failed_before;
}

/* Waits till the dump is whole. */
static char *wait_for_dump(struct wait *wait, uint64_t timeout_ns, char **path)
{
    const uint64_t again_after_ns = 500000000;
    const uint64_t deadline_ns = now_monotonic_ns() + timeout_ns;
    uint64_t again_ns = now_monotonic_ns() + again_after_ns;
    for (;;) {
        /* Before the look: it may dump and end, or fail and succeed. */
        const bool has_ended = target_has_ended(wait->target), is_late = now_monotonic_ns() >= deadline_ns;
        const bool is_in_vain = has_failed(wait);
        char *reason = find_new_dump(wait, path);
        if (reason || *path)
            return reason;
        if (has_ended)
            return about(wait->target, must_copy_text("it ended before the dump was whole"));
        if (is_in_vain)
            return about(wait->target,
                         must_format("it could not write the dump to %s (a full disk, or a limit on files?)",
                                     wait->dir_path));
        if (is_late)
            return say_timeout(wait);
        /* Signals do not queue: ours was lost if one was pending already. The library knows it by its number. */
        if (!wait->begun && now_monotonic_ns() >= again_ns) {
            free(target_send_request(wait->target, wait->signal, wait->request));
            again_ns = now_monotonic_ns() + again_after_ns;
        }
        poll(NULL, 0, POLL_MS);
    }
}

static char *ask_and_wait(const struct dumping *dumping, struct wait *wait, char **path)
{
    const struct target *target = wait->target;
    const int error = list_dumps(wait->dir_fd, target->own_pid, &wait->before);
    if (error)
        return must_format("%s: cannot list it: %s", wait->dir_path, strerror(-error));
    CLEANUP_FREE char *no_counters = stats_open_process(&wait->stats, target->pid, target->label_at);
    wait->has_counters = !no_counters && read_failures(wait, &wait->failed_before);
    CLEANUP_FREE char *warning = dumping->quiet ? NULL : target_warning(target);
    if (warning)
        fprintf(stderr, "pinpool: %s\n", warning);
    /* Never 0, and another one than that of a request a moment ago. */
    wait->request = REQUEST_DUMP | (dumping->chain ? REQUEST_CHAIN : 0) |
                    (unsigned)(1 + now_monotonic_ns() / 1000 % REQUEST_NUMBER_MASK) << REQUEST_NUMBER_SHIFT;
    char *reason = target_send_request(target, wait->signal, wait->request);
    if (!reason)
        reason = wait_for_dump(wait, dumping->timeout_ns, path);
    if (!no_counters)
        stats_close(&wait->stats);
    free(wait->before.items);
    free(wait->begun);
    return reason;
}

static char *take(const struct dumping *dumping, const struct target *target, char **path)
{
    const int signal = dumping->signal >= 0 ? dumping->signal : target->signal;
    if (signal == 0)
        return about(target, must_copy_text("its dump signal is off (PINPOOL_SIGNAL); nothing was sent"));

    CLEANUP_FREE char *dir_path = NULL;
    const char *dir = dumping->dir ? dumping->dir : target->dir;
    CLEANUP_CLOSE const int dir_fd = dumping->dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                                  : target_open_dir(target, dir, &dir_path);
    if (dir_fd < 0)
        return about(target, must_format("cannot open the directory of its dumps, %s: %s", dir,
                                         strerror(dumping->dir ? errno : -dir_fd)));
    char *reason = dumping->dir ? NULL : target_reason_not_writable(target, dir_fd, dir);
    if (reason)
        return reason;
    struct wait wait = {.target = target,
                        .signal = signal,
                        .dir_fd = dir_fd,
                        .dir_path = dumping->dir ? dumping->dir : dir_path,
                        .stats = {.memory_fd = -1}};
    return ask_and_wait(dumping, &wait, path);
}

char *dumping_take(const struct dumping *dumping, char **path)
{
    struct target target;
    *path = NULL;
    char *reason = target_open(&target, dumping->pid);
    if (reason)
        return reason;
    reason = take(dumping, &target, path);
    target_close(&target);
    return reason;
}
