/* SPDX-License-Identifier: MIT */
/* block: the parts that are not on a fast path; see block.h. */
#include "pool/block.h"

bool block_fold_remote(struct block *block, uint64_t remote)
{
    uint64_t free = load_relaxed(&block->free) | remote;

    /* Every slice lies wholly inside or outside `remote`, so this clears starts and ends alike. */
    store_relaxed(&block->starts, load_relaxed(&block->starts) & ~remote);
    store_relaxed(&block->ends, load_relaxed(&block->ends) & ~remote);
    /* release: free last, and judged by the value stored, as in block_free_local. */
    atomic_store_explicit(&block->free, free, memory_order_release);
    return free == BLOCK_ALL_FREE;
}

/* One store moves the end, and the old tail becomes free last, as when it is freed. */
static void shrink(struct block *block, const struct slice *slice, uint64_t end_bit)
{
    uint64_t tail = slice->granules & -(end_bit << 1);

    store_relaxed(&block->ends, (load_relaxed(&block->ends) & ~tail) | end_bit);
    /* release: as in block_free_local. */
    atomic_store_explicit(&block->free, load_relaxed(&block->free) | tail, memory_order_release);
}

static bool grow(struct block *block, const struct slice *slice, unsigned count)
{
    unsigned start = slice_start(slice);
    uint64_t tail, end_bit;

    if (start + count > BLOCK_GRANULES)
        return false;
    tail = run_of_bits(start, count) & ~slice->granules;
    end_bit = bit_at(start + count - 1);
    if ((load_relaxed(&block->free) & tail) != tail)
        return false;
    store_relaxed(&block->free, load_relaxed(&block->free) & ~tail);
    store_relaxed(&block->starts, load_relaxed(&block->starts) & ~tail); /* what a fork may have left there */
    /* One store moves the end: a reader of this word sees the slice whole, old or new. */
    atomic_store_explicit(&block->ends, (load_relaxed(&block->ends) & ~(tail | slice->end_bit)) | end_bit,
                          memory_order_release);
    block->touched |= tail;
    if (start + count > block->top)
        block->top = (uint8_t)(start + count);
    return true;
}

bool block_resize(struct block *block, const struct slice *slice, unsigned count, bool may_grow)
{
    unsigned old_count = slice_count(slice);

    if (count < old_count)
        shrink(block, slice, bit_at(slice_start(slice) + count - 1));
    return count <= old_count || (may_grow && grow(block, slice, count));
}

bool block_is_valid(const struct block *block)
{
    uint64_t remote = load_relaxed(&block->remote), free = load_relaxed(&block->free);
    uint64_t starts = load_relaxed(&block->starts), ends = load_relaxed(&block->ends);
    bool is_inside = false;

    if ((free & remote) != 0 || (starts & free) != 0 || (ends & free) != 0)
        return false;
    for (unsigned i = 0; i < BLOCK_GRANULES; i++) {
        if ((starts >> i & 1) != 0) {
            if (is_inside)
                return false;
            is_inside = true;
        }
        /* in a slice exactly when not free; the whole slice freed remotely, or nothing of it */
        if (is_inside != ((free >> i & 1) == 0))
            return false;
        if (is_inside && (starts >> i & 1) == 0 && (remote >> i & 1) != (remote >> (i - 1) & 1))
            return false;
        if ((ends >> i & 1) != 0) {
            if (!is_inside)
                return false;
            is_inside = false;
        }
        if (block->state == BLOCK_CURRENT && i >= block->top && (free >> i & 1) == 0)
            return false;
    }
    return !is_inside;
}
