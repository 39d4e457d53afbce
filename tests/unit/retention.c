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

static void setup(void)
{
    struct pool_config config = {.block_bytes = {8 << 10, 64 << 10},
                                 .tier_count = 2,
                                 .min_bytes = 1025,
                                 .decay_ns = UINT64_MAX / 2,
                                 .page_bytes = sys_page_bytes()};

    memset(&pool, 0, sizeof pool);
    pool_init(&pool, &config);
}

static void *allocate(struct heap *heap, size_t bytes)
{
    uint64_t touched;
    void *address = heap_allocate(heap, bytes, 1, &touched);

    return address != NULL ? address : heap_allocate_slow(heap, bytes, 1, &touched);
}

static void give_back(struct heap *heap, void *address)
{
    struct chunk *chunk = region_find(&pool.region, address);
    struct block *block = chunk_block_at(chunk, address);

    if (heap_free(heap, chunk, block, address) == HEAP_FREED_LAST)
        heap_emptied_slow(heap, block);
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

/* 100 blocks of 16 slices of 4 KiB; of block i all but (i mod 16) + 1 are freed, every second one by another
 * heap. */
START_TEST(pinned_blocks_are_counted_to_the_slice)
{
    enum { BLOCKS = 100, SLICES = 16 };
    struct heap *heap, *other = heap_acquire(&pool, &marks[1], 2);
    static void *slices[BLOCKS][SLICES];
    uint64_t live = 0, sole = 0, occupancy[OCCUPANCY_CLASSES] = {0};
    const struct retention_tier *tier = &retention.tiers[1];
    void *current;

    heap = heap_acquire(&pool, &marks[0], 1);
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < SLICES; j++)
            slices[i][j] =
                allocate(heap, j == 0 ? 4097 : 4200); /* five granules; 12 fill the block but four */
    current = allocate(heap, 4097);
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), true);
    require(tier->live_slices == BLOCKS * SLICES + 1);
    require(tier->live_bytes == (uint64_t)(BLOCKS * SLICES + 1) * 5 * 1024);
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < SLICES; j++)
            give_back(j % 2 == 0 ? heap : other, slices[i][j]);
    give_back(heap, current);
    (void)heap_trim(heap);

    for (unsigned i = 0; i < BLOCKS; i++) { /* now exactly: 32 KiB and 4097 B: two of 32 a block */
        slices[i][0] = allocate(heap, 4097);
        for (unsigned j = 1; j < 12; j++)
            slices[i][j] = allocate(heap, 4097);
    }
    for (unsigned i = 0; i < BLOCKS - 1; i++) { /* the last block stays current */
        unsigned keep = i % 12 + 1;

        for (unsigned j = keep; j < 12; j++)
            give_back(j % 2 == 0 ? heap : other, slices[i][j]);
        live += keep;
        sole += keep == 1;
        occupancy[keep == 1 ? 0 : keep == 2 ? 1 : keep <= 4 ? 2 : keep <= 8 ? 3 : 4]++;
    }
    retention_walk_sigsafe(&retention, &pool, sys_now_ns() + 11000000000, true);
    require(tier->current_blocks == 1);
    require(tier->pinned_blocks == BLOCKS - 1);
    require(tier->pinned_live_bytes == live * 5 * 1024);
    require(tier->live_slices == live + 12);
    require(tier->sole_pinner_blocks == sole);
    require(tier->stranded_bytes == (BLOCKS - 1) * (uint64_t)65536 - live * 5 * 1024);
    require(tier->stranded_resident_bytes == tier->stranded_bytes); /* all pages were touched at opening */
    for (unsigned i = 0; i < OCCUPANCY_CLASSES; i++)
        require(tier->occupancy[i].blocks == occupancy[i]);
    require(tier->age[4].blocks == BLOCKS - 1); /* 10 to 60 seconds */
    require(retention_heap_of(&retention, heap->id)->pinned_blocks == BLOCKS - 1 &&
            retention_heap_of(&retention, other->id)->pinned_blocks == 0);
    require(retention_heap_of(&retention, heap->id)->held_bytes == (uint64_t)BLOCKS * 65536);
    require(retention_heap_of(&retention, heap->id + other->id) == NULL);
    require(retention.worst_count == BLOCKS - 1);
    for (unsigned i = 1; i < retention.worst_count; i++)
        require(retention.worst[i - 1].stranded_bytes >= retention.worst[i].stranded_bytes);
}
END_TEST

START_TEST(the_worst_blocks_are_the_worst_of_many)
{
    enum { BLOCKS = 2000 };
    static void *slices[BLOCKS][4];
    struct heap *heap = heap_acquire(&pool, &marks[0], 1);
    uint64_t random = 7;

    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned j = 0; j < 4; j++) /* four of 16 granules fill an 8 KiB block */
            slices[i][j] = allocate(heap, 2048);
    for (unsigned i = 0; i < BLOCKS - 1; i++)
        for (unsigned j = 0, count = (unsigned)(random_next(&random) >> 32) % 4; j < count; j++)
            give_back(heap, slices[i][j]);
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

START_TEST(blocks_emptied_by_others_count_as_empty_before_their_owner_looks)
{
    struct heap *heap = heap_acquire(&pool, &marks[0], 1), *other = heap_acquire(&pool, &marks[1], 2);
    void *first = allocate(heap, 4096), *second = allocate(heap, 4096);

    (void)allocate(heap, 4096);
    give_back(other, first);
    give_back(other, second);
    retention_walk_sigsafe(&retention, &pool, sys_now_ns(), true);
    require(retention.tiers[0].pinned_blocks == 0);
    require(retention.tiers[0].empty_blocks == 1);
    require(retention.tiers[0].live_slices == 1 && retention.tiers[0].current_blocks == 1);
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
    tcase_add_test(tests, blocks_emptied_by_others_count_as_empty_before_their_owner_looks);
    tcase_add_test(tests, class_bounds_join);
    suite_add_tcase(suite, tests);
    add_tagged_test(suite, "residency", pinned_blocks_are_counted_to_the_slice, setup);
    return run_unit_suite(suite);
}
