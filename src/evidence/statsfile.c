/* SPDX-License-Identifier: MIT */
/* statsfile: see statsfile.h. */
#include "evidence/statsfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "base/options.h"
#include "base/paths.h"
#include "base/sys.h"
#include "evidence/filter.h"
#include "pool/heap.h"

static struct {
    struct pool *pool;
    const struct options *options;
    const struct label *label;
    int32_t pid; /* of the process whose file was made; 0: none */
} file;

void label_fill(struct label *label, const struct pool *pool, const struct options *options)
{
    *label = (struct label){
        .magic = LABEL_MAGIC,
        .layout = LABEL_LAYOUT,
        .label_bytes = sizeof *label,
        .counter_count = COUNTER_COUNT,
        .tier_counter_count = TIER_COUNTER_COUNT,
        .counters_bytes = sizeof(struct counters),
        .active = !options->off,
        .start_unix_ns = sys_unix_ns(),
        .version = PINPOOL_VERSION,
        .shared_at = (uintptr_t)&pool->shared,
        .figures_at = (uintptr_t)&pool->region.figures,
        .heaps_at = (uintptr_t)&pool->heaps,
        .heap_count_at = (uintptr_t)&pool->heap_count,
        .heap_next = offsetof(struct heap, next),
        .heap_counters = offsetof(struct heap, counters),
    };
    for (unsigned t = 0; t < options->pool_count; t++)
        label->block_bytes[t] = options->block_bytes[t];
    strcpy(label->policy, options_policy_name(options->policy)); /* fits: a word */
}

/* A file of this name is left over from an earlier process with our pid, or from before an exec. */
static int open_new(const char *path)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW };
    int fd = sys_open(path, FLAGS, 0600);

    if (fd == -EEXIST && sys_unlink(path) == 0)
        fd = sys_open(path, FLAGS, 0600);
    return fd;
}

/* A file that cannot be written whole is taken away: there is no half a proof. */
static bool write_file(int32_t pid, bool is_final)
{
    struct statsfile content = {
        .label = *file.label,
        .pid = pid,
        .is_final = is_final,
        .written_unix_ns = sys_unix_ns(),
        .heaps = load_relaxed(&file.pool->heap_count),
        .reserved_bytes = load_relaxed(&file.pool->region.figures.reserved_bytes),
        .metadata_bytes = load_relaxed(&file.pool->region.figures.metadata_bytes),
    };
    char path[PATHS_MAX];
    int fd, result;

    pool_sum_counters_sigsafe(file.pool, content.of_heap, content.of_tier);
    path_format_sigsafe(path, file.options->dir, pid, PATHS_STATS);
    if (sys_file_limit_bytes() < sizeof content)
        return false;
    fd = open_new(path);
    if (fd < 0)
        return false;
    result = sys_write_all(fd, &content, sizeof content);
    (void)sys_close(fd);
    if (result != 0)
        (void)sys_unlink(path);
    return result == 0;
}

void statsfile_begin(struct pool *pool, const struct options *options, const struct label *label)
{
    int32_t pid = sys_getpid();

    file.pool = pool;
    file.options = options;
    file.label = label;
    if (options->stats != STATS_NONE && write_file(pid, false))
        file.pid = pid;
}

void statsfile_end(void)
{
    int32_t pid = sys_getpid();
    char path[PATHS_MAX];

    if (!file.options || file.options->stats == STATS_NONE || filter_may_kill_sigsafe())
        return;
    if (file.options->stats == STATS_KEEP) {
        (void)write_file(pid, true);
    } else if (file.pid == pid) {
        path_format_sigsafe(path, file.options->dir, pid, PATHS_STATS);
        (void)sys_unlink(path);
    }
}
