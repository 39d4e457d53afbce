/* SPDX-License-Identifier: MIT */
/* region: address lookup, growth, metadata, and what a fork leaves. */
#include "pool/region.h"

#include <string.h>
#include <sys/resource.h>

#include "base/libc.h"
#include "base/sys.h"
#include "unit.h"

static struct region *region;
static struct tiers tiers;
static char mark, other_thread;

/* Two tiers: 8 KiB blocks, and 64 KiB ones. */
static void setup(void)
{
    void *address;

    tiers_init(&tiers, (const size_t[]){8 << 10, 64 << 10}, 2, 1025);
    require(sys_map(sizeof *region, &address) == 0);
    region = address;
    region_init(region, &tiers, sys_page_bytes());
}

static struct chunk *cut(unsigned tier)
{
    struct chunk *chunk;

    lock_take(&region->growth, &mark);
    chunk = region_cut_chunk_locked(region, tier);
    lock_drop(&region->growth);
    return chunk;
}

START_TEST(an_address_is_found_exactly_when_it_lies_in_a_chunk)
{
    struct chunk *chunk = cut(0);
    int on_stack;

    require(chunk != NULL);
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

START_TEST(an_address_tells_its_block_and_where_in_it)
{
    for (unsigned t = 0; t < 2; t++) {
        size_t bytes = tier_block_bytes(&tiers, t);
        struct chunk *chunk = cut(t);

        require(chunk->block_count == CHUNK_BYTES / bytes);
        for (uint32_t i = 0; i < chunk->block_count; i++) {
            const char *data = chunk->base + i * bytes;

            require(chunk_block_at(chunk, data) == &chunk->blocks[i]);
            require(chunk_block_at(chunk, data + bytes - 1) == &chunk->blocks[i]);
            require(chunk_offset_in_block(chunk, data) == 0);
            require(chunk_offset_in_block(chunk, data + 5000) == 5000);
        }
    }
}
END_TEST

START_TEST(the_blocks_of_a_new_chunk_were_never_used)
{
    for (unsigned i = 0; i < 8; i++) {
        static const struct block never_used;
        struct chunk *chunk = cut(i % 2);

        require(chunk->tier == i % 2 && chunk->block_shift == tiers.block_shift[i % 2]);
        require(load_relaxed(&chunk->used_blocks) == 0);
        require(((uintptr_t)chunk->blocks & (sizeof(struct block) - 1)) == 0);
        for (uint32_t j = 0; j < chunk->block_count; j++)
            require(memcmp(&chunk->blocks[j], &never_used, sizeof never_used) == 0);
        require(load_relaxed(&never_used.state) == BLOCK_FRESH);
    }
}
END_TEST

START_TEST(chunks_are_aligned_to_their_size_and_no_two_overlap)
{
    enum { CHUNKS = 24 };
    struct chunk *chunks[CHUNKS];

    for (unsigned i = 0; i < CHUNKS; i++) {
        chunks[i] = cut(i % 2);
        require(chunks[i] != NULL && ((uintptr_t)chunks[i]->base & (CHUNK_BYTES - 1)) == 0);
        for (size_t at = 0; at < CHUNK_BYTES; at += 64 << 10)
            require(chunks[i]->base[at] == 0);
        for (uint32_t j = 0; j < chunks[i]->block_count; j++)
            chunks[i]->blocks[j].granule_shift = (uint8_t)(1 + i);
        for (size_t at = 0; at < CHUNK_BYTES; at += 4096)
            chunks[i]->base[at] = (char)(1 + i);
    }
    for (unsigned i = 0; i < CHUNKS; i++) {
        for (size_t at = 0; at < CHUNK_BYTES; at += 4096)
            require(chunks[i]->base[at] == (char)(1 + i));
        for (uint32_t j = 0; j < chunks[i]->block_count; j++)
            require(chunks[i]->blocks[j].granule_shift == 1 + i);
    }
}
END_TEST

START_TEST(all_chunks_can_be_walked_from_the_newest_on)
{
    struct chunk *first = cut(0), *second = cut(1), *third = cut(0);

    require(load_relaxed(&region->chunks) == third);
    require(third->next == second && second->next == first && first->next == NULL);
    require(load_relaxed(&region->chunk_count) == 3);
}
END_TEST

START_TEST(growth_adds_few_mappings_and_is_counted)
{
    for (unsigned i = 0; i < 64; i++)
        require(cut(1) != NULL);
    /* 256 MiB of blocks, at most a quarter more, and metadata */
    require(load_relaxed(&region->figures.reserved_bytes) <= ((uint64_t)256 + 64 + 2) << 20);
    require(load_relaxed(&region->chunk_count) == 64);
}
END_TEST

START_TEST(without_address_space_nothing_is_given_and_nothing_breaks)
{
    struct rlimit none = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY}, before;
    struct chunk *chunk = cut(1);

    require(getrlimit(RLIMIT_AS, &before) == 0);
    none.rlim_max = before.rlim_max;
    require(setrlimit(RLIMIT_AS, &none) == 0);
    while (chunk != NULL) /* what was mapped already is still given */
        chunk = cut(1);
    require(cut(0) == NULL);
    require(region_metadata(region, 8 << 20, &mark) == NULL);
    require(setrlimit(RLIMIT_AS, &before) == 0);
    require(cut(0) != NULL);
    require(cut(1) != NULL);
}
END_TEST

START_TEST(a_child_grows_though_a_vanished_thread_was_growing)
{
    struct chunk *before = cut(0), *after;

    lock_take(&region->growth, &other_thread); /* and vanished, while a stretch of space began */
    store_relaxed(&region->space.left_bytes, 0);
    region_after_fork(region, &mark);
    require(load_relaxed(&region->growth.word) == 0);
    after = cut(0);
    require(after != NULL && after->base != before->base);
    require(region_find(region, before->base) == before && region_find(region, after->base) == after);
    require(region_metadata(region, 100, &mark) != NULL);
}
END_TEST

START_TEST(a_child_whose_own_thread_holds_the_lock_leaves_it_held)
{
    lock_take(&region->growth, &mark);
    region_after_fork(region, &mark);
    require(load_relaxed(&region->growth.word) == 1);
    lock_drop(&region->growth);
    require(cut(0) != NULL);
}
END_TEST

START_TEST(metadata_is_zeroed_apart_and_aligned)
{
    char *last = NULL;

    for (unsigned i = 1; i < 3000; i++) {
        char *taken = region_metadata(region, i, &mark);

        require(taken != NULL && ((uintptr_t)taken & (sizeof(struct block) - 1)) == 0);
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
    tcase_add_test(tests, an_address_tells_its_block_and_where_in_it);
    tcase_add_test(tests, the_blocks_of_a_new_chunk_were_never_used);
    tcase_add_test(tests, chunks_are_aligned_to_their_size_and_no_two_overlap);
    tcase_add_test(tests, all_chunks_can_be_walked_from_the_newest_on);
    tcase_add_test(tests, a_child_grows_though_a_vanished_thread_was_growing);
    tcase_add_test(tests, a_child_whose_own_thread_holds_the_lock_leaves_it_held);
    tcase_add_test(tests, metadata_is_zeroed_apart_and_aligned);
    suite_add_tcase(suite, tests);
    add_tagged_test(suite, "downwards", growth_adds_few_mappings_and_is_counted, setup);
    add_tagged_test(suite, "address_space", without_address_space_nothing_is_given_and_nothing_breaks, setup);
    return run_unit_suite(suite);
}
