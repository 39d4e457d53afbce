/* SPDX-License-Identifier: MIT */
/* retention: the account of a pool whose contents are known to the slice. */
#include "evidence/retention.h"

#include <string.h>

#include "base/libc.h"
#include "base/sys.h"
#include "unit.h"

static struct pool pool;
static struct retention retention;
static char marks[2];

static void setup_for(bool reuses_holes)
{
    struct pool_config config = {.block_bytes = {8 << 10, 64 << 10},
                                 .tier_count = 2,
                                 .min_bytes = 1025,
                                 .decay_ns = UINT64_MAX / 2,
                                 .page_bytes = sys_page_bytes(),
                                 .reuses_holes = reuses_holes};

    memset(&pool, 0, sizeof pool);
    pool_init(&pool, &config);
}

static void setup(void)
{
    setup_for(true);
}

/* Of a thread that has asked for blocks before, and holds one from now on. Its cache is not looked at. */
static struct heap *acquire(unsigned thread)
{
    struct heap *heap = heap_acquire(&pool, &marks[thread], (int32_t)thread + 1);

    require(heap != NULL);
    memset(heap->exchanges, 3, sizeof heap->exchanges);
    heap->cache.next_look_ns = UINT64_MAX;
    return heap;
}

static void *allocate(struct heap *heap, size_t bytes)
{
    bool is_touched;
    void *address = heap_allocate(heap, bytes, 1, &is_touched);

    return address != NULL ? address : heap_allocate_slow(heap, bytes, 1, &is_touched);
}

static struct block *find(void *address, _Atomic(uint8_t) **mark, unsigned *count)
{
    struct chunk *chunk = region_find(&pool.region, address);
    struct block *block = chunk_block_at(chunk, address);

    require(block_find(block, chunk_offset_in_block(chunk, address), mark, count) == BLOCK_LIVE);
    return block;
}

static void give_to_block(struct heap *heap, void *address)
{
    _Atomic(uint8_t) *mark;
    unsigned count;
    struct block *block = find(address, &mark, &count);

    require(heap_free_to_block(heap, block, mark, count));
}

static void give_to_cache(struct heap *heap, void *address)
{
    _Atomic(uint8_t) *mark;
    unsigned count;
    struct block *block = find(address, &mark, &count);

    require(heap_free_slow(heap, block, mark, count));
    require(load_relaxed(mark) == heap->cache.mark);
}

static const struct retention_tier *walk(unsigned tier)
{
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), true);
    return &retention.tiers[tier];
}

START_TEST(an_empty_pool_has_nothing)
{
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), true);
    for (unsigned t = 0; t < 2; t++) {
        static const struct retention_tier nothing;

        require(memcmp(&retention.tiers[t], &nothing, sizeof nothing) == 0);
    }
    require(retention.worst_count == 0);
}
END_TEST

/*
 * 100 blocks of 12 slices of five granules, so four granules are left. Of block i all but (i mod 12) + 1
 * slices are freed, every second one by another thread. First all blocks lose their pages once.
 */
static void check_pinned_blocks(bool reuses_holes)
{
    enum { BLOCKS = 100, SLICES = 12 };
    static void *slices[BLOCKS][SLICES];
    struct heap *heap, *other;
    uint64_t live = 0, sole = 0, occupancy[OCCUPANCY_CLASSES] = {0};
    const struct retention_tier *tier = &retention.tiers[1];

    setup_for(reuses_holes);
    heap = acquire(0);
    other = acquire(1);
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < SLICES; j++)
            slices[i][j] = allocate(heap, j == 0 ? 4097 : 4200);
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), true);
    require(tier->live_slices == BLOCKS * SLICES);
    require(tier->live_bytes == (uint64_t)BLOCKS * SLICES * 5 * 1024);
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < SLICES; j++)
            give_to_block(j % 2 == 0 ? heap : other, slices[i][j]);
    require(heap_trim(heap));
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), true);
    require(tier->released_blocks == BLOCKS &&
            tier->current_blocks + tier->pinned_blocks + tier->empty_blocks == 0);

    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < SLICES; j++)
            slices[i][j] = allocate(heap, 4097);
    for (unsigned i = 0; i < BLOCKS - 1; i++) { /* the last block stays current */
        unsigned keep = i % SLICES + 1;

        for (unsigned j = keep; j < SLICES; j++)
            give_to_block(j % 2 == 0 ? heap : other, slices[i][j]);
        live += keep;
        sole += keep == 1;
        occupancy[keep == 1 ? 0 : keep == 2 ? 1 : keep <= 4 ? 2 : keep <= 8 ? 3 : 4]++;
    }
    retention_walk_sigsafe(&retention, &pool, sys_now_ns() + 11000000000, true);
    require(tier->current_blocks == 1);
    require(tier->pinned_blocks == BLOCKS - 1);
    require(tier->pinned_live_bytes == live * 5 * 1024);
    require(tier->live_slices == live + SLICES && tier->cached_bytes == 0);
    require(tier->sole_pinner_blocks == sole);
    require(tier->stranded_bytes == (BLOCKS - 1) * (uint64_t)65536 - live * 5 * 1024);
    require(tier->stranded_resident_bytes == tier->stranded_bytes); /* all pages were touched at opening */
    for (unsigned i = 0; i < OCCUPANCY_CLASSES; i++)
        require(tier->occupancy[i].blocks == occupancy[i]);
    require(tier->age[4].blocks == BLOCKS - 1); /* 10 to 60 seconds */
    require(retention_heap_of(&retention, heap->id)->pinned_blocks == BLOCKS - 1 &&
            retention_heap_of(&retention, other->id)->pinned_blocks == 0);
    require(retention_heap_of(&retention, heap->id)->held_bytes == (uint64_t)BLOCKS * 65536);
    require(retention_heap_of(&retention, heap->id)->live_bytes == (live + SLICES) * 5 * 1024);
    require(retention_heap_of(&retention, heap->id + other->id) == NULL);
    require(retention.worst_count == BLOCKS - 1);
    for (unsigned i = 1; i < retention.worst_count; i++)
        require(retention.worst[i - 1].stranded_bytes >= retention.worst[i].stranded_bytes);
}

