/* SPDX-License-Identifier: MIT */
/* stats: see stats.h. */
#include "cli/system/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/kit/util.h"

/* More heaps than any process has threads: memory that is no list of heaps ends there. */
enum { HEAPS_MAX = 1 << 20 };

/* Why a label is none that this build can read, or NULL. */
static char *check_label(const struct label *label)
{
    if (memcmp(label->magic, LABEL_MAGIC, sizeof label->magic) != 0)
        return must_copy_text("not a pinpool stats file");
    if (label->layout != LABEL_LAYOUT || label->label_bytes != sizeof *label ||
        label->counters_bytes != sizeof(struct counters) || label->counter_count != COUNTER_COUNT ||
        label->tier_counter_count != TIER_COUNTER_COUNT) {
        CLEANUP_FREE char *version = must_format("%.*s", (int)sizeof label->version, label->version);
        CLEANUP_FREE char *shown = text_printable(version);
        return must_format("written by another pinpool (%s), whose counters differ from this one's (%s)",
                           shown, PINPOOL_VERSION);
    }
    return NULL;
}

/* ---- A live process ---- */

struct search {
    uint64_t label_at;
};

bool stats_is_label(const struct procfs_map *map)
{
    static const char prefix[] = "/memfd:" LABEL_NAME;
    return strncmp(map->path, prefix, sizeof prefix - 1) == 0;
}

static void look_for_label(const struct procfs_map *map, void *context)
{
    struct search *search = context;
    if (search->label_at == 0 && stats_is_label(map))
        search->label_at = map->start;
}

uint64_t stats_find_label(pid_t pid)
{
    struct search search = {0};
    procfs_visit_maps(pid, look_for_label, &search);
    return search.label_at;
}

/* NULL, or why these bytes of the process cannot be read. */
static char *read_memory(const struct stats *stats, uint64_t address, void *bytes, size_t count)
{
    if (address > INT64_MAX)
        return must_copy_text("an address that no process has");
    const ssize_t got = pread(stats->memory_fd, bytes, count, (off_t)address);
    if (got == (ssize_t)count)
        return NULL;
    if (got == 0)
        return must_copy_text("it has ended or become another program");
    return must_copy_text(got < 0 ? strerror(errno) : "its memory ends early");
}

