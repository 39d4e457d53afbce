/* SPDX-License-Identifier: MIT */
/*
 * heap: carving and the cache under both policies, frees by others, double frees, threads that end, fork,
 * resizing, decay; and that pools are independent of each other. Threads are acted out on one thread where
 * only the order of steps matters; the races are torture's.
 */
#include "pool/heap.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/libc.h"
#include "base/sys.h"
#include "unit.h"

enum {
    THREADS = 200,
    HOLD_AFTER = 3,     /* as in heap.c */
    LIMIT_AT_FIRST = 4, /* as in heap.c */
    NINE = 1100,        /* bytes: nine granules of the smaller tier, seven slices a block */
};

static struct pool *pool;
static char marks[THREADS]; /* of pretended threads */
static struct heap no_heap; /* of threads without one */

static struct pool *make_pool(size_t small_block, size_t large_block, uint64_t decay_ns, bool reuses_holes)
{
    struct pool_config config = {.block_bytes = {small_block, large_block},
                                 .tier_count = large_block == 0 ? 1 : 2,
                                 .min_bytes = 1025,
                                 .decay_ns = decay_ns,
                                 .page_bytes = sys_page_bytes(),
                                 .reuses_holes = reuses_holes};
    struct pool *made;
    void *address;

    require(sys_map(sizeof *made, &address) == 0);
    made = address;
    pool_init(made, &config);
    no_heap.pool = made;
    no_heap.counters = &made->shared;
    return made;
}

static void setup_for(bool reuses_holes)
{
    pool = make_pool(8 << 10, 64 << 10, (uint64_t)3600 * 1000000000, reuses_holes);
}

static void setup(void)
{
    setup_for(true);
}

static void setup_bump(void)
{
    setup_for(false);
}

/* Its cache is not looked at before a test wants it. */
static struct heap *acquire(unsigned thread)
{
    struct heap *heap = heap_acquire(pool, &marks[thread], (int32_t)thread + 1);

    require(heap != NULL);
    heap->cache.next_look_ns = UINT64_MAX;
    return heap;
}

/* Of a thread that has asked for blocks before, and holds one from now on. */
static struct heap *acquire_holder(unsigned thread)
{
    struct heap *heap = acquire(thread);

    memset(heap->exchanges, HOLD_AFTER, sizeof heap->exchanges);
    return heap;
}

static void check(const struct heap *heap)
{
    require(heap_is_valid(heap));
    for (unsigned t = 0; t < pool->tiers.count; t++)
        require(bins_are_valid(&pool->bins[t], t));
}

static void *allocate_aligned(struct heap *heap, size_t bytes, size_t alignment, bool *is_touched)
{
    void *address = heap_allocate(heap, bytes, alignment, is_touched);

    if (address == NULL)
        address = heap_allocate_slow(heap, bytes, alignment, is_touched);
    check(heap);
    return address;
}

static void *allocate(struct heap *heap, size_t bytes)
{
    bool is_touched;

    return allocate_aligned(heap, bytes, 1, &is_touched);
}

static struct block *block_of(void *address)
{
    return chunk_block_at(region_find(&pool->region, address), address);
}

static enum block_state state_of(void *address)
{
    return load_relaxed(&block_of(address)->state);
}

/* The mark of a live slice. */
static _Atomic(uint8_t) *find(void *address, unsigned *count)
{
    struct chunk *chunk = region_find(&pool->region, address);
    _Atomic(uint8_t) *mark;

    require(block_find(chunk_block_at(chunk, address), chunk_offset_in_block(chunk, address), &mark, count) ==
            BLOCK_LIVE);
    return mark;
}

static unsigned count_of(void *address)
{
    unsigned count;

    (void)find(address, &count);
    return count;
}

/* As free does it. */
static enum heap_freed give_back(struct heap *heap, void *address)
{
    struct chunk *chunk = region_find(&pool->region, address);
    struct block *block = chunk_block_at(chunk, address);
    enum heap_freed freed = heap_free(heap, chunk, block, address);
    unsigned count;

    if (freed == HEAP_FREED_AND_DUE) {
        heap_look(heap);
        freed = HEAP_FREED;
    } else if (freed == HEAP_FREE_SLOWLY) {
        _Atomic(uint8_t) *mark = find(address, &count);

        freed = (heap == &no_heap ? heap_free_to_block : heap_free_slow)(heap, block, mark, count)
                    ? HEAP_FREED
                    : HEAP_DOUBLE_FREE;
    }
    if (heap != &no_heap)
        check(heap);
    return freed;
}

/* Not into the cache. */
static void give_to_block(struct heap *heap, void *address)
{
    unsigned count;
    _Atomic(uint8_t) *mark = find(address, &count);

    require(heap_free_to_block(heap, block_of(address), mark, count));
}

static bool resize(struct heap *heap, void *address, size_t bytes)
{
    unsigned count;
    _Atomic(uint8_t) *mark = find(address, &count);
    bool is_done = heap_resize(heap, block_of(address), mark, count, bytes);

    require(block_is_valid(block_of(address)));
    return is_done;
}

static struct cache_class *class_of(struct heap *heap, unsigned tier, unsigned granules)
{
    return &heap->cache.classes[tier][granules - 1];
}

static uint64_t tier_count(struct heap *heap, unsigned tier, enum tier_counter_id id)
{
    return load_relaxed(&heap->counters->of_tier[tier][id]);
}

static uint64_t heap_count(struct heap *heap, enum counter_id id)
{
    return load_relaxed(&heap->counters->of_heap[id]);
}

static uint64_t opened(struct heap *heap, unsigned tier)
{
    return tier_count(heap, tier, TIER_COUNTER_opened_fresh_blocks) +
           tier_count(heap, tier, TIER_COUNTER_opened_empty_blocks) +
           tier_count(heap, tier, TIER_COUNTER_opened_released_blocks) +
           tier_count(heap, tier, TIER_COUNTER_opened_filed_blocks);
}

static struct block_slices slices_of(void *address)
{
    struct block_slices slices;

    block_count(block_of(address), &slices);
    return slices;
}

/* ---- carving --------------------------------------------------------------------------------- */

START_TEST(slices_follow_each_other_and_sixteen_of_four_kib_fill_64_kib)
{
    struct heap *heap;
    char *first;

    pool = make_pool(64 << 10, 0, 0, _i != 0);
    heap = acquire_holder(0);
    first = allocate(heap, 4096);
    require(((uintptr_t)first & 0xffff) == 0);
    for (unsigned i = 1; i < 16; i++)
        require(allocate(heap, 4096) == first + i * 4096);
    require(state_of(first) == BLOCK_HELD);
    require(block_of(allocate(heap, 4096)) != block_of(first));
    require(state_of(first) == BLOCK_FILED);
    require(tier_count(heap, 0, TIER_COUNTER_retired_blocks) == 1);
}
END_TEST

START_TEST(aligned_slices_are_aligned)
{
    struct heap *heap;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    for (unsigned round = 0; round < 3; round++)
        for (size_t alignment = 16; alignment <= 4096; alignment *= 2)
            for (size_t bytes = 1025; bytes <= 4096; bytes += 700) {
                bool is_touched;
                void *address = allocate_aligned(heap, bytes, alignment, &is_touched);

                require(address != NULL && ((uintptr_t)address & (alignment - 1)) == 0);
                if ((bytes + alignment) % 3 != round)
                    require(give_back(heap, address) == HEAP_FREED);
            }
}
END_TEST

START_TEST(aligned_slices_of_large_blocks_are_aligned)
{
    struct heap *heap;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    for (size_t alignment = 32768; alignment >= 16; alignment /= 2)
        for (size_t bytes = 4097; bytes <= 32768; bytes += 7000) {
            bool is_touched;
            void *address = allocate_aligned(heap, bytes, alignment, &is_touched);

            require(address != NULL && ((uintptr_t)address & (alignment - 1)) == 0);
        }
}
END_TEST

START_TEST(an_alignment_that_every_slice_has_is_served_from_the_cache_and_a_wider_one_is_not)
{
    struct heap *heap = acquire_holder(0);
    bool is_touched;
    void *first = allocate(heap, NINE), *second = allocate(heap, NINE);

    require(give_back(heap, second) == HEAP_FREED); /* at the ninth granule of 128 */
    require(allocate_aligned(heap, NINE, 256, &is_touched) != second);
    require(class_of(heap, 0, 9)->count == 1);
    require(allocate_aligned(heap, NINE, 128, &is_touched) == second);
    require(give_back(heap, first) == HEAP_FREED); /* aligned to 256, but who would know */
    require(allocate_aligned(heap, NINE, 256, &is_touched) != first);
}
END_TEST

START_TEST(only_slices_that_were_never_carved_are_said_to_be_zero)
{
    struct heap *heap;
    bool is_touched;
    char *slice;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    slice = allocate_aligned(heap, 32768, 1, &is_touched);
    require(!is_touched);
    for (unsigned i = 0; i < 32768; i++)
        require(slice[i] == 0);
    memset(slice, 1, 32768);
    require(give_back(heap, slice) == HEAP_FREED);
    require(allocate_aligned(heap, 32768, 1, &is_touched) == slice && is_touched);
    give_to_block(heap, slice);
    require(allocate_aligned(heap, 32768, 1, &is_touched) == slice && is_touched);
    require(give_back(heap, slice) == HEAP_FREED);
    require(heap_trim(heap));
    require(allocate_aligned(heap, 32768, 1, &is_touched) == slice && !is_touched);
    for (unsigned i = 0; i < 32768; i++)
        require(slice[i] == 0);
    require(tier_count(heap, 1, TIER_COUNTER_opened_released_blocks) == 1);
}
END_TEST

/* ---- the policy bump ------------------------------------------------------------------------- */

START_TEST(bump_a_block_that_is_emptied_while_held_starts_over)
{
    struct heap *heap = acquire(0);
    void *first = allocate(heap, 2000);

    require(give_back(heap, first) == HEAP_FREED);
    require(allocate(heap, 3000) == first);
    require(tier_count(heap, 0, TIER_COUNTER_opened_fresh_blocks) == 1);
}
END_TEST

