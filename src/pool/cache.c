/* SPDX-License-Identifier: MIT */
/* cache: giving slices back, and how much a class may keep; see cache.h. */
#include "pool/cache.h"

#include <string.h>

enum {
    LIMIT_AT_FIRST = 4,            /* slices that a class keeps once it is used */
    ROOM_AT_FIRST = 16,            /* for entries of a class */
    LOOK_INTERVAL_NS = 1000000000, /* between looks for slices that are not needed */
};

void cache_init(struct cache *cache, uint32_t heap_id, const struct tiers *tiers, struct bins *bins,
                _Atomic(size_t) *room_of_all_bytes)
{
    cache->mark = block_cached_mark(heap_id);
    cache->tiers = tiers;
    cache->bins = bins;
    cache->room_of_all_bytes = room_of_all_bytes;
}

/*
 * The granules of all entries from `first` to `end`, slices of `count` each, that are in the block of the first;
 * those entries go.
 */
static uint64_t collect_block(const struct cache *cache, struct cache_entry *first, struct cache_entry **end,
                              unsigned count)
{
    struct block *block = block_of_mark(first->mark);
    uint64_t granules = 0;

    for (struct cache_entry *at = first; at < *end;) {
        if (block_of_mark(at->mark) != block) {
            at++;
            continue;
        }
        if (load_relaxed(at->mark) != cache->mark)
            block_found_double_free(at->address);
        granules |= run_of_bits(block_index_of_mark(at->mark), count);
        /* Ours while it is cached. Before the granules are given back: block.h, on fork. */
        atomic_store_explicit(at->mark, 0, memory_order_release);
        *at = *--*end;
    }
    return granules;
}

unsigned cache_flush(struct cache *cache, unsigned tier, unsigned granules_each, unsigned count)
{
    struct cache_class *class = &cache->classes[tier][granules_each - 1];
    struct cache_entry taken[CACHE_ENTRIES_MAX];
    struct cache_entry *end = taken + count;
    unsigned left = class->count - count;

    /* A fork in the middle may leave a child some entries twice; it never reads them, for its heap is BUSY. */
    memcpy(taken, class->entries, count * sizeof taken[0]);
    for (unsigned at = 0; at < left;
         at += count) /* memmove would be a name of libc's that others may define */
        memcpy(class->entries + at, class->entries + at + count,
               min_size(count, left - at) * sizeof taken[0]);
    class->count = (uint16_t)left;
    class->low = (uint16_t)min_size(class->low, class->count);
    while (end > taken) {
        struct block *block = block_of_mark(taken->mark);
        uint64_t granules = collect_block(cache, taken, &end, granules_each);
        /* seq_cst: as block_give. */
        uint64_t free = atomic_fetch_or(&block->free, granules) | granules;

        bins_freed(&cache->bins[tier], block, free);
    }
    return count;
}

/* What the limits of all classes come to has become more, or less. */
static void add_room(struct cache *cache, size_t bytes)
{
    cache->room_bytes += bytes;
    atomic_fetch_add_explicit(cache->room_of_all_bytes, bytes, memory_order_relaxed);
}

static void take_room(struct cache *cache, size_t bytes)
{
    cache->room_bytes -= bytes;
    atomic_fetch_sub_explicit(cache->room_of_all_bytes, bytes, memory_order_relaxed);
}

uint64_t cache_flush_all(struct cache *cache)
{
    uint64_t flushed = 0;

    for (unsigned t = 0; t < cache->tiers->count; t++)
        for (unsigned i = 0; i < CACHE_GRANULES_MAX; i++) {
            struct cache_class *class = &cache->classes[t][i];

            if (class->count > 0)
                flushed += cache_flush(cache, t, i + 1, class->count);
            class->limit = 0;
        }
    take_room(cache, cache->room_bytes);
    return flushed;
}

unsigned cache_limit_for(size_t slice_bytes)
{
    if (slice_bytes > CACHE_CLASS_BYTES_MAX)
        return 0;
    return (unsigned)min_size(CACHE_CLASS_BYTES_MAX / slice_bytes, CACHE_ENTRIES_MAX);
}

/* Room for `limit` entries. What is replaced is not used again: a class grows a few times in its life. */
static bool make_entries(struct cache_class *class, unsigned limit, struct region *region, const void *self)
{
    unsigned room = limit <= ROOM_AT_FIRST ? ROOM_AT_FIRST : CACHE_ENTRIES_MAX;
    struct cache_entry *entries;

    if (limit <= class->room)
        return true;
    entries = region_metadata(region, room * sizeof *entries, self);
    if (!entries)
        return false;
    if (class->count > 0)
        memcpy(entries, class->entries, class->count * sizeof *entries);
    class->entries = entries;
    class->room = (uint16_t)room;
    return true;
}

bool cache_raise_limit(struct cache *cache, struct cache_class *class, size_t slice_bytes,
                       struct region *region, const void *self)
{
    unsigned limit =
        (unsigned)min_size(max_size(2 * (size_t) class->limit, LIMIT_AT_FIRST), cache_limit_for(slice_bytes));
    size_t more_bytes = (limit - class->limit) * slice_bytes;

    if (limit <= class->limit || cache->room_bytes + more_bytes > CACHE_BYTES_MAX ||
        load_relaxed(cache->room_of_all_bytes) + more_bytes > CACHE_ALL_BYTES_MAX ||
        !make_entries(class, limit, region, self))
        return false;
    class->limit = (uint16_t)limit;
    add_room(cache, more_bytes); /* two threads at once may go a little beyond what all may have */
    return true;
}

uint64_t cache_look(struct cache *cache, uint64_t now_ns)
{
    uint64_t flushed = 0;

    if (likely(now_ns < cache->next_look_ns))
        return 0;
    cache->next_look_ns = now_ns + LOOK_INTERVAL_NS;
    for (unsigned t = 0; t < cache->tiers->count; t++) {
        for (unsigned i = 0; i < CACHE_GRANULES_MAX; i++) {
            struct cache_class *class = &cache->classes[t][i];
            unsigned idle = (unsigned)min_size((class->low + 1U) / 2, class->count);

            if (idle > 0) {
                flushed += cache_flush(cache, t, i + 1, idle);
                class->limit = (uint16_t)(class->limit - idle);
                take_room(cache, idle * ((i + 1) * (tier_block_bytes(cache->tiers, t) / BLOCK_GRANULES)));
            }
            class->low = class->count;
        }
    }
    return flushed;
}
