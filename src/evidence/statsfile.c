/* SPDX-License-Identifier: MIT */
/*
 * statsfile: see statsfile.h.
 *
 * A store into a mapped file whose disk is full is a SIGBUS in somebody else's program. So a slot is
 * handed out only after its bytes were written as zeros with write(2), which reports a full disk as an
 * error: the first slots when the file is made, each of the others when its heap is.
 */
#include "evidence/statsfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/sys.h"
#include "evidence/paths.h"
#include "evidence/retention.h"
#include "pool/heap.h"

enum {
    SLOTS_AT_START = 64,
    FILE_BYTES = STATSFILE_HEADER_BYTES + STATSFILE_SLOT_COUNT * (int)sizeof(struct counters)
};

static struct {
    struct pool *pool;
    const struct options *options;
    struct statsfile_header *header; /* NULL: no file */
    int32_t pid;
} file;

static struct counters *slot_at(struct statsfile_header *header, uint32_t index)
{
    return (struct counters *)((char *)header + STATSFILE_HEADER_BYTES) + index;
}

static int write_zeros(int fd, uint64_t from, uint64_t to)
{
    static const char zeros[4096];

    while (from < to) {
        ssize_t written = sys_pwrite(fd, zeros, min_size(sizeof zeros, to - from), from);

        if (written <= 0)
            return written == 0 ? -EIO : (int)written;
        from += (uint64_t)written;
    }
    return 0;
}

static uint64_t slot_offset(uint32_t index)
{
    return STATSFILE_HEADER_BYTES + (uint64_t)index * sizeof(struct counters);
}

/* A file of this name is left over from an earlier process with our pid, or from before an exec. */
static int open_new(const char *path)
{
    enum { FLAGS = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW };
    int fd = sys_open(path, FLAGS, 0600);

    if (fd == -EEXIST && sys_unlink(path) == 0)
        fd = sys_open(path, FLAGS, 0600);
    return fd;
}

static struct statsfile_header *map_new(int32_t pid)
{
    char path[PATHS_MAX];
    void *address = NULL;
    int fd;

    path_format_sigsafe(path, file.options->dir, pid, 0);
    fd = open_new(path);
    if (fd < 0)
        return NULL;
    if (sys_file_limit_bytes() < FILE_BYTES || write_zeros(fd, 0, slot_offset(SLOTS_AT_START)) != 0 ||
        sys_truncate(fd, FILE_BYTES) != 0 || sys_map_file_shared(fd, FILE_BYTES, &address) != 0) {
        (void)sys_unlink(path);
        address = NULL;
    }
    (void)sys_close(fd);
    return address;
}

/* The magic goes last: a reader that sees it sees all. */
static void fill_header(struct statsfile_header *header, int32_t pid)
{
    const struct tiers *tiers = &file.pool->tiers;
    const char magic[8] = STATSFILE_MAGIC;

    header->layout = STATSFILE_LAYOUT;
    header->header_bytes = STATSFILE_HEADER_BYTES;
    header->slot_bytes = sizeof(struct counters);
    header->slot_count = STATSFILE_SLOT_COUNT;
    header->counter_count = COUNTER_COUNT;
    header->tier_counter_count = TIER_COUNTER_COUNT;
    header->pid = pid;
    header->active = !file.options->off;
    header->start_unix_ns = sys_unix_ns();
    for (unsigned t = 0; t < tiers->count; t++)
        header->block_bytes[t] = tier_block_bytes(tiers, t);
    memcpy(header->version, PINPOOL_VERSION, sizeof PINPOOL_VERSION);
    strcpy(header->policy, "bump");
    store_relaxed(&header->heaps, 1);
    /* release: pairs with the reader's acquire fence after it saw the magic. */
    atomic_thread_fence(memory_order_release);
    memcpy(header->magic, magic, sizeof magic);
}

/* From here on the pool's own cost is kept in the file. */
static void move_figures(struct statsfile_header *header)
{
    struct region *region = &file.pool->region;

    store_relaxed(&header->figures.reserved_bytes, load_relaxed(&region->figures->reserved_bytes));
    store_relaxed(&header->figures.metadata_bytes, load_relaxed(&region->figures->metadata_bytes));
    region->figures = &header->figures;
}