START_TEST(bump_a_block_is_empty_with_its_last_slice_and_is_opened_again)
{
    struct heap *heap = acquire(0), *other = acquire(1);
    void *first = allocate(heap, 4096), *second = allocate(heap, 4096), *third = allocate(heap, 4096);
    struct block *block = block_of(first);

    require(block_of(third) != block);
    require(give_back(heap, first) == HEAP_FREED);
    require(load_relaxed(&pool->bins[0].look_again) == NULL);
    require(give_back(_i == 0 ? heap : other, second) == HEAP_FREED); /* whoever frees it */
    require(load_relaxed(&pool->bins[0].look_again) == block);
    (void)allocate(heap, 4096);
    require(block_of(allocate(heap, 4096)) == block);
    require(tier_count(heap, 0, TIER_COUNTER_emptied_blocks) == 1);
    require(tier_count(heap, 0, TIER_COUNTER_opened_empty_blocks) == 1);
    require(heap_count(heap, COUNTER_looked_blocks) == 1);
}
END_TEST

START_TEST(bump_holes_are_not_used_again)
{
    struct heap *heap = acquire(0);
    void *slices[14];

    for (unsigned i = 0; i < 14; i++)
        slices[i] = allocate(heap, NINE);
    require(opened(heap, 0) == 2);
    for (unsigned i = 0; i < 14; i++)
        if (i % 7 != 0)
            require(give_back(heap, slices[i]) == HEAP_FREED);
    for (unsigned i = 0; i < 7; i++)
        require(block_of(allocate(heap, NINE)) != block_of(slices[0]));
    require(opened(heap, 0) == 3 && tier_count(heap, 0, TIER_COUNTER_opened_fresh_blocks) == 3);
}
END_TEST

START_TEST(bump_nothing_is_cached)
{
    struct heap *heap = acquire(0);
    void *slice = allocate(heap, NINE);

    (void)allocate(heap, NINE);
    require(give_back(heap, slice) == HEAP_FREED);
    require(slices_of(slice).live_slices == 1 && slices_of(slice).cached_granules == 0);
    require(class_of(heap, 0, 9)->count == 0 && class_of(heap, 0, 9)->limit == 0);
    require(allocate(heap, NINE) != slice);
}
END_TEST

START_TEST(bump_a_thread_holds_the_first_block_that_it_gets)
{
    struct heap *heap = acquire(0);
    void *slice = allocate(heap, NINE);

    require(heap->current[0] == block_of(slice) && state_of(slice) == BLOCK_HELD);
}
END_TEST

/* ---- the policy reuse ------------------------------------------------------------------------ */

START_TEST(what_a_thread_has_freed_it_gets_again_first)
{
    struct heap *heap = acquire_holder(0);
    void *first = allocate(heap, NINE), *second = allocate(heap, NINE), *larger = allocate(heap, 2000);

    require(give_back(heap, first) == HEAP_FREED);
    require(give_back(heap, second) == HEAP_FREED);
    require(give_back(heap, larger) == HEAP_FREED);
    require(class_of(heap, 0, 9)->count == 2 && class_of(heap, 0, 16)->count == 1);
    require(allocate(heap, NINE) == second); /* the latest, of the same number of granules */
    require(allocate(heap, 1152) == first);
    require(allocate(heap, 2048) == larger);
    require(opened(heap, 0) == 1);
    require(tier_count(heap, 0, TIER_COUNTER_carved_slices) == 6);
}
END_TEST

START_TEST(cached_slices_are_neither_live_nor_free)
{
    struct heap *heap = acquire_holder(0), *other = acquire(1);
    void *first = allocate(heap, NINE), *second = allocate(heap, NINE), *third = allocate(heap, NINE);

    require(give_back(heap, first) == HEAP_FREED);
    require(give_back(other, second) == HEAP_FREED);
    require(slices_of(third).live_slices == 1 && slices_of(third).live_granules == 9);
    require(slices_of(third).cached_granules == 18);
    require(load_relaxed(&block_of(third)->free) == ~run_of_bits(0, 27));
    require(block_is_valid(block_of(third)));
}
END_TEST

START_TEST(holes_are_used_again)
{
    struct heap *heap = acquire_holder(0), *other = acquire(1);
    void *slices[14];

    for (unsigned i = 0; i < 14; i++)
        slices[i] = allocate(heap, NINE);
    require(opened(heap, 0) == 2);
    give_to_block(other, slices[3]);
    require(allocate(heap, NINE) == slices[3]);
    require(tier_count(heap, 0, TIER_COUNTER_opened_filed_blocks) == 1);
    require(tier_count(heap, 0, TIER_COUNTER_opened_fresh_blocks) == 2);
    require(heap_count(heap, COUNTER_looked_blocks) == 1);
    require(state_of(slices[7]) == BLOCK_FILED && heap->current[0] == block_of(slices[3]));
    give_to_block(heap, slices[0]); /* into the block that is held: found without an exchange */
    require(allocate(heap, NINE) == slices[0]);
    require(opened(heap, 0) == 3);
}
END_TEST

START_TEST(the_fullest_block_is_filled_first)
{
    struct heap *heap = acquire_holder(0);
    void *slices[28];

    for (unsigned i = 0; i < 28; i++)
        slices[i] = allocate(heap, NINE);
    for (unsigned i = 0; i < 21; i++) /* the first block keeps one slice, the second five, the third three */
        if (i < 7 ? i != 6 : i < 14 ? i == 8 || i == 9 : i % 7 < 4)
            give_to_block(heap, slices[i]);
    for (unsigned i = 0; i < 2; i++)
        require(block_of(allocate(heap, NINE)) == block_of(slices[7]));
    for (unsigned i = 0; i < 4; i++)
        require(block_of(allocate(heap, NINE)) == block_of(slices[14]));
    require(block_of(allocate(heap, NINE)) == block_of(slices[0]));
    require(tier_count(heap, 0, TIER_COUNTER_opened_fresh_blocks) == 4);
}
END_TEST

START_TEST(a_thread_that_asks_for_few_blocks_holds_none)
{
    struct heap *heap = acquire(0);
    void *slices[HOLD_AFTER + 1];

    for (unsigned i = 0; i < HOLD_AFTER; i++) {
        slices[i] = allocate(heap, NINE);
        require(heap->current[0] == &block_closed && state_of(slices[i]) == BLOCK_FILED);
        require(slices[i] == (char *)slices[0] + (size_t)i * 9 * 128); /* the same block each time */
    }
    slices[HOLD_AFTER] = allocate(heap, NINE);
    require(heap->current[0] == block_of(slices[0]) && state_of(slices[0]) == BLOCK_HELD);
    require(opened(heap, 0) == HOLD_AFTER + 1 &&
            tier_count(heap, 0, TIER_COUNTER_retired_blocks) == HOLD_AFTER);
    (void)allocate(heap, 32768); /* of the other tier it has asked for none yet */
    require(heap->current[1] == &block_closed);
}
END_TEST

START_TEST(threads_with_a_buffer_each_share_blocks)
{
    for (unsigned i = 0; i < 140; i++)
        (void)allocate(acquire(i), NINE);
    require(load_relaxed(&pool->region.chunks)->used_blocks == 20);
    require(pool->bins[0].runs[1].count == 20); /* with the one granule that is left */
}
END_TEST

START_TEST(requests_that_the_cache_serves_ask_for_no_block)
{
    struct heap *heap = acquire(0);
    void *slice = allocate(heap, NINE);

    for (unsigned i = 0; i < 100; i++) {
        require(give_back(heap, slice) == HEAP_FREED);
        require(allocate(heap, NINE) == slice);
    }
    require(opened(heap, 0) == 1 && heap->exchanges[0] == 1);
}
END_TEST

/* ---- frees by others ------------------------------------------------------------------------- */

START_TEST(who_frees_a_slice_may_hand_it_out)
{
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *first = allocate(heap, 4096);

    require(give_back(other, first) == HEAP_FREED);
    require(allocate(other, 4096) == first && opened(other, 0) == 0);
    require(block_of(first) == heap->current[0]);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_slices) == 1);
}
END_TEST

START_TEST(a_block_emptied_by_another_thread_is_there_for_all)
{
    struct heap *heap, *other, *third;
    void *first, *second;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    third = acquire_holder(2);
    first = allocate(heap, 4096);
    second = allocate(heap, 4096);
    (void)allocate(heap, 4096);
    give_to_block(other, first);
    give_to_block(other, second);
    require(load_relaxed(&pool->bins[0].look_again) == block_of(first));
    require(block_of(first)->look_next == NULL); /* pushed once */
    require(slices_of(first).live_slices == 0 && state_of(first) == BLOCK_FILED);
    require(allocate(third, 4096) == first);
    require(tier_count(third, 0, TIER_COUNTER_opened_empty_blocks) == 1);
    require(tier_count(third, 0, TIER_COUNTER_emptied_blocks) == 1);
    require(load_relaxed(&block_of(first)->carver) == third->id);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_slices) == 2);
}
END_TEST