START_TEST(pinned_blocks_are_counted_to_the_slice)
{
    check_pinned_blocks(true);
    check_pinned_blocks(false);
}
END_TEST

START_TEST(cached_slices_are_counted_apart_from_live_ones)
{
    struct heap *heap = acquire(0), *other = acquire(1);
    void *pinned[7], *current[3];
    const struct retention_tier *tier;

    for (unsigned i = 0; i < 7; i++)
        pinned[i] = allocate(heap, 1100); /* nine granules of 128; seven fill a block but one */
    for (unsigned i = 0; i < 3; i++)
        current[i] = allocate(heap, 1100);
    for (unsigned i = 0; i < 4; i++)
        give_to_cache(i % 2 == 0 ? heap : other, pinned[i]);
    give_to_cache(other, current[0]);
    tier = walk(0);
    require(tier->current_blocks == 1 && tier->pinned_blocks == 1 && tier->empty_blocks == 0);
    require(tier->live_slices == 5 && tier->live_bytes == 5 * 9 * 128);
    require(tier->cached_bytes == 5 * 9 * 128);
    require(tier->pinned_live_bytes == 3 * 9 * 128);
    require(tier->stranded_bytes == 8192 - 3 * 9 * 128); /* what is cached there included */
    require(tier->occupancy[2].blocks == 1 && retention.worst[0].live_slices == 3);
    require(retention_heap_of(&retention, heap->id)->live_bytes == 5 * 9 * 128);
    require(retention_heap_of(&retention, other->id)->held_bytes == 0);
    require(allocate(other, 1100) == current[0]); /* and it is live again */
    tier = walk(0);
    require(tier->live_slices == 6 && tier->cached_bytes == 4 * 9 * 128);
    (void)heap_trim(heap);
    (void)heap_trim(other);
    tier = walk(0);
    require(tier->live_slices == 6 && tier->cached_bytes == 0 && tier->pinned_live_bytes == 3 * 9 * 128);
}
END_TEST

START_TEST(a_block_with_nothing_but_cached_slices_pins_nothing)
{
    struct heap *heap = acquire(0);
    void *slices[2] = {allocate(heap, 4096), allocate(heap, 4096)};
    const struct retention_tier *tier;

    (void)allocate(heap, 4096);
    give_to_cache(heap, slices[0]);
    tier = walk(0);
    require(tier->pinned_blocks == 1 && tier->sole_pinner_blocks == 1 && tier->empty_blocks == 0);
    give_to_cache(heap, slices[1]);
    tier = walk(0);
    require(tier->pinned_blocks == 0 && tier->empty_blocks == 1 && tier->stranded_bytes == 0);
    require(tier->cached_bytes == 8192 && tier->live_slices == 1 && retention.worst_count == 0);
}
END_TEST

