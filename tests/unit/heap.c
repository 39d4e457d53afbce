/* SPDX-License-Identifier: MIT */
/*
 * heap: carving, frees by others, adoption, fork, decay; and that pools are independent of each other.
 * Threads are acted out on one thread where only the order of steps matters; the races are torture's.
 */
#include "pool/heap.h"

#include <string.h>

#include "base/libc.h"
#include "base/sys.h"
#include "unit.h"

static struct pool *pool;
static char marks[4]; /* of pretended threads */

static struct pool *make_pool(size_t small_block, size_t large_block, uint64_t decay_ns)
{
    struct pool_config config = {.block_bytes = {small_block, large_block},
                                 .tier_count = large_block == 0 ? 1 : 2,
                                 .min_bytes = 1025,
                                 .decay_ns = decay_ns,
                                 .page_bytes = sys_page_bytes()};
    void *address;

    require(sys_map(sizeof *pool, &address) == 0);
    pool_init(address, &config);
    return address;
}

static void setup(void)
{
    pool = make_pool(8 << 10, 64 << 10, (uint64_t)3600 * 1000000000);
}

static struct heap *acquire(unsigned thread)
{
    struct heap *heap = heap_acquire(pool, &marks[thread], (int32_t)thread + 1);

    require(heap != NULL);
    return heap;
}

static void *allocate(struct heap *heap, size_t bytes)
{
    uint64_t touched;
    void *address = heap_allocate(heap, bytes, 1, &touched);

    if (address == NULL)
        address = heap_allocate_slow(heap, bytes, 1, &touched);
    require(heap_is_valid(heap));
    return address;
}

/* Others' inboxes are not looked through at every chance. */
static void let_a_visit_be_due(void)
{
    store_relaxed(&pool->next_visit_ns, 0);
}

static struct block *block_of(void *address)
{
    return chunk_block_at(region_find(&pool->region, address), address);
}

static enum heap_freed give_back(struct heap *heap, void *address)
{
    struct chunk *chunk = region_find(&pool->region, address);
    struct block *block = chunk_block_at(chunk, address);
    enum heap_freed freed = heap_free(heap, chunk, block, address);

    if (freed == HEAP_FREED_LAST)
        heap_emptied_slow(heap, block);
    return freed;
}

static uint64_t tier_count(struct heap *heap, unsigned tier, enum tier_counter_id id)
{
    return load_relaxed(&heap->counters->of_tier[tier][id]);
}

START_TEST(slices_follow_each_other_and_sixteen_of_four_kib_fill_64_kib)
{
    struct heap *heap;
    char *first;

    pool = make_pool(64 << 10, 0, 0);
    heap = acquire(0);
    first = allocate(heap, 4096);
    require(((uintptr_t)first & 0xffff) == 0);
    for (unsigned i = 1; i < 16; i++)
        require(allocate(heap, 4096) == first + i * 4096);
    require(block_of(allocate(heap, 4096)) != block_of(first));
    require(block_of(first)->state == BLOCK_RETIRED);
}
END_TEST

START_TEST(a_block_that_is_emptied_while_current_starts_over)
{
    struct heap *heap = acquire(0);
    void *first = allocate(heap, 2000);

    require(give_back(heap, first) == HEAP_FREED);
    require(allocate(heap, 3000) == first);
    require(tier_count(heap, 0, TIER_COUNTER_opened_fresh_blocks) == 1);
}
END_TEST

START_TEST(a_retired_block_goes_to_the_keep_with_its_last_slice_and_is_opened_again)
{
    struct heap *heap = acquire(0);
    void *first = allocate(heap, 4096), *second = allocate(heap, 4096), *third = allocate(heap, 4096);
    struct block *block = block_of(first);

    require(block_of(third) != block);
    require(give_back(heap, first) == HEAP_FREED);
    require(give_back(heap, second) == HEAP_FREED_LAST);
    require(block->state == BLOCK_KEPT);
    (void)allocate(heap, 4096);
    require(block_of(allocate(heap, 4096)) == block);
    require(tier_count(heap, 0, TIER_COUNTER_emptied_blocks) == 1);
    require(tier_count(heap, 0, TIER_COUNTER_opened_empty_blocks) == 1);
}
END_TEST