/* Whether the thread that held the blocks sleeps or has ended is all one. */
START_TEST(what_others_have_freed_is_used_before_memory_is_asked_for)
{
    struct heap *heap, *other;
    void *slices[32];

    setup_for(_i % 2 != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    for (unsigned i = 0; i < 32; i++)
        slices[i] = allocate(heap, 4096);
    if (_i / 2 != 0)
        heap_release(heap);
    for (unsigned i = 0; i < 29; i++) /* 14 whole blocks and a half */
        give_to_block(other, slices[i]);
    for (unsigned i = 0; i < 28; i++)
        (void)allocate(other, 4096);
    require(tier_count(other, 0, TIER_COUNTER_opened_fresh_blocks) == 0);
    require(tier_count(other, 0, TIER_COUNTER_emptied_blocks) == 14);
    require(tier_count(other, 0, TIER_COUNTER_opened_filed_blocks) == (pool->reuses_holes ? 1 : 0));
    require(load_relaxed(&block_of(slices[0])->carver) == other->id);
    give_to_block(other, slices[29]);
    (void)allocate(other, 4096);
    (void)allocate(other, 4096);
    require(tier_count(other, 0, TIER_COUNTER_opened_fresh_blocks) == 0);
}
END_TEST

START_TEST(a_thread_without_a_heap_frees_to_the_block)
{
    struct heap *heap;
    void *first, *second;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    first = allocate(heap, 4096);
    second = allocate(heap, 4096);
    require(give_back(&no_heap, first) == HEAP_FREED);
    require(give_back(&no_heap, second) == HEAP_FREED);
    require(give_back(&no_heap, first) == HEAP_DOUBLE_FREE);
    require(give_back(&no_heap, (char *)first + 128) == HEAP_DOUBLE_FREE);
    require(load_relaxed(&block_of(first)->free) == BLOCK_ALL_FREE);
    require(load_relaxed(&pool->shared.of_tier[0][TIER_COUNTER_freed_remote_slices]) == 2);
    require(load_relaxed(&pool->shared.of_tier[0][TIER_COUNTER_freed_remote_bytes]) == 8192);
    require(allocate(heap, 4096) == first);
}
END_TEST

/* ---- bad frees ------------------------------------------------------------------------------- */

START_TEST(what_is_not_the_start_of_a_slice_is_told)
{
    struct heap *heap, *other;
    char *slice;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire(1);
    slice = allocate(heap, 2000);
    require(give_back(heap, slice + 8) == HEAP_NOT_A_START);
    require(give_back(heap, slice + 128) == HEAP_NOT_A_START);
    require(give_back(other, slice + 128) == HEAP_NOT_A_START);
    require(give_back(&no_heap, slice + 128) == HEAP_NOT_A_START);
    require(give_back(heap, slice + 8192) == HEAP_NOT_A_START); /* the next block, never opened */
    require(give_back(heap, slice) == HEAP_FREED);
    require(give_back(heap, slice + 8) == HEAP_NOT_A_START);
}
END_TEST

/* By its owner, another, or a thread without a heap; into the cache or to the block. */
START_TEST(a_slice_freed_twice_is_told_whoever_frees)
{
    for (unsigned policy = 0; policy < 2; policy++)
        for (unsigned first = 0; first < 3; first++)
            for (unsigned is_block = 0; is_block < 2; is_block++) {
                struct heap *heaps[3] = {NULL, NULL, &no_heap};
                void *slice;

                setup_for(policy != 0);
                heaps[0] = acquire_holder(0);
                heaps[1] = acquire_holder(1);
                slice = allocate(heaps[0], NINE);
                (void)allocate(heaps[0], NINE);
                if (is_block != 0)
                    give_to_block(heaps[first], slice);
                else
                    require(give_back(heaps[first], slice) == HEAP_FREED);
                for (unsigned second = 0; second < 3; second++)
                    require(give_back(heaps[second], slice) == HEAP_DOUBLE_FREE);
                require(slices_of(slice).live_slices == 1);
            }
}
END_TEST

START_TEST(a_slice_flushed_from_the_cache_is_still_freed)
{
    struct heap *heap = acquire_holder(0), *other = acquire(1);
    void *slice = allocate(heap, NINE);

    (void)allocate(heap, NINE);
    require(give_back(heap, slice) == HEAP_FREED);
    (void)heap_trim(heap);
    require(give_back(heap, slice) == HEAP_DOUBLE_FREE);
    require(give_back(other, slice) == HEAP_DOUBLE_FREE);
}
END_TEST

/* All have looked and found it live. */
START_TEST(of_frees_at_the_same_time_that_change_the_mark_by_exchange_one_succeeds)
{
    for (unsigned first = 0; first < 3; first++)
        for (unsigned policy = 0; policy < 2; policy++) {
            struct heap *heap, *other;
            _Atomic(uint8_t) *mark;
            struct block *block;
            unsigned count;
            void *slice;

            setup_for(policy != 0);
            heap = acquire_holder(0);
            other = acquire_holder(1);
            slice = allocate(heap, NINE);
            block = block_of(slice);
            mark = find(slice, &count);
            if (first == 0)
                require(heap_free_slow(heap, block, mark, count));
            else
                require(heap_free_to_block(first == 1 ? heap : &no_heap, block, mark, count));
            require(!heap_free_slow(heap, block, mark, count));
            require(!heap_free_slow(other, block, mark, count));
            require(!heap_free_to_block(other, block, mark, count));
            require(!heap_free_to_block(&no_heap, block, mark, count));
            check(heap);
            check(other);
            require(block_is_valid(block));
            require(tier_count(other, 0, TIER_COUNTER_freed_remote_slices) == 0);
        }
}
END_TEST

/* A fast free into `heap`'s cache, when another free came between its look at the mark and its store. */
static void free_late(struct heap *heap, void *slice, unsigned count)
{
    struct block *block = block_of(slice);
    _Atomic(uint8_t) *mark = &block->marks[(size_t)((char *)slice - block->data) >> block->granule_shift];

    store_relaxed(mark, heap->cache.mark);
    cache_push(class_of(heap, block->tier, count), slice, mark);
}

/* A class with room, and nothing in it. */
static void prepare_class(struct heap *heap)
{
    void *slice = allocate(heap, NINE);

    require(give_back(heap, slice) == HEAP_FREED);
    require(allocate(heap, NINE) == slice);
}

START_TEST(a_slice_in_two_caches_leaves_one_of_them)
{
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *slice;

    prepare_class(heap);
    prepare_class(other);
    slice = allocate(heap, NINE);
    require(give_back(heap, slice) == HEAP_FREED);
    free_late(other, slice, 9);
    if (_i == 4)
        require(allocate(other, NINE) == slice); /* it is live in the meantime */
    class_of(heap, 0, 9)->low = 1;               /* as after a look */
    heap->cache.next_look_ns = 0;
    die_quietly();
    if (_i == 0 || _i == 4)
        (void)allocate(heap, NINE);
    else if (_i == 1)
        (void)heap_trim(heap);
    else if (_i == 2)
        heap_release(heap);
    else
        heap_look(heap);
}
END_TEST

START_TEST(a_slice_in_a_cache_and_free_in_its_block_is_not_carved)
{
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *slice;

    prepare_class(heap);
    prepare_class(other);
    slice = allocate(heap, NINE);
    give_to_block(heap, slice);
    free_late(other, slice, 9);
    die_quietly();
    (void)allocate(heap, NINE);
}
END_TEST

START_TEST(nor_does_it_leave_the_cache)
{
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *slice;

    prepare_class(heap);
    prepare_class(other);
    slice = allocate(heap, NINE);
    require(give_back(other, slice) == HEAP_FREED);
    store_relaxed(&block_of(slice)->marks[9], 0); /* another has freed it to the block */
    require(slice == block_of(slice)->data + 9 * 128);
    (void)block_give(block_of(slice), 9, 9);
    die_quietly();
    (void)allocate(other, NINE);
}
END_TEST

/* ---- how much is cached ---------------------------------------------------------------------- */

/* What the heap's room_bytes has to be. */
static size_t room_of_all(struct heap *heap)
{
    size_t room_bytes = 0;

    for (unsigned t = 0; t < heap->tiers.count; t++)
        for (unsigned i = 1; i <= CACHE_GRANULES_MAX; i++)
            room_bytes +=
                class_of(heap, t, i)->limit * i * (tier_block_bytes(&heap->tiers, t) / BLOCK_GRANULES);
    return room_bytes;
}

START_TEST(a_class_that_overflows_grows_and_then_gives_half_of_it_back)
{
    enum { SLICES = CACHE_ENTRIES_MAX + 1 };
    struct heap *heap = acquire_holder(0);
    struct cache_class *class = class_of(heap, 0, 9);
    void *slices[SLICES];
    unsigned limit = LIMIT_AT_FIRST;

    for (unsigned i = 0; i < SLICES; i++)
        slices[i] = allocate(heap, NINE);
    for (unsigned i = 0; i < SLICES - 1; i++) {
        require(give_back(heap, slices[i]) == HEAP_FREED);
        limit = i == limit ? 2 * limit : limit;
        require(class->count == i + 1 && class->limit == limit);
        require(heap->cache.room_bytes == (size_t)limit * 9 * 128);
    }
    require(class->limit == CACHE_ENTRIES_MAX && heap_count(heap, COUNTER_flushed_slices) == 0);
    require(give_back(heap, slices[SLICES - 1]) == HEAP_FREED);
    require(class->limit == CACHE_ENTRIES_MAX && class->count == CACHE_ENTRIES_MAX / 2 + 1);
    require(heap_count(heap, COUNTER_flushed_slices) == CACHE_ENTRIES_MAX / 2);
    for (unsigned i = 0; i < SLICES; i++) /* the oldest have gone */
        require((load_relaxed(&block_of(slices[i])
                                   ->marks[(size_t)((char *)slices[i] - block_of(slices[i])->data) / 128]) ==
                 0) == (i < CACHE_ENTRIES_MAX / 2));
    for (unsigned i = SLICES; i-- > CACHE_ENTRIES_MAX / 2;) /* and the rest is in order */
        require(allocate(heap, NINE) == slices[i]);
}
END_TEST

START_TEST(a_class_has_few_large_slices_and_too_large_ones_are_not_cached)
{
    static const struct {
        size_t bytes;
        unsigned granules, limit;
    } rows[] = {{64 << 10, 1, 8}, {128 << 10, 2, 4}, {256 << 10, 4, 2}, {512 << 10, 8, 1}, {576 << 10, 9, 0}};
    struct heap *heap;

    pool = make_pool(64 << 10, 4 << 20, (uint64_t)3600 * 1000000000, true);
    heap = acquire_holder(0);
    for (unsigned i = 0; i < 5; i++) {
        struct cache_class *class = class_of(heap, 1, rows[i].granules);
        void *slices[20];

        for (unsigned j = 0; j < 20; j++)
            slices[j] = allocate(heap, rows[i].bytes);
        for (unsigned j = 0; j < 20; j++)
            require(give_back(heap, slices[j]) == HEAP_FREED);
        require(class->limit == rows[i].limit && class->count <= rows[i].limit);
        require((class->count == 0) == (rows[i].limit == 0));
        (void)heap_trim(heap);
    }
    require(heap->cache.room_bytes == room_of_all(heap));
}
END_TEST

START_TEST(all_classes_together_are_bounded_too)
{
    struct heap *heap = acquire_holder(0);
    unsigned unused = 0;

    for (unsigned granules = 32; granules > 16; granules--) {
        void *slices[40];

        for (unsigned i = 0; i < 40; i++)
            slices[i] = allocate(heap, (size_t)granules * 1024);
        for (unsigned i = 0; i < 40; i++) {
            require(give_back(heap, slices[i]) == HEAP_FREED);
            require(heap->cache.room_bytes <= CACHE_BYTES_MAX);
        }
        unused += class_of(heap, 1, granules)->limit == 0;
        require(class_of(heap, 1, granules)->limit > 0 || class_of(heap, 1, granules)->count == 0);
    }
    require(heap->cache.room_bytes == room_of_all(heap) && heap->cache.room_bytes > CACHE_BYTES_MAX * 3 / 4);
    require(unused > 0);
}
END_TEST

START_TEST(all_threads_together_are_bounded_and_give_their_part_back)
{
    enum { HEAPS = 16 };
    struct heap *heaps[HEAPS];
    size_t sum = 0;

    for (unsigned thread = 0; thread < HEAPS; thread++) {
        heaps[thread] = acquire_holder(thread);
        for (unsigned granules = 32; granules > 16; granules--) {
            void *slices[40];

            for (unsigned i = 0; i < 40; i++)
                slices[i] = allocate(heaps[thread], (size_t)granules * 1024);
            for (unsigned i = 0; i < 40; i++)
                require(give_back(heaps[thread], slices[i]) == HEAP_FREED);
        }
        sum += heaps[thread]->cache.room_bytes;
        require(load_relaxed(&pool->cache_room_bytes) == sum && sum <= CACHE_ALL_BYTES_MAX);
    }
    require(sum > CACHE_ALL_BYTES_MAX * 3 / 4 && heaps[HEAPS - 1]->cache.room_bytes < CACHE_BYTES_MAX);
    store_relaxed(&pool->cache_room_bytes, 0); /* a child counts anew, and leaves out what is lost */
    store_relaxed(&heaps[1]->state, HEAP_BUSY);
    sum -= heaps[1]->cache.room_bytes;
    pool_after_fork(pool, heaps[0], &marks[0], 1);
    require(load_relaxed(&pool->cache_room_bytes) == sum);
    sum -= heaps[0]->cache.room_bytes;
    heap_release(heaps[0]);
    require(load_relaxed(&pool->cache_room_bytes) == sum && heaps[0]->cache.room_bytes == 0);
}
END_TEST

static void look(struct heap *heap)
{
    heap->cache.next_look_ns = 0;
    heap_look(heap);
    check(heap);
}

/* Caches `count` slices, more than which were never needed. */
static void fill_class(struct heap *heap, size_t bytes, unsigned count)
{
    void *slices[CACHE_ENTRIES_MAX];

    for (unsigned i = 0; i < count; i++)
        slices[i] = allocate(heap, bytes);
    for (unsigned i = 0; i < count; i++)
        require(give_back(heap, slices[i]) == HEAP_FREED);
}

START_TEST(what_was_not_needed_since_the_last_look_goes_by_halves)
{
    static const unsigned left[] = {8, 4, 2, 1, 0, 0};
    struct heap *heap = acquire_holder(0);
    struct cache_class *class = class_of(heap, 0, 9);

    fill_class(heap, NINE, 8);
    for (unsigned i = 0; i < 6; i++) {
        look(heap); /* the first only begins to count */
        require(class->count == left[i] && class->limit == left[i]);
        require(heap->cache.room_bytes == (size_t)left[i] * 9 * 128);
    }
    require(heap_count(heap, COUNTER_flushed_slices) == 8);
    fill_class(heap, NINE, 8);
    require(class->count == 8 && class->limit == 8);
}
END_TEST

START_TEST(what_was_needed_stays)
{
    struct heap *heap = acquire_holder(0);
    struct cache_class *class = class_of(heap, 0, 9);

    fill_class(heap, NINE, 16);
    look(heap);
    for (unsigned i = 0; i < 10; i++) {
        fill_class(heap, NINE, 16); /* out and in again */
        look(heap);
        require(class->count == 16 && class->limit == 16);
    }
    fill_class(heap, NINE, 12); /* four are not needed */
    look(heap);
    require(class->count == 14 && class->limit == 14);
}
END_TEST

START_TEST(a_class_that_is_not_used_leaves_its_room_to_others)
{
    struct heap *heap = acquire_holder(0);

    for (unsigned granules = 32; granules > 24; granules--)
        fill_class(heap, (size_t)granules * 1024, 40);
    fill_class(heap, 20 * 1024, 40);
    require(class_of(heap, 1, 20)->limit < 25);
    for (unsigned i = 0; i < 8; i++)
        look(heap);
    require(heap->cache.room_bytes < CACHE_BYTES_MAX / 4 && heap->cache.room_bytes == room_of_all(heap));
    fill_class(heap, 20 * 1024, 40);
    require(class_of(heap, 1, 20)->limit == 25);
}
END_TEST

START_TEST(looks_are_a_second_apart)
{
    struct heap *heap = acquire_holder(0);
    uint64_t before_ns = sys_now_coarse_ns();

    fill_class(heap, NINE, 8);
    look(heap);
    require(heap->cache.next_look_ns >= before_ns + NS_PER_S);
    require(heap->cache.next_look_ns <= sys_now_coarse_ns() + NS_PER_S);
    heap->cache.next_look_ns = sys_now_coarse_ns() + 100 * NS_PER_S;
    heap_look(heap);
    require(class_of(heap, 0, 9)->count == 8);
}
END_TEST

START_TEST(a_thread_that_only_uses_its_cache_looks_now_and_then)
{
    struct heap *heap = acquire_holder(0);
    void *slice = allocate(heap, NINE);
    unsigned due = 0;

    require(give_back(heap, slice) == HEAP_FREED);
    for (unsigned i = 1; i <= 4 * HEAP_LOOK_EVERY; i++) {
        enum heap_freed freed;

        require(allocate(heap, NINE) == slice);
        freed = heap_free(heap, region_find(&pool->region, slice), block_of(slice), slice);
        require(freed == (i % HEAP_LOOK_EVERY == 0 ? HEAP_FREED_AND_DUE : HEAP_FREED));
        due += freed == HEAP_FREED_AND_DUE;
    }
    require(due == 4);
}
END_TEST

START_TEST(a_flush_gives_back_exactly_what_was_cached)
{
    enum { SLICES = 70 }; /* ten blocks of seven */
    struct heap *heap = acquire_holder(0);
    uint64_t random = 3, kept[10] = {0};
    void *slices[SLICES];

    for (unsigned i = 0; i < SLICES; i++)
        slices[i] = allocate(heap, NINE);
    (void)allocate(heap, 4096);                      /* another block is held */
    for (unsigned round = 0; round < 400; round++) { /* in any order, from all the blocks */
        unsigned i = random_below(&random, SLICES);

        if ((kept[i / 7] >> i % 7 & 1) == 0) {
            require(give_back(heap, slices[i]) == HEAP_FREED);
            kept[i / 7] |= bit_at(i % 7);
        }
        if (round % 80 == 40) { /* some stay live */
            (void)heap_trim(heap);
            for (unsigned j = 0; j < 10; j++) {
                uint64_t free = bit_at(63);

                for (unsigned k = 0; k < 7; k++)
                    free |= (kept[j] >> k & 1) != 0 ? run_of_bits(9 * k, 9) : 0;
                require(load_relaxed(&block_of(slices[7 * j])->free) == free || free == BLOCK_ALL_FREE);
                require(block_is_valid(block_of(slices[7 * j])));
                require(slices_of(slices[7 * j]).cached_granules == 0);
            }
        }
    }
}
END_TEST

START_TEST(each_block_that_a_flush_gives_to_is_pushed_once)
{
    struct heap *heap = acquire_holder(0);
    void *slices[28];
    unsigned pushed = 0;

    for (unsigned i = 0; i < 28; i++)
        slices[i] = allocate(heap, NINE);
    (void)allocate(heap, NINE);       /* in the fifth block, which is held */
    for (unsigned i = 0; i < 28; i++) /* by turns */
        if (i % 7 < 4)
            require(give_back(heap, slices[i % 7 * 7 + i / 7]) == HEAP_FREED);
    for (unsigned i = 0; i < 9; i++)
        look(heap);
    require(class_of(heap, 0, 9)->count == 0 && heap_count(heap, COUNTER_flushed_slices) == 16);
    for (const struct block *block = load_relaxed(&pool->bins[0].look_again); block != NULL;
         block = block->look_next)
        pushed++;
    require(pushed == 4);
}
END_TEST

/* ---- resizing in place ----------------------------------------------------------------------- */

START_TEST(growth_is_for_the_thread_that_holds_the_block)
{
    struct heap *heap, *other;
    char *slice;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    slice = allocate(heap, 2000);
    require(resize(heap, slice, 2048) && count_of(slice) == 16); /* it has that many */
    require(!resize(other, slice, 3000));
    require(!resize(&no_heap, slice, 3000));
    require(count_of(slice) == 16);
    require(resize(heap, slice, 4096) && count_of(slice) == 32);
    require(!resize(heap, slice, 5000)); /* the larger tier's */
    require(!resize(heap, slice, 500));  /* nobody's of ours */
    require(!resize(heap, slice, 0) && !resize(heap, slice, SIZE_MAX));
    require(resize(heap, slice, 1025) && count_of(slice) == 9);
    require(tier_count(heap, 0, TIER_COUNTER_carved_bytes) -
                tier_count(heap, 0, TIER_COUNTER_freed_local_bytes) ==
            9 * 128);
    (void)allocate(heap, 4096);
    (void)allocate(heap, 4096);
    require(heap->current[0] != block_of(slice));
    require(!resize(heap, slice, 2048)); /* no longer held */
    require(count_of(slice) == 9);
}
END_TEST

START_TEST(what_a_slice_gave_up_is_a_hole_that_is_used_again_under_reuse_only)
{
    struct heap *heap;
    char *slice, *last;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    slice = allocate(heap, 4096);
    require(resize(heap, slice, 1152) && count_of(slice) == 9);
    require(resize(heap, slice, 2048) == pool->reuses_holes);
    require(count_of(slice) == (pool->reuses_holes ? 16 : 9));
    last = allocate(heap, 1152);
    require(last == slice + (size_t)(pool->reuses_holes ? 16 : 32) * 128);
    require(resize(heap, last, 2048)); /* above it nothing was carved */
}
END_TEST

START_TEST(a_slice_does_not_grow_over_what_is_not_free)
{
    struct heap *heap = acquire_holder(0), *other = acquire(1);
    char *first = allocate(heap, NINE), *second = allocate(heap, NINE), *third;

    require(!resize(heap, first, 1200));
    require(give_back(heap, second) == HEAP_FREED);
    require(!resize(heap, first, 1200)); /* it is cached */
    (void)heap_trim(heap);
    require(resize(heap, first, 18 * 128) && count_of(first) == 18);
    require(resize(heap, first, 19 * 128) && count_of(first) == 19);
    require(give_back(heap, first + 9 * 128) == HEAP_NOT_A_START);
    (void)allocate(heap, 4096);
    third = allocate(heap, 13 * 128); /* the end of the block */
    require(third == first + 51 * 128);
    require(!resize(heap, third, 14 * 128));
    give_to_block(other, first);
    require(!resize(heap, third, 14 * 128));
}
END_TEST

START_TEST(anybody_shrinks_a_slice_and_others_get_the_rest)
{
    struct heap *heap, *other;
    char *first, *second;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    first = allocate(heap, 4096);
    second = allocate(heap, 4096);
    (void)allocate(heap, 4096); /* in another block */
    require(state_of(first) == BLOCK_FILED);
    require(resize(other, first, 3000) && count_of(first) == 24);
    require(resize(other, second, 1100) && count_of(second) == 9);
    require(load_relaxed(&block_of(first)->free) == (run_of_bits(24, 8) | run_of_bits(41, 23)));
    require(slices_of(first).live_slices == 2 && slices_of(first).cached_granules == 0);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_bytes) == (8 + 23) * 128);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_slices) == 0);
    require(give_back(other, first + 24 * 128) == HEAP_DOUBLE_FREE);
    if (pool->reuses_holes)
        require(allocate(other, 2900) == second + 9 * 128);
    else
        require(block_of(allocate(other, 2900)) != block_of(first));
}
END_TEST

