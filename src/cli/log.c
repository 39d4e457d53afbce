/* SPDX-License-Identifier: MIT */
/*
 * log: `pinpool log PID` and `pinpool log --file FILE`. Reads a process's counters where they are kept, in
 * its memory, so the process does nothing for it and does not notice; of an ended one, the file that it left.
 *
 * It ends when the process does, after --count lines, or on SIGINT and SIGTERM, each with status 0.
 */
#include "cli/command.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/kit/json.h"
#include "cli/kit/util.h"
#include "cli/system/procfs.h"
#include "cli/system/stats.h"
#include "cli/system/target.h"

enum { KEY_INTERVAL = 'i', KEY_COUNT = 'n', KEY_FILE = 'f', KEY_NO_PSS = 0x100 };

struct request {
    pid_t pid; /* 0: none was given */
    const char *path;
    uint64_t interval_ns;
    uint64_t count; /* 0: no end */
    bool want_pss;
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct request *request = state->input;
    switch (key) {
    case KEY_INTERVAL:
        if (!parse_seconds(value, &request->interval_ns))
            argp_error(state, "--interval=%s: not a number of seconds above 0", value);
        return 0;
    case KEY_COUNT:
        if (!parse_count(value, UINT64_MAX, &request->count) || request->count == 0)
            argp_error(state, "--count=%s: not a number above 0", value);
        return 0;
    case KEY_FILE:
        request->path = value;
        return 0;
    case KEY_NO_PSS:
        request->want_pss = false;
        return 0;
    case ARGP_KEY_ARG:
        if (request->pid)
            argp_error(state, "one process at a time");
        if (!parse_pid(value, &request->pid))
            argp_error(state, "%s: not a process id", value);
        return 0;
    case ARGP_KEY_END:
        if (!request->pid == !request->path)
            argp_error(state, "which process? Give its id, or --file and its stats file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- One line ---- */

static double per_second(uint64_t now, uint64_t before, uint64_t elapsed_ns)
{
    return elapsed_ns && now > before ? (double)(now - before) * (double)NS_PER_S / (double)elapsed_ns : 0;
}

/* `before` is NULL in the first line, which knows no rates. */
static void add_gauge(struct json_object *json, const struct stats_gauge *gauge,
                      const struct stats_gauge *before, uint64_t elapsed_ns)
{
    json_add_u64(json, "current_blocks", gauge->current_blocks);
    json_add_u64(json, "pinned_blocks", gauge->pinned_blocks);
    json_add_u64(json, "empty_blocks", gauge->empty_blocks);
    json_add_u64(json, "live_slices", gauge->live_slices);
    json_add_u64(json, "live_bytes", gauge->live_bytes);
    json_add_u64(json, "held_bytes", gauge->held_bytes);
    json_add_u64(json, "stranded_low_bytes", gauge->stranded_low_bytes);
    json_add_u64(json, "stranded_high_bytes", gauge->stranded_high_bytes);
    json_add_ratio(json, "retention_ratio", gauge->held_bytes, gauge->live_bytes);
    if (!before)
        return;
    json_add_double(json, "opened_per_s",
                    per_second(gauge->opened_blocks, before->opened_blocks, elapsed_ns));
    json_add_double(json, "emptied_per_s",
                    per_second(gauge->emptied_blocks, before->emptied_blocks, elapsed_ns));
    json_add_double(json, "released_per_s",
                    per_second(gauge->released_blocks, before->released_blocks, elapsed_ns));
}

static void add_tiers(struct json_object *json, const struct stats *stats, const struct stats_sample *now,
                      const struct stats_sample *before)
{
    struct json_object *tiers = json_object_new_array();
    struct stats_gauge sum = {0}, sum_before = {0};
    const uint64_t elapsed_ns = before ? now->monotonic_ns - before->monotonic_ns : 0;
    for (unsigned i = 0; i < stats_tier_count(stats); i++) {
        const struct stats_gauge gauge = stats_gauge_of_tier(stats, now, i);
        struct stats_gauge gauge_before = {0};
        if (before)
            gauge_before = stats_gauge_of_tier(stats, before, i);
        struct json_object *tier = json_object_new_object();
        json_add_u64(tier, "block_bytes", stats->label.block_bytes[i]);
        add_gauge(tier, &gauge, before ? &gauge_before : NULL, elapsed_ns);
        json_object_array_add(tiers, tier);
        stats_add_gauge(&sum, &gauge);
        stats_add_gauge(&sum_before, &gauge_before);
    }
    add_gauge(json, &sum, before ? &sum_before : NULL, elapsed_ns);
    json_object_object_add(json, "tiers", tiers);
}

/* null for a process that has ended. */
static void add_memory(struct json_object *json, pid_t pid, bool want_pss)
{
    struct procfs_memory memory = {0, 0, false};
    const bool is_known = pid && procfs_read_memory(pid, want_pss, &memory) == 0 && memory.rss_bytes;
    json_object_object_add(json, "rss_bytes", is_known ? json_object_new_uint64(memory.rss_bytes) : NULL);
    json_object_object_add(json, "pss_bytes",
                           is_known && memory.has_pss ? json_object_new_uint64(memory.pss_bytes) : NULL);
}

static void add_counters(struct json_object *json, const struct stats_sample *sample)
{
    struct json_object *counters = json_object_new_object();
    for (size_t i = 0; i < COUNTER_COUNT; i++)
        json_add_u64(counters, counter_rows[i].name, sample->of_heap[i]);
    json_object_object_add(json, "counters", counters);
}

/* A process that is watched. */
struct watch {
    struct stats stats;
    pid_t pid; /* as we see it; 0 when it has ended */
    int pidfd; /* -1 then */
    bool want_pss;
};

static void print_sample(const struct watch *watch, const struct stats_sample *now,
                         const struct stats_sample *before)
{
    const struct label *label = &watch->stats.label;
    struct json_object *json = json_object_new_object();
    json_add_u64(json, "time_unix_ns", now->unix_ns);
    json_add_u64(json, "uptime_ns",
                 now->unix_ns > label->start_unix_ns ? now->unix_ns - label->start_unix_ns : 0);
    json_object_object_add(json, "pid", json_object_new_int(watch->pid ? watch->pid : watch->stats.file.pid));
    json_object_object_add(json, "active", json_object_new_boolean(label->active != 0));
    add_tiers(json, &watch->stats, now, before);
    add_memory(json, watch->pid, watch->want_pss);
    json_add_u64(json, "heaps", now->heaps);
    json_add_u64(json, "reserved_bytes", now->reserved_bytes);
    json_add_u64(json, "metadata_bytes", now->metadata_bytes);
    add_counters(json, now);
    json_print_line(json);
    json_object_put(json);
}

/* ---- One line after the other ---- */

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal)
{
    (void)signal;
    stop_requested = 1;
}

/* From here on SIGINT and SIGTERM arrive only inside ppoll(), which takes the returned mask. */
static sigset_t catch_signals(void)
{
    sigset_t stopping, before;
    const struct sigaction stop = {.sa_handler = request_stop};
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGINT);
    sigaddset(&stopping, SIGTERM);
    sigprocmask(SIG_BLOCK, &stopping, &before);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigdelset(&before, SIGINT);
    sigdelset(&before, SIGTERM);
    return before;
}

/* False when it is over: the process has ended or we were asked to stop. */
static bool wait_until(uint64_t deadline_ns, int pidfd, const sigset_t *mask)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN}; /* -1 is skipped by poll */
    for (;;) {
        const uint64_t now_ns = now_monotonic_ns();
        const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        const struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                                      .tv_nsec = (long)(left_ns % NS_PER_S)};
        const int ready = ppoll(&end, 1, &left, mask);
        if (stop_requested || ready > 0)
            return false;
        if (ready == 0 && now_monotonic_ns() >= deadline_ns)
            return true;
        if (ready < 0 && errno != EINTR)
            die("ppoll: %s", strerror(errno));
    }
}

