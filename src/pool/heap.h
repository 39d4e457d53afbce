/* SPDX-License-Identifier: MIT */
/*
 * heap: what one thread allocates from, and the pool of all heaps.
 *
 *   heap (one thread at a time)                region (everybody)
 *   +--------------------------------+         +------------------------+
 *   | current block of each tier     | <------ | empty, released, fresh |
 *   | keep: a few empty blocks       | ------> | blocks of each tier    |
 *   | inbox: blocks freed into by    |         +------------------------+
 *   |        other threads           |
 *   +--------------------------------+
 *   retired blocks are in no list: they come back through a local free or the inbox when empty
 *
 * A heap outlives its thread and is adopted whole by a new one, so a block's owner is a heap and
 * never a thread, and changes only while the block is empty.
 *
 * Who has a heap is said by its state, and there is no lock in it:
 *
 *   LIVE      a thread has it and is not in a slow path          -> BUSY     by that thread
 *   BUSY      a thread has it and is in a slow path              -> LIVE     by that thread
 *   WAITING   no thread has it                                   -> LIVE     adopted (compare-exchange)
 *                                                                -> BUSY     drained by a passer-by
 *   LOST      in a forked child: its thread vanished while BUSY; for ever
 *
 * The protocol for frees by other threads, with granules m of block b:
 *
 *   free:   old = fetch_or(b.remote, m)            drain:  list = exchange(inbox, NULL)
 *           if old == 0: push b on owner.inbox             for b in list: next = b.inbox_next
 *                                                                         r = exchange(b.remote, 0)
 *                                                                         fold r into b.free
 *
 *   I1  b is in the inbox, or in the hands of one thread that will push or fold it, exactly while b.remote is
 *       not 0: the OR that makes it so is one thread's alone, and only who took b from the inbox makes it zero.
 *       So no block is pushed twice, and inbox_next has one writer at a time.
 *
 *   I2  b is empty when b.free is all ones. Then b.remote is 0, by I1 nobody is pushing it, and no thread holds
 *       a pointer into it. So its owner may change without anybody noticing.
 *
 *   I3  The freeing thread reads b.owner after its OR and before its push. Its slice is not in b.free until
 *       the drain after that push, so b is not empty meanwhile and the owner it reads is right.
 *
 *   I4  A drain reads inbox_next before the exchange of b.remote: after it b may be pushed again.
 *
 *   I5  Anybody may take a whole inbox, not only the owner: for blocks that hold nothing any more, whose
 *       words nobody else will touch (take_dead_blocks). All others are pushed again, remote bits as they are.
 *
 *   The OR is acquire-release: release orders the freeing thread's use of the memory before the
 *   owner's exchange (acquire) and thus before the granules' next use; acquire lets the thread that
 *   pushes carry along what the others ORed before it. The push is a release and the inbox's exchange
 *   an acquire, for inbox_next.
 *
 * Adopting and releasing a heap order all its plain fields between its threads: the store of WAITING
 * is a release, the compare-exchange from it an acquire.
 */
#ifndef PINPOOL_POOL_HEAP_H
#define PINPOOL_POOL_HEAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/counters.h"
#include "pool/block.h"
#include "pool/region.h"
#include "pool/tier.h"

struct pool;

enum heap_state { HEAP_LIVE, HEAP_BUSY, HEAP_WAITING, HEAP_LOST };

struct heap {
    /* The owner's: the first two lines are all that the fast paths read of a heap. */
    _Alignas(CACHE_LINE_BYTES) struct tiers tiers; /* the pool's, or a gate that sends all to the slow path */
    struct block *current[TIERS_MAX];              /* or &block_closed */
    struct counters *counters;

    struct pool *pool;
    struct block_list keep[TIERS_MAX]; /* BLOCK_KEPT, the latest emptied first */
    const void *thread;                /* the owner's mark for locks */
    struct heap *next;                 /* in the pool's list; fixed */
    uint32_t id;                       /* 1, 2, ...; fixed */
    _Atomic(int32_t) tid;              /* the owner's thread id, for people; 0 without one */

    /* The line that others write. */
    _Alignas(CACHE_LINE_BYTES) _Atomic(struct block *) inbox;
    _Atomic(uint32_t) state; /* enum heap_state */
};

_Static_assert(offsetof(struct heap, pool) <= 2 * CACHE_LINE_BYTES, "what fast paths read is in two lines");

struct pool_config {
    size_t block_bytes[TIERS_MAX]; /* ascending powers of two from 4 KiB to 4 MiB */
    unsigned tier_count;
    size_t min_bytes;
    uint64_t decay_ns; /* how long empty blocks keep their pages */
    size_t page_bytes;
};