char *stats_open_process(struct stats *stats, pid_t pid, uint64_t label_at)
{
    CLEANUP_FREE char *path = must_format("/proc/%d/mem", (int)pid);
    if (label_at == 0)
        return must_copy_text(
            "it has no sealed page of pinpool's (memfd_create was refused when it started?)");
    *stats = (struct stats){.memory_fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (stats->memory_fd < 0 && (errno == EACCES || errno == EPERM))
        return must_format("its memory may not be read: %s (that takes root, or the same user where "
                           "kernel.yama.ptrace_scope is 0)",
                           strerror(errno));
    if (stats->memory_fd < 0)
        return must_format("its memory cannot be read: %s", strerror(errno));
    char *reason = read_memory(stats, label_at, &stats->label, sizeof stats->label);
    if (!reason)
        reason = check_label(&stats->label);
    if (reason)
        stats_close(stats);
    return reason;
}

static char *add_counters(const struct stats *stats, uint64_t address, struct stats_sample *sample)
{
    struct counters counters;
    char *reason = read_memory(stats, address, &counters, sizeof counters);
    if (!reason)
        counters_sum_sigsafe(sample->of_heap, sample->of_tier, &counters);
    return reason;
}

/* The heaps are a list that is only ever pushed to, so a walk never loses its way. */
static char *add_heaps(const struct stats *stats, struct stats_sample *sample)
{
    uint64_t heap = 0;
    char *reason = read_memory(stats, stats->label.heaps_at, &heap, sizeof heap);
    for (unsigned heaps = 0; !reason && heap != 0; heaps++) {
        uint64_t counters_at = 0;
        if (heaps == HEAPS_MAX)
            return must_copy_text("its heaps are no list that ends");
        reason = read_memory(stats, heap + stats->label.heap_counters, &counters_at, sizeof counters_at);
        if (!reason)
            reason = add_counters(stats, counters_at, sample);
        if (!reason)
            reason = read_memory(stats, heap + stats->label.heap_next, &heap, sizeof heap);
        sample->heaps++;
    }
    return reason;
}

static char *read_process(const struct stats *stats, struct stats_sample *sample)
{
    struct pool_figures figures;
    memset(sample, 0, sizeof *sample);
    sample->monotonic_ns = now_monotonic_ns();
    sample->unix_ns = now_unix_ns();
    char *reason = add_counters(stats, stats->label.shared_at, sample);
    if (!reason)
        reason = add_heaps(stats, sample);
    if (!reason)
        reason = read_memory(stats, stats->label.figures_at, &figures, sizeof figures);
    if (reason)
        return reason;
    sample->reserved_bytes = atomic_load_explicit(&figures.reserved_bytes, memory_order_relaxed);
    sample->metadata_bytes = atomic_load_explicit(&figures.metadata_bytes, memory_order_relaxed);
    return NULL;
}

/* ---- A file ---- */

char *stats_open_file(struct stats *stats, const char *path)
{
    *stats = (struct stats){.memory_fd = -1};
    CLEANUP_CLOSE const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat file;
    if (fd < 0 || fstat(fd, &file) != 0)
        return must_copy_text(strerror(errno));
    if (!S_ISREG(file.st_mode))
        return must_copy_text("not a file");
    const ssize_t got = pread(fd, &stats->file, sizeof stats->file, 0);
    if (got < 0)
        return must_copy_text(strerror(errno));
    if ((size_t)got < sizeof stats->label)
        return must_copy_text("not a pinpool stats file: too short");
    stats->label = stats->file.label;
    char *reason = check_label(&stats->label);
    if (!reason && (size_t)got < sizeof stats->file)
        reason = must_copy_text("the file was cut");
    return reason;
}

static void read_file(const struct stats *stats, struct stats_sample *sample)
{
    const struct statsfile *file = &stats->file;
    *sample = (struct stats_sample){.monotonic_ns = now_monotonic_ns(),
                                    .unix_ns = file->written_unix_ns,
                                    .heaps = file->heaps,
                                    .reserved_bytes = file->reserved_bytes,
                                    .metadata_bytes = file->metadata_bytes};
    memcpy(sample->of_heap, file->of_heap, sizeof sample->of_heap);
    memcpy(sample->of_tier, file->of_tier, sizeof sample->of_tier);
}

/* ---- Either ---- */

void stats_close(struct stats *stats)
{
    if (stats->memory_fd >= 0)
        close(stats->memory_fd);
    stats->memory_fd = -1;
}

char *stats_read(const struct stats *stats, struct stats_sample *sample)
{
    if (stats->memory_fd >= 0)
        return read_process(stats, sample);
    read_file(stats, sample);
    return NULL;
}

unsigned stats_tier_count(const struct stats *stats)
{
    unsigned count = 0;
    while (count < TIERS_MAX && stats->label.block_bytes[count] != 0)
        count++;
    return count;
}

/* Never below zero: the two sides were not read at one moment. */
static uint64_t difference(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

struct stats_gauge stats_gauge_of_tier(const struct stats *stats, const struct stats_sample *sample,
                                       unsigned tier)
{
    const uint64_t *count = sample->of_tier[tier];
    const uint64_t block_bytes = stats->label.block_bytes[tier];
    const uint64_t opened =
        count[TIER_COUNTER_opened_fresh_blocks] + count[TIER_COUNTER_opened_empty_blocks] +
        count[TIER_COUNTER_opened_released_blocks] + count[TIER_COUNTER_opened_filed_blocks];
    const uint64_t retired = count[TIER_COUNTER_retired_blocks];
    const uint64_t emptied = count[TIER_COUNTER_emptied_blocks];
    const uint64_t released = count[TIER_COUNTER_released_blocks];
    struct stats_gauge gauge = {
        .current_blocks = difference(opened, retired),
        .pinned_blocks = difference(retired, emptied + count[TIER_COUNTER_opened_filed_blocks]),
        .empty_blocks = difference(emptied, count[TIER_COUNTER_opened_empty_blocks] + released),
        .live_slices =
            difference(count[TIER_COUNTER_carved_slices],
                       count[TIER_COUNTER_freed_local_slices] + count[TIER_COUNTER_freed_remote_slices]),
        .live_bytes =
            difference(count[TIER_COUNTER_carved_bytes],
                       count[TIER_COUNTER_freed_local_bytes] + count[TIER_COUNTER_freed_remote_bytes]),
        .opened_blocks = opened,
        .emptied_blocks = emptied,
        .released_blocks = released,
    };
    gauge.held_bytes = (gauge.current_blocks + gauge.pinned_blocks + gauge.empty_blocks) * block_bytes;
    gauge.stranded_low_bytes = difference(gauge.pinned_blocks * block_bytes, gauge.live_bytes);
    gauge.stranded_high_bytes =
        difference((gauge.pinned_blocks + gauge.current_blocks) * block_bytes, gauge.live_bytes);
    return gauge;
}

void stats_add_gauge(struct stats_gauge *sum, const struct stats_gauge *gauge)
{
    sum->current_blocks += gauge->current_blocks;
    sum->pinned_blocks += gauge->pinned_blocks;
    sum->empty_blocks += gauge->empty_blocks;
    sum->live_slices += gauge->live_slices;
    sum->live_bytes += gauge->live_bytes;
    sum->held_bytes += gauge->held_bytes;
    sum->stranded_low_bytes += gauge->stranded_low_bytes;
    sum->stranded_high_bytes += gauge->stranded_high_bytes;
    sum->opened_blocks += gauge->opened_blocks;
    sum->emptied_blocks += gauge->emptied_blocks;
    sum->released_blocks += gauge->released_blocks;
}