/* Its memory goes a moment before the process does. */
static bool has_ended(const struct watch *watch)
{
    enum { MOMENT_MS = 1000 };
    struct pollfd end = {.fd = watch->pidfd, .events = POLLIN};
    return watch->pidfd >= 0 && poll(&end, 1, MOMENT_MS) > 0;
}

static void follow(const struct watch *watch, const struct request *request, const char *what)
{
    const sigset_t mask = catch_signals();
    const uint64_t start_ns = now_monotonic_ns();
    struct stats_sample samples[2];
    for (uint64_t line = 0;; line++) {
        struct stats_sample *now = &samples[line % 2];
        CLEANUP_FREE char *reason = stats_read(&watch->stats, now);
        if (reason && has_ended(watch))
            return;
        if (reason)
            die("%s: %s", what, reason);
        print_sample(watch, now, line ? &samples[(line + 1) % 2] : NULL);
        if (!watch->pid || line + 1 == request->count)
            return;
        /* On multiples of the interval: lines do not drift, and after a stop we do not catch up. */
        const uint64_t intervals = (now_monotonic_ns() - start_ns) / request->interval_ns;
        if (!wait_until(start_ns + (intervals + 1) * request->interval_ns, watch->pidfd, &mask))
            return;
    }
}

/* ---- Finding the counters ---- */