START_TEST(without_a_heap_a_slice_that_shrinks_stays_as_it_is)
{
    struct heap *heap = acquire_holder(0);
    char *slice = allocate(heap, 4096);

    require(resize(&no_heap, slice, 2000) && count_of(slice) == 32);
    require(!resize(&no_heap, slice, 5000));
}
END_TEST

START_TEST(a_slice_freed_meanwhile_is_not_shrunk)
{
    struct heap *heap = acquire_holder(0), *other = acquire(1);
    char *slice = allocate(heap, 4096);
    unsigned count;
    _Atomic(uint8_t) *mark = find(slice, &count);

    if (_i == 0)
        give_to_block(other, slice);
    else
        require(give_back(other, slice) == HEAP_FREED);
    require(!heap_resize(heap, block_of(slice), mark, count, 2000));
    require(block_is_valid(block_of(slice)));
    require(tier_count(heap, 0, TIER_COUNTER_freed_local_bytes) == 0);
}
END_TEST

START_TEST(resizing_keeps_the_balance_of_bytes)
{
    struct heap *heap;
    char *slice;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    slice = allocate(heap, 1025);
    for (size_t bytes = 1025; bytes <= 4096; bytes += 517) {
        require(resize(heap, slice, bytes));
        require(tier_count(heap, 0, TIER_COUNTER_carved_bytes) == count_of(slice) * 128);
        require(count_of(slice) == (bytes + 127) / 128);
    }
    for (size_t bytes = 4096; bytes >= 1025; bytes -= 517) {
        require(resize(heap, slice, bytes));
        require(tier_count(heap, 0, TIER_COUNTER_carved_bytes) -
                    tier_count(heap, 0, TIER_COUNTER_freed_local_bytes) ==
                count_of(slice) * 128);
    }
    require(tier_count(heap, 0, TIER_COUNTER_carved_slices) == 1);
    require(tier_count(heap, 0, TIER_COUNTER_freed_local_slices) == 0);
}
END_TEST

