/* SPDX-License-Identifier: MIT */
/* retention: see retention.h. */
#include "evidence/retention.h"

#include <string.h>

#include "base/sys.h"

static const uint64_t age_from_ms[AGE_CLASSES] = {0, 10, 100, 1000, 10000, 60000, 600000, 3600000};

unsigned retention_occupancy_from(unsigned index)
{
    return index == 0 ? 1 : (1U << (index - 1)) + 1;
}

uint64_t retention_age_from_ms(unsigned index)
{
    return age_from_ms[index];
}

/* 1 -> 0, 2 -> 1, 3..4 -> 2, 5..8 -> 3, ... */
static unsigned occupancy_class(unsigned live_slices)
{
    return bit_width(live_slices - 1);
}

static unsigned age_class(uint64_t age_ns)
{
    unsigned index = AGE_CLASSES - 1;

    while (age_ns / NS_PER_MS < age_from_ms[index])
        index--;
    return index;
}

/* ---- which of the stranded bytes are in memory ----------------------------------------------- */

/* Stranded bytes in one page. Either the page holds whole granules, or the granule whole pages. */
static uint64_t stranded_in_page(const struct chunk *chunk, size_t offset, size_t page_bytes, uint64_t live)
{
    unsigned granule_shift = chunk->block_shift - BLOCK_GRANULES_LOG2;
    unsigned first = (unsigned)(offset >> granule_shift);
    unsigned count = (unsigned)(page_bytes >> granule_shift);

    if (count <= 1)
        return (live >> first & 1) != 0 ? 0 : page_bytes;
    return (uint64_t)count_bits(~live & run_of_bits(first, count)) << granule_shift;
}

static uint64_t stranded_resident(const struct retention *retention, const struct chunk *chunk,
                                  size_t block_offset, size_t page_bytes, uint64_t live)
{
    size_t bytes = (size_t)1 << chunk->block_shift;
    uint64_t stranded = 0;

    if (page_bytes >= bytes)
        return (retention->residency[block_offset / page_bytes] & 1) == 0
                   ? 0
                   : (uint64_t)count_bits(~live) << (chunk->block_shift - BLOCK_GRANULES_LOG2);
    for (size_t at = 0; at < bytes; at += page_bytes)
        if ((retention->residency[(block_offset + at) / page_bytes] & 1) != 0)
            stranded += stranded_in_page(chunk, at, page_bytes, live);
    return stranded;
}

/* ---- the worst blocks: a heap (the data structure) with the least stranded at its root --------- */

static void sift_down(struct retention_block *worst, unsigned count, unsigned at)
{
    struct retention_block moving = worst[at];

    for (unsigned child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && worst[child + 1].stranded_bytes < worst[child].stranded_bytes)
            child++;
        if (worst[child].stranded_bytes >= moving.stranded_bytes)
            break;
        worst[at] = worst[child];
        at = child;
    }
    worst[at] = moving;
}

static void offer_worst(struct retention *retention, const struct retention_block *candidate)
{
    struct retention_block *worst = retention->worst;

    if (retention->worst_count == WORST_BLOCKS_MAX) {
        if (candidate->stranded_bytes <= worst[0].stranded_bytes)
            return;
        worst[0] = *candidate;
        sift_down(worst, WORST_BLOCKS_MAX, 0);
        return;
    }
    worst[retention->worst_count++] = *candidate;
    if (retention->worst_count == WORST_BLOCKS_MAX)
        for (unsigned at = WORST_BLOCKS_MAX / 2; at-- > 0;)
            sift_down(worst, WORST_BLOCKS_MAX, at);
}

/* Heap sort, with the least at the root, leaves the most first. */
static void sort_worst(struct retention *retention)
{
    struct retention_block *worst = retention->worst;

    for (unsigned at = retention->worst_count / 2; at-- > 0;)
        sift_down(worst, retention->worst_count, at);
    for (unsigned left = retention->worst_count; left > 1; left--) {
        struct retention_block least = worst[0];

        worst[0] = worst[left - 1];
        worst[left - 1] = least;
        sift_down(worst, left - 1, 0);
    }
}

struct retention_heap *retention_heap_of(struct retention *retention, uint32_t id)
{
    if (id > retention->latest_heap || id + RETENTION_HEAPS_MAX <= retention->latest_heap)
        return NULL;
    return &retention->heaps[id % RETENTION_HEAPS_MAX];
}

/* ---- the walk -------------------------------------------------------------------------------- */

struct walk {
    struct retention *retention;
    const struct pool *pool;
    uint64_t now_ns;
    bool with_residency;
    bool is_residency_known; /* of this chunk */
};

