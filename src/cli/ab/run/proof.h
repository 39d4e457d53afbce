/* SPDX-License-Identifier: MIT */
/*
 * proof: that a run was what its arm says. A preload that did not happen is silent, and then one measures
 * glibc against glibc and reads "no difference".
 *
 * For pinpool the proof is the stats file that each program with the library leaves (PINPOOL_STATS=keep): it
 * says whether the library was serving, with which pools and policy, and when it ended how much it carved. Of
 * processes that had no chance to write that down (killed, _exit), and of forked children, it is what their
 * memory said when they were last looked at. For another allocator it is the memory map of the run's
 * processes. And either has to be in the processes that used the CPU time (watch). For an arm without
 * pinpool, that there is no stats file.
 */
#ifndef PINPOOL_CLI_AB_RUN_PROOF_H
#define PINPOOL_CLI_AB_RUN_PROOF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/ab/arm.h"
#include "cli/ab/run/watch.h"

struct proof {
    unsigned processes; /* with pinpool */
    unsigned active;    /* of those, the ones that serve */
    bool has_main;      /* one of them is the process that was started */
    uint64_t carved_slices, carved_bytes;
    bool library_seen;            /* what the arm preloads was in a memory map */
    uint64_t with_ns, without_ns; /* CPU time that was seen used with and without it */
};

/*
 * Judges a run by the stats files in `stats_dir` and what `watch` saw. Fills in *proof. Returns NULL, or why
 * the arm was not what it says, to be freed.
 */
char *proof_check(struct proof *proof, const struct arm *arm, const struct watch *watch,
                  const char *stats_dir, pid_t main_pid);

struct json_object *proof_to_json(const struct proof *proof, const struct arm *arm);

#endif
