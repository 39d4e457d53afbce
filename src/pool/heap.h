/* SPDX-License-Identifier: MIT */
/*
 * heap: what one thread allocates from, and the pool of all heaps.
 *
 *   heap (one thread at a time)                bins of each tier (everybody; bins.h)
 *   +--------------------------------+         +---------------------------------+
 *   | cache of freed slices          | ------> | look-again stack                |
 *   | current block of each tier     | <-----> | by longest run, empty, released |
 *   +--------------------------------+         +---------------------------------+
 *
 *   allocate:  out of the cache; else from the current block; else the current block is exchanged for the
 *              fullest that has room
 *   free:      into the cache, whoever allocated it; else the granules are given back to the block, and the
 *              block to the bins if nobody holds it
 *
 * Under the policy bump there are no caches, and blocks are carved upwards only.
 *
 * A heap outlives its thread: it is counters, a cache and held blocks, and a new thread takes it over. Who has it
 * is said by its state, and there is no lock in it:
 *
 *   LIVE      a thread has it and is not in a slow path          -> BUSY     by that thread
 *   BUSY      a thread has it and is in a slow path              -> LIVE, WAITING    by that thread
 *   WAITING   no thread has it                                   -> LIVE     adopted (compare-exchange)
 *   LOST      in a forked child: its thread vanished while BUSY; for ever, with what it had
 *
 * Adopting and releasing a heap order all its plain fields between its threads: the store of WAITING is a release,
 * the compare-exchange from it an acquire.
 */
#ifndef PINPOOL_POOL_HEAP_H
#define PINPOOL_POOL_HEAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/counters.h"
#include "pool/bins.h"
#include "pool/block.h"
#include "pool/cache.h"
#include "pool/region.h"
#include "pool/tier.h"

struct pool;

enum { HEAP_LOOK_EVERY = 256 }; /* frees, counted by tier and by who carved */

enum heap_state { HEAP_LIVE, HEAP_BUSY, HEAP_WAITING, HEAP_LOST };

struct heap {
    /* The owner's: the first two lines are all that the fast paths read of a heap, besides a class of the cache. */
    _Alignas(CACHE_LINE_BYTES) struct tiers tiers; /* the pool's, or a gate that sends all to the slow path */
    struct block *current[TIERS_MAX];              /* or &block_closed */
    struct counters *counters;

    struct pool *pool;
    const void *thread;           /* the owner's mark for locks */
    struct heap *next;            /* in the pool's list; fixed */
    uint32_t id;                  /* 1, 2, ...; fixed; 0 of a gate */
    _Atomic(int32_t) tid;         /* the owner's thread id, for people; 0 without one */
    _Atomic(uint32_t) state;      /* enum heap_state */
    uint8_t exchanges[TIERS_MAX]; /* how often a block was asked for, up to what makes a thread hold one */

    _Alignas(CACHE_LINE_BYTES) struct cache cache;
};

_Static_assert(offsetof(struct heap, pool) <= 2 * CACHE_LINE_BYTES, "what fast paths read is in two lines");

struct pool_config {
    size_t block_bytes[TIERS_MAX]; /* ascending powers of two from 4 KiB to 4 MiB */
    unsigned tier_count;
    size_t min_bytes;
    uint64_t decay_ns; /* how long empty blocks keep their pages */
    size_t page_bytes;
    bool reuses_holes; /* the policy: reuse, or bump */
};

/*
 * The current block of those that have none: nothing can be carved from it, for no granule is free and there is
 * no room above its top. Never written.
 */
extern struct block block_closed;

struct pool {
    struct tiers tiers;
    uint64_t decay_ns;
    bool reuses_holes;
    struct counters shared;       /* of threads without a heap; added to atomically */
    _Atomic(struct heap *) heaps; /* all, newest first; only ever pushed to */
    _Atomic(uint32_t) heap_count;
    _Atomic(size_t) cache_room_bytes; /* what the limits of all caches come to */
    _Atomic(uint32_t) waiting_heaps;  /* a hint: about how many are WAITING */
    _Atomic(struct heap *)
        left_heaps; /* in a forked child: they and those behind may still have blocks; or NULL */
    _Atomic(uint64_t) next_release_ns; /* no look for pages to give back before this (monotonic) */
    struct bins bins[TIERS_MAX];
    struct region region;
};

