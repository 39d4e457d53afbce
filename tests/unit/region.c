/* SPDX-License-Identifier: MIT */
/* region: address lookup, the lists, pages given back, and what a fork leaves. */
#include "pool/region.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/libc.h"
#include "base/sys.h"
#include "unit.h"

static struct region *region;
static struct tiers tiers;
static char mark;

/* Two tiers: 8 KiB blocks, and 64 KiB ones. */
static void setup_with_pages(size_t page_bytes)
{
    void *address;

    tiers_init(&tiers, (const size_t[]){8 << 10, 64 << 10}, 2, 1025);
    require(sys_map(sizeof *region, &address) == 0);
    region = address;
    region_init(region, &tiers, page_bytes);
}

static void setup(void)
{
    setup_with_pages(sys_page_bytes());
}

static struct block *take_unbacked(unsigned tier)
{
    enum block_source source;

    return region_take_unbacked(region, tier, &source, &mark);
}

static void give(struct block *block, uint64_t emptied_ns)
{
    struct block_list list = {.count = 0};

    block->state = BLOCK_KEPT;
    block->emptied_ns = emptied_ns;
    block_list_push(&list, block);
    region_give(region, block->tier, &list, &mark);
}

/*
 * By the block's end: at the beginning of what was discarded the page of zeros is mapped, see
 * discard_is_done.
 */
static bool is_resident(const struct block *block)
{
    char *end = block->data + block_bytes(block);
    unsigned char page;

    require(sys_mincore(end - sys_page_bytes(), 1, &page) == 0);
    return (page & 1) != 0;
}

START_TEST(an_address_is_found_exactly_when_it_lies_in_a_chunk)
{
    struct block *block = take_unbacked(0);
    struct chunk *chunk = region_find(region, block->data);
    int on_stack;

    require(chunk != NULL);
    require(chunk_block_at(chunk, block->data) == block);
    require(chunk_block_at(chunk, block->data + 8191) == block);
    require(chunk_offset_in_block(chunk, block->data + 5000) == 5000);
    require(region_find(region, chunk->base) == chunk);
    require(region_find(region, chunk->base + CHUNK_BYTES - 1) == chunk);
    require(region_find(region, chunk->base - 1) == NULL);
    require(region_find(region, &on_stack) == NULL);
    for (unsigned bit = 0; bit < 64; bit++) {
        const char *anywhere = (const char *)((uintptr_t)1 << bit);

        require(region_find(region, anywhere) == NULL);
        require(bit < CHUNK_SHIFT ||
                region_find(region, (const char *)((uintptr_t)chunk->base ^ (uintptr_t)anywhere)) == NULL);
    }
    require(region_find(region, (const char *)UINTPTR_MAX) == NULL);
}
END_TEST

START_TEST(blocks_are_aligned_to_their_size_and_no_two_overlap)
{
    enum { BLOCKS = 3000 };
    static char *data[2 * BLOCKS];

    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned t = 0; t < 2; t++) {
            struct block *block = take_unbacked(t);

            require(block != NULL && block->tier == t);
            require(((uintptr_t)block->data & (block_bytes(block) - 1)) == 0);
            require(block->data[0] == 0 && block->data[block_bytes(block) - 1] == 0);
            memset(block->data, (int)(1 + t), block_bytes(block));
            data[2 * i + t] = block->data;
        }
    for (unsigned i = 0; i < 2 * BLOCKS; i++)
        for (size_t at = 0; at < tier_block_bytes(&tiers, i % 2); at += 1024)
            require(data[i][at] == (char)(1 + i % 2));
}
END_TEST

START_TEST(growth_adds_few_mappings_and_is_counted)
{
    for (unsigned i = 0; i < 4096; i++)
        require(take_unbacked(1) != NULL);
    /* 256 MiB of blocks, at most a quarter more, and metadata */
    require(load_relaxed(&region->figures.reserved_bytes) <= ((uint64_t)256 + 64 + 2) << 20);
    require(load_relaxed(&region->chunk_count) == 64);
}
END_TEST

START_TEST(what_was_given_last_is_taken_first)
{
    struct block *first = take_unbacked(0), *second = take_unbacked(0);

    require(region_take_empty(region, 0, &mark) == NULL);
    give(first, 1);
    give(second, 2);
    require(region_take_empty(region, 1, &mark) == NULL);
    require(region_take_empty(region, 0, &mark) == second);
    require(region_take_empty(region, 0, &mark) == first);
    require(first->state == BLOCK_CLAIMED);
    require(region_take_empty(region, 0, &mark) == NULL);
}
END_TEST