START_TEST(free_from_other_thread_returns_block_to_owner)
{
    struct heap *owner = acquire(0), *other = acquire(1);
    void *first = allocate(owner, 4096), *second = allocate(owner, 4096);
    struct block *block = block_of(first);

    (void)allocate(owner, 4096);
    require(give_back(other, first) == HEAP_FREED);
    require(load_relaxed(&owner->inbox) == block);
    require(give_back(other, second) == HEAP_FREED);
    require(load_relaxed(&owner->inbox) == block && block->inbox_next == NULL); /* pushed once */
    require(block_live_slices(block) == 0 && block->state == BLOCK_RETIRED);
    (void)allocate(owner, 4096);
    (void)allocate(owner, 4096); /* needs a block: drains first, and gets this one */
    require(load_relaxed(&owner->inbox) == NULL && block->remote == 0);
    require(block->state == BLOCK_CURRENT && load_relaxed(&block->owner) == owner);
    require(tier_count(other, 0, TIER_COUNTER_freed_remote_slices) == 2);
}
END_TEST

START_TEST(a_slice_freed_twice_is_told_whoever_frees)
{
    struct heap *owner = acquire(0), *other = acquire(1);
    char *local = allocate(owner, 1100), *remote = allocate(owner, 1100);

    (void)allocate(owner, 1100);
    require(give_back(owner, local) == HEAP_FREED);
    require(give_back(owner, local) == HEAP_DOUBLE_FREE);
    require(give_back(other, local) == HEAP_DOUBLE_FREE);
    require(give_back(other, remote) == HEAP_FREED);
    require(give_back(other, remote) == HEAP_DOUBLE_FREE);
    require(give_back(owner, remote) == HEAP_DOUBLE_FREE);
}
END_TEST

START_TEST(what_is_not_the_start_of_a_slice_is_told)
{
    struct heap *heap = acquire(0);
    char *slice = allocate(heap, 2000);

    require(give_back(heap, slice + 8) == HEAP_NOT_A_START);
    require(give_back(heap, slice + 128) == HEAP_NOT_A_START);
    require(give_back(heap, slice + 8192) != HEAP_FREED); /* the next block, never opened */
    require(give_back(heap, slice) == HEAP_FREED);
}
END_TEST

START_TEST(a_new_thread_adopts_the_heap_of_one_that_ended_whole)
{
    struct heap *heap = acquire(0);
    void *live = allocate(heap, 1100);

    heap_release(heap);
    require(acquire(1) == heap);
    require(heap->current[0] == block_of(live));
    require(allocate(heap, 1100) == (char *)live + 9 * 128);
    require(give_back(heap, live) == HEAP_FREED);
    require(load_relaxed(&heap->counters->of_heap[COUNTER_heap_adoptions]) == 1);
    require(acquire(2) != heap);
}
END_TEST

START_TEST(a_heap_without_a_thread_is_drained_before_memory_is_asked_for)
{
    struct heap *gone = acquire(0), *other;
    void *slices[32];
    struct block *block;

    for (unsigned i = 0; i < 32; i++)
        slices[i] = allocate(gone, 4096);
    block = block_of(slices[0]);
    other = acquire(1);
    heap_release(gone);
    for (unsigned i = 0; i < 30; i++) /* 15 whole blocks; the last is current */
        require(give_back(other, slices[i]) == HEAP_FREED);
    let_a_visit_be_due();
    for (unsigned i = 0; i < 30; i++)
        (void)allocate(other, 4096);
    require(tier_count(other, 0, TIER_COUNTER_opened_fresh_blocks) == 0);
    require(tier_count(other, 0, TIER_COUNTER_opened_empty_blocks) == 15);
    require(load_relaxed(&block->owner) == other);
    require(load_relaxed(&gone->state) == HEAP_WAITING);
}
END_TEST

