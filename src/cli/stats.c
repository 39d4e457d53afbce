/* SPDX-License-Identifier: MIT */
/* stats: see stats.h. */
#include "cli/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/util.h"

/* Why a header is none that this build can read, or NULL. */
static char *check_header(const struct statsfile_header *header)
{
    if (memcmp(header->magic, STATSFILE_MAGIC, sizeof header->magic) != 0)
        return must_copy_text("not a pinpool stats file");
    if (header->layout != STATSFILE_LAYOUT || header->header_bytes != STATSFILE_HEADER_BYTES ||
        header->slot_bytes != sizeof(struct counters) || header->counter_count != COUNTER_COUNT ||
        header->tier_counter_count != TIER_COUNTER_COUNT)
        return must_format("written by another pinpool (%.*s), whose counters differ from this one's (%s)",
                           (int)strnlen(header->version, sizeof header->version), header->version,
                           PINPOOL_VERSION);
    if (header->slot_count == 0 || header->slot_count > UINT32_MAX / sizeof(struct counters))
        return must_copy_text("not a pinpool stats file: no sensible number of slots");
    return NULL;
}

/* Read, not mapped: a file that is too short then is a short read, not a SIGBUS. */
static char *read_header(int fd, struct statsfile_header *header)
{
    const ssize_t got = pread(fd, header, sizeof *header, 0);
    if (got < 0)
        return must_copy_text(strerror(errno));
    if ((size_t)got < sizeof *header)
        return must_copy_text("not a pinpool stats file: too short");
    return check_header(header);
}

char *stats_open(struct stats *stats, int fd)
{
    struct statsfile_header header;
    char *reason = read_header(fd, &header);
    if (reason)
        return reason;
    stats->mapped_bytes = STATSFILE_HEADER_BYTES + (size_t)header.slot_count * sizeof(struct counters);
    void *map = mmap(NULL, stats->mapped_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return must_format("cannot map it: %s", strerror(errno));
    stats->header = map;
    stats->fd = fd;
    return NULL;
}

void stats_close(struct stats *stats)
{
    void *map;
    memcpy(&map, &stats->header, sizeof map); /* munmap wants it without const */
    munmap(map, stats->mapped_bytes);
    close(stats->fd);
    *stats = (struct stats){NULL, 0, -1};
}

/* How much of the mapping has a file behind it now: beyond that, a look would be a SIGBUS. */
static size_t readable_bytes(const struct stats *stats)
{
    struct stat file;
    if (fstat(stats->fd, &file) != 0 || file.st_size < 0)
        return 0;
    const uint64_t size = (uint64_t)file.st_size;
    return size < stats->mapped_bytes ? (size_t)size : stats->mapped_bytes;
}

char *stats_read(const struct stats *stats, struct stats_sample *sample)
{
    const struct statsfile_header *header = stats->header;
    const size_t bytes = readable_bytes(stats);
    memset(sample, 0, sizeof *sample);
    if (bytes < STATSFILE_HEADER_BYTES)
        return must_copy_text("the file was cut");
    sample->slots = atomic_load_explicit(&header->heaps, memory_order_relaxed);
    sample->unlisted_heaps = atomic_load_explicit(&header->unlisted_heaps, memory_order_relaxed);
    const size_t room = (bytes - STATSFILE_HEADER_BYTES) / sizeof(struct counters);
    if (sample->slots > room)
        return must_format("the file was cut: it has room for %zu of %" PRIu32 " slots", room, sample->slots);
    /* A heap without a slot leaves a hole of zeros before the slots of later heaps. */
    const size_t used = (size_t)sample->slots + sample->unlisted_heaps;

    const char *first = (const char *)header + STATSFILE_HEADER_BYTES;
    sample->monotonic_ns = now_monotonic_ns();
    sample->unix_ns = now_unix_ns();
    for (size_t i = 0; i < used && i < room; i++) {
        const void *slot = first + i * sizeof(struct counters);
        counters_sum_sigsafe(sample->of_heap, sample->of_tier, slot);
    }
    sample->reserved_bytes = atomic_load_explicit(&header->figures.reserved_bytes, memory_order_relaxed);
    sample->metadata_bytes = atomic_load_explicit(&header->figures.metadata_bytes, memory_order_relaxed);
    return NULL;
}

unsigned stats_tier_count(const struct stats *stats)
{
    unsigned count = 0;
    while (count < STATSFILE_TIERS_MAX && stats->header->block_bytes[count] != 0)
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
    const uint64_t block_bytes = stats->header->block_bytes[tier];
    const uint64_t opened = count[TIER_COUNTER_opened_fresh_blocks] +
                            count[TIER_COUNTER_opened_empty_blocks] +
                            count[TIER_COUNTER_opened_released_blocks];
    const uint64_t retired = count[TIER_COUNTER_retired_blocks];
    const uint64_t emptied = count[TIER_COUNTER_emptied_blocks];
    const uint64_t released = count[TIER_COUNTER_released_blocks];
    struct stats_gauge gauge = {
        .current_blocks = difference(opened, retired),
        .pinned_blocks = difference(retired, emptied),
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
