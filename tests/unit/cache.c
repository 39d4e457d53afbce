/* SPDX-License-Identifier: MIT */
/* cache: one class of it, and the marks of its slices. How classes grow and shrink is tested in heap.c. */
#include "pool/cache.h"

#include <signal.h>
#include <string.h>

#include "unit.h"

enum { ROOM = 16, GRANULES = 3, HEAP_ID = 5 };

static struct cache cache;
static struct cache_class *class;
static struct cache_entry entries[ROOM];
static struct block block;
static char data[BLOCK_GRANULES];

static void setup(void)
{
    memset(&cache, 0, sizeof cache);
    memset(&block, 0, sizeof block);
    cache.mark = block_cached_mark(HEAP_ID);
    class = &cache.classes[0][GRANULES - 1];
    class->entries = entries;
    class->limit = class->room = ROOM;
}

static void push(unsigned slice)
{
    block.marks[slice * GRANULES] = cache.mark;
    cache_push(class, &data[slice * GRANULES], &block.marks[slice * GRANULES]);
}

START_TEST(what_was_freed_last_is_handed_out_first_and_is_live_then)
{
    for (unsigned i = 0; i < ROOM; i++)
        push(i);
    require(class->count == ROOM);
    for (unsigned i = ROOM; i-- > 0;) {
        require(block.marks[i * GRANULES] == cache.mark);
        require(cache_pop(&cache, class, GRANULES) == &data[i * GRANULES]);
        require(block.marks[i * GRANULES] == GRANULES);
    }
    require(class->count == 0 && class->low == 0);
}
END_TEST

START_TEST(low_is_the_least_that_the_class_had)
{
    for (unsigned i = 0; i < 8; i++)
        push(i);
    class->low = class->count; /* a look */
    (void)cache_pop(&cache, class, GRANULES);
    (void)cache_pop(&cache, class, GRANULES);
    require(class->low == 6);
    push(6);
    push(7);
    push(8);
    require(class->count == 9 && class->low == 6);
    (void)cache_pop(&cache, class, GRANULES);
    require(class->low == 6);
}
END_TEST

/* Somebody else has freed it too: to its block; into another cache; and it was handed out again. */
START_TEST(a_slice_whose_mark_is_not_the_caches_is_not_handed_out)
{
    static const uint8_t marks[] = {0, BLOCK_CACHED | (HEAP_ID + 1), GRANULES, GRANULES + 1};

    push(0);
    push(1);
    block.marks[0] = marks[_i];
    require(cache_pop(&cache, class, GRANULES) == &data[GRANULES]);
    die_quietly();
    (void)cache_pop(&cache, class, GRANULES);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cache");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, what_was_freed_last_is_handed_out_first_and_is_live_then);
    tcase_add_test(tests, low_is_the_least_that_the_class_had);
    tcase_add_loop_test_raise_signal(tests, a_slice_whose_mark_is_not_the_caches_is_not_handed_out, SIGABRT,
                                     0, 4);
    return run_unit_tests("cache", tests);
}
