/* SPDX-License-Identifier: MIT */
/*
 * dump: see dump.h. One thread writes at a time, so everything large is static and no path takes more
 * than a small frame: the handler may run on a tiny stack.
 */
#include "evidence/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/counters.h"
#include "base/options.h"
#include "base/out.h"
#include "base/sys.h"
#include "evidence/mappings.h"
#include "evidence/paths.h"
#include "evidence/retention.h"
#include "pool/heap.h"

enum {
    DUMP_FORMAT = 1,
    BUFFER_BYTES = 16 << 10,
    FILE_BYTES_MAX = 4 << 20,
    THREADS_MAX = 1024,    /* thread records */
    SEQUENCE_TRIES = 1000, /* names taken by files of an earlier process with our pid */
};

enum dump_state { IDLE, WRITING, WRITING_AND_WANTED };

static struct {
    const struct dump_context *context;
    _Atomic(uint32_t) state; /* enum dump_state: who makes it WRITING is the only writer of what follows */
    uint64_t sequence;       /* of the last file */
    struct retention retention;
    uint64_t counters[COUNTER_COUNT];
    uint64_t tier_counters[TIERS_MAX][TIER_COUNTER_COUNT];
    char text[4096];
    char buffer[BUFFER_BYTES];
} dump;

void dump_init(const struct dump_context *context)
{
    dump.context = context;
}

bool dump_is_under_way(void)
{
    return load_relaxed(&dump.state) != IDLE;
}

void dump_after_fork_sigsafe(void)
{
    store_relaxed(&dump.state, IDLE);
    dump.sequence = 0;
}

/* ---- what the machine says ------------------------------------------------------------------- */

/* Reads a small file into dump.text, without its last newline. "" when it cannot be read. */
static void read_text(const char *path)
{
    int fd = sys_open(path, O_RDONLY, 0);
    ssize_t length = fd < 0 ? -1 : sys_read(fd, dump.text, sizeof dump.text - 1);

    if (fd >= 0)
        (void)sys_close(fd);
    if (length > 0 && dump.text[length - 1] == '\n')
        length--;
    dump.text[length > 0 ? length : 0] = '\0';
}

/* "always [madvise] never" -> "madvise" */
static const char *read_thp_mode(void)
{
    char *open, *close;

    read_text("/sys/kernel/mm/transparent_hugepage/enabled");
    open = strchr(dump.text, '[');
    close = open == NULL ? NULL : strchr(open, ']');
    if (close == NULL)
        return "unknown";
    *close = '\0';
    return open + 1;
}

static const char *read_exe(void)
{
    ssize_t length = sys_readlink("/proc/thread-self/exe", dump.text, sizeof dump.text - 1);

    dump.text[length > 0 ? length : 0] = '\0';
    return dump.text;
}

/* ---- the records ----------------------------------------------------------------------------- */

static void write_settings(struct out *out)
{
    char text[OPTIONS_TEXT_MAX];

    out_field_open_sigsafe(out, "settings");
    for (enum option_id id = 0; id < OPTION_COUNT; id++) {
        options_format_sigsafe(dump.context->options, id, text);
        out_field_text_sigsafe(out, option_rows[id].name, text);
    }
    out_field_close_sigsafe(out);
}

static void write_header(struct out *out, enum dump_reason reason, int32_t pid, uint64_t now_ns)
{
    out_record_begin_sigsafe(out, "dump");
    out_field_u64_sigsafe(out, "format", DUMP_FORMAT);
    out_field_text_sigsafe(out, "version", PINPOOL_VERSION);
    out_field_u64_sigsafe(out, "pid", (uint64_t)pid);
    out_field_u64_sigsafe(out, "seq", dump.sequence);
    out_field_text_sigsafe(out, "reason", reason == DUMP_EXIT ? "exit" : "signal");
    out_field_u64_sigsafe(out, "time_unix_ns", sys_unix_ns());
    out_field_u64_sigsafe(out, "uptime_ns", now_ns - dump.context->start_ns);
    out_field_text_sigsafe(out, "exe", read_exe());
    out_field_u64_sigsafe(out, "page_bytes", dump.context->pool->region.page_bytes);
    out_field_text_sigsafe(out, "kernel", dump.context->kernel);
    out_field_text_sigsafe(out, "thp", read_thp_mode());
    out_field_text_sigsafe(out, "next", dump.context->next_path);
    write_settings(out);
    out_record_end_sigsafe(out);
}

static void write_memory(struct out *out)
{
    const struct pool *pool = dump.context->pool;

    out_record_begin_sigsafe(out, "memory");
    out_field_u64_sigsafe(out, "reserved_bytes", load_relaxed(&pool->region.figures->reserved_bytes));
    out_field_u64_sigsafe(out, "chunks", load_relaxed(&pool->region.chunk_count));
    out_field_u64_sigsafe(out, "metadata_bytes", load_relaxed(&pool->region.figures->metadata_bytes));
    out_field_u64_sigsafe(out, "heaps", load_relaxed(&pool->heap_count));
    out_record_end_sigsafe(out);
}

