/* SPDX-License-Identifier: MIT */
/* block: the parts that are not on a fast path; see block.h. */
#include "pool/block.h"

#include "base/out.h"

void block_found_double_free(const void *address)
{
    fatal_reason_address("malloc", "double free of ", address);
}

unsigned block_longest_run(uint64_t x)
{
    unsigned longest = 0;

    if (x == BLOCK_ALL_FREE)
        return BLOCK_GRANULES;
    for (unsigned step = BLOCK_GRANULES / 2; step > 0; step /= 2)
        if (block_run_starts(x, longest + step) != 0)
            longest += step;
    return longest;
}

bool block_grow(struct block *block, _Atomic(uint8_t) *mark, unsigned old_count, unsigned count)
{
    unsigned start = block_index_of_mark(mark);
    uint64_t tail;

    if (start + count > BLOCK_GRANULES)
        return false;
    tail = run_of_bits(start + old_count, count - old_count);
    /* acquire: pairs with the ORs. */
    if ((atomic_load_explicit(&block->free, memory_order_acquire) & tail) != tail)
        return false;
    block_check_free(block, start + old_count, count - old_count);
    block->top = (uint8_t)max_size(block->top, start + count);
    block->touched = (uint8_t)max_size(block->touched, start + count);
    atomic_fetch_and_explicit(&block->free, ~tail, memory_order_acq_rel);
    /* release: after the rest, for a fork. */
    atomic_store_explicit(mark, (uint8_t)count, memory_order_release);
    return true;
}

void block_count(const struct block *block, struct block_slices *slices)
{
    /* acquire: the marks are not older than the word. */
    uint64_t free = atomic_load_explicit(&block->free, memory_order_acquire);

    *slices = (struct block_slices){.live = 0};
    for (unsigned i = 0; i < BLOCK_GRANULES;) {
        unsigned count = load_relaxed(&block->marks[i]);

        /* A mark that is being changed may not fit: what does not is left out. */
        if (count == 0 || count > BLOCK_GRANULES - i) {
            i++;
            continue;
        }
        slices->live_slices++;
        slices->live_granules += count;
        slices->live |= run_of_bits(i, count);
        i += count;
    }
    slices->cached_granules = count_bits(~free & ~slices->live);
}

/* The slice at `start`, which is not free: its granules, or 0 if there is something wrong with it. */
static unsigned check_slice(const struct block *block, uint64_t free, unsigned start)
{
    unsigned mark = load_relaxed(&block->marks[start]), count = 1;

    if (mark == 0)
        return 0;
    while (start + count < BLOCK_GRANULES && (free >> (start + count) & 1) == 0 &&
           load_relaxed(&block->marks[start + count]) == 0)
        count++;
    /* That of a cached slice does not say how long it is. */
    return (mark & BLOCK_CACHED) != 0 || mark == count ? count : 0;
}

bool block_is_valid(const struct block *block)
{
    uint64_t free = load_relaxed(&block->free);

    for (unsigned i = 0; i < BLOCK_GRANULES;) {
        unsigned count = 1;

        if ((free >> i & 1) != 0) {
            if (load_relaxed(&block->marks[i]) != 0)
                return false;
        } else {
            count = check_slice(block, free, i);
            if (count == 0 || i + count > block->touched)
                return false;
        }
        i += count;
    }
    return true;
}
