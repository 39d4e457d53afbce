/* SPDX-License-Identifier: MIT */
/*
 * block: the algebra of one block. Functions on its words: no system calls, no globals.
 *
 * data (in a chunk, nothing of ours in it)
 *
 *   low                                         high
 *   +------+------+------+------+-- ... --+------+
 *   | g0   | g1   | g2   | g3   |         | g63  |      64 granules, whatever the block's size
 *   +------+------+------+------+-- ... --+------+
 *    slice A (3 granules) | slice B ...
 *
 * words (elsewhere), after A and B were carved, A was freed, and B is 2 granules long:
 *
 *   free    1  1  1  0  0  1 ...   bit i: granule i is in no slice
 *   marks   0  0  0  2  0  0 ...   byte i: the granules of the slice that begins at i, 0 if none does; while a thread
 *                                  keeps the slice for its next requests, BLOCK_CACHED and a few bits of who does
 *
 * Nobody owns a block. Who may change what:
 *
 *   free    AND by the one thread that holds the block, OR by anybody who frees.
 *   marks   set by the holder, for granules it has just taken. Then the slice's own: whoever frees it turns the
 *           mark from live to 0 by compare-exchange and gives the granules back; or from live to cached, and keeps
 *           it (cache.h). A cached slice is its thread's, which makes it live again with a store.
 *
 * A second free finds the mark cached or 0, and is told. Of two frees of one slice at the same time:
 *
 *   both to the block       one fails the exchange.
 *   both into caches        one thread's mark is overwritten. It finds that before it hands the slice out or gives
 *                           it back.
 *   one of each             the mark is 0, and the cached one's thread finds that; or it is cached, over granules
 *                           that are free, and whoever carves them finds that, for marks of free granules are 0.
 *
 * So no slice is handed out twice, but where a thread is stopped between a look at a mark and the store after it,
 * while the slice is handed out; and marks of heaps whose numbers are 128 apart are alike.
 *
 * A thread holds a block while it carves from it, from one change of state under the lock of the bins to the next
 * (bins.h). Others only ever set bits of `free`, so what the holder found free stays so until its own AND.
 *
 * Order: the OR is acquire-release and the holder's load of `free` acquire, so the uses of the memory by the
 * thread that freed it happen before those of the next slice. A thread that takes a slice out of its own cache
 * has put it there itself.
 *
 * A fork may catch a thread between two stores and leave it behind. Carving takes the free bits before it sets
 * the mark, freeing takes the mark away before it gives the bits: the child at worst lacks a slice that nobody has.
 */
#ifndef PINPOOL_POOL_BLOCK_H
#define PINPOOL_POOL_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

enum { BLOCK_GRANULES = 64, BLOCK_GRANULES_LOG2 = 6, BLOCK_CACHED = 0x80 };

#define BLOCK_ALL_FREE (~(uint64_t)0)

/* Changed under the lock of the bins, but for what is said. */
enum block_state {
    BLOCK_FRESH,    /* never used; its metadata is all zero */
    BLOCK_HELD,     /* a thread carves from it */
    BLOCK_FILED,    /* nobody's; in the bin of its longest run of free granules, in none if it has no run */
    BLOCK_EMPTY,    /* nobody's, without slices, with pages; in the list of such */
    BLOCK_CLAIMED,  /* without slices, in no list: its pages are on their way to the kernel */
    BLOCK_RELEASED, /* without slices and pages; in the list of such */
};

struct block {
    _Alignas(2 * CACHE_LINE_BYTES) _Atomic(uint64_t) free;
    char *data;                    /* the block's first byte */
    struct block *look_next;       /* on the look-again stack, from the push till it is taken */
    struct block *previous, *next; /* in a list of the bins */
    _Atomic(uint64_t) since_ns;    /* when it came to be held, let go or empty (monotonic) */
    _Atomic(uint32_t) carver;      /* the heap that holds it or held it last; evidence, it decides nothing */
    _Atomic(uint8_t) state;        /* enum block_state */
    _Atomic(uint8_t) listed;       /* 1: on the look-again stack, or about to be */
    uint8_t granule_shift;         /* log2 of the granule's bytes */
    uint8_t tier;
    uint8_t run; /* BLOCK_FILED: the longest run, which names the bin; under its lock */
    uint8_t top; /* bump: granules from it on were not carved since the block was last empty; holder's */
    uint8_t
        touched; /* granules from it on were not carved since their pages came from the kernel; holder's */