static void write_tier(struct out *out, unsigned t)
{
    const struct tiers *tiers = &dump.context->pool->tiers;
    const struct retention_tier *tier = &dump.retention.tiers[t];
    uint64_t block = tier_block_bytes(tiers, t);

    out_record_begin_sigsafe(out, "tier");
    out_field_u64_sigsafe(out, "block_bytes", block);
    out_field_u64_sigsafe(out, "granule_bytes", block / BLOCK_GRANULES);
    out_field_u64_sigsafe(out, "min_request_bytes", tier_smallest(tiers, t));
    out_field_u64_sigsafe(out, "max_request_bytes", tier_largest(tiers, t));
    out_field_u64_sigsafe(out, "current_blocks", tier->current_blocks);
    out_field_u64_sigsafe(out, "pinned_blocks", tier->pinned_blocks);
    out_field_u64_sigsafe(out, "empty_blocks", tier->empty_blocks);
    out_field_u64_sigsafe(out, "released_blocks", tier->released_blocks);
    out_field_u64_sigsafe(out, "live_slices", tier->live_slices);
    out_field_u64_sigsafe(out, "live_bytes", tier->live_bytes);
    out_field_u64_sigsafe(out, "cached_bytes", 0); /* bump has no caches */
    out_field_u64_sigsafe(out, "pinned_live_bytes", tier->pinned_live_bytes);
    out_field_u64_sigsafe(out, "sole_pinner_blocks", tier->sole_pinner_blocks);
    out_field_u64_sigsafe(out, "stranded_bytes", tier->stranded_bytes);
    out_field_u64_sigsafe(out, "stranded_resident_bytes", tier->stranded_resident_bytes);
    out_field_u64_sigsafe(out, "held_bytes",
                          (tier->current_blocks + tier->pinned_blocks + tier->empty_blocks) * block);
    out_record_end_sigsafe(out);
}

static void write_occupancy(struct out *out, uint64_t block_bytes, const struct retention_tier *tier)
{
    for (unsigned i = 0; i < OCCUPANCY_CLASSES; i++) {
        if (tier->occupancy[i].blocks == 0)
            continue;
        out_record_begin_sigsafe(out, "occupancy");
        out_field_u64_sigsafe(out, "block_bytes", block_bytes);
        out_field_u64_sigsafe(out, "from_slices", retention_occupancy_from(i));
        out_field_u64_sigsafe(out, "to_slices", retention_occupancy_from(i + 1) - 1);
        out_field_u64_sigsafe(out, "blocks", tier->occupancy[i].blocks);
        out_field_u64_sigsafe(out, "stranded_bytes", tier->occupancy[i].stranded_bytes);
        out_record_end_sigsafe(out);
    }
}

static void write_ages(struct out *out, uint64_t block_bytes, const struct retention_tier *tier)
{
    for (unsigned i = 0; i < AGE_CLASSES; i++) {
        if (tier->age[i].blocks == 0)
            continue;
        out_record_begin_sigsafe(out, "age");
        out_field_u64_sigsafe(out, "block_bytes", block_bytes);
        out_field_u64_sigsafe(out, "from_ms", retention_age_from_ms(i));
        if (i + 1 < AGE_CLASSES)
            out_field_u64_sigsafe(out, "to_ms", retention_age_from_ms(i + 1));
        out_field_u64_sigsafe(out, "blocks", tier->age[i].blocks);
        out_field_u64_sigsafe(out, "stranded_bytes", tier->age[i].stranded_bytes);
        out_record_end_sigsafe(out);
    }
}

static void write_worst_blocks(struct out *out)
{
    for (unsigned i = 0; i < dump.retention.worst_count; i++) {
        const struct retention_block *block = &dump.retention.worst[i];
        size_t index = (size_t)(block->block - block->chunk->blocks);

        out_record_begin_sigsafe(out, "block");
        out_field_u64_sigsafe(out, "block_bytes", (uint64_t)1 << block->chunk->block_shift);
        out_field_hex_sigsafe(out, "address",
                              (uintptr_t)block->chunk->base + (index << block->chunk->block_shift));
        out_field_u64_sigsafe(out, "heap", block->heap_id);
        out_field_u64_sigsafe(out, "live_slices", block->live_slices);
        out_field_u64_sigsafe(out, "live_bytes", block->live_bytes);
        out_field_u64_sigsafe(out, "stranded_bytes", block->stranded_bytes);
        out_field_u64_sigsafe(out, "stranded_resident_bytes", block->stranded_resident_bytes);
        out_field_u64_sigsafe(out, "age_ms", block->age_ns / 1000000);
        out_record_end_sigsafe(out);
    }
}

static const char *state_name(const struct heap *heap)
{
    switch (load_relaxed(&heap->state)) {
    case HEAP_LIVE:
    case HEAP_BUSY:
        return "live";
    case HEAP_WAITING:
        return "waiting";
    default:
        return "lost";
    }
}

