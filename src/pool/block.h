/* SPDX-License-Identifier: MIT */
/*
 * block: the algebra of one block. Pure functions on its words: no system calls, no globals.
 *
 * data (in a chunk, nothing of ours in it)
 *
 *   low                                         high
 *   +------+------+------+------+-- ... --+------+
 *   | g0   | g1   | g2   | g3   |         | g63  |      64 granules, whatever the block's size
 *   +------+------+------+------+-- ... --+------+
 *    slice A (3 granules) | slice B ...
 *
 * words (elsewhere; bit i speaks of granule i), after A and B were carved and A was freed:
 *
 *   starts  0  0  0  1 ...      first granule of a slice
 *   ends    0  0  0  0 ... 1    last granule of a slice
 *   free    1  1  1  0 ... 1    in no slice
 *   remote  0  0  0  0 ... 0    freed by another thread, and not folded into free yet
 *
 * What always holds while nobody is between two stores:
 *   free & remote == 0;  starts and ends have as many ones;  a slice is live while its start bit is
 *   set and its remote bits are not;  all granules of a slice have the same free and remote bits.
 *
 * The owner is the only writer of `free`, `starts`, `ends`, `touched` and `top`. Others read their own
 * slice's start and end bit, which are stable while it lives: carving set them before the program
 * handed the pointer on. Nobody looks at a neighbour's bits to judge a slice: those may be changing.
 *
 * A fork may catch the owner between two stores and leave it behind. Carving takes the free bits
 * first, freeing gives them last, so the child at worst lacks a slice that nobody has; or a whole block, when
 * a thread had it in its hands on the way from one list to another.
 */
#ifndef PINPOOL_POOL_BLOCK_H
#define PINPOOL_POOL_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

struct heap;

enum { BLOCK_GRANULES = 64, BLOCK_GRANULES_LOG2 = 6 };

#define BLOCK_ALL_FREE (~(uint64_t)0)

enum block_state {
    BLOCK_FRESH,    /* never used; its metadata is all zero */
    BLOCK_CURRENT,  /* its owner carves from it */
    BLOCK_RETIRED,  /* not carved from; pinned while a slice in it lives */
    BLOCK_KEPT,     /* without slices, with pages; in its owner's keep */
    BLOCK_EMPTY,    /* without slices, with pages; in the region's list */
    BLOCK_CLAIMED,  /* without slices, in no list: on its way to an owner, or its pages to the kernel */
    BLOCK_RELEASED, /* without slices and pages; in the region's list */
};

struct block {
    /* The owner's line. Written by the owner, read by anybody. */
    _Alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) free;
    _Atomic(uint64_t) starts;
    _Atomic(uint64_t) ends;
    uint64_t touched;             /* granules carved since their pages came from the kernel; owner only */
    char *data;                   /* the block's first byte */
    _Atomic(uint64_t) opened_ns;  /* when it became current (monotonic) */
    _Atomic(uint64_t) retired_ns; /* when it stopped being current */
    _Atomic(uint8_t) state;       /* enum block_state; changed by whoever has the block */
    uint8_t top; /* granules from it on are free, and so are those below it when all are; owner only */
    uint8_t granule_shift; /* log2 of the granule's bytes */
    uint8_t tier;

    /* The shared line. Written by freeing threads, and by whoever moves the block between lists. */
    _Alignas(CACHE_LINE_BYTES) _Atomic(uint64_t) remote;
    _Atomic(struct heap *) owner;
    struct block *inbox_next; /* in the owner's inbox, from the push to the drain */
    struct block *previous;   /* in a keep or in a list of the region */
    struct block *next;
    uint64_t emptied_ns; /* when its last slice went; for decay */
};

_Static_assert(sizeof(struct block) == 2 * CACHE_LINE_BYTES, "a block has an owner's line and a shared one");

/* How a pointer into a block's data was judged. */
enum block_verdict { BLOCK_LIVE, BLOCK_DOUBLE_FREE, BLOCK_NOT_A_START };

/* A slice as found from a pointer. */
struct slice {
    uint64_t start_bit; /* of its first granule */
    uint64_t end_bit;   /* of its last one */
    uint64_t granules;  /* of all, from start to end */
};

INLINE unsigned slice_start(const struct slice *slice)
{
    return (unsigned)__builtin_ctzll(slice->start_bit);
}

INLINE unsigned slice_count(const struct slice *slice)
{
    return (unsigned)__builtin_ctzll(slice->end_bit) - slice_start(slice) + 1;
}

INLINE size_t block_bytes(const struct block *block)
{
    return (size_t)1 << (block->granule_shift + BLOCK_GRANULES_LOG2);
}

/* Granules that a request of `bytes` takes; bytes >= 1. */
INLINE unsigned block_granules_for(const struct block *block, size_t bytes)
{
    return (unsigned)((bytes - 1) >> block->granule_shift) + 1;
}