START_TEST(blocks_that_hold_nothing_are_taken_from_a_thread_that_sleeps)
{
    struct heap *asleep = acquire(0), *other = acquire(1);
    void *slices[32];
    struct block *half;

    for (unsigned i = 0; i < 32; i++)
        slices[i] = allocate(asleep, 4096);
    half = block_of(slices[28]);
    for (unsigned i = 0; i < 29; i++) /* 14 whole blocks and a half; the last is current */
        require(give_back(other, slices[i]) == HEAP_FREED);
    let_a_visit_be_due();
    for (unsigned i = 0; i < 28; i++)
        (void)allocate(other, 4096);
    require(tier_count(other, 0, TIER_COUNTER_opened_fresh_blocks) == 0);
    require(load_relaxed(&block_of(slices[0])->owner) == other);
    require(load_relaxed(&asleep->state) == HEAP_LIVE);
    require(load_relaxed(&asleep->inbox) == half && half->inbox_next == NULL && half->remote != 0);
    require(give_back(other, slices[29]) == HEAP_FREED);
    require(allocate(asleep, 4096) != NULL); /* drains, and finds the half that became whole */
    require(allocate(asleep, 4096) != NULL);
    require(load_relaxed(&asleep->inbox) == NULL && half->remote == 0);
}
END_TEST

START_TEST(a_thread_that_ends_gives_its_empty_blocks_to_others)
{
    struct heap *heap = acquire(0), *other = acquire(1);
    void *first = allocate(heap, 4096);
    struct block *block = block_of(first);

    require(give_back(heap, first) == HEAP_FREED);
    heap_release(heap);
    require(block->state == BLOCK_EMPTY);
    require(block_of(allocate(other, 4096)) == block);
}
END_TEST

START_TEST(the_keep_is_small_and_the_rest_is_for_everybody)
{
    enum { SLICES = 400 };
    struct heap *heap = acquire(0);
    void *slices[SLICES];

    for (unsigned i = 0; i < SLICES; i++)
        slices[i] = allocate(heap, 4096);
    for (unsigned i = 0; i < SLICES; i++)
        require(give_back(heap, slices[i]) != HEAP_DOUBLE_FREE);
    require(heap->keep[0].count <= 16);
    require(pool->region.tiers[0].empty.count >= SLICES / 2 - 1 - 16);
    require(heap_is_valid(heap));
}
END_TEST

START_TEST(empty_blocks_lose_their_pages_after_the_decay_time)
{
    struct heap *heap;
    void *slices[100];
    unsigned char page = 1;
    struct block *block;

    pool = make_pool(64 << 10, 0, 20000000); /* 20 ms */
    heap = acquire(0);
    for (unsigned i = 0; i < 100; i++)
        slices[i] = allocate(heap, 32768);
    block = block_of(slices[0]);
    for (unsigned i = 0; i < 100; i++)
        (void)give_back(heap, slices[i]);
    require(block->state == BLOCK_EMPTY);
    for (uint64_t start = sys_now_ns(); block->state == BLOCK_EMPTY && sys_now_ns() - start < 5000000000;) {
        void *two[3] = {allocate(heap, 32768), allocate(heap, 32768), allocate(heap, 32768)};

        for (unsigned i = 0; i < 3; i++)
            (void)give_back(heap, two[i]);
    }
    require(block->state == BLOCK_RELEASED);
    require(sys_mincore(block->data + block_bytes(block) - sys_page_bytes(), 1, &page) == 0 &&
            (page & 1) == 0);
    require(tier_count(heap, 0, TIER_COUNTER_released_blocks) > 0);
}
END_TEST

START_TEST(trim_gives_all_empty_blocks_back_at_once)
{
    struct heap *heap = acquire(0);
    void *slices[64];
    struct block *block;

    for (unsigned i = 0; i < 64; i++)
        slices[i] = allocate(heap, 32768);
    block = block_of(slices[0]);
    require(!heap_trim(heap));
    for (unsigned i = 0; i < 64; i++)
        (void)give_back(heap, slices[i]);
    require(heap_trim(heap));
    require(block->state == BLOCK_RELEASED && heap->keep[1].count == 0);
    require(!heap_trim(heap));
}
END_TEST

START_TEST(resizing_stays_in_place_only_for_the_owner_and_within_the_tier)
{
    struct heap *owner = acquire(0), *other = acquire(1);
    char *slice = allocate(owner, 2000);
    struct block *block = block_of(slice);
    struct slice found = {0};

    require(block_find_slice(block, 0, &found) == BLOCK_LIVE);
    require(heap_resize(other, block, &found, 1500)); /* it is large enough already */
    require(!heap_resize(other, block, &found, 3000));
    require(heap_resize(owner, block, &found, 4096));
    require(block_find_slice(block, 0, &found) == BLOCK_LIVE && slice_count(&found) == 32);
    require(!heap_resize(owner, block, &found, 5000)); /* the larger tier's */
    require(!heap_resize(owner, block, &found, 500));  /* nobody's of ours */
    require(heap_resize(owner, block, &found, 1025));
    require(block_find_slice(block, 0, &found) == BLOCK_LIVE && slice_count(&found) == 9);
    require(tier_count(owner, 0, TIER_COUNTER_carved_bytes) -
                tier_count(owner, 0, TIER_COUNTER_freed_local_bytes) ==
            9 * 128);
}
END_TEST

