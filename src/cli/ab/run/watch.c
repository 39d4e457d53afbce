/* SPDX-License-Identifier: MIT */
/* watch: see watch.h. */
#include "cli/ab/run/watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/kit/util.h"
#include "cli/system/elf.h"
#include "cli/system/procfs.h"
#include "cli/system/stats.h"
#include "cli/system/tree.h"

static const uint64_t first_pause_ns = 500000, longest_pause_ns = NS_PER_S;

/* So many looks in a row without the libraries, and exec took them away: a memory map is not read in one
 * moment, so a single look may be wrong. */
enum { LOST_LOOKS = 3 };

struct watch watch_start(const struct arm *arm, const char *pinpool, bool is_wrapped)
{
    struct watch watch = {.is_wrapped = is_wrapped, .pause_ns = first_pause_ns};
    size_t count = 0;
    if (arm->kind != ARM_OFF)
        watch.paths[count++] = realpath(pinpool, NULL);
    if (arm->library)
        watch.paths[count++] = realpath(arm->library, NULL);
    for (size_t i = 0; i < count; i++)
        if (!watch.paths[i])
            die("%s: it has gone", i == 0 && arm->kind != ARM_OFF ? pinpool : arm->library);
    return watch;
}

void watch_free(struct watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        free(watch->processes[i].name);
    free(watch->processes);
    free(watch->paths[0]);
    free(watch->paths[1]);
    *watch = (struct watch){.processes = NULL};
}

struct look {
    const struct watch *watch;
    bool has_memory; /* the last moments of a process are without */
    bool has_libc;
    uint64_t label_at; /* where pinpool's sealed page is mapped; 0: nowhere */
    bool found[2];
};

/* libc.so.6, libc-2.31.so, and musl's libc, which is its dynamic linker. */
static bool is_libc(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strncmp(name, "libc.", 5) == 0 || strncmp(name, "libc-", 5) == 0 ||
           strncmp(name, "ld-musl", 7) == 0;
}

static void look_at_map(const struct procfs_map *map, void *context)
{
    struct look *look = context;
    look->has_memory = true;
    if (look->label_at == 0 && stats_is_label(map))
        look->label_at = map->start;
    look->has_libc |= map->executable && is_libc(map->path);
    for (size_t i = 0; i < 2 && look->watch->paths[i]; i++)
        look->found[i] |= map->executable && strcmp(map->path, look->watch->paths[i]) == 0;
}

/* What is not looked for counts as found. */
static struct look look_at_maps(const struct watch *watch, pid_t pid)
{
    struct look look = {.watch = watch, .found = {!watch->paths[0], !watch->paths[1]}};
    procfs_visit_maps(pid, look_at_map, &look);
    return look;
}

static bool has_dynamic_linker(pid_t pid)
{
    struct elf_facts facts;
    CLEANUP_FREE char *path = must_format("/proc/%d/exe", (int)pid);
    return elf_read(path, &facts) == 0 && facts.interpreter[0];
}

static enum verdict judge(const struct look *look, pid_t pid)
{
    if (look->found[0] && look->found[1])
        return HAS_THEM;
    if (!look->has_memory || (!look->has_libc && has_dynamic_linker(pid)))
        return MAY_GET_THEM;
    return IS_WITHOUT;
}

/* False when the process has gone. */
static bool read_cpu_ns(pid_t pid, uint64_t *cpu_ns)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return false;
    *cpu_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
    return true;
}

static struct watched *find(struct watch *watch, const struct tree_process *process)
{
    for (size_t i = 0; i < watch->count; i++)
        if (watch->processes[i].pid == process->pid &&
            watch->processes[i].start_ticks == process->start_ticks)
            return &watch->processes[i];
    watch->processes = must_grow(watch->processes, watch->count, sizeof *watch->processes);
    watch->processes[watch->count] =
        (struct watched){.pid = process->pid, .start_ticks = process->start_ticks, .last = MAY_GET_THEM};
    return &watch->processes[watch->count++];
}

