/* SPDX-License-Identifier: MIT */
/* proof: see proof.h. */
#include "cli/ab/run/proof.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/paths.h"
#include "cli/kit/json.h"
#include "cli/kit/util.h"
#include "cli/system/stats.h"

/* CPU time below which one cannot say what a run was about: starting a program takes as much. */
static const uint64_t least_cpu_ns = 10000000;

/* Why a process's label is not what the arm asks for, or NULL. */
static char *check_label(const struct label *label, const struct arm *arm)
{
    struct options wanted;
    memset(&wanted, 0, sizeof wanted);
    if (arm->kind == ARM_IDLE)
        return label->active ? must_copy_text("pinpool was serving, though the arm is idle") : NULL;
    if (!label->active)
        return must_copy_text(
            "pinpool was loaded and passed everything on (PINPOOL_OFF, or a sanitizer in the process)");
    if (options_parse(&wanted, OPTION_POOLS, arm->pools))
        return must_format("%s: not block sizes", arm->pools);
    for (unsigned i = 0; i < TIERS_MAX; i++)
        if (label->block_bytes[i] != wanted.block_bytes[i])
            return must_format("pinpool served other pools than %s", arm->pools);
    if (arm->policy && strncmp(label->policy, arm->policy, sizeof label->policy) != 0)
        return must_format("pinpool served with the policy %.*s, not %s", (int)sizeof label->policy,
                           label->policy, arm->policy);
    return NULL;
}

/* Processes that left a file, and whether it says what they did: else it is from their start. */
struct account_of {
    pid_t pid;
    bool is_final;
};

struct accounts {
    struct account_of *items;
    size_t count;
};

static const struct account_of *find_account(const struct accounts *accounts, pid_t pid)
{
    for (size_t i = 0; i < accounts->count; i++)
        if (accounts->items[i].pid == pid)
            return &accounts->items[i];
    return NULL;
}

static char *add_process(struct proof *proof, const struct arm *arm, pid_t pid, pid_t main_pid,
                         const struct label *label)
{
    proof->processes++;
    proof->active += label->active != 0;
    proof->has_main |= pid == main_pid;
    return arm->kind == ARM_OFF ? NULL : check_label(label, arm);
}

/* What a process had done when it was last looked at, unless it has written it down itself. */
static char *add_evidence(struct proof *proof, const struct arm *arm, const struct watch *watch,
                          const struct accounts *accounts, pid_t main_pid)
{
    char *reason = NULL;
    for (size_t i = 0; i < watch->count && !reason; i++) {
        const struct evidence *evidence = &watch->processes[i].evidence;
        const struct account_of *account = evidence->is_there ? find_account(accounts, evidence->pid) : NULL;
        if (!evidence->is_there || (account && account->is_final))
            continue;
        if (!account) /* a forked child has no file while it lives */
            reason = add_process(proof, arm, evidence->pid, main_pid, &evidence->label);
        proof->carved_slices += evidence->carved_slices;
        proof->carved_bytes += evidence->carved_bytes;
    }
    return reason;
}

static char *check_stats_file(struct proof *proof, const struct arm *arm, const char *path, pid_t main_pid,
                              struct accounts *accounts)
{
    struct stats stats;
    char *reason = stats_open_file(&stats, path);
    if (reason) {
        char *sentence = must_format("%s: %s", path, reason);
        free(reason);
        return sentence;
    }
    const struct statsfile *file = &stats.file;
    accounts->items = must_grow(accounts->items, accounts->count, sizeof *accounts->items);
    accounts->items[accounts->count++] = (struct account_of){file->pid, file->is_final != 0};
    for (unsigned tier = 0; tier < stats_tier_count(&stats); tier++) {
        proof->carved_slices += file->of_tier[tier][TIER_COUNTER_carved_slices];
        proof->carved_bytes += file->of_tier[tier][TIER_COUNTER_carved_bytes];
    }
    return add_process(proof, arm, file->pid, main_pid, &stats.label);
}

static bool is_stats_name(const char *name)
{
    char expected[PATHS_NAME_MAX];
    int pid;
    if (sscanf(name, PATHS_PREFIX "%d", &pid) != 1)
        return false;
    path_name_sigsafe(expected, pid, PATHS_STATS);
    return strcmp(name, expected) == 0;
}