START_TEST(only_old_blocks_lose_their_pages)
{
    struct block *old = take_unbacked(1), *young = take_unbacked(1), *used = take_unbacked(1);
    uint64_t released[TIERS_MAX] = {0};
    enum block_source source;

    memset(old->data, 1, block_bytes(old));
    memset(young->data, 1, block_bytes(young));
    memset(used->data, 1, block_bytes(used));
    old->touched = young->touched = ~(uint64_t)0;
    give(old, 100);
    give(young, 300);
    require(region_release(region, 200, released, &mark));
    require(released[1] == 1 && released[0] == 0);
    require(!is_resident(old) && is_resident(young) && is_resident(used));
    require(old->state == BLOCK_RELEASED && old->touched == 0 && young->touched != 0);
    require(!region_release(region, 200, released, &mark));
    require(region_take_unbacked(region, 1, &source, &mark) == old && source == SOURCE_RELEASED);
    require(old->data[0] == 0);
}
END_TEST

START_TEST(blocks_whose_pages_the_kernel_keeps_are_not_taken_for_fresh_ones)
{
    struct block *block = take_unbacked(1);
    uint64_t released[TIERS_MAX] = {0};

    memset(block->data, 1, block_bytes(block));
    block->touched = ~(uint64_t)0;
    require(mlock(block->data, 4096) == 0); /* 4 KiB may be locked by anybody */
    give(block, 1);
    require(!region_release(region, 100, released, &mark));
    require(released[1] == 0 && block->state == BLOCK_EMPTY);
    require(region_take_empty(region, 1, &mark) == block && block->touched == ~(uint64_t)0);
}
END_TEST

/*
 * Caches of registered memory rewrite libc's madvise to hear of it: a system call of ours they would not
 * hear.
 */
static unsigned heard;
static size_t heard_bytes;

static int hear(void *address, size_t bytes, int advice)
{
    (void)address;
    heard++;
    heard_bytes += advice == MADV_DONTNEED ? bytes : 0;
    return madvise(address, bytes, advice);
}

START_TEST(pages_go_back_through_the_c_librarys_own_function)
{
    int (*before)(void *, size_t, int) = libc.madvise;
    struct block *block = take_unbacked(1);
    uint64_t released[TIERS_MAX] = {0};

    block->data[0] = 1;
    give(block, 1);
    heard = 0;
    heard_bytes = 0;
    libc.madvise = hear;
    require(region_release(region, 10, released, &mark));
    libc.madvise = before;
    require(heard == 1 && heard_bytes == block_bytes(block));
}
END_TEST

static int lie(void *address, size_t bytes, int advice)
{
    (void)address;
    (void)bytes;
    (void)advice;
    return 0;
}

START_TEST(a_kernel_that_only_says_that_it_took_pages_is_not_believed)
{
    int (*before)(void *, size_t, int) = libc.madvise;
    struct block *block = take_unbacked(1);
    uint64_t released[TIERS_MAX] = {0};

    block->touched = 3;
    block->data[0] = 7;
    give(block, 1);
    libc.madvise = lie;
    require(!region_release(region, 10, released, &mark) && released[1] == 0);
    libc.madvise = before;
    require(region_take_empty(region, 1, &mark) == block);
    require(block->touched == 3 && block->data[0] == 7);
}
END_TEST

START_TEST(one_call_gives_back_about_four_mib)
{
    struct block *blocks[200];
    uint64_t released[TIERS_MAX] = {0};

    for (unsigned i = 0; i < 200; i++)
        blocks[i] = take_unbacked(1);
    for (unsigned i = 0; i < 200; i++)
        give(blocks[i], i);
    require(region_release(region, 1000, released, &mark));
    require(released[1] == 64);
    while (region_release(region, 1000, released, &mark))
        ;
    require(released[1] == 200);
}
END_TEST

/* As on a machine with 64 KiB pages; here the kernel's own pages are smaller, which does no harm. */
START_TEST(a_page_larger_than_a_block_goes_back_when_all_its_blocks_are_empty)
{
    struct block *blocks[16];
    uint64_t released[TIERS_MAX] = {0};

    setup_with_pages(64 << 10);
    for (unsigned i = 0; i < 16; i++) {
        blocks[i] = take_unbacked(0);
        memset(blocks[i]->data, 1, block_bytes(blocks[i]));
    }
    for (unsigned i = 0; i < 15; i++) /* the first page's eight, and seven of the second's */
        give(blocks[i], i);
    while (region_release(region, 1000, released, &mark))
        ;
    require(released[0] == 8);
    for (unsigned i = 0; i < 16; i++)
        require(is_resident(blocks[i]) == (i >= 8));
    require(blocks[15]->data[0] == 1 && blocks[8]->data[0] == 1);
}
END_TEST