/* ---- threads that end ------------------------------------------------------------------------ */

START_TEST(a_thread_that_ends_gives_everything_back)
{
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *live = allocate(heap, NINE), *large = allocate(heap, 32768), *theirs = allocate(other, NINE);

    fill_class(heap, NINE, 5);
    fill_class(heap, 8192, 3);
    require(give_back(heap, large) == HEAP_FREED);
    require(give_back(heap, theirs) == HEAP_FREED);
    heap_release(heap);
    require(load_relaxed(&heap->state) == HEAP_WAITING && load_relaxed(&heap->tid) == 0);
    require(load_relaxed(&pool->waiting_heaps) == 1);
    check(heap);
    require(heap->current[0] == &block_closed && heap->current[1] == &block_closed);
    require(state_of(live) == BLOCK_FILED && slices_of(live).live_slices == 1 &&
            slices_of(live).cached_granules == 0);
    require(state_of(large) == BLOCK_EMPTY);
    require(state_of(theirs) == BLOCK_HELD && load_relaxed(&block_of(theirs)->free) == BLOCK_ALL_FREE);
    require(heap_count(heap, COUNTER_flushed_slices) == 5 + 3 + 2);
    require(block_of(allocate(other, 32768)) == block_of(large));
    require(tier_count(other, 1, TIER_COUNTER_opened_empty_blocks) == 1);
}
END_TEST

START_TEST(a_new_thread_adopts_the_heap_of_one_that_ended)
{
    struct heap *heap, *adopted;
    void *live;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    live = allocate(heap, NINE);
    heap_release(heap);
    adopted = acquire(1);
    require(adopted == heap && heap->thread == &marks[1] && load_relaxed(&heap->tid) == 2);
    require(load_relaxed(&heap->state) == HEAP_LIVE && load_relaxed(&pool->waiting_heaps) == 0);
    require(heap_count(heap, COUNTER_heap_adoptions) == 1);
    require(acquire(2) != heap);
    if (pool->reuses_holes)
        require(allocate(heap, NINE) == (char *)live + 9 * 128); /* the fullest block, and it holds none */
    else
        require(block_of(allocate(heap, NINE)) != block_of(live));
    require((heap->current[0] == &block_closed) == pool->reuses_holes);
    require(give_back(heap, live) == HEAP_FREED);
    require(tier_count(heap, 0, TIER_COUNTER_freed_local_slices) == 1);
}
END_TEST

START_TEST(a_thread_that_ends_gives_its_empty_blocks_to_others)
{
    struct heap *heap, *other;
    void *first;

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    first = allocate(heap, 4096);
    require(give_back(heap, first) == HEAP_FREED);
    heap_release(heap);
    require(state_of(first) == BLOCK_EMPTY);
    require(allocate(other, 4096) == first);
}
END_TEST

START_TEST(of_many_freed_slices_few_are_kept_and_the_rest_is_for_everybody)
{
    enum { SLICES = 400 };
    struct heap *heap, *other;
    void *slices[SLICES];

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    for (unsigned i = 0; i < SLICES; i++)
        slices[i] = allocate(heap, 4096);
    for (unsigned i = 0; i < SLICES; i++)
        require(give_back(heap, slices[i]) == HEAP_FREED);
    (void)allocate(other, 4096);
    require(pool->bins[0].empty.count >= (SLICES - CACHE_ENTRIES_MAX) / 2 - 2);
    require(tier_count(other, 0, TIER_COUNTER_opened_fresh_blocks) == 0);
}
END_TEST

/* ---- pages back to the kernel ---------------------------------------------------------------- */

static bool is_resident(struct block *block)
{
    unsigned char page;

    require(sys_mincore(block->data + block_bytes(block) - sys_page_bytes(), 1, &page) == 0);
    return (page & 1) != 0;
}

/* Frees that find all they need in the cache pass no slow path but that of looks. */
START_TEST(empty_blocks_lose_their_pages_after_the_decay_time)
{
    struct heap *heap;
    void *slices[100], *idle;

    pool = make_pool(64 << 10, 0, 20000000, _i != 0); /* 20 ms */
    heap = acquire_holder(0);
    for (unsigned i = 0; i < 100; i++)
        slices[i] = allocate(heap, 32768);
    for (unsigned i = 0; i < 100; i++)
        require(give_back(heap, slices[i]) == HEAP_FREED);
    idle = slices[50];
    require(slices_of(idle).live_slices == 0 && state_of(idle) != BLOCK_HELD);
    for (uint64_t start = sys_now_ns();
         state_of(idle) != BLOCK_RELEASED && sys_now_ns() - start < 5000000000;) {
        void *few[3] = {allocate(heap, 32768), allocate(heap, 32768), allocate(heap, 32768)};

        for (unsigned i = 0; i < 3; i++)
            require(give_back(heap, few[i]) == HEAP_FREED);
    }
    require(state_of(idle) == BLOCK_RELEASED);
    require(!is_resident(block_of(idle)));
    require(tier_count(heap, 0, TIER_COUNTER_released_blocks) > 0);
}
END_TEST

/* Of blocks that are not touched when they are opened; after a long idle time there may be many. */
START_TEST(a_call_of_the_programs_gives_back_so_much_and_the_next_goes_on)
{
    enum { BLOCKS = 160, BLOCKS_IN_A_CALL = 64 }; /* of 4 MiB */
    struct heap *heap;
    void *slices[BLOCKS];
    uint64_t released;

    pool = make_pool(4 << 20, 0, NS_PER_S, _i != 0);
    heap = acquire_holder(0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        slices[i] = allocate(heap, 2 << 20);
        (void)allocate(heap, 2 << 20);
    }
    for (unsigned i = 0; i < BLOCKS - 1; i++) {
        give_to_block(heap, slices[i]);
        give_to_block(heap, (char *)slices[i] + (2 << 20));
    }
    store_relaxed(&pool->next_release_ns, UINT64_MAX);
    bins_look_again(&pool->bins[0], 1, &(struct bins_found){0}, &marks[0]); /* empty for ages */
    require(pool->bins[0].empty.count == BLOCKS - 1);
    for (unsigned call = 1; call <= 2; call++) {
        store_relaxed(&pool->next_release_ns, call == 1 ? 0 : load_relaxed(&pool->next_release_ns));
        heap_look(heap);
        released = tier_count(heap, 0, TIER_COUNTER_released_blocks);
        require(released >= call * BLOCKS_IN_A_CALL && released < call * BLOCKS_IN_A_CALL + 2);
    }
    heap_look(heap);
    require(tier_count(heap, 0, TIER_COUNTER_released_blocks) == BLOCKS - 1);
    require(load_relaxed(&pool->next_release_ns) > sys_now_coarse_ns());
}
END_TEST