/* `pool` is zeroed memory. Several pools may live side by side. */
void pool_init(struct pool *pool, const struct pool_config *config);

/*
 * A heap for the calling thread, adopted or new; NULL when there is no memory for one. `thread` marks
 * the thread: any address that no other thread passes while this one lives.
 */
struct heap *heap_acquire(struct pool *pool, const void *thread, int32_t tid);

/* The thread ends: its cache and its blocks are given back, and the heap waits for the next. The owner. */
void heap_release(struct heap *heap);

/* Allocation when the fast path found no room. NULL: no address space. The owner. */
COLD void *heap_allocate_slow(struct heap *heap, size_t bytes, size_t alignment, bool *is_touched);

/*
 * Frees a live slice when its class of the cache has no room: makes some, or gives it to its block. False: it was
 * freed meanwhile by somebody else. The owner.
 */
COLD bool heap_free_slow(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned count);

/*
 * Frees a live slice of `block` to the block. `heap` is the calling thread's own, or any without an owner (its
 * counters are then the pool's shared ones). False: it was freed meanwhile by somebody else. Any thread.
 */
bool heap_free_to_block(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned count);

/*
 * Answers realloc in place when the slice's tier stays the same and, for growth, the thread holds the block and
 * the next granules are free. Any thread. `mark` is the live slice's, of `old_count` granules.
 */
bool heap_resize(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned old_count,
                 size_t bytes);

/*
 * Looks whether cached slices are not needed, and pages are due to go back. A thread that finds all it needs in its
 * cache passes no slow path, so its frees call this now and then. The owner.
 */
COLD void heap_look(struct heap *heap);

/* Empties the cache, and gives the pages of all empty blocks back now. True if there were any. The owner. */
bool heap_trim(struct heap *heap);

/*
 * In a forked child, on the thread that forked, before it uses the pool: `own` is that thread's heap or NULL,
 * `thread` its mark. Heaps of vanished threads wait for adoption, or are LOST. Other threads of the child may
 * free meanwhile, as threads without a heap do (heap_free_to_block), and nothing else.
 */
void pool_after_fork(struct pool *pool, struct heap *own, const void *thread, int32_t tid);

/* Adds every heap's counters and the shared ones to the sums. Any thread, and the signal handler. */
void pool_sum_counters_sigsafe(struct pool *pool, uint64_t of_heap[COUNTER_COUNT],
                               uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT]);

/* Do the heap's structures contradict each other? For tests and debug builds; the owner. */
bool heap_is_valid(const struct heap *heap);

/* Adds one to a counter of a heap, or atomically to the shared one if it is not a real heap. Any thread. */
void heap_count_slow(struct heap *heap, enum counter_id id);

/* ---- fast paths ------------------------------------------------------------------------------ */

INLINE void heap_count_carved(struct heap *heap, unsigned tier, size_t bytes)
{
    _Atomic(uint64_t) *counters = heap->counters->of_tier[tier];

    counter_add(&counters[TIER_COUNTER_carved_slices], 1);
    counter_add(&counters[TIER_COUNTER_carved_bytes], bytes);
}

/* Counts a freed slice, whose block the heap `carver` held last. Returns how many were counted there before. */
INLINE uint64_t heap_count_freed(struct heap *heap, unsigned tier, uint32_t carver, size_t bytes)
{
    _Atomic(uint64_t) *counters = &heap->counters->of_tier[tier][TIER_COUNTER_freed_local_slices];

    if (carver != heap->id)
        counters += TIER_COUNTER_freed_remote_slices - TIER_COUNTER_freed_local_slices;
    counter_add(&counters[1], bytes);
    return counter_add(&counters[0], 1);
}

_Static_assert(TIER_COUNTER_freed_local_bytes == TIER_COUNTER_freed_local_slices + 1 &&
                   TIER_COUNTER_freed_remote_bytes == TIER_COUNTER_freed_remote_slices + 1,
               "heap_count_freed indexes them");

