/* SPDX-License-Identifier: MIT */
/*
 * watch: looks at a run's processes while they live, whether the arm's libraries are in their memory maps,
 * and how much CPU time they use with and without them.
 *
 * It also keeps what each process with pinpool had done by then: one that is killed, or calls _exit, leaves
 * no account behind.
 *
 * A stats file shows that some process had pinpool. It may have been a shell, or env(1), and the program that
 * was meant to be measured another one, which dropped LD_PRELOAD, is static, or changes its user. Only the
 * CPU time tells which of them the run was about.
 *
 * Looks are made at growing distances, each an eighth of the time so far (at most a second): so what runs at
 * the end was seen in the last ninth of the run, a short run too. Every arm is looked at alike, for looking
 * costs the process a little.
 */
#ifndef PINPOOL_CLI_AB_RUN_WATCH_H
#define PINPOOL_CLI_AB_RUN_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/label.h"
#include "cli/ab/arm.h"

/* What a process with pinpool had done when it was last looked at. */
struct evidence {
    pid_t pid;
    bool is_there; /* its counters were read */
    struct label label;
    uint64_t carved_slices, carved_bytes;
};

/*
 * What one look says of a process. A program that has just been executed has its libraries only when its
 * dynamic linker has mapped them, which on a busy machine takes many looks and 10 ms and more of CPU time: it
 * may get them yet. What is preloaded is mapped before anything that the program itself asks for, so where
 * libc is mapped, or where there is no dynamic linker, what is not there does not come.
 */
enum verdict { HAS_THEM, MAY_GET_THEM, IS_WITHOUT };

/* One process. Its CPU clock goes on when it becomes another program; `name` is that of the last one. */
struct watched {
    pid_t pid;
    uint64_t start_ticks;
    uint64_t cpu_ns; /* at the last look */
    uint64_t with_ns;
    uint64_t open_ns;    /* used since the last look that decided, by a program that may get them yet */
    uint64_t without_ns; /* between looks that were all without, since it was last seen with the libraries */
    bool had_them;
    enum verdict last;
    unsigned looks_without; /* since it was last seen with them */
    char *name;
    struct evidence evidence;
};

struct watch {
    char *paths[2]; /* what has to be mapped, without symbolic links; NULL past the last */
    struct watched *processes;
    size_t count;
    bool seen;          /* some process had all of it */
    bool is_there;      /* at the last look one had */
    bool must_be_there; /* it has to: a service is looked at when all of it has long been started */
    bool is_wrapped;    /* a tracer runs beside the command: CPU time says nothing */
    uint64_t pause_ns;  /* to the next look */
};

/* `pinpool` is the library's path; not looked for if the arm is without it. */
struct watch watch_start(const struct arm *arm, const char *pinpool, bool is_wrapped);
void watch_free(struct watch *watch);

/* Looks at `root` and what is below it, and sets pause_ns. */
void watch_look(struct watch *watch, pid_t root);

/*
 * When each process that had the libraries became a program without them: the name of one such program, which
 * is the watch's. Else NULL. Processes that ended with them count as having them.
 */
const char *watch_who_lost(const struct watch *watch);

/* CPU time in ns that was seen used with and without the libraries; *name is who used most without, to be
 * freed, or NULL. */
void watch_sum(const struct watch *watch, uint64_t *with_ns, uint64_t *without_ns, char **name);

#endif