static void write_threads(struct out *out)
{
    unsigned records = 0;

    /* acquire: pairs with the release push of a new heap. */
    for (struct heap *heap = atomic_load_explicit(&dump.context->pool->heaps, memory_order_acquire);
         heap != NULL && records < THREADS_MAX; heap = heap->next, records++) {
        out_record_begin_sigsafe(out, "thread");
        out_field_u64_sigsafe(out, "heap", heap->id);
        out_field_u64_sigsafe(out, "tid", (uint64_t)load_relaxed(&heap->tid));
        out_field_text_sigsafe(out, "state", state_name(heap));
        out_field_u64_sigsafe(out, "held_bytes", heap->account.held_bytes);
        out_field_u64_sigsafe(out, "pinned_blocks", heap->account.pinned_blocks);
        out_field_u64_sigsafe(out, "live_bytes", heap->account.live_bytes);
        out_field_u64_sigsafe(out, "stranded_bytes", heap->account.stranded_bytes);
        out_record_end_sigsafe(out);
    }
}

static void write_counter(struct out *out, const struct counter_row *row, uint64_t value,
                          uint64_t block_bytes)
{
    out_record_begin_sigsafe(out, "counter");
    out_field_text_sigsafe(out, "name", row->name);
    out_field_text_sigsafe(out, "unit", row->unit);
    out_field_u64_sigsafe(out, "value", value);
    if (block_bytes != 0)
        out_field_u64_sigsafe(out, "block_bytes", block_bytes);
    out_record_end_sigsafe(out);
}

static void write_counters(struct out *out)
{
    struct pool *pool = dump.context->pool;

    memset(dump.counters, 0, sizeof dump.counters);
    memset(dump.tier_counters, 0, sizeof dump.tier_counters);
    pool_sum_counters_sigsafe(pool, dump.counters, dump.tier_counters);
    for (unsigned i = 0; i < COUNTER_COUNT; i++)
        write_counter(out, &counter_rows[i], dump.counters[i], 0);
    for (unsigned t = 0; t < pool->tiers.count; t++)
        for (unsigned i = 0; i < TIER_COUNTER_COUNT; i++)
            write_counter(out, &tier_counter_rows[i], dump.tier_counters[t][i],
                          tier_block_bytes(&pool->tiers, t));
}

static void write_records(struct out *out, enum dump_reason reason, int32_t pid)
{
    struct pool *pool = dump.context->pool;
    uint64_t start_ns = sys_now_ns();
    uint64_t records;

    write_header(out, reason, pid, start_ns);
    retention_walk_sigsafe(&dump.retention, pool, start_ns, true);
    write_memory(out);
    for (unsigned t = 0; t < pool->tiers.count; t++) {
        write_tier(out, t);
        write_occupancy(out, tier_block_bytes(&pool->tiers, t), &dump.retention.tiers[t]);
        write_ages(out, tier_block_bytes(&pool->tiers, t), &dump.retention.tiers[t]);
    }
    write_worst_blocks(out);
    write_threads(out);
    write_counters(out);
    mappings_write_sigsafe(out);
    records = out->records;
    out_record_begin_sigsafe(out, "end");
    out_field_u64_sigsafe(out, "records", records);
    out_field_u64_sigsafe(out, "duration_ns", sys_now_ns() - start_ns);
    out_record_end_sigsafe(out);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A name that exists, a symbolic link included, belongs to somebody else: the next number is tried. */
static int open_next(int32_t pid)
{
    char path[PATHS_MAX];
    int fd = -EEXIST;

    for (int tries = 0; tries < SEQUENCE_TRIES && fd == -EEXIST; tries++) {
        path_format_sigsafe(path, dump.context->options->dir, pid, ++dump.sequence);
        fd = sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    return fd;
}

static void write_file(enum dump_reason reason)
{
    int32_t pid = sys_getpid();
    int fd = open_next(pid);
    struct out out;

    if (fd < 0)
        return;
    out_init_sigsafe(&out, fd, dump.buffer, sizeof dump.buffer);
    out.limit_bytes = min_size(FILE_BYTES_MAX, sys_file_limit_bytes());
    write_records(&out, reason, pid);
    out_flush_sigsafe(&out);
    (void)sys_close(fd);
}

/*
 * IDLE -> WRITING by the one who writes. Others, and a handler that interrupts the writer, turn WRITING
 * into WRITING_AND_WANTED, which sends the writer round once more; several wishes become one.
 */
void dump_write_sigsafe(enum dump_reason reason)
{
    uint32_t state = IDLE;

    if (dump.context == NULL)
        return;
    /* acquire-release: hands the static buffers from one writer to the next. */
    while (!atomic_compare_exchange_weak_explicit(&dump.state, &state,
                                                  state == IDLE ? WRITING : WRITING_AND_WANTED,
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
    if (state != IDLE)
        return;
    do {
        store_relaxed(&dump.state, WRITING);
        write_file(reason);
        state = WRITING;
        /* release: pairs with the acquire above. */
    } while (!atomic_compare_exchange_strong_explicit(&dump.state, &state, IDLE, memory_order_release,
                                                      memory_order_relaxed));
}