/* Where a request of `bytes`, which tiers_serve() says is ours, belongs. */
struct heap_place {
    unsigned tier, shift, count; /* granules of 2^shift bytes */
};

INLINE struct heap_place heap_place_of(const struct heap *heap, size_t bytes)
{
    unsigned tier = tier_of(&heap->tiers, bytes);
    unsigned shift = heap->tiers.block_shift[tier] - (unsigned)BLOCK_GRANULES_LOG2;

    return (struct heap_place){tier, shift, (unsigned)((bytes - 1) >> shift) + 1};
}

/* A slice for `bytes` out of the cache, or NULL. Its bytes are not zero. The owner. */
INLINE void *heap_allocate_cached(struct heap *heap, size_t bytes)
{
    struct heap_place place = heap_place_of(heap, bytes);
    struct cache_class *class = &heap->cache.classes[place.tier][place.count - 1];
    void *address;

    if (unlikely(class->count == 0))
        return NULL;
    address = cache_pop(&heap->cache, class, place.count);
    heap_count_carved(heap, place.tier, (size_t)place.count << place.shift);
    return address;
}

/*
 * A slice for `bytes` from the current block, at a multiple of `alignment`, a power of two of at most half the
 * tier's block. NULL: ask heap_allocate_slow. The owner. *is_touched: see block_take.
 */
INLINE void *heap_carve(struct heap *heap, size_t bytes, size_t alignment, bool *is_touched)
{
    struct heap_place place = heap_place_of(heap, bytes);
    struct block *block = heap->current[place.tier];
    void *address = heap->pool->reuses_holes ? block_carve(block, place.count, alignment, is_touched)
                                             : block_carve_upwards(block, place.count, alignment, is_touched);

    if (likely(address))
        heap_count_carved(heap, place.tier, (size_t)place.count << place.shift);
    return address;
}

/* The same, out of the cache where that has one. */
INLINE void *heap_allocate(struct heap *heap, size_t bytes, size_t alignment, bool *is_touched)
{
    void *address = NULL;

    if (likely(alignment >> heap_place_of(heap, bytes).shift <= 1)) {
        address = heap_allocate_cached(heap, bytes);
        *is_touched = true;
        alignment = 1;
    }
    return address ? address : heap_carve(heap, bytes, alignment, is_touched);
}

enum heap_freed {
    HEAP_FREED,
    HEAP_FREED_AND_DUE, /* and it is time for heap_look */
    HEAP_FREE_SLOWLY,   /* nothing was done: it is for heap_free_slow */
    HEAP_DOUBLE_FREE,   /* nothing was done */
    HEAP_NOT_A_START,   /* nothing was done */
};

/* Frees what begins at `address`, which lies in `block` of `chunk`. Any thread, with its own heap. */
INLINE enum heap_freed heap_free(struct heap *heap, const struct chunk *chunk, struct block *block,
                                 void *address)
{
    _Atomic(uint8_t) *mark;
    unsigned count;
    enum block_verdict verdict = block_find(block, chunk_offset_in_block(chunk, address), &mark, &count);
    struct cache_class *class;
    uint64_t counted;

    if (unlikely(verdict != BLOCK_LIVE))
        return verdict == BLOCK_DOUBLE_FREE ? HEAP_DOUBLE_FREE : HEAP_NOT_A_START;
    if (unlikely(count > CACHE_GRANULES_MAX))
        return HEAP_FREE_SLOWLY;
    class = &heap->cache.classes[chunk->tier][count - 1];
    if (unlikely(class->count >= class->limit))
        return HEAP_FREE_SLOWLY;
    /* Again, and at once: see block.h on two frees at the same time. */
    if (unlikely(load_relaxed(mark) != count))
        return HEAP_DOUBLE_FREE;
    store_relaxed(mark, heap->cache.mark);
    cache_push(class, address, mark);
    counted = heap_count_freed(heap, chunk->tier, load_relaxed(&block->carver),
                               (size_t)count << (chunk->block_shift - BLOCK_GRANULES_LOG2));
    return unlikely(counted % HEAP_LOOK_EVERY == 0) ? HEAP_FREED_AND_DUE : HEAP_FREED;
}

#endif