START_TEST(trim_gives_all_empty_blocks_back_at_once)
{
    struct heap *heap;
    void *slices[64];

    setup_for(_i != 0);
    heap = acquire_holder(0);
    for (unsigned i = 0; i < 64; i++)
        slices[i] = allocate(heap, 32768);
    require(!heap_trim(heap));
    for (unsigned i = 0; i < 64; i++)
        require(give_back(heap, slices[i]) == HEAP_FREED);
    require(heap_trim(heap));
    check(heap);
    for (unsigned i = 0; i < 64; i++)
        require(state_of(slices[i]) == BLOCK_RELEASED);
    require(tier_count(heap, 1, TIER_COUNTER_released_blocks) == 32);
    require(heap->current[1] == &block_closed && class_of(heap, 1, 32)->count == 0);
    require(!heap_trim(heap));
    (void)allocate(heap, 32768);
    require(heap->current[1] != &block_closed); /* who held one holds one again */
}
END_TEST

START_TEST(trim_leaves_a_block_with_slices_to_its_holder)
{
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *slice = allocate(heap, NINE), *theirs = allocate(other, NINE);

    require(give_back(heap, theirs) == HEAP_FREED);
    require(!heap_trim(heap));
    require(heap->current[0] == block_of(slice) && state_of(slice) == BLOCK_HELD);
    require(other->current[0] == block_of(theirs) && load_relaxed(&block_of(theirs)->free) == BLOCK_ALL_FREE);
    require(heap_trim(other) && state_of(theirs) == BLOCK_RELEASED);
}
END_TEST

/* ---- fork ------------------------------------------------------------------------------------ */

START_TEST(a_child_has_the_heaps_of_vanished_threads_but_not_those_it_caught_in_a_slow_path)
{
    struct heap *own, *idle, *busy, *ended;
    void *in_idle, *in_busy;

    setup_for(_i != 0);
    own = acquire_holder(0);
    idle = acquire_holder(1);
    busy = acquire_holder(2);
    ended = acquire_holder(3);
    in_idle = allocate(idle, 4096);
    in_busy = allocate(busy, 4096);
    heap_release(ended);
    store_relaxed(&busy->state, HEAP_BUSY);
    pool_after_fork(pool, own, &marks[0], 77);
    require(load_relaxed(&own->tid) == 77 && load_relaxed(&own->state) == HEAP_LIVE);
    require(load_relaxed(&idle->state) == HEAP_WAITING && load_relaxed(&idle->tid) == 0);
    require(load_relaxed(&busy->state) == HEAP_LOST && load_relaxed(&busy->tid) == 0);
    require(load_relaxed(&pool->waiting_heaps) == 2);
    require(give_back(own, in_idle) == HEAP_FREED);
    require(give_back(own, in_busy) == HEAP_FREED); /* frees into a lost heap's block still work */
    require(acquire(1) == ended && acquire(2) == idle);
    require(acquire(3) != busy);
    require(idle->current[0] == block_of(in_idle) &&
            state_of(in_idle) == BLOCK_HELD); /* adopted with its block */
}
END_TEST

START_TEST(a_child_adopts_a_cache_with_what_is_in_it)
{
    struct heap *own = acquire_holder(0), *idle = acquire_holder(1), *busy = acquire_holder(2);
    void *in_idle = allocate(idle, NINE), *in_busy = allocate(busy, NINE), *lost = allocate(own, NINE);

    require(give_back(idle, in_idle) == HEAP_FREED);
    require(give_back(busy, in_busy) == HEAP_FREED);
    store_relaxed(&busy->state, HEAP_BUSY);
    /* Caught between the mark and the entry: nobody has that slice. */
    store_relaxed(find(lost, &(unsigned){0}), idle->cache.mark);
    pool_after_fork(pool, own, &marks[0], 77);
    require(acquire(1) == idle);
    require(allocate(idle, NINE) == in_idle);
    require(allocate(idle, NINE) != lost);
    require(give_back(own, in_busy) == HEAP_DOUBLE_FREE); /* in the lost cache it stays */
    require(give_back(own, lost) == HEAP_DOUBLE_FREE);
    require(slices_of(in_busy).cached_granules == 9);
    heap_release(idle);
    require(slices_of(lost).cached_granules == 9);
}
END_TEST

START_TEST(a_child_resets_locks_that_vanished_threads_held)
{
    struct heap *own, *other;
    void *slice;

    setup_for(_i != 0);
    own = acquire_holder(0);
    other = acquire_holder(1);
    slice = allocate(own, 4096);
    lock_take(&pool->bins[0].lock, other->thread);
    lock_take(&pool->bins[1].lock, other->thread);
    lock_take(&pool->region.growth, other->thread);
    store_relaxed(&other->state, HEAP_BUSY);
    pool_after_fork(pool, own, own->thread, 77);
    for (unsigned i = 0; i < 2000; i++)
        require(allocate(own, 4096) != NULL);
    require(allocate(own, 32768) != NULL);
    require(give_back(own, slice) == HEAP_FREED);
    check(own);
}
END_TEST

START_TEST(in_a_child_threads_without_a_heap_may_free_before_it_is_in_order)
{
    struct heap *own = acquire_holder(0), *other = acquire_holder(1);
    void *slices[4];

    for (unsigned i = 0; i < 4; i++)
        slices[i] = allocate(own, 4096);
    lock_take(&pool->bins[0].lock, other->thread);
    require(give_back(&no_heap, slices[0]) == HEAP_FREED);
    pool_after_fork(pool, own, own->thread, 77);
    require(give_back(&no_heap, slices[1]) == HEAP_FREED);
    require(allocate(own, 4096) == slices[0] || block_of(slices[0]) != block_of(slices[1]));
    check(own);
}
END_TEST

/* Each time that it is time for a look, one of them. */
static void give_up_left_heaps(struct heap *heap, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        store_relaxed(&pool->next_release_ns, 0);
        heap_look(heap);
        check(heap);
    }
}

START_TEST(a_child_gives_up_what_a_thread_that_it_does_not_have_held_and_cached)
{
    struct heap *own, *left;
    void *live, *cached;

    pool = make_pool(8 << 10, 64 << 10, NS_PER_MS, _i != 0);
    own = acquire_holder(0);
    left = acquire_holder(1);
    live = allocate(left, NINE);
    cached = allocate(left, NINE);
    require(give_back(left, cached) == HEAP_FREED);
    pool_after_fork(pool, own, &marks[0], 77);
    require(state_of(live) == BLOCK_HELD);
    give_up_left_heaps(own, 1);
    require(load_relaxed(&left->state) == HEAP_WAITING && left->current[0] == &block_closed);
    require(state_of(live) == BLOCK_FILED && slices_of(live).live_slices == 1);
    require(slices_of(live).cached_granules == 0);
    require(load_relaxed(&pool->waiting_heaps) == 1 && acquire(1) == left);
    give_up_left_heaps(own, 3);
    require(load_relaxed(&left->state) == HEAP_LIVE); /* there is none any more */
}
END_TEST

START_TEST(a_child_gives_up_what_all_threads_that_it_does_not_have_held)
{
    enum { LEFT = 5 };
    struct heap *own;
    void *slices[LEFT];

    pool = make_pool(8 << 10, 64 << 10, NS_PER_MS, _i != 0);
    own = acquire_holder(0);
    for (unsigned i = 0; i < LEFT; i++)
        slices[i] = allocate(acquire_holder(1 + i), NINE);
    pool_after_fork(pool, own, &marks[0], 77);
    give_up_left_heaps(own, LEFT);
    for (unsigned i = 0; i < LEFT; i++)
        require(state_of(slices[i]) == BLOCK_FILED);
}
END_TEST

/* Blocks that keep their pages no longer than they are used: PINPOOL_DECAY_MS=0. */
static void *look_on_a_small_stack(void *heap)
{
    heap_look(heap);
    return NULL;
}

START_TEST(a_child_of_many_threads_gives_up_their_heaps_on_a_small_stack)
{
    enum { LEFT = 2000 };
    static char many[LEFT];
    pthread_attr_t attributes;
    pthread_t thread;
    struct heap *own;

    pool = make_pool(8 << 10, 64 << 10, 0, true);
    own = acquire_holder(0);
    for (unsigned i = 0; i < LEFT; i++)
        require(heap_acquire(pool, &many[i], (int32_t)i + 1) != NULL);
    pool_after_fork(pool, own, &marks[0], 77);
    require(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 128 << 10) == 0);
    require(pthread_create(&thread, &attributes, look_on_a_small_stack, own) == 0);
    require(pthread_join(thread, NULL) == 0);
    check(own);
}
END_TEST

/* Between the two stores of cache_pop: its count is one less, and `low` is not yet. */
START_TEST(a_child_adopts_a_cache_that_a_slice_was_leaving)
{
    struct heap *own = acquire_holder(0), *idle = acquire_holder(1);
    struct cache_class *class = class_of(idle, 0, 9);
    void *slice = allocate(idle, NINE);

    require(give_back(idle, slice) == HEAP_FREED);
    class->low = class->count; /* as after a look */
    class->count = 0;
    pool_after_fork(pool, own, &marks[0], 77);
    require(acquire(1) == idle);
    look(idle);
    require(class->count == 0 && idle->cache.room_bytes == room_of_all(idle));
}
END_TEST