/* What was used up to the first look without the libraries is not counted: starting a program is no part of
 * what a run is about. */
static void add_cpu_time(struct watched *watched, enum verdict verdict, uint64_t used_ns)
{
    if (verdict == HAS_THEM) {
        watched->with_ns += watched->without_ns + watched->open_ns + used_ns;
        watched->without_ns = watched->open_ns = 0;
    } else if (verdict == IS_WITHOUT && watched->last == IS_WITHOUT) {
        watched->without_ns += used_ns;
    } else {
        watched->open_ns += used_ns;
    }
    watched->last = verdict;
}

static void keep_evidence(struct watched *watched, uint64_t label_at)
{
    struct stats stats;
    struct stats_sample sample;
    CLEANUP_FREE char *unusable = stats_open_process(&stats, watched->pid, label_at);
    if (unusable)
        return;
    CLEANUP_FREE char *unread = stats_read(&stats, &sample);
    if (!unread) {
        watched->evidence = (struct evidence){.pid = watched->pid, .is_there = true, .label = stats.label};
        for (unsigned tier = 0; tier < stats_tier_count(&stats); tier++) {
            watched->evidence.carved_slices += sample.of_tier[tier][TIER_COUNTER_carved_slices];
            watched->evidence.carved_bytes += sample.of_tier[tier][TIER_COUNTER_carved_bytes];
        }
    }
    stats_close(&stats);
}

static void look_at_process(struct watch *watch, const struct tree_process *process)
{
    uint64_t cpu_ns;
    if (process->state == 'Z' || !read_cpu_ns(process->pid, &cpu_ns))
        return;
    struct watched *watched = find(watch, process);
    const uint64_t used_ns = cpu_ns > watched->cpu_ns ? cpu_ns - watched->cpu_ns : 0;
    watched->cpu_ns = cpu_ns;
    free(watched->name);
    watched->name = procfs_read_name(process->pid);
    const struct look look = look_at_maps(watch, process->pid);
    const enum verdict verdict = judge(&look, process->pid);
    add_cpu_time(watched, verdict, used_ns);
    if (verdict == HAS_THEM) {
        watch->seen = watch->is_there = watched->had_them = true;
        watched->looks_without = 0;
        if (look.label_at)
            keep_evidence(watched, look.label_at);
    } else if (verdict == IS_WITHOUT) {
        watched->looks_without++;
    }
}

void watch_look(struct watch *watch, pid_t root)
{
    struct tree tree = tree_read();
    watch->is_there = false;
    tree_mark_below(&tree, root);
    for (size_t i = 0; i < tree.count; i++)
        if (tree.processes[i].is_member)
            look_at_process(watch, &tree.processes[i]);
    tree_free(&tree);
    watch->pause_ns += watch->pause_ns / 8;
    if (watch->pause_ns > longest_pause_ns)
        watch->pause_ns = longest_pause_ns;
}

const char *watch_who_lost(const struct watch *watch)
{
    const char *name = NULL;
    for (size_t i = 0; i < watch->count; i++) {
        const struct watched *watched = &watch->processes[i];
        if (watched->had_them && watched->looks_without < LOST_LOOKS)
            return NULL;
        if (watched->had_them)
            name = watched->name;
    }
    return name;
}

void watch_sum(const struct watch *watch, uint64_t *with_ns, uint64_t *without_ns, char **name)
{
    const struct watched *most = NULL;
    *with_ns = *without_ns = 0;
    for (size_t i = 0; i < watch->count; i++) {
        const struct watched *watched = &watch->processes[i];
        *with_ns += watched->with_ns;
        *without_ns += watched->without_ns;
        if (watched->without_ns && (!most || watched->without_ns > most->without_ns))
            most = watched;
    }
    *name = most ? must_copy_text(most->name) : NULL;
}
