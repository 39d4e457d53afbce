/* SPDX-License-Identifier: MIT */
/* tree: see tree.h. */
#include "cli/system/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/kit/files.h"
#include "cli/kit/util.h"

enum { END_POLL_MS = 10, KILL_ROUNDS_MAX = 300, LEAVE_MS = 200 };

/* The fields of /proc/PID/stat, see proc(5). The name may hold blanks and brackets: the last ')' ends it. */
static bool read_process(pid_t pid, struct tree_process *process)
{
    CLEANUP_FREE char *path = must_format("/proc/%d/stat", (int)pid);
    char line[1024];
    if (!files_read_line(path, line, sizeof line))
        return false;
    const char *fields = strrchr(line, ')');
    uint64_t user, system, children_user, children_system;
    *process = (struct tree_process){.pid = pid};
    if (!fields || sscanf(fields + 1,
                          " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %" SCNu64
                          " %" SCNu64 " %*d %*d %*d %*d %" SCNu64,
                          &process->state, &process->parent, &process->session, &user, &system,
                          &children_user, &children_system, &process->start_ticks) != 8)
        return false;
    process->cpu_ticks = user + system + children_user + children_system;
    return true;
}

struct tree tree_read(void)
{
    struct tree tree = {NULL, 0};
    DIR *directory = opendir("/proc");
    if (!directory)
        die("/proc cannot be read; it has to be mounted");
    for (const struct dirent *entry; (entry = readdir(directory));) {
        struct tree_process process;
        if (!isdigit((unsigned char)entry->d_name[0]) || !read_process((pid_t)atoi(entry->d_name), &process))
            continue;
        tree.processes = must_grow(tree.processes, tree.count, sizeof *tree.processes);
        tree.processes[tree.count++] = process;
    }
    closedir(directory);
    return tree;
}

void tree_free(struct tree *tree)
{
    free(tree->processes);
    *tree = (struct tree){NULL, 0};
}

static bool has_member(const struct tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->processes[i].pid == pid)
            return tree->processes[i].is_member;
    return false;
}

/* Adds children of members till there are no more. */
static void mark_descendants(struct tree *tree)
{
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (size_t i = 0; i < tree->count; i++) {
            struct tree_process *process = &tree->processes[i];
            if (!process->is_member && has_member(tree, process->parent)) {
                process->is_member = true;
                has_changed = true;
            }
        }
    }
}

void tree_mark_below(struct tree *tree, pid_t root)
{
    for (size_t i = 0; i < tree->count; i++)
        tree->processes[i].is_member |= tree->processes[i].pid == root;
    mark_descendants(tree);
}

void tree_mark_service(struct tree *tree, pid_t root, pid_t other)
{
    const pid_t self = getpid();
    for (size_t i = 0; i < tree->count; i++) {
        struct tree_process *process = &tree->processes[i];
        const bool is_orphan = process->parent == self && process->pid != other &&
                               (other == 0 || process->session != other) && process->session != getsid(0);
        process->is_member |= process->pid == root || process->session == root || is_orphan;
    }
    mark_descendants(tree);
}

double tree_cpu_s(const struct tree *tree)
{
    uint64_t ticks = 0;
    for (size_t i = 0; i < tree->count; i++)
        if (tree->processes[i].is_member)
            ticks += tree->processes[i].cpu_ticks;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* The number may have gone to another process since the look: the descriptor settles whose it is. */
static void send_signal(const struct tree_process *seen, int signal)
{
    struct tree_process now;
    CLEANUP_CLOSE const int pidfd = pidfd_open(seen->pid, 0);
    if (pidfd >= 0 && read_process(seen->pid, &now) && now.start_ticks == seen->start_ticks)
        pidfd_send_signal(pidfd, signal, NULL, 0);
}

/* Sends `signal` (0: none) to what lives below us; returns how many those are. */
static size_t signal_all(int signal)
{
    size_t alive = 0;
    struct tree tree = tree_read();
    tree_mark_below(&tree, getpid());
    for (size_t i = 0; i < tree.count; i++) {
        const struct tree_process *process = &tree.processes[i];
        if (!process->is_member || process->pid == getpid() || strchr("ZX", process->state))
            continue;
        alive++;
        if (signal)
            send_signal(process, signal);
    }
    tree_free(&tree);
    return alive;
}

static void reap(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

/* Waits till nothing lives below us, at most so long; returns how many do. */
static size_t wait_for_none(uint64_t deadline_ns)
{
    for (;;) {
        reap();
        const size_t alive = signal_all(0);
        if (alive == 0 || now_monotonic_ns() >= deadline_ns)
            return alive;
        poll(NULL, 0, END_POLL_MS);
    }
}

size_t tree_end_all(uint64_t grace_ns)
{
    /* The other end of a pipe may be just about to end by itself. */
    const size_t found = wait_for_none(now_monotonic_ns() + (grace_ns ? (uint64_t)LEAVE_MS * NS_PER_MS : 0));
    if (found == 0)
        return 0;
    if (grace_ns) {
        signal_all(SIGTERM);
        wait_for_none(now_monotonic_ns() + grace_ns);
    }
    /* Each look may find children that were forked since the last. One in an endless D state we leave. */
    for (int round = 0; round < KILL_ROUNDS_MAX && signal_all(SIGKILL) > 0; round++) {
        poll(NULL, 0, END_POLL_MS);
        reap();
    }
    reap();
    return found;
}