START_TEST(aligned_slices_are_aligned)
{
    struct heap *heap = acquire(0);
    uint64_t touched;

    for (size_t alignment = 16; alignment <= 4096; alignment *= 2)
        for (size_t bytes = 1025; bytes <= 4096; bytes += 700) {
            void *address = heap_allocate(heap, bytes, alignment, &touched);

            if (address == NULL)
                address = heap_allocate_slow(heap, bytes, alignment, &touched);
            require(address != NULL && ((uintptr_t)address & (alignment - 1)) == 0);
        }
}
END_TEST

START_TEST(a_child_has_the_heaps_of_vanished_threads_but_not_those_it_caught_in_a_slow_path)
{
    struct heap *own = acquire(0), *idle = acquire(1), *busy = acquire(2);
    void *in_idle = allocate(idle, 4096), *in_busy = allocate(busy, 4096);

    store_relaxed(&busy->state, HEAP_BUSY);
    pool_after_fork(pool, own, &marks[0], 77);
    require(load_relaxed(&own->tid) == 77 && load_relaxed(&own->state) == HEAP_LIVE);
    require(load_relaxed(&idle->state) == HEAP_WAITING && load_relaxed(&busy->state) == HEAP_LOST);
    require(give_back(own, in_idle) == HEAP_FREED);
    require(give_back(own, in_busy) == HEAP_FREED); /* frees into a lost heap still work */
    require(acquire(1) == idle);
    require(acquire(2) != busy);
}
END_TEST

START_TEST(pools_side_by_side_know_nothing_of_each_other)
{
    struct pool *other_pool = make_pool(16 << 10, 0, 0);
    struct heap *heap = acquire(0), *other = heap_acquire(other_pool, &marks[1], 1);
    void *mine = allocate(heap, 4096), *theirs = allocate(other, 4096);

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
    require(load_relaxed(&heap->counters->of_heap[COUNTER_passed_small]) == 1);
    require(load_relaxed(&pool->shared.of_heap[COUNTER_passed_small]) == 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("heap");

    if (!libc_find())
        return EXIT_FAILURE;
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, slices_follow_each_other_and_sixteen_of_four_kib_fill_64_kib);
    tcase_add_test(tests, a_block_that_is_emptied_while_current_starts_over);
    tcase_add_test(tests, a_retired_block_goes_to_the_keep_with_its_last_slice_and_is_opened_again);
    tcase_add_test(tests, free_from_other_thread_returns_block_to_owner);
    tcase_add_test(tests, a_slice_freed_twice_is_told_whoever_frees);
    tcase_add_test(tests, what_is_not_the_start_of_a_slice_is_told);
    tcase_add_test(tests, a_new_thread_adopts_the_heap_of_one_that_ended_whole);
    tcase_add_test(tests, a_heap_without_a_thread_is_drained_before_memory_is_asked_for);
    tcase_add_test(tests, blocks_that_hold_nothing_are_taken_from_a_thread_that_sleeps);
    tcase_add_test(tests, a_thread_that_ends_gives_its_empty_blocks_to_others);
    tcase_add_test(tests, the_keep_is_small_and_the_rest_is_for_everybody);
    tcase_add_test(tests, empty_blocks_lose_their_pages_after_the_decay_time);
    tcase_add_test(tests, trim_gives_all_empty_blocks_back_at_once);
    tcase_add_test(tests, resizing_stays_in_place_only_for_the_owner_and_within_the_tier);
    tcase_add_test(tests, aligned_slices_are_aligned);
    tcase_add_test(tests, a_child_has_the_heaps_of_vanished_threads_but_not_those_it_caught_in_a_slow_path);
    tcase_add_test(tests, pools_side_by_side_know_nothing_of_each_other);
    tcase_add_test(tests, a_heap_counts_for_itself_and_not_for_the_others);
    return run_unit_tests("heap", tests);
}