bool statsfile_create_sigsafe(struct pool *pool, const struct options *options)
{
    struct statsfile_header *header;

    file.pool = pool;
    file.options = options;
    file.pid = sys_getpid();
    header = map_new(file.pid);
    if (header == NULL)
        return false;
    fill_header(header, file.pid);
    pool->shared = slot_at(header, 0);
    move_figures(header);
    file.header = header;
    return true;
}

/* Puts a slot's bytes on the disk, each heap for itself: nobody's counters are written over. */
static bool back_slot(uint32_t index)
{
    char path[PATHS_MAX];
    int fd, result;

    if (index < SLOTS_AT_START)
        return true;
    path_format_sigsafe(path, file.options->dir, file.pid, 0);
    fd = sys_open(path, O_RDWR | O_NOFOLLOW, 0);
    if (fd < 0)
        return false;
    result = sys_file_limit_bytes() < slot_offset(index + 1)
                 ? -EFBIG
                 : write_zeros(fd, slot_offset(index), slot_offset(index + 1));
    (void)sys_close(fd);
    return result == 0;
}

struct counters *statsfile_counters_sigsafe(uint32_t heap_id)
{
    struct statsfile_header *header = file.header;

    if (header == NULL)
        return NULL;
    if (heap_id >= STATSFILE_SLOT_COUNT || !back_slot(heap_id)) {
        atomic_fetch_add_explicit(&header->unlisted_heaps, 1, memory_order_relaxed);
        return NULL;
    }
    atomic_fetch_add_explicit(&header->heaps, 1, memory_order_relaxed);
    return slot_at(header, heap_id);
}

/* ---- a forked child -------------------------------------------------------------------------- */

static struct retention balance; /* only ever used by a child's one thread */

/* What the child has, booked as if it had happened at the fork: the differences give the gauges. */
static void book_balance(struct counters *counters, struct pool *pool)
{
    retention_walk_sigsafe(&balance, pool, sys_now_coarse_ns(), false);
    for (unsigned t = 0; t < pool->tiers.count; t++) {
        const struct retention_tier *tier = &balance.tiers[t];
        _Atomic(uint64_t) *of_tier = counters->of_tier[t];
        uint64_t retired = tier->pinned_blocks + tier->empty_blocks;

        store_relaxed(&of_tier[TIER_COUNTER_carved_slices], tier->live_slices);
        store_relaxed(&of_tier[TIER_COUNTER_carved_bytes], tier->live_bytes);
        store_relaxed(&of_tier[TIER_COUNTER_opened_fresh_blocks], tier->current_blocks + retired);
        store_relaxed(&of_tier[TIER_COUNTER_retired_blocks], retired);
        store_relaxed(&of_tier[TIER_COUNTER_emptied_blocks], tier->empty_blocks - tier->undrained_blocks);
    }
}

/*
 * The parent's slots are still mapped, and still the parent's. Heaps get the slots of the same number in
 * a new file or, when there can be none, in private memory of the same shape.
 */
void statsfile_after_fork_sigsafe(void)
{
    struct statsfile_header *parents = file.header;
    struct statsfile_header *header;
    void *private_memory = NULL;
    uint32_t last_slot = 0;

    if (parents == NULL)
        return;
    file.header = NULL;
    file.pid = sys_getpid();
    header = map_new(file.pid);
    if (header != NULL) {
        fill_header(header, file.pid);
        file.header = header;
    } else if (sys_map(FILE_BYTES, &private_memory) == 0) {
        header = private_memory;
    } else {
        return; /* no memory at all: the child goes on counting into the parent's file */
    }
    file.pool->shared = slot_at(header, 0);
    move_figures(header);
    for (struct heap *heap = load_relaxed(&file.pool->heaps); heap != NULL; heap = heap->next) {
        bool is_listed = heap->id < STATSFILE_SLOT_COUNT && heap->counters == slot_at(parents, heap->id);

        if (is_listed && (file.header == NULL || back_slot(heap->id))) {
            heap->counters = slot_at(header, heap->id);
            last_slot = heap->id > last_slot ? heap->id : last_slot;
        } else if (is_listed) {
            heap->counters = file.pool->shared; /* a full disk; the child has one thread, nobody competes */
        }
    }
    store_relaxed(&header->heaps, last_slot + 1);
    book_balance(file.pool->shared, file.pool);
    (void)sys_unmap(parents, FILE_BYTES);
}