START_TEST(the_worst_blocks_are_the_worst_of_many)
{
    enum { BLOCKS = 2000 };
    static void *slices[BLOCKS][4];
    struct heap *heap = acquire(0);
    uint64_t random = 7;

    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < 4; j++) /* four of 16 granules fill an 8 KiB block */
            slices[i][j] = allocate(heap, 2048);
    for (unsigned i = 0; i < BLOCKS - 1; i++)
        for (unsigned j = 0, count = (unsigned)(random_next(&random) >> 32) % 4; j < count; j++)
            give_to_block(heap, slices[i][j]);
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), false);
    require(retention.worst_count == WORST_BLOCKS_MAX);
    require(retention.tiers[0].stranded_resident_bytes == 0); /* not asked for */
    for (unsigned i = 0; i < WORST_BLOCKS_MAX; i++) {
        require(retention.worst[i].stranded_bytes == 3 * 2048); /* about a quarter of them have that much */
        for (unsigned j = 0; j < i; j++)
            require(retention.worst[j].block != retention.worst[i].block);
    }
}
END_TEST

START_TEST(blocks_emptied_by_others_count_as_empty_before_anybody_looks)
{
    struct heap *heap, *other;
    const struct retention_tier *tier;
    void *first, *second;

    setup_for(_i != 0);
    heap = acquire(0);
    other = acquire(1);
    first = allocate(heap, 4096);
    second = allocate(heap, 4096);
    (void)allocate(heap, 4096);
    give_to_block(other, first);
    give_to_block(other, second);
    tier = walk(0);
    require(tier->pinned_blocks == 0 && tier->empty_blocks == 1);
    require(tier->live_slices == 1 && tier->current_blocks == 1);
}
END_TEST

START_TEST(a_block_that_no_thread_holds_is_pinned_by_the_slices_in_it)
{
    struct heap *heap = acquire(0);
    const struct retention_tier *tier;
    void *slice;

    memset(heap->exchanges, 0, sizeof heap->exchanges); /* it has asked for no block yet, so it holds none */
    slice = allocate(heap, 4096);
    tier = walk(0);
    require(tier->current_blocks == 0 && tier->pinned_blocks == 1 && tier->sole_pinner_blocks == 1);
    require(tier->stranded_bytes == 4096 && retention.worst[0].heap_id == heap->id);
    require((char *)slice == retention.worst[0].block->data);
}
END_TEST

START_TEST(each_state_of_a_block_is_counted_as_one_thing)
{
    struct heap *heap = acquire(0);
    void *slice = allocate(heap, 32768);
    _Atomic(uint8_t) *mark;
    unsigned count;
    struct block *block = find(slice, &mark, &count);
    const struct retention_tier *tier;

    for (uint8_t state = BLOCK_FRESH; state <= BLOCK_RELEASED; state++) {
        store_relaxed(&block->state, state);
        tier = walk(1);
        require(tier->current_blocks == (state == BLOCK_HELD) &&
                tier->pinned_blocks == (state == BLOCK_FILED));
        require(tier->empty_blocks == (state == BLOCK_EMPTY || state == BLOCK_CLAIMED));
        require(tier->released_blocks == (state == BLOCK_RELEASED));
        require(tier->live_slices == (state == BLOCK_HELD || state == BLOCK_FILED));
    }
}
END_TEST

START_TEST(only_the_latest_heaps_are_told_apart)
{
    retention.latest_heap = 3000;
    require(retention_heap_of(&retention, 3001) == NULL && retention_heap_of(&retention, 3000) != NULL);
    require(retention_heap_of(&retention, 3001 - RETENTION_HEAPS_MAX) != NULL);
    require(retention_heap_of(&retention, 3000 - RETENTION_HEAPS_MAX) == NULL);
}
END_TEST

START_TEST(class_bounds_join)
{
    require(retention_occupancy_from(0) == 1 && retention_occupancy_from(1) == 2);
    require(retention_occupancy_from(2) == 3 && retention_occupancy_from(3) == 5);
    require(retention_occupancy_from(OCCUPANCY_CLASSES) == 65);
    for (unsigned i = 1; i < AGE_CLASSES; i++)
        require(retention_age_from_ms(i) > retention_age_from_ms(i - 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retention");
    TCase *tests = tcase_create("retention");

    if (!libc_find())
        return EXIT_FAILURE;
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, an_empty_pool_has_nothing);
    tcase_add_test(tests, the_worst_blocks_are_the_worst_of_many);
    tcase_add_test(tests, cached_slices_are_counted_apart_from_live_ones);
    tcase_add_test(tests, a_block_with_nothing_but_cached_slices_pins_nothing);
    tcase_add_loop_test(tests, blocks_emptied_by_others_count_as_empty_before_anybody_looks, 0, 2);
    tcase_add_test(tests, a_block_that_no_thread_holds_is_pinned_by_the_slices_in_it);
    tcase_add_test(tests, each_state_of_a_block_is_counted_as_one_thing);
    tcase_add_test(tests, only_the_latest_heaps_are_told_apart);
    tcase_add_test(tests, class_bounds_join);
    suite_add_tcase(suite, tests);
    add_tagged_test(suite, "residency", pinned_blocks_are_counted_to_the_slice, setup);
    return run_unit_suite(suite);
}
