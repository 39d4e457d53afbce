/* SPDX-License-Identifier: MIT */
/*
 * tree: which processes belong to a run. One look at /proc, as of a moment.
 *
 * The tool is the subreaper of all it starts, so a process whose parent has ended becomes its child:
 * everything that a run started stays below the tool, whatever it does with sessions and forks.
 */
#ifndef PINPOOL_CLI_SYSTEM_TREE_H
#define PINPOOL_CLI_SYSTEM_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process {
    pid_t pid, parent, session;
    char state;           /* R S D Z ... */
    uint64_t cpu_ticks;   /* user and system, its waited-for children's included */
    uint64_t start_ticks; /* since boot: tells two processes of one number apart */
    bool is_member;
};

struct tree {
    struct tree_process *processes;
    size_t count;
};

/* Every process there is. Members are none yet. */
struct tree tree_read(void);
void tree_free(struct tree *tree);

/* Makes `root` and everything below it members. */
void tree_mark_below(struct tree *tree, pid_t root);

/*
 * Makes members of a service: `root` and what is below it, its session's processes, and what has lost its
 * parent and is the tool's own child now. `other` (0 for none) is the load, whose session does not belong to
 * it.
 */
void tree_mark_service(struct tree *tree, pid_t root, pid_t other);

/* CPU time of the members, in seconds. */
double tree_cpu_s(const struct tree *tree);

/*
 * Ends every process below the tool: SIGTERM, and SIGKILL after `grace_ns` (0: at once). Reaps
 * them. Returns how many there were. For the end of a run, when nothing below us is wanted any more.
 */
size_t tree_end_all(uint64_t grace_ns);

#endif