    _Alignas(CACHE_LINE_BYTES) _Atomic(uint8_t) marks[BLOCK_GRANULES];
};

_Static_assert(sizeof(struct block) == 2 * CACHE_LINE_BYTES, "a block has a line of words and one of marks");

/* How a pointer into a block's data was judged. */
enum block_verdict { BLOCK_LIVE, BLOCK_DOUBLE_FREE, BLOCK_NOT_A_START };

INLINE size_t block_bytes(const struct block *block)
{
    return (size_t)1 << (block->granule_shift + BLOCK_GRANULES_LOG2);
}

/* The block whose mark this is: blocks are aligned to their size. */
INLINE struct block *block_of_mark(_Atomic(uint8_t) *mark)
{
    void *at = mark;

    return (struct block *)((char *)at - ((uintptr_t)at & (sizeof(struct block) - 1)));
}

INLINE unsigned block_index_of_mark(const _Atomic(uint8_t) *mark)
{
    return (unsigned)((uintptr_t)mark & (BLOCK_GRANULES - 1));
}

/* The mark of a slice that the heap of this id keeps. */
INLINE uint8_t block_cached_mark(uint32_t heap_id)
{
    return (uint8_t)(BLOCK_CACHED | (heap_id & (BLOCK_CACHED - 1)));
}

/* Bits from which `count` ones go upwards, by doubling: after each step x has the starts of runs twice as long. */
INLINE uint64_t block_run_starts(uint64_t x, unsigned count)
{
    for (unsigned left = count - 1, step = 1; left > 0; step *= 2) {
        if (step > left)
            step = left;
        x &= x >> step;
        left -= step;
    }
    return x;
}

/* The longest run of ones, 0 to 64. */
unsigned block_longest_run(uint64_t x);

/* Bits at which an address of the block is a multiple of `alignment`, a power of two of at most half a block. */
INLINE uint64_t block_aligned_starts(const struct block *block, size_t alignment)
{
    static const uint64_t every[] = {~(uint64_t)0,       0x5555555555555555, 0x1111111111111111,
                                     0x0101010101010101, 0x0001000100010001, 0x0000000100000001};

    return alignment >> block->granule_shift <= 1 ? every[0]
                                                  : every[log2_exact(alignment >> block->granule_shift)];
}

/* Ends the program: somebody has freed the slice at `address` a second time, while another was freeing it. */
_Noreturn COLD void block_found_double_free(const void *address);

/* Granules that are free have no marks. */
INLINE void block_check_free(const struct block *block, unsigned start, unsigned count)
{
    for (unsigned i = start; i < start + count; i++)
        if (unlikely(load_relaxed(&block->marks[i]) != 0))
            block_found_double_free(block->data + ((size_t)i << block->granule_shift));
}

/*
 * Takes `count` granules, which are free; the holder. *is_touched: some were carved before, so their bytes may
 * not be zero. Returns the slice's address.
 */
INLINE void *block_take(struct block *block, unsigned start, unsigned count, bool *is_touched)
{
    block_check_free(block, start, count);
    *is_touched = start < block->touched;
    if (start + count > block->touched)
        block->touched = (uint8_t)(start + count);
    /* acquire: pairs with the ORs, as the load that found the run. */
    atomic_fetch_and_explicit(&block->free, ~run_of_bits(start, count), memory_order_acq_rel);
    /* release: after the AND, for a fork. */
    atomic_store_explicit(&block->marks[start], (uint8_t)count, memory_order_release);
    return block->data + ((size_t)start << block->granule_shift);
}