/*
 * The current block of those that have none: nothing can be carved from it. Its granules are so large that
 * any request takes one or two, 0 bytes included, and there is no room above its top. Never written.
 */
extern struct block block_closed;

struct pool {
    struct tiers tiers;
    uint64_t decay_ns;
    struct counters shared;       /* of threads without a heap; added to atomically */
    _Atomic(struct heap *) heaps; /* all, newest first; only ever pushed to */
    _Atomic(uint32_t) heap_count;
    _Atomic(uint32_t) waiting_heaps;   /* a hint: about how many are WAITING */
    _Atomic(struct heap *) next_visit; /* where the next look through the others' inboxes begins */
    _Atomic(uint64_t) next_visit_ns;   /* not before this, unless pages are given back */
    struct region region;
};

/* `pool` is zeroed memory. Several pools may live side by side. */
void pool_init(struct pool *pool, const struct pool_config *config);

/*
 * A heap for the calling thread, adopted or new; NULL when there is no memory for one. `thread` marks
 * the thread: any address that no other thread passes while this one lives.
 */
struct heap *heap_acquire(struct pool *pool, const void *thread, int32_t tid);

/* The thread ends: what can be given back is, and the heap waits for the next. The owner. */
void heap_release(struct heap *heap);

/* Allocation when the fast path found no room: drains, opens a block. NULL: no address space. */
COLD void *heap_allocate_slow(struct heap *heap, size_t bytes, size_t alignment, uint64_t *touched_before);

/* A local free emptied a block that is not current: puts it away. The owner. */
COLD void heap_emptied_slow(struct heap *heap, struct block *block);

/*
 * Another thread's half of a free. `heap` is the calling thread's own, or any without an owner (its
 * counters are then the pool's shared ones). False: the slice was free already.
 */
bool heap_free_remote(struct heap *heap, struct block *block, const struct slice *slice);

/*
 * Answers realloc in place when the slice's tier stays the same and, for growth, the next granules are
 * free. Any thread: one that does not own the block can only be told that the slice is large enough.
 */
bool heap_resize(struct heap *heap, struct block *block, const struct slice *slice, size_t bytes);

/* Gives the pages of all empty blocks back now. True if there were any. The owner. */
bool heap_trim(struct heap *heap);

/*
 * In a forked child, on the thread that forked, before it uses the pool: `own` is that thread's heap or NULL,
 * `thread` its mark. Heaps of vanished threads wait for adoption, or are LOST. Other threads of the child may
 * free meanwhile, as threads without a heap do (heap_free_remote), and nothing else.
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

/*
 * A slice for `bytes`, which tiers_serve() says is ours, at a multiple of `alignment`, a power of two of at
 * most half the tier's block. NULL: ask heap_allocate_slow. The owner. *touched_before: see block_carve.
 */
INLINE void *heap_allocate(struct heap *heap, size_t bytes, size_t alignment, uint64_t *touched_before)
{
    unsigned tier = tier_of(&heap->tiers, bytes);
    struct block *block = heap->current[tier];
    unsigned count = block_granules_for(block, bytes);
    void *address = block_carve(block, count, alignment, touched_before);

    if (likely(address != NULL))
        heap_count_carved(heap, tier, (size_t)count << block->granule_shift);
    return address;
}

enum heap_freed {
    HEAP_FREED,
    HEAP_FREED_LAST,  /* and now the block is to be handed to heap_emptied_slow */
    HEAP_DOUBLE_FREE, /* nothing was done */
    HEAP_NOT_A_START, /* nothing was done */
};

/* Frees what begins at `address`, which lies in `block` of `chunk`. Any thread, with its own heap. */
INLINE enum heap_freed heap_free(struct heap *heap, const struct chunk *chunk, struct block *block,
                                 const void *address)
{
    struct slice slice;
    enum block_verdict verdict = block_find_slice(block, chunk_offset_in_block(chunk, address), &slice);
    _Atomic(uint64_t) *counters;

    if (unlikely(verdict != BLOCK_LIVE))
        return verdict == BLOCK_DOUBLE_FREE ? HEAP_DOUBLE_FREE : HEAP_NOT_A_START;
    if (load_relaxed(&block->owner) != heap)
        return heap_free_remote(heap, block, &slice) ? HEAP_FREED : HEAP_DOUBLE_FREE;
    counters = heap->counters->of_tier[block->tier];
    counter_add(&counters[TIER_COUNTER_freed_local_slices], 1);
    counter_add(&counters[TIER_COUNTER_freed_local_bytes], (uint64_t)slice_count(&slice)
                                                               << block->granule_shift);
    return unlikely(block_free_local(block, &slice)) && load_relaxed(&block->state) != BLOCK_CURRENT
               ? HEAP_FREED_LAST
               : HEAP_FREED;
}

#endif