START_TEST(in_the_parent_a_heap_that_waits_is_left_alone)
{
    struct heap *heap, *ended;

    pool = make_pool(8 << 10, 64 << 10, NS_PER_MS, true);
    heap = acquire_holder(0);
    ended = acquire_holder(1);
    heap_release(ended);
    give_up_left_heaps(heap, 3);
    require(heap_count(ended, COUNTER_heap_adoptions) == 0 && load_relaxed(&pool->waiting_heaps) == 1);
}
END_TEST

/* ---- no memory ------------------------------------------------------------------------------- */

START_TEST(without_memory_for_a_cache_slices_go_to_their_blocks)
{
    struct rlimit none = {.rlim_cur = 1 << 20}, before;
    struct heap *heap = acquire_holder(0);
    void *slice = allocate(heap, NINE);

    (void)allocate(heap, NINE);
    require(getrlimit(RLIMIT_AS, &before) == 0);
    none.rlim_max = before.rlim_max;
    require(setrlimit(RLIMIT_AS, &none) == 0);
    while (region_metadata(&pool->region, 1, &marks[0]) != NULL)
        ;
    require(give_back(heap, slice) == HEAP_FREED);
    require(class_of(heap, 0, 9)->limit == 0 && heap->cache.room_bytes == 0);
    require(slices_of(slice).cached_granules == 0 && slices_of(slice).live_slices == 1);
    require(allocate(heap, NINE) == slice);
    require(heap_acquire(pool, &marks[1], 2) == NULL);
    require(setrlimit(RLIMIT_AS, &before) == 0);
    require(give_back(heap, slice) == HEAP_FREED);
    require(class_of(heap, 0, 9)->count == 1);
    require(heap_acquire(pool, &marks[1], 2) != NULL);
}
END_TEST

/* ---- counters, and pools side by side -------------------------------------------------------- */

START_TEST(a_free_is_local_to_who_held_the_block_last)
{
    struct heap *heap, *other;
    void *slices[5];

    setup_for(_i != 0);
    heap = acquire_holder(0);
    other = acquire_holder(1);
    for (unsigned i = 0; i < 5; i++)
        slices[i] = allocate(heap, 4096);
    require(give_back(heap, slices[0]) == HEAP_FREED); /* no longer held */
    require(give_back(heap, slices[4]) == HEAP_FREED); /* held */
    require(give_back(other, slices[1]) == HEAP_FREED);
    give_to_block(other, slices[2]);
    give_to_block(heap, slices[3]);
    require(tier_count(heap, 0, TIER_COUNTER_carved_slices) == 5);
    require(tier_count(heap, 0, TIER_COUNTER_carved_bytes) == 5 * 4096);
    require(tier_count(heap, 0, TIER_COUNTER_freed_local_slices) == 3);
    require(tier_count(heap, 0, TIER_COUNTER_freed_local_bytes) == 3 * 4096);
    require(tier_count(heap, 0, TIER_COUNTER_freed_remote_slices) == 0);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_slices) == 2);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_bytes) == 2 * 4096);
    require(tier_count(other, 0, TIER_COUNTER_freed_local_slices) == 0);
}
END_TEST

START_TEST(the_sums_are_of_all_heaps_and_the_shared_counters)
{
    uint64_t of_heap[COUNTER_COUNT] = {0}, of_tier[TIERS_MAX][TIER_COUNTER_COUNT] = {{0}};
    struct heap *heap = acquire_holder(0), *other = acquire_holder(1);
    void *slices[3] = {allocate(heap, NINE), allocate(heap, NINE), allocate(other, 32768)};

    require(give_back(other, slices[0]) == HEAP_FREED);
    require(give_back(&no_heap, slices[1]) == HEAP_FREED);
    require(give_back(other, slices[2]) == HEAP_FREED);
    heap_count_slow(&no_heap, COUNTER_passed_large);
    heap_count_slow(other, COUNTER_passed_large);
    heap_release(heap);
    pool_sum_counters_sigsafe(pool, of_heap, of_tier);
    require(of_heap[COUNTER_passed_large] == 2);
    require(of_tier[0][TIER_COUNTER_carved_slices] == 2 && of_tier[1][TIER_COUNTER_carved_slices] == 1);
    require(of_tier[0][TIER_COUNTER_freed_remote_slices] == 2);
    require(of_tier[0][TIER_COUNTER_freed_remote_bytes] == 2 * 9 * 128);
    require(of_tier[1][TIER_COUNTER_freed_local_slices] == 1);
}
END_TEST

START_TEST(pools_side_by_side_know_nothing_of_each_other)
{
    struct pool *other_pool = make_pool(16 << 10, 0, 0, false);
    struct heap *heap = acquire(0), *other = heap_acquire(other_pool, &marks[1], 1);
    void *mine = allocate(heap, 4096), *theirs;
    bool is_touched;

    theirs = heap_allocate_slow(other, 4096, 1, &is_touched);
    require(region_find(&pool->region, theirs) == NULL);
    require(region_find(&other_pool->region, mine) == NULL);
    require(heap->id == 1 && other->id == 1);
}
END_TEST

START_TEST(a_heap_counts_for_itself_and_not_for_the_others)
{
    struct heap *heap = acquire(0);

    require(allocate(heap, 2000) != NULL);
    require(heap->counters != &pool->shared);
    heap_count_slow(heap, COUNTER_passed_small);
    require(heap_count(heap, COUNTER_passed_small) == 1);
    require(load_relaxed(&pool->shared.of_heap[COUNTER_passed_small]) == 0);
}
END_TEST

START_TEST(a_heap_that_contradicts_itself_is_told)
{
    struct heap *heap = acquire_holder(0);
    struct cache_class *class = class_of(heap, 0, 9);

    fill_class(heap, NINE, 2);
    check(heap);
    class->low = 3;
    require(!heap_is_valid(heap));
    class->low = 0;
    class->count = 5;
    require(!heap_is_valid(heap));
    class->count = 2;
    store_relaxed(class->entries[1].mark, block_cached_mark(heap->id + 1));
    require(!heap_is_valid(heap));
    store_relaxed(class->entries[1].mark, heap->cache.mark);
    store_relaxed(&heap->current[0]->carver, heap->id + 1);
    require(!heap_is_valid(heap));
    store_relaxed(&heap->current[0]->carver, heap->id);
    store_relaxed(&heap->current[0]->state, BLOCK_FILED);
    require(!heap_is_valid(heap));
    store_relaxed(&heap->current[0]->state, BLOCK_HELD);
    check(heap);
}
END_TEST

/* ---- random work ----------------------------------------------------------------------------- */

enum { RANDOM_HEAPS = 5, RANDOM_SLICES = 300 };

/* What the program has: each slice begins and ends with its number. */
static struct {
    char *address;
    size_t bytes;
    uint32_t number;
} slots[RANDOM_SLICES];

static struct heap *heaps[RANDOM_HEAPS + 1]; /* the last: of threads without one */

static void write_number(unsigned slot)
{
    memcpy(slots[slot].address, &slots[slot].number, sizeof(uint32_t));
    memcpy(slots[slot].address + slots[slot].bytes - sizeof(uint32_t), &slots[slot].number, sizeof(uint32_t));
}

static void require_number(unsigned slot)
{
    require(memcmp(slots[slot].address, &slots[slot].number, sizeof(uint32_t)) == 0);
    require(memcmp(slots[slot].address + slots[slot].bytes - sizeof(uint32_t), &slots[slot].number,
                   sizeof(uint32_t)) == 0);
}

static void random_allocate(uint64_t *random, unsigned slot)
{
    size_t bytes = 1025 + random_below(random, random_below(random, 4) == 0 ? 32768 - 1025 : 4000);
    size_t alignment = random_below(random, 4) == 0 ? (size_t)16 << random_below(random, 9) : 1;
    bool is_touched = false;

    slots[slot].address =
        allocate_aligned(heaps[random_below(random, RANDOM_HEAPS)], bytes, alignment, &is_touched);
    require(slots[slot].address != NULL && ((uintptr_t)slots[slot].address & (alignment - 1)) == 0);
    require(is_touched || (slots[slot].address[0] == 0 && slots[slot].address[bytes - 1] == 0));
    slots[slot].bytes = bytes;
    slots[slot].number = (uint32_t)random_next(random);
    write_number(slot);
}

static void random_free(uint64_t *random, unsigned slot)
{
    unsigned by = random_below(random, RANDOM_HEAPS + 1);

    require_number(slot);
    if (random_below(random, 8) == 0)
        give_to_block(heaps[by], slots[slot].address);
    else
        require(give_back(heaps[by], slots[slot].address) == HEAP_FREED);
    require(block_is_valid(block_of(slots[slot].address)));
    slots[slot].address = NULL;
}

static void random_resize(uint64_t *random, unsigned slot)
{
    size_t bytes = slots[slot].bytes / 2 + random_below(random, (uint32_t)slots[slot].bytes);

    require_number(slot);
    if (!resize(heaps[random_below(random, RANDOM_HEAPS + 1)], slots[slot].address, bytes))
        return;
    slots[slot].bytes = bytes;
    write_number(slot);
}

static void random_step(uint64_t *random)
{
    unsigned slot = random_below(random, RANDOM_SLICES), choice = random_below(random, 1000);
    unsigned thread = random_below(random, RANDOM_HEAPS);

    if (choice < 5) {
        heap_release(heaps[thread]);
        heaps[thread] = acquire(thread);
    } else if (choice < 8) {
        (void)heap_trim(heaps[thread]);
        check(heaps[thread]);
    } else if (choice < 15) {
        look(heaps[thread]);
    } else if (slots[slot].address == NULL) {
        random_allocate(random, slot);
    } else if (choice < 200) {
        random_resize(random, slot);
    } else {
        random_free(random, slot);
    }
}

static void check_that_all_is_free(void)
{
    for (struct chunk *chunk = load_relaxed(&pool->region.chunks); chunk != NULL; chunk = chunk->next)
        for (uint32_t i = 0; i < load_relaxed(&chunk->used_blocks); i++) {
            require(load_relaxed(&chunk->blocks[i].free) == BLOCK_ALL_FREE &&
                    block_is_valid(&chunk->blocks[i]));
            require(load_relaxed(&chunk->blocks[i].state) == BLOCK_RELEASED ||
                    load_relaxed(&chunk->blocks[i].state) == BLOCK_EMPTY); /* smaller than a page */
        }
}

