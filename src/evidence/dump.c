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
#include "base/on_stack.h"
#include "base/options.h"
#include "base/out.h"
#include "base/paths.h"
#include "base/record.h"
#include "base/sys.h"
#include "evidence/filter.h"
#include "evidence/mappings.h"
#include "evidence/retention.h"
#include "evidence/textfile.h"
#include "pool/heap.h"

enum {
    DUMP_FORMAT = 1,
    BUFFER_BYTES = 16 << 10,
    FILE_BYTES_MAX = 4 << 20,
    SEQUENCE_TRIES = 1000, /* names taken by files of an earlier process with our pid */
    STACK_BYTES = 32 << 10,
};

/* Ordered: a later wish replaces an earlier one, and what somebody asked for by name is not lost. */
enum dump_state { IDLE, WRITING, WANTED_BY_SIGNAL, WANTED_BY_REQUEST };

static struct {
    const struct dump_context *context;
    _Atomic(int32_t) pid;      /* the process whose dumps these are; a child of vfork is another */
    _Atomic(uint32_t) waiters; /* in dump_wait */
    _Atomic(uint32_t) state;   /* enum dump_state: who makes it WRITING is the only writer of what follows */
    bool is_filtered;          /* leave out what only special system calls tell */
    uint64_t sequence;         /* of the last file */
    uint64_t
        unasked[DUMP_UNASKED_MAX]; /* numbers of the latest dumps that a plain signal asked for; 0: none */
    unsigned next_unasked;         /* where the next goes: the oldest of them */
    struct retention retention;
    uint64_t counters[COUNTER_COUNT];
    uint64_t tier_counters[TIERS_MAX][TIER_COUNTER_COUNT];
    char text[4096];
    char buffer[BUFFER_BYTES];
    _Alignas(16) char stack[STACK_BYTES];
} dump;

void dump_init(const struct dump_context *context)
{
    dump.context = context;
    store_relaxed(&dump.pid, sys_getpid());
}

void dump_wait(uint64_t timeout_ns)
{
    uint64_t end_ns = sys_now_ns() + timeout_ns;
    uint64_t now_ns;
    uint32_t state;

    /* seq_cst: pairs with the load in write_all. Either it sees us waiting, or we see that it is done. */
    atomic_fetch_add(&dump.waiters, 1);
    while ((state = atomic_load(&dump.state)) != IDLE && (now_ns = sys_now_ns()) < end_ns)
        sys_futex_wait(&dump.state, state, end_ns - now_ns);
    atomic_fetch_sub(&dump.waiters, 1);
}

void dump_after_fork_sigsafe(void)
{
    store_relaxed(&dump.state, IDLE);
    store_relaxed(&dump.waiters, 0);
    store_relaxed(&dump.pid, sys_getpid());
    dump.sequence = 0;
    memset(dump.unasked, 0, sizeof dump.unasked);
}

/* ---- what the machine says ------------------------------------------------------------------- */

/* "always [madvise] never" -> "madvise" */
static const char *read_thp_mode(void)
{
    char *open, *close;

    (void)textfile_read_sigsafe("/sys/kernel/mm/transparent_hugepage/enabled", dump.text, sizeof dump.text);
    open = strchr(dump.text, '[');
    close = !open ? NULL : strchr(open, ']');
    if (!close)
        return "unknown";
    *close = '\0';
    return open + 1;
}

/*
 * A write beyond RLIMIT_FSIZE is a signal that ends the program. Read from a file, for prlimit is not in
 * every filter; without /proc there is no other way to know.
 */
static uint64_t file_limit_bytes(void)
{
    char text[64];
    uint64_t bytes = 0;
    const char *at;

    if (textfile_find_sigsafe("/proc/thread-self/limits", "Max file size", text, sizeof text) < 0)
        return sys_file_limit_bytes();
    at = text + strspn(text, " ");
    if (*at < '0' || *at > '9')
        return UINT64_MAX; /* "unlimited" */
    for (; *at >= '0' && *at <= '9'; at++)
        bytes = bytes * 10 + (uint64_t)(*at - '0');
    return bytes;
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
    const struct dump_header header = {
        .format = DUMP_FORMAT,
        .version = PINPOOL_VERSION,
        .pid = (uint64_t)pid,
        .seq = dump.sequence,
        .reason = reason == DUMP_EXIT ? "exit" : "signal",
        .time_unix_ns = sys_unix_ns(),
        .uptime_ns = now_ns - dump.context->start_ns,
        .exe = dump.context->exe,
        .page_bytes = dump.context->pool->region.page_bytes,
        .kernel = dump.context->kernel,
        .thp = read_thp_mode(),
        .next = dump.context->next_path,
        .filtered = dump.is_filtered,
    };

    out_record_begin_sigsafe(out, record_header.type);
    record_write_fields_sigsafe(out, &record_header, &header);
    write_settings(out);
    out_record_end_sigsafe(out);
}

