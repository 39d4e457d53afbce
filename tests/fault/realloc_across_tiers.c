/* SPDX-License-Identifier: MIT */
/*
 * realloc_across_tiers: realloc keeps contents from any size to any other, up and down, through all
 * owners of memory, in the thread that allocated and in another, with live neighbours on both sides
 * that must stay what they are.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../support/test.h"

static const size_t sizes[] = {1,    500,  1024,  1025,  1152,  1153,  2048,  3000,   4095,   4096,   4097,
                               8192, 9000, 16384, 32767, 32768, 32769, 65536, 131072, 131073, 1 << 20};

enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check_pair(size_t from, size_t to)
{
    void *below = malloc(from), *slice = malloc(from), *above = malloc(from);
    size_t kept = from < to ? from : to;

    REQUIRE(below != NULL && slice != NULL && above != NULL);
    test_fill(below, from, 1);
    test_fill(slice, from, 2);
    test_fill(above, from, 3);
    REQUIRE((slice = realloc(slice, to)) != NULL);
    REQUIRE(test_is_filled(slice, kept, 2));
    test_fill(slice, to, 4);
    REQUIRE(test_is_filled(below, from, 1) && test_is_filled(above, from, 3));
    free(above);
    REQUIRE((slice = realloc(slice, from)) != NULL); /* and back */
    REQUIRE(test_is_filled(slice, kept, 4));
    REQUIRE(test_is_filled(below, from, 1));
    free(slice);
    free(below);
}

/* A slice that one thread allocated is resized by another. */
struct errand {
    void *slice;
    size_t from, to;
};

static void *resize(void *argument)
{
    struct errand *errand = argument;

    REQUIRE((errand->slice = realloc(errand->slice, errand->to)) != NULL);
    REQUIRE(test_is_filled(errand->slice, errand->from < errand->to ? errand->from : errand->to, 5));
    return NULL;
}

static void check_pair_elsewhere(size_t from, size_t to)
{
    struct errand errand = {malloc(from), from, to};
    pthread_t thread;

    REQUIRE(errand.slice != NULL);
    test_fill(errand.slice, from, 5);
    REQUIRE(pthread_create(&thread, NULL, resize, &errand) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    free(errand.slice);
}

int main(void)
{
    for (unsigned i = 0; i < SIZES; i++)
        for (unsigned k = 0; k < SIZES; k++) {
            check_pair(sizes[i], sizes[k]);
            check_pair_elsewhere(sizes[i], sizes[k]);
        }
    return 0;
}