static char *check_stats_files(struct proof *proof, const struct arm *arm, const char *stats_dir,
                               pid_t main_pid, struct accounts *accounts)
{
    DIR *directory = opendir(stats_dir);
    if (!directory)
        return must_format("%s: %s", stats_dir, strerror(errno));
    char *reason = NULL;
    for (const struct dirent *entry; !reason && (entry = readdir(directory));) {
        CLEANUP_FREE char *path = must_format("%s/%s", stats_dir, entry->d_name);
        if (is_stats_name(entry->d_name))
            reason = check_stats_file(proof, arm, path, main_pid, accounts);
    }
    closedir(directory);
    return reason;
}

static char *check_pinpool(const struct proof *proof, const struct arm *arm)
{
    if (arm->kind == ARM_OFF)
        return proof->processes ? must_copy_text("libpinpool.so was loaded, though the arm is without it")
                                : NULL;
    if (proof->processes == 0)
        return must_copy_text(
            "libpinpool.so left no stats file: it was not loaded into the command (is the program "
            "static or setuid, or does something on the way drop LD_PRELOAD?)");
    return NULL;
}

static char *check_carved(const struct proof *proof, const struct arm *arm)
{
    if (arm->kind == ARM_POOLS && proof->carved_slices == 0)
        return must_copy_text(
            "pinpool was loaded and carved nothing: the command made no request of its sizes, so "
            "there is nothing to compare");
    return NULL;
}

static char *check_watch(struct proof *proof, const struct arm *arm, const struct watch *watch)
{
    CLEANUP_FREE char *name = NULL;
    watch_sum(watch, &proof->with_ns, &proof->without_ns, &name);
    proof->library_seen = watch->seen && watch->paths[0];
    if (arm->library && !watch->seen)
        return must_format(
            "%s was in no memory map of the run: it was not loaded, or the run ended before one "
            "could look",
            arm->library);
    if (watch->paths[0] && watch->must_be_there && !watch->is_there)
        return must_copy_text(
            "what the arm preloads was in no process of the service in the end (does something on the "
            "way drop LD_PRELOAD?)");
    if (watch->paths[0] && !watch->is_wrapped && proof->without_ns > proof->with_ns &&
        proof->with_ns + proof->without_ns >= least_cpu_ns)
        return must_format(
            "%s ran without what the arm preloads: it was not in the processes that used %.3f of the "
            "%.3f s of CPU time that were seen (does something on the way drop LD_PRELOAD?)",
            name, (double)proof->without_ns / 1e9, (double)(proof->with_ns + proof->without_ns) / 1e9);
    const char *loser = watch_who_lost(watch);
    if (watch->paths[0] && !watch->is_wrapped && loser)
        return must_format(
            "%s ran without what the arm preloads: only the program before it in the same process had it "
            "(does something on the way drop LD_PRELOAD?)",
            loser);
    return NULL;
}

char *proof_check(struct proof *proof, const struct arm *arm, const struct watch *watch,
                  const char *stats_dir, pid_t main_pid)
{
    *proof = (struct proof){0};
    struct accounts accounts = {NULL, 0};
    char *reason = check_stats_files(proof, arm, stats_dir, main_pid, &accounts);
    if (!reason)
        reason = add_evidence(proof, arm, watch, &accounts, main_pid);
    free(accounts.items);
    if (!reason)
        reason = check_pinpool(proof, arm);
    if (!reason)
        reason = check_watch(proof, arm, watch);
    if (!reason) /* last: a program that lost the library carves nothing, too */
        reason = check_carved(proof, arm);
    return reason;
}

struct json_object *proof_to_json(const struct proof *proof, const struct arm *arm)
{
    struct json_object *json = json_object_new_object();
    json_add_u64(json, "processes_with_pinpool", proof->processes);
    json_add_u64(json, "processes_active", proof->active);
    json_object_object_add(json, "started_process_has_pinpool", json_object_new_boolean(proof->has_main));
    json_add_u64(json, "carved_slices", proof->carved_slices);
    json_add_u64(json, "carved_bytes", proof->carved_bytes);
    json_object_object_add(json, "preload_in_memory_map", json_object_new_boolean(proof->library_seen));
    if (arm->library)
        json_object_object_add(json, "library", json_object_new_string(arm->library));
    json_add_u64(json, "cpu_with_preload_ns", proof->with_ns);
    json_add_u64(json, "cpu_without_preload_ns", proof->without_ns);
    return json;
}