static void write_memory(struct out *out)
{
    const struct pool *pool = dump.context->pool;
    const struct dump_memory memory = {
        .reserved_bytes = load_relaxed(&pool->region.figures.reserved_bytes),
        .chunks = load_relaxed(&pool->region.chunk_count),
        .metadata_bytes = load_relaxed(&pool->region.figures.metadata_bytes),
        .heaps = load_relaxed(&pool->heap_count),
    };

    record_write_sigsafe(out, &record_memory, &memory);
}

/* Which pages are in memory is not known where the system call for it might kill. */
static uint64_t resident(uint64_t bytes)
{
    return dump.is_filtered ? UINT64_MAX : bytes;
}

static void write_tier(struct out *out, unsigned t)
{
    const struct tiers *tiers = &dump.context->pool->tiers;
    const struct retention_tier *tier = &dump.retention.tiers[t];
    const uint64_t block_bytes = tier_block_bytes(tiers, t);
    const struct dump_tier record = {
        .block_bytes = block_bytes,
        .granule_bytes = block_bytes / BLOCK_GRANULES,
        .min_request_bytes = tier_smallest(tiers, t),
        .max_request_bytes = tier_largest(tiers, t),
        .current_blocks = tier->current_blocks,
        .pinned_blocks = tier->pinned_blocks,
        .empty_blocks = tier->empty_blocks,
        .released_blocks = tier->released_blocks,
        .live_slices = tier->live_slices,
        .live_bytes = tier->live_bytes,
        .cached_bytes = tier->cached_bytes,
        .pinned_live_bytes = tier->pinned_live_bytes,
        .sole_pinner_blocks = tier->sole_pinner_blocks,
        .stranded_bytes = tier->stranded_bytes,
        .stranded_resident_bytes = resident(tier->stranded_resident_bytes),
        .held_bytes = (tier->current_blocks + tier->pinned_blocks + tier->empty_blocks) * block_bytes,
    };

    record_write_sigsafe(out, &record_tier, &record);
}

static void write_occupancy(struct out *out, uint64_t block_bytes, const struct retention_tier *tier)
{
    for (unsigned i = 0; i < OCCUPANCY_CLASSES; i++) {
        const struct dump_occupancy occupancy = {
            .block_bytes = block_bytes,
            .from_slices = retention_occupancy_from(i),
            .to_slices = retention_occupancy_from(i + 1) - 1,
            .blocks = tier->occupancy[i].blocks,
            .stranded_bytes = tier->occupancy[i].stranded_bytes,
        };

        if (occupancy.blocks != 0)
            record_write_sigsafe(out, &record_occupancy, &occupancy);
    }
}

static void write_ages(struct out *out, uint64_t block_bytes, const struct retention_tier *tier)
{
    for (unsigned i = 0; i < AGE_CLASSES; i++) {
        const struct dump_age age = {
            .block_bytes = block_bytes,
            .from_ms = retention_age_from_ms(i),
            .to_ms = i + 1 < AGE_CLASSES ? retention_age_from_ms(i + 1) : UINT64_MAX,
            .blocks = tier->age[i].blocks,
            .stranded_bytes = tier->age[i].stranded_bytes,
        };

        if (age.blocks != 0)
            record_write_sigsafe(out, &record_age, &age);
    }
}

static void write_worst_blocks(struct out *out)
{
    for (unsigned i = 0; i < dump.retention.worst_count; i++) {
        const struct retention_block *block = &dump.retention.worst[i];
        const size_t index = (size_t)(block->block - block->chunk->blocks);
        const struct dump_block record = {
            .block_bytes = (uint64_t)1 << block->chunk->block_shift,
            .address = (uintptr_t)block->chunk->base + (index << block->chunk->block_shift),
            .heap = block->heap_id,
            .live_slices = block->live_slices,
            .live_bytes = block->live_bytes,
            .stranded_bytes = block->stranded_bytes,
            .stranded_resident_bytes = resident(block->stranded_resident_bytes),
            .age_ms = block->age_ns / NS_PER_MS,
        };

        record_write_sigsafe(out, &record_block, &record);
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
         heap && records < RETENTION_HEAPS_MAX; heap = heap->next, records++) {
        static const struct retention_heap nothing;
        const struct retention_heap *found = retention_heap_of(&dump.retention, heap->id);
        const struct retention_heap *has = found ? found : &nothing;
        const struct dump_thread thread = {
            .heap = heap->id,
            .tid = (uint64_t)load_relaxed(&heap->tid),
            .state = state_name(heap),
            .held_bytes = has->held_bytes,
            .pinned_blocks = has->pinned_blocks,
            .live_bytes = has->live_bytes,
            .stranded_bytes = has->stranded_bytes,
        };

        record_write_sigsafe(out, &record_thread, &thread);
    }
}

