/* SPDX-License-Identifier: MIT */
/*
 * cache: slices that a thread has freed and keeps for its next requests, by tier and number of granules, whoever
 * allocated them. Neither allocating from it nor freeing into it changes anything of a block but the
 * slice's mark, which says that it is cached (block.h): the account knows it from live ones, and a second free of
 * it is noticed.
 *
 *   class (tier, granules)     entries, beside the class and not in the slices: what a program writes to memory
 *   +-----------------------+  that it has freed harms nobody, and a slice never touched stays so
 *   | entries --------------+---> | address, mark | address, mark | ... |
 *   | count low limit       |       0               1        count -1      limit
 *   +-----------------------+
 *
 * A class begins with room for nothing. One that overflows grows, by its room again, up to what its tier's slices
 * and the budgets of the thread and of all threads allow; `low`, the fewest that it had since the last look, is what was not needed
 * meanwhile: the look gives that back.
 *
 * The mark of a cached slice says whose it is, as far as a byte can. It is looked at when the slice leaves the cache:
 * another mark means that somebody has freed the slice, too (block.h), and ends the program.
 *
 * A thread's own; the handler that writes the dump does not look here but at the marks. A fork between two stores
 * leaves `count` right or one too low.
 */
#ifndef PINPOOL_POOL_CACHE_H
#define PINPOOL_POOL_CACHE_H

#include "pool/bins.h"
#include "pool/block.h"
#include "pool/region.h"
#include "pool/tier.h"

enum {
    CACHE_GRANULES_MAX = BLOCK_GRANULES / 2, /* the largest request of a tier is half a block */
    CACHE_ENTRIES_MAX = 128,                 /* of a class */
    CACHE_CLASS_BYTES_MAX = 512 << 10,       /* of a class; one slice at least, if it has no more */
    CACHE_BYTES_MAX = 4 << 20,               /* of a thread */
    CACHE_ALL_BYTES_MAX = 32 << 20,          /* of all threads of a pool */
};

struct cache_entry {
    char *address;
    _Atomic(uint8_t) *mark;
};

struct cache_class {
    struct cache_entry *entries;
    uint16_t count;
    uint16_t low;   /* the least that count was since the last look */
    uint16_t limit; /* of count, now */
    uint16_t room;  /* of entries */
};

struct cache {
    uint8_t mark;                                              /* of its slices: block_cached_mark() */
    struct cache_class classes[TIERS_MAX][CACHE_GRANULES_MAX]; /* [tier][granules - 1] */
    uint64_t next_look_ns;
    size_t room_bytes; /* that all classes could hold at their limits */
    const struct tiers *tiers;
    struct bins *bins;                  /* of each tier */
    _Atomic(size_t) *room_of_all_bytes; /* the sum of room_bytes over the pool's heaps */
};

/* `cache` is zeroed memory. */
void cache_init(struct cache *cache, uint32_t heap_id, const struct tiers *tiers, struct bins *bins,
                _Atomic(size_t) *room_of_all_bytes);

/*
 * Gives the `count` oldest slices of a class, which has them, back to their blocks, with one OR a block. Returns how
 * many. Like all that follows the owner's, who is BUSY.
 */
unsigned cache_flush(struct cache *cache, unsigned tier, unsigned granules_each, unsigned count);

/* All that it has, and its limits begin anew. Returns how many slices. */
uint64_t cache_flush_all(struct cache *cache);

/*
 * When it is time: what a class has had all the time since the last look was not needed. Half of it goes, and as much
 * of its limit, so that another class may grow. Returns how many slices were given back.
 */
uint64_t cache_look(struct cache *cache, uint64_t now_ns);

/* How many slices of so many bytes a class may have at most. */
unsigned cache_limit_for(size_t slice_bytes);

/* Lets a class that has overflowed keep twice as many, if the budget allows. */
bool cache_raise_limit(struct cache *cache, struct cache_class *class, size_t slice_bytes,
                       struct region *region, const void *self);

/* A slice of the class, which has one, made live again. */
INLINE void *cache_pop(const struct cache *cache, struct cache_class *class, unsigned granules)
{
    uint16_t left = (uint16_t)(class->count - 1);
    const struct cache_entry *entry = &class->entries[left];

    if (unlikely(load_relaxed(entry->mark) != cache->mark))
        block_found_double_free(entry->address);
    if (left < class->low)
        class->low = left;
    atomic_signal_fence(memory_order_release); /* never above the count, for a fork */
    class->count = left;
    /* release: after the count, for a fork. */
    atomic_store_explicit(entry->mark, (uint8_t)granules, memory_order_release);
    return entry->address;
}

/* A slice whose mark says that it is cached here. The class has room. */
INLINE void cache_push(struct cache_class *class, void *address, _Atomic(uint8_t) *mark)
{
    uint16_t count = class->count;

    class->entries[count] = (struct cache_entry){address, mark};
    atomic_signal_fence(memory_order_release); /* before the count, for a fork */
    class->count = (uint16_t)(count + 1);
}

#endif