/*
 * Carves `count` granules strictly upwards, at an address that is a multiple of `alignment`, a power of
 * two of at most half a block: a hole is not used again until the whole block is free, and then carving
 * starts over at the bottom. The owner only. Returns the slice's address, or NULL when the block's end is
 * nearer. *touched_before gets the slice's granules that were carved before: their bytes are not zero.
 */
INLINE void *block_carve(struct block *block, unsigned count, size_t alignment, uint64_t *touched_before)
{
    uint64_t free = load_relaxed(&block->free), run;
    unsigned start;

    /*
     * A branch and not a conditional move, by the store in it. Where one buffer is taken and given back
     * over and over, it is predicted, and carving need not wait for the free before it.
     */
    if (unlikely(free == BLOCK_ALL_FREE))
        block->top = 0;
    start = block->top;
    if (alignment > 1)
        start = (unsigned)align_up(start, max_size(alignment >> block->granule_shift, 1));
    if (unlikely(start + count > BLOCK_GRANULES))
        return NULL;
    run = run_of_bits(start, count);
    block->top = (uint8_t)(start + count);
    /* free first: see the remark on fork above. Start and end bits that a fork left in the run go. */
    store_relaxed(&block->free, free & ~run);
    store_relaxed(&block->ends, (load_relaxed(&block->ends) & ~run) | bit_at(start + count - 1));
    /* release: keeps the three stores in this order for a fork; the program itself orders readers. */
    atomic_store_explicit(&block->starts, (load_relaxed(&block->starts) & ~run) | bit_at(start),
                          memory_order_release);
    *touched_before = block->touched & run;
    block->touched |= run;
    return block->data + ((size_t)start << block->granule_shift);
}

/* Finds the slice that `offset` (bytes from the block's start) begins. Any thread. */
INLINE enum block_verdict block_find_slice(const struct block *block, size_t offset, struct slice *slice)
{
    unsigned start = (unsigned)(offset >> block->granule_shift);
    bool is_on_granule = (offset & (((size_t)1 << block->granule_shift) - 1)) == 0;
    uint64_t remote = load_relaxed(&block->remote);
    uint64_t start_bit, end_bit;

    if (unlikely(!is_on_granule || ((load_relaxed(&block->starts) & ~remote) >> start & 1) == 0))
        return is_on_granule && ((load_relaxed(&block->free) | remote) >> start & 1) != 0 ? BLOCK_DOUBLE_FREE
                                                                                          : BLOCK_NOT_A_START;
    /*
     * The end is the lowest end bit from the start on: x & -x isolates it. A start without an end above
     * it cannot be: both are set before the pointer is known. Twice the end bit, minus the start bit,
     * leaves ones from start to end, for the last granule too, where twice the end bit is 0.
     */
    start_bit = bit_at(start);
    end_bit = load_relaxed(&block->ends) & -start_bit;
    end_bit &= -end_bit;
    slice->start_bit = start_bit;
    slice->end_bit = end_bit;
    slice->granules = (end_bit << 1) - start_bit;
    return BLOCK_LIVE;
}

/* Frees a live slice; the owner only. True when the block has no slice any more. */
INLINE bool block_free_local(struct block *block, const struct slice *slice)
{
    uint64_t free = load_relaxed(&block->free) | slice->granules;

    store_relaxed(&block->starts, load_relaxed(&block->starts) & ~slice->start_bit);
    store_relaxed(&block->ends, load_relaxed(&block->ends) & ~slice->end_bit);
    /*
     * release: free last, see the remark on fork above. Judged by the value stored and not by another look:
     * if the rest was freed by others, the block may have gone to somebody else by now (take_dead_blocks).
     */
    atomic_store_explicit(&block->free, free, memory_order_release);
    return free == BLOCK_ALL_FREE;
}

/*
 * Folds granules that others freed into the block; the owner only. `remote` is what was exchanged
 * out of block->remote. True when the block has no slice any more.
 */
bool block_fold_remote(struct block *block, uint64_t remote);

/*
 * Makes a live slice `count` granules long in place: shrinks it, or grows it over free granules. The
 * owner only, and for growth only of its current block. False when that is not possible.
 */
bool block_resize(struct block *block, const struct slice *slice, unsigned count, bool may_grow);

/* Granules in live slices, and the number of live slices. Any thread; exact when nobody is at work. */
INLINE uint64_t block_live_granules(const struct block *block)
{
    /* remote first: a drain moves bits from remote to free, and none must be missed on its way. */
    uint64_t remote = atomic_load_explicit(&block->remote, memory_order_acquire);

    return ~(load_relaxed(&block->free) | remote);
}

INLINE unsigned block_live_slices(const struct block *block)
{
    uint64_t remote = atomic_load_explicit(&block->remote, memory_order_acquire);

    return count_bits(load_relaxed(&block->starts) & ~remote & ~load_relaxed(&block->free));
}

/* Do the words contradict each other? For tests and debug builds; the owner, with no free under way. */
bool block_is_valid(const struct block *block);

#endif