static void write_counter(struct out *out, const struct counter_row *row, uint64_t value,
                          uint64_t block_bytes)
{
    const struct dump_counter counter = {
        .name = row->name,
        .unit = row->unit,
        .value = value,
        .block_bytes = block_bytes,
    };

    record_write_sigsafe(out, &record_counter, &counter);
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
    struct dump_end end;

    write_header(out, reason, pid, start_ns);
    retention_walk_sigsafe(&dump.retention, pool, start_ns, !dump.is_filtered);
    write_memory(out);
    for (unsigned t = 0; t < pool->tiers.count; t++) {
        write_tier(out, t);
        write_occupancy(out, tier_block_bytes(&pool->tiers, t), &dump.retention.tiers[t]);
        write_ages(out, tier_block_bytes(&pool->tiers, t), &dump.retention.tiers[t]);
    }
    write_worst_blocks(out);
    write_threads(out);
    write_counters(out);
    mappings_write_sigsafe(out, !dump.is_filtered);
    end = (struct dump_end){.records = out->records, .duration_ns = sys_now_ns() - start_ns};
    record_write_sigsafe(out, &record_end, &end);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* A name that exists, a symbolic link included, belongs to somebody else: the next number is tried. */
static int open_next(int32_t pid, char path[PATHS_MAX])
{
    int fd = -EEXIST;

    for (int tries = 0; tries < SEQUENCE_TRIES && fd == -EEXIST; tries++) {
        path_format_sigsafe(path, dump.context->options->dir, pid, ++dump.sequence);
        fd = sys_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
    return fd;
}

/* A dump that cannot be written whole (a full disk) is taken away again. 0, or -errno. */
static int write_file(enum dump_reason reason, int32_t pid)
{
    char path[PATHS_MAX];
    struct out out;
    int fd = open_next(pid, path);

    if (fd < 0)
        return fd;
    out_init_sigsafe(&out, fd, dump.buffer, sizeof dump.buffer);
    out.limit_bytes = min_size(FILE_BYTES_MAX, file_limit_bytes());
    write_records(&out, reason, pid);
    out_flush_sigsafe(&out);
    (void)sys_close(fd);
    if (out.failed && !dump.is_filtered)
        (void)sys_unlink(path);
    return out.failed ? -EIO : 0;
}

/*
 * Of the dumps that plain signals ask for the latest are kept. Under a filter none is deleted, nor written.
 */
static bool make_room(int32_t pid)
{
    char path[PATHS_MAX];
    uint64_t oldest = dump.unasked[dump.next_unasked];

    if (oldest != 0 && dump.is_filtered)
        return false;
    if (oldest != 0) {
        path_format_sigsafe(path, dump.context->options->dir, pid, oldest);
        (void)sys_unlink(path);
    }
    return true;
}

static void write_one(enum dump_reason reason)
{
    struct counters *shared = &dump.context->pool->shared;
    int32_t pid = sys_getpid();
    int result;

    dump.is_filtered = filter_may_kill_sigsafe();
    if (reason == DUMP_SIGNAL && !make_room(pid))
        return;
    result = write_file(reason, pid);
    counter_add_shared(&shared->of_heap[result == 0 ? COUNTER_dumps_written : COUNTER_dumps_failed], 1);
    if (reason == DUMP_SIGNAL) {
        dump.unasked[dump.next_unasked] = result == 0 ? dump.sequence : 0;
        dump.next_unasked = (dump.next_unasked + 1) % DUMP_UNASKED_MAX;
    }
}

/* Until nobody wants one more. */
static void write_all(void *first)
{
    enum dump_reason reason = *(enum dump_reason *)first;
    uint32_t state;

    do {
        store_relaxed(&dump.state, WRITING);
        write_one(reason);
        state = WRITING;
        /* seq_cst: release pairs with the acquire in dump_write_sigsafe, the rest with dump_wait. */
        if (atomic_compare_exchange_strong(&dump.state, &state, IDLE))
            break;
        reason = state == WANTED_BY_SIGNAL ? DUMP_SIGNAL : DUMP_REQUEST;
    } while (true);
    if (atomic_load(&dump.waiters) != 0)
        sys_futex_wake(&dump.state, INT32_MAX);
}

/*
 * IDLE -> WRITING by the one who writes. Others, and a handler that interrupts the writer, turn WRITING into
 * a wish, which sends the writer round once more; several wishes become one. A child of vfork runs in its
 * parent's memory and may be killed here: it leaves all of it alone.
 */
void dump_write_sigsafe(enum dump_reason reason)
{
    uint32_t wish = reason == DUMP_SIGNAL ? WANTED_BY_SIGNAL : WANTED_BY_REQUEST;
    uint32_t state = IDLE;

    if (!dump.context || load_relaxed(&dump.pid) != sys_getpid())
        return;
    /* acquire-release: hands the static buffers from one writer to the next. */
    while (!atomic_compare_exchange_weak_explicit(&dump.state, &state,
                                                  state == IDLE  ? WRITING
                                                  : state < wish ? wish
                                                                 : state,
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
    if (state == IDLE)
        on_stack_call(dump.stack + sizeof dump.stack, write_all, &reason);
}