static void log_process(const struct request *request)
{
    struct target target;
    CLEANUP_FREE char *reason = target_open(&target, request->pid);
    if (reason)
        die("%s", reason);
    struct watch watch = {.pid = target.pid, .pidfd = target.pidfd, .want_pss = request->want_pss};
    CLEANUP_FREE char *what = must_format("%d (%s)", (int)target.pid, target.name);
    CLEANUP_FREE char *unusable = stats_open_process(&watch.stats, target.pid, target.label_at);
    if (unusable)
        die("%s: %s", what, unusable);
    follow(&watch, request, what);
    stats_close(&watch.stats);
    target_close(&target);
}

/* The process of a stats file, if it lives, is one of ours, and started when the file says. */
static bool open_owner(struct watch *watch, struct target *owner)
{
    const struct statsfile *file = &watch->stats.file;
    struct stats stats;
    if (file->pid <= 0)
        return false;
    CLEANUP_FREE char *no_target = target_open(owner, file->pid);
    if (no_target)
        return false;
    CLEANUP_FREE char *unusable = stats_open_process(&stats, owner->pid, owner->label_at);
    if (!unusable && stats.label.start_unix_ns == file->label.start_unix_ns) {
        stats.file = *file;
        watch->stats = stats;
        return true;
    }
    if (!unusable)
        stats_close(&stats);
    target_close(owner);
    return false;
}

static void log_file(const struct request *request)
{
    struct watch watch = {.pid = 0, .pidfd = -1, .want_pss = request->want_pss};
    CLEANUP_FREE char *unusable = stats_open_file(&watch.stats, request->path);
    if (unusable)
        die("%s: %s", request->path, unusable);
    struct target owner = {.pidfd = -1};
    if (open_owner(&watch, &owner)) {
        watch.pid = owner.pid;
        watch.pidfd = owner.pidfd;
    } else if (!watch.stats.file.is_final) {
        die("%s: its process ended without writing down what it had done (killed, or by _exit), or may not "
            "be looked at",
            request->path);
    }
    follow(&watch, request, request->path);
    stats_close(&watch.stats);
    target_close(&owner);
}

int command_log(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"interval", KEY_INTERVAL, "SECONDS", 0, "From one line to the next (1)", 0},
        {"count", KEY_COUNT, "N", 0, "End after N lines", 0},
        {"file", KEY_FILE, "FILE", 0,
         "The process of this stats file; one line from the file if it has ended", 0},
        {"no-pss", KEY_NO_PSS, NULL, 0,
         "Leave out pss_bytes, for which the kernel walks the process's page tables under its mmap_lock", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "PID\n--file=FILE",
        .doc =
            "Follows the retention of a process that runs with pinpool: one JSON object a line.\v"
            "It reads the counters in the process's memory, so the process itself does nothing for it. That "
            "takes the rights of a debugger: root, or the same user where kernel.yama.ptrace_scope is 0."};
    struct request request = {.interval_ns = NS_PER_S, .want_pss = true};
    argp_parse(&argp, argc, argv, 0, NULL, &request);
    if (request.path)
        log_file(&request);
    else
        log_process(&request);
    return EXIT_SUCCESS;
}
