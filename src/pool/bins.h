/* SPDX-License-Identifier: MIT */
/*
 * bins: the blocks that no thread holds, by the longest run of granules that can be carved from them.
 *
 *   one for each tier, with a lock
 *   +---------------------------------------+
 *   | runs[1..63]  blocks with slices, by   |  take: the smallest run that is long enough, so the fullest
 *   |              their longest run        |        blocks are used first and the emptiest get a chance to empty
 *   | empty        without, with pages      |
 *   | released     without, without pages   |
 *   | fresh        the chunk never used yet |
 *   +---------------------------------------+
 *   | look again   a stack that anybody     |  blocks that somebody has freed into: without the lock
 *   |              pushes to                |
 *   +---------------------------------------+
 *
 * A block without a free run, or freed into since it was filed, is in no bin or in one too low. It comes back by
 * the stack: whoever has freed into a block that nobody holds pushes it, unless it is listed already, and whoever
 * next has the lock takes the whole stack and files its blocks anew.
 *
 * No free is lost:
 *
 *   free:   OR into b.free                   look:   take the stack; for b in it: next = b.look_next
 *           if b is held: done                                                    b.listed = 0
 *           if exchange(b.listed, 1) == 0: push                                   read b.free, and file b by it
 *                                            let go: b.state = filed; read b.free, and file b by it
 *
 *   Each side stores and then loads what the other stores (Dekker's pattern), so all of it is sequentially
 *   consistent: acquire and release would not do on aarch64. If the free sees b held, the letting go comes after
 *   its OR and reads it. If the free sees b listed, the look that takes b comes after its OR and reads it. Else it
 *   pushes. b.look_next is read before b.listed is cleared: after it b may be pushed again.
 *
 *   Whoever finds a block listed or held need do nothing, so a block is pushed once, by one thread at a time.
 *
 * A block on the stack may meanwhile be held, or have become empty: the look leaves a held one to its holder, and
 * one that is empty, claimed or released where it is.
 *
 * Under the policy bump holes are not used again: a block is pushed by the free that makes it empty, and one
 * that is let go with slices in it is in no bin.
 *
 * A fork may catch whoever looks in the middle of a stack that it has taken. So what is left of one stays in sight
 * (`taken`), and the child looks through it. A thread that vanishes between the exchange of `listed` and its push
 * costs the child that one block. `listed` is not cleared for it: some thread of the child may be about to push.
 *
 * Any thread may call everything here, with `self` to tell it from others (lock.h). No system call is made under
 * a lock of the bins, but to wait for it.
 */
#ifndef PINPOOL_POOL_BINS_H
#define PINPOOL_POOL_BINS_H

#include "pool/block.h"
#include "pool/region.h"

struct block_list {
    struct block *first; /* the one put in last */
    struct block *last;
    size_t count;
};

struct bins {
    _Alignas(CACHE_LINE_BYTES) struct lock lock;
    uint64_t filled;                        /* bit r: runs[r] has blocks */
    struct block_list runs[BLOCK_GRANULES]; /* BLOCK_FILED; runs[0] stays without any */
    struct block_list empty;                /* BLOCK_EMPTY, the latest emptied first */
    struct block_list released;             /* BLOCK_RELEASED */
    struct chunk *fresh;                    /* the chunk with never used blocks, or NULL */
    _Atomic(struct block *) taken; /* what is left of a stack that is being looked through; or NULL */

    _Alignas(CACHE_LINE_BYTES) _Atomic(struct block *) look_again;
    bool reuses_holes; /* fixed */
};

/* Where a block comes from. */
enum block_source { SOURCE_FILED, SOURCE_EMPTY, SOURCE_RELEASED, SOURCE_FRESH };

/* What a call has found on the way, to be added to counters. */
struct bins_found {
    uint64_t looked;           /* blocks on the stack */
    uint64_t emptied;          /* blocks that turned out to be without slices, */
    uint64_t emptied_after_ms; /* since they were let go, summed */
};

/*
 * Lets `current` go, if it is not NULL, and takes a block for `count` granules at a multiple of `alignment` for
 * the heap `carver`; the caller holds it then. Blocks that were freed into are filed first. NULL: none is to be
 * had, and `current` is still held: it may serve smaller requests.
 */
struct block *bins_exchange(struct bins *bins, struct region *region, unsigned tier, struct block *current,
                            uint32_t carver, unsigned count, size_t alignment, uint64_t now_ns,
                            enum block_source *source, struct bins_found *found, const void *self);

/* Lets a block go. */
void bins_let_go(struct bins *bins, struct block *block, uint64_t now_ns, struct bins_found *found,
                 const void *self);

/* Files the blocks that were freed into. */
void bins_look_again(struct bins *bins, uint64_t now_ns, struct bins_found *found, const void *self);

/* After block_give, which returned `free`: sees to it that the granules will be found. No lock. */
INLINE void bins_freed(struct bins *bins, struct block *block, uint64_t free)
{
    struct block *first;

    if (!bins->reuses_holes && free != BLOCK_ALL_FREE)
        return;
    /* seq_cst, all of them: see "no free is lost". */
    if (atomic_load(&block->state) == BLOCK_HELD || atomic_load(&block->listed) != 0 ||
        atomic_exchange(&block->listed, 1) != 0)
        return;
    first = load_relaxed(&bins->look_again);
    do
        block->look_next = first;
    /* release: pairs with the acquire of whoever takes the stack, for look_next. */
    while (!atomic_compare_exchange_weak_explicit(&bins->look_again, &first, block, memory_order_release,
                                                  memory_order_relaxed));
}

/*
 * Gives the pages of blocks that have been empty since before `cutoff_ns` back, at most about 4 MiB a call.
 * Returns how many blocks gave theirs.
 */
size_t bins_release(struct bins *bins, size_t page_bytes, uint64_t cutoff_ns, const void *self);

/*
 * In a forked child, before anything else: resets a lock that a vanished thread held, and makes the lists of such
 * bins anew from the states of the blocks.
 */
void bins_after_fork(struct bins *bins, struct region *region, unsigned tier, const void *self);

/* Do the lists contradict the blocks in them? For tests and debug builds; no other thread at work. */
bool bins_are_valid(const struct bins *bins, unsigned tier);

void block_list_push(struct block_list *list, struct block *block);
void block_list_remove(struct block_list *list, struct block *block);

#endif