static void check_that_all_is_counted(void)
{
    uint64_t of_heap[COUNTER_COUNT] = {0}, of_tier[TIERS_MAX][TIER_COUNTER_COUNT] = {{0}};

    pool_sum_counters_sigsafe(pool, of_heap, of_tier);
    for (unsigned t = 0; t < 2; t++) {
        const uint64_t *counters = of_tier[t];

        require(counters[TIER_COUNTER_carved_slices] ==
                counters[TIER_COUNTER_freed_local_slices] + counters[TIER_COUNTER_freed_remote_slices]);
        require(counters[TIER_COUNTER_carved_bytes] ==
                counters[TIER_COUNTER_freed_local_bytes] + counters[TIER_COUNTER_freed_remote_bytes]);
        require(counters[TIER_COUNTER_retired_blocks] == counters[TIER_COUNTER_opened_fresh_blocks] +
                                                             counters[TIER_COUNTER_opened_empty_blocks] +
                                                             counters[TIER_COUNTER_opened_released_blocks] +
                                                             counters[TIER_COUNTER_opened_filed_blocks]);
    }
}

START_TEST(random_work_of_some_threads_damages_nothing_and_leaves_nothing)
{
    uint64_t random = 11 + (uint64_t)_i;

    setup_for(_i % 2 != 0);
    memset(slots, 0, sizeof slots);
    for (unsigned i = 0; i < RANDOM_HEAPS; i++)
        heaps[i] = acquire(i);
    heaps[RANDOM_HEAPS] = &no_heap;
    for (unsigned i = 0; i < 40000; i++)
        random_step(&random);
    for (unsigned i = 0; i < RANDOM_SLICES; i++)
        if (slots[i].address != NULL)
            random_free(&random, i);
    for (unsigned i = 0; i < RANDOM_HEAPS; i++)
        heap_release(heaps[i]);
    (void)heap_trim(acquire(0));
    check_that_all_is_free();
    check_that_all_is_counted();
}
END_TEST

static void add_tests_of_carving(Suite *suite)
{
    TCase *tests = tcase_create("carving");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, slices_follow_each_other_and_sixteen_of_four_kib_fill_64_kib, 0, 2);
    tcase_add_loop_test(tests, aligned_slices_are_aligned, 0, 2);
    tcase_add_loop_test(tests, aligned_slices_of_large_blocks_are_aligned, 0, 2);
    tcase_add_test(tests, an_alignment_that_every_slice_has_is_served_from_the_cache_and_a_wider_one_is_not);
    tcase_add_loop_test(tests, only_slices_that_were_never_carved_are_said_to_be_zero, 0, 2);
    tcase_add_test(tests, what_a_thread_has_freed_it_gets_again_first);
    tcase_add_test(tests, cached_slices_are_neither_live_nor_free);
    tcase_add_test(tests, holes_are_used_again);
    tcase_add_test(tests, the_fullest_block_is_filled_first);
    tcase_add_test(tests, a_thread_that_asks_for_few_blocks_holds_none);
    tcase_add_test(tests, threads_with_a_buffer_each_share_blocks);
    tcase_add_test(tests, requests_that_the_cache_serves_ask_for_no_block);
    tcase_add_loop_test(tests, random_work_of_some_threads_damages_nothing_and_leaves_nothing, 0, 4);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_bump(Suite *suite)
{
    TCase *tests = tcase_create("bump");

    tcase_add_checked_fixture(tests, setup_bump, NULL);
    tcase_add_test(tests, bump_a_block_that_is_emptied_while_held_starts_over);
    tcase_add_loop_test(tests, bump_a_block_is_empty_with_its_last_slice_and_is_opened_again, 0, 2);
    tcase_add_test(tests, bump_holes_are_not_used_again);
    tcase_add_test(tests, bump_nothing_is_cached);
    tcase_add_test(tests, bump_a_thread_holds_the_first_block_that_it_gets);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_frees(Suite *suite)
{
    TCase *tests = tcase_create("frees");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, who_frees_a_slice_may_hand_it_out);
    tcase_add_loop_test(tests, a_block_emptied_by_another_thread_is_there_for_all, 0, 2);
    tcase_add_loop_test(tests, what_others_have_freed_is_used_before_memory_is_asked_for, 0, 4);
    tcase_add_loop_test(tests, a_thread_without_a_heap_frees_to_the_block, 0, 2);
    tcase_add_loop_test(tests, what_is_not_the_start_of_a_slice_is_told, 0, 2);
    tcase_add_test(tests, a_slice_freed_twice_is_told_whoever_frees);
    tcase_add_test(tests, a_slice_flushed_from_the_cache_is_still_freed);
    tcase_add_test(tests, of_frees_at_the_same_time_that_change_the_mark_by_exchange_one_succeeds);
    tcase_add_loop_test_raise_signal(tests, a_slice_in_two_caches_leaves_one_of_them, SIGABRT, 0, 5);
    tcase_add_test_raise_signal(tests, a_slice_in_a_cache_and_free_in_its_block_is_not_carved, SIGABRT);
    tcase_add_test_raise_signal(tests, nor_does_it_leave_the_cache, SIGABRT);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_the_cache(Suite *suite)
{
    TCase *tests = tcase_create("cache");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_class_that_overflows_grows_and_then_gives_half_of_it_back);
    tcase_add_test(tests, a_class_has_few_large_slices_and_too_large_ones_are_not_cached);
    tcase_add_test(tests, all_classes_together_are_bounded_too);
    tcase_add_test(tests, all_threads_together_are_bounded_and_give_their_part_back);
    tcase_add_test(tests, what_was_not_needed_since_the_last_look_goes_by_halves);
    tcase_add_test(tests, what_was_needed_stays);
    tcase_add_test(tests, a_class_that_is_not_used_leaves_its_room_to_others);
    tcase_add_test(tests, looks_are_a_second_apart);
    tcase_add_test(tests, a_thread_that_only_uses_its_cache_looks_now_and_then);
    tcase_add_test(tests, a_flush_gives_back_exactly_what_was_cached);
    tcase_add_test(tests, each_block_that_a_flush_gives_to_is_pushed_once);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_resizing(Suite *suite)
{
    TCase *tests = tcase_create("resizing");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, growth_is_for_the_thread_that_holds_the_block, 0, 2);
    tcase_add_loop_test(tests, what_a_slice_gave_up_is_a_hole_that_is_used_again_under_reuse_only, 0, 2);
    tcase_add_test(tests, a_slice_does_not_grow_over_what_is_not_free);
    tcase_add_loop_test(tests, anybody_shrinks_a_slice_and_others_get_the_rest, 0, 2);
    tcase_add_test(tests, without_a_heap_a_slice_that_shrinks_stays_as_it_is);
    tcase_add_loop_test(tests, a_slice_freed_meanwhile_is_not_shrunk, 0, 2);
    tcase_add_loop_test(tests, resizing_keeps_the_balance_of_bytes, 0, 2);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_ends(Suite *suite)
{
    TCase *tests = tcase_create("ends");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_thread_that_ends_gives_everything_back);
    tcase_add_loop_test(tests, a_new_thread_adopts_the_heap_of_one_that_ended, 0, 2);
    tcase_add_loop_test(tests, a_thread_that_ends_gives_its_empty_blocks_to_others, 0, 2);
    tcase_add_loop_test(tests, of_many_freed_slices_few_are_kept_and_the_rest_is_for_everybody, 0, 2);
    tcase_add_loop_test(tests, empty_blocks_lose_their_pages_after_the_decay_time, 0, 2);
    tcase_add_loop_test(tests, a_call_of_the_programs_gives_back_so_much_and_the_next_goes_on, 0, 2);
    tcase_add_loop_test(tests, trim_gives_all_empty_blocks_back_at_once, 0, 2);
    tcase_add_test(tests, trim_leaves_a_block_with_slices_to_its_holder);
    tcase_add_loop_test(
        tests, a_child_has_the_heaps_of_vanished_threads_but_not_those_it_caught_in_a_slow_path, 0, 2);
    tcase_add_test(tests, a_child_adopts_a_cache_with_what_is_in_it);
    tcase_add_loop_test(tests, a_child_resets_locks_that_vanished_threads_held, 0, 2);
    tcase_add_loop_test(tests, a_child_gives_up_what_a_thread_that_it_does_not_have_held_and_cached, 0, 2);
    tcase_add_loop_test(tests, a_child_gives_up_what_all_threads_that_it_does_not_have_held, 0, 2);
    tcase_add_test(tests, a_child_of_many_threads_gives_up_their_heaps_on_a_small_stack);
    tcase_add_test(tests, a_child_adopts_a_cache_that_a_slice_was_leaving);
    tcase_add_test(tests, in_the_parent_a_heap_that_waits_is_left_alone);
    tcase_add_test(tests, in_a_child_threads_without_a_heap_may_free_before_it_is_in_order);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_counters(Suite *suite)
{
    TCase *tests = tcase_create("counters");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, a_free_is_local_to_who_held_the_block_last, 0, 2);
    tcase_add_test(tests, the_sums_are_of_all_heaps_and_the_shared_counters);
    tcase_add_test(tests, pools_side_by_side_know_nothing_of_each_other);
    tcase_add_test(tests, a_heap_counts_for_itself_and_not_for_the_others);
    tcase_add_test(tests, a_heap_that_contradicts_itself_is_told);
    suite_add_tcase(suite, tests);
}

int main(void)
{
    Suite *suite = suite_create("heap");

    if (!libc_find())
        return EXIT_FAILURE;
    add_tests_of_carving(suite);
    add_tests_of_bump(suite);
    add_tests_of_frees(suite);
    add_tests_of_the_cache(suite);
    add_tests_of_resizing(suite);
    add_tests_of_ends(suite);
    add_tests_of_counters(suite);
    add_tagged_test(suite, "address_space", without_memory_for_a_cache_slices_go_to_their_blocks, setup);
    return run_unit_suite(suite);
}
