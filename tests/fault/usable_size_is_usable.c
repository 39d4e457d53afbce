/* SPDX-License-Identifier: MIT */
/*
 * usable_size_is_usable: every byte that malloc_usable_size promises can be written without harm to
 * any neighbour, it promises the same for as long as the slice lives, and a slice it is written in
 * can be resized and freed.
 */
#include <malloc.h>
#include <stdlib.h>

#include "../support/test.h"

enum { SLICES = 2000, BYTES_MAX = 70000 };

int main(void)
{
    static void *slices[SLICES];
    static size_t sizes[SLICES], usable[SLICES];
    uint64_t random = 1;

    for (unsigned i = 0; i < SLICES; i++) {
        sizes[i] = test_random_size(&random, 1, BYTES_MAX);
        slices[i] = i % 5 == 0 ? aligned_alloc(512, sizes[i]) : malloc(sizes[i]);
        REQUIRE(slices[i] != NULL);
        usable[i] = malloc_usable_size(slices[i]);
        REQUIRE(usable[i] >= sizes[i]);
        test_fill(slices[i], usable[i], i);
    }
    for (unsigned i = 0; i < SLICES; i += 3) { /* grow to what was promised */
        void *same = realloc(slices[i], usable[i]);

        REQUIRE(same != NULL && test_is_filled(same, sizes[i], i));
        slices[i] = same;
        usable[i] = malloc_usable_size(same);
        test_fill(same, usable[i], i);
    }
    for (unsigned i = 0; i < SLICES; i++) {
        REQUIRE(malloc_usable_size(slices[i]) == usable[i]);
        REQUIRE(test_is_filled(slices[i], usable[i], i));
    }
    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    return 0;
}