static bool know_residency(struct walk *walk, const struct chunk *chunk)
{
    if (walk->with_residency && !walk->is_residency_known) {
        walk->is_residency_known = true;
        if (sys_mincore(chunk->base, CHUNK_BYTES, walk->retention->residency) != 0)
            memset(walk->retention->residency, 0, sizeof walk->retention->residency);
    }
    return walk->with_residency;
}

static void count_pinned(struct walk *walk, const struct chunk *chunk, struct block *block,
                         const struct block_slices *slices, struct retention_heap *heap)
{
    struct retention_tier *tier = &walk->retention->tiers[chunk->tier];
    uint64_t since_ns = load_relaxed(&block->since_ns);
    uint64_t all_bytes = (uint64_t)1 << chunk->block_shift;
    uint64_t live_bytes = (uint64_t)slices->live_granules << (chunk->block_shift - BLOCK_GRANULES_LOG2);
    struct retention_block found = {
        .chunk = chunk,
        .block = block,
        .live_slices = slices->live_slices,
        .live_bytes = live_bytes,
        .stranded_bytes = all_bytes - live_bytes,
        .age_ns = walk->now_ns > since_ns ? walk->now_ns - since_ns : 0,
        .heap_id = load_relaxed(&block->carver),
    };
    struct retention_class *occupancy = &tier->occupancy[occupancy_class(slices->live_slices)];
    struct retention_class *age = &tier->age[age_class(found.age_ns)];

    if (know_residency(walk, chunk))
        found.stranded_resident_bytes =
            stranded_resident(walk->retention, chunk, (size_t)(block - chunk->blocks) << chunk->block_shift,
                              walk->pool->region.page_bytes, slices->live);
    tier->pinned_blocks++;
    tier->pinned_live_bytes += found.live_bytes;
    tier->sole_pinner_blocks += slices->live_slices == 1;
    tier->stranded_bytes += found.stranded_bytes;
    tier->stranded_resident_bytes += found.stranded_resident_bytes;
    occupancy->blocks++;
    occupancy->stranded_bytes += found.stranded_bytes;
    age->blocks++;
    age->stranded_bytes += found.stranded_bytes;
    if (heap) {
        heap->pinned_blocks++;
        heap->stranded_bytes += found.stranded_bytes;
    }
    offer_worst(walk->retention, &found);
}

/*
 * The state may be changing, and so may the marks; each is read once. A block without a live slice is empty, also
 * while threads keep slices of it in their caches.
 */
static void count_block(struct walk *walk, const struct chunk *chunk, struct block *block)
{
    struct retention_tier *tier = &walk->retention->tiers[chunk->tier];
    unsigned state = load_relaxed(&block->state);
    struct block_slices slices;
    struct retention_heap *heap;
    uint64_t live_bytes;

    if (state == BLOCK_FRESH)
        return;
    if (state == BLOCK_RELEASED) {
        tier->released_blocks++;
        return;
    }
    if (state != BLOCK_HELD && state != BLOCK_FILED) {
        tier->empty_blocks++;
        return;
    }
    block_count(block, &slices);
    live_bytes = (uint64_t)slices.live_granules << (chunk->block_shift - BLOCK_GRANULES_LOG2);
    tier->live_slices += slices.live_slices;
    tier->live_bytes += live_bytes;
    tier->cached_bytes += (uint64_t)slices.cached_granules << (chunk->block_shift - BLOCK_GRANULES_LOG2);
    heap = retention_heap_of(walk->retention, load_relaxed(&block->carver));
    if (heap) {
        heap->live_bytes += live_bytes;
        heap->held_bytes += (uint64_t)1 << chunk->block_shift;
    }
    if (state == BLOCK_HELD)
        tier->current_blocks++;
    else if (slices.live_slices != 0)
        count_pinned(walk, chunk, block, &slices, heap);
    else
        tier->empty_blocks++;
}

void retention_walk_sigsafe(struct retention *retention, struct pool *pool, uint64_t now_ns,
                            bool with_residency)
{
    struct walk walk = {
        .retention = retention, .pool = pool, .now_ns = now_ns, .with_residency = with_residency};

    memset(retention->tiers, 0, sizeof retention->tiers);
    retention->worst_count = 0;
    memset(retention->heaps, 0, sizeof retention->heaps);
    retention->latest_heap = load_relaxed(&pool->heap_count);
    /* acquire: pairs with the release store of a new chunk, and below with that of its used blocks. */
    for (struct chunk *chunk = atomic_load_explicit(&pool->region.chunks, memory_order_acquire); chunk;
         chunk = chunk->next) {
        uint32_t used = atomic_load_explicit(&chunk->used_blocks, memory_order_acquire);

        walk.is_residency_known = false;
        for (uint32_t i = 0; i < used; i++)
            count_block(&walk, chunk, &chunk->blocks[i]);
    }
    sort_worst(retention);
}