/*
 * Carves `count` granules at a multiple of `alignment` from the lowest run that has them; the holder. NULL: there
 * is none. For the policy reuse.
 */
INLINE void *block_carve(struct block *block, unsigned count, size_t alignment, bool *is_touched)
{
    /* acquire: pairs with the ORs. */
    uint64_t starts = block_run_starts(atomic_load_explicit(&block->free, memory_order_acquire), count);

    if (unlikely(alignment > 1))
        starts &= block_aligned_starts(block, alignment);
    if (unlikely(starts == 0))
        return NULL;
    return block_take(block, (unsigned)__builtin_ctzll(starts), count, is_touched);
}

/*
 * For the policy bump: strictly upwards. A hole is not used again until the whole block is free, and then
 * carving starts over at the bottom.
 */
INLINE void *block_carve_upwards(struct block *block, unsigned count, size_t alignment, bool *is_touched)
{
    unsigned start;

    /* acquire: pairs with the ORs. */
    if (unlikely(atomic_load_explicit(&block->free, memory_order_acquire) == BLOCK_ALL_FREE))
        block->top = 0;
    start = block->top;
    if (unlikely(alignment > 1))
        start = (unsigned)align_up(start, max_size(alignment >> block->granule_shift, 1));
    if (unlikely(start + count > BLOCK_GRANULES))
        return NULL;
    block->top = (uint8_t)(start + count);
    return block_take(block, start, count, is_touched);
}

/*
 * Judges the address `offset` bytes from the block's start. Any thread. BLOCK_LIVE: *mark is the slice's, and
 * *count the granules it has.
 */
INLINE enum block_verdict block_find(struct block *block, size_t offset, _Atomic(uint8_t) **mark,
                                     unsigned *count)
{
    unsigned start = (unsigned)(offset >> block->granule_shift);
    uint8_t found;

    *mark = &block->marks[start];
    found = load_relaxed(*mark);
    *count = found;
    if (likely((uint8_t)(found - 1) < BLOCK_CACHED - 1 &&
               (offset & (((size_t)1 << block->granule_shift) - 1)) == 0))
        return BLOCK_LIVE;
    if ((offset & (((size_t)1 << block->granule_shift) - 1)) != 0)
        return BLOCK_NOT_A_START;
    return found != 0 || (load_relaxed(&block->free) >> start & 1) != 0 ? BLOCK_DOUBLE_FREE
                                                                        : BLOCK_NOT_A_START;
}

/*
 * Turns the mark of a live slice of `count` granules into `to`: 0, fewer granules, or cached. False: somebody else has
 * freed it meanwhile. release: after the program's last use; acquire: what freed it elsewhere comes before.
 */
INLINE bool block_end_life(_Atomic(uint8_t) *mark, unsigned count, uint8_t to)
{
    uint8_t expected = (uint8_t)count;

    return atomic_compare_exchange_strong_explicit(mark, &expected, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/*
 * Gives the granules of a slice back whose mark was taken away. Anybody. Returns `free` as it is then.
 * Sequentially consistent: see bins.h, "no free is lost".
 */
INLINE uint64_t block_give(struct block *block, unsigned start, unsigned count)
{
    uint64_t run = run_of_bits(start, count);

    return atomic_fetch_or_explicit(&block->free, run, memory_order_seq_cst) | run;
}

/*
 * Makes a live slice `count` granules long in place, longer over free granules after it; the holder. False when
 * they are not free.
 */
bool block_grow(struct block *block, _Atomic(uint8_t) *mark, unsigned old_count, unsigned count);

/* What the slices of a block hold, as its marks say it. Any thread; exact when nobody is at work. */
struct block_slices {
    unsigned live_slices, live_granules;
    unsigned cached_granules; /* neither live nor free */
    uint64_t live;            /* a bit for each granule of a live slice */
};

void block_count(const struct block *block, struct block_slices *slices);

/* Do the words contradict each other? For tests and debug builds, with nobody at work in the block. */
bool block_is_valid(const struct block *block);

#endif