START_TEST(without_address_space_nothing_is_given_and_nothing_breaks)
{
    struct rlimit none = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY}, before;
    struct block *block = take_unbacked(1);

    require(getrlimit(RLIMIT_AS, &before) == 0);
    none.rlim_max = before.rlim_max;
    require(setrlimit(RLIMIT_AS, &none) == 0);
    while (block != NULL) /* what was mapped already is still given */
        block = take_unbacked(1);
    require(take_unbacked(0) == NULL);
    require(region_metadata(region, 8 << 20, &mark) == NULL);
    require(setrlimit(RLIMIT_AS, &before) == 0);
    require(take_unbacked(0) != NULL);
    require(take_unbacked(1) != NULL);
}
END_TEST

START_TEST(a_child_rebuilds_lists_that_a_vanished_thread_was_changing)
{
    /* Of 64 KiB, which are whole pages on every machine. */
    struct block *empty = take_unbacked(1), *released = take_unbacked(1), *in_hand = take_unbacked(1);
    uint64_t counts[TIERS_MAX] = {0};
    enum block_source source;
    char other_thread;

    give(released, 1);
    require(region_release(region, 10, counts, &mark));
    give(empty, 20);
    lock_take(&region->lists, &other_thread); /* and vanished, with the lists in some state */
    region->tiers[1].empty.first = NULL;
    region->tiers[1].released.last = empty;
    region_after_fork(region, &mark);
    require(region_take_empty(region, 1, &mark) == empty);
    require(region_take_empty(region, 1, &mark) == NULL);
    require(region_take_unbacked(region, 1, &source, &mark) == released);
    require(region_take_unbacked(region, 1, &source, &mark) != in_hand && source == SOURCE_FRESH);
}
END_TEST

START_TEST(a_child_whose_own_thread_holds_a_lock_leaves_it_held)
{
    lock_take(&region->lists, &mark);
    region_after_fork(region, &mark);
    require(load_relaxed(&region->lists.word) == 1);
    lock_drop(&region->lists);
    require(take_unbacked(0) != NULL);
}
END_TEST

START_TEST(metadata_is_zeroed_apart_and_aligned)
{
    char *last = NULL;

    for (unsigned i = 1; i < 3000; i++) {
        char *taken = region_metadata(region, i, &mark);

        require(taken != NULL && ((uintptr_t)taken & (CACHE_LINE_BYTES - 1)) == 0);
        for (unsigned at = 0; at < i; at++)
            require(taken[at] == 0);
        memset(taken, 1, i);
        require(last == NULL || taken >= last + i - 1 || taken + i <= last);
        last = taken;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("region");
    TCase *tests = tcase_create("region");

    if (!libc_find())
        return EXIT_FAILURE;
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, an_address_is_found_exactly_when_it_lies_in_a_chunk);
    tcase_add_test(tests, blocks_are_aligned_to_their_size_and_no_two_overlap);
    tcase_add_test(tests, what_was_given_last_is_taken_first);
    tcase_add_test(tests, only_old_blocks_lose_their_pages);
    tcase_add_test(tests, blocks_whose_pages_the_kernel_keeps_are_not_taken_for_fresh_ones);
    tcase_add_test(tests, pages_go_back_through_the_c_librarys_own_function);
    tcase_add_test(tests, a_kernel_that_only_says_that_it_took_pages_is_not_believed);
    tcase_add_test(tests, one_call_gives_back_about_four_mib);
    tcase_add_test(tests, a_page_larger_than_a_block_goes_back_when_all_its_blocks_are_empty);
    tcase_add_test(tests, a_child_rebuilds_lists_that_a_vanished_thread_was_changing);
    tcase_add_test(tests, a_child_whose_own_thread_holds_a_lock_leaves_it_held);
    tcase_add_test(tests, metadata_is_zeroed_apart_and_aligned);
    suite_add_tcase(suite, tests);
    add_tagged_test(suite, "downwards", growth_adds_few_mappings_and_is_counted, setup);
    add_tagged_test(suite, "address_space", without_address_space_nothing_is_given_and_nothing_breaks, setup);
    return run_unit_suite(suite);
}
