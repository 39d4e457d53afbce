/* SPDX-License-Identifier: MIT */
/*
 * mappings_stay_few: many blocks are opened, become empty and are given back; the number of
 * mappings, which vm.max_map_count limits, does not follow theirs. Run with PINPOOL_DECAY_MS=0.
 */
#include <stdlib.h>

#include "../support/test.h"

enum { SLICES = 20000, BYTES = 4096, ROUNDS = 4, MAPPINGS_MAX = 40 };

int main(void)
{
    static void *slices[SLICES];
    size_t before = test_mapping_count(), most = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SLICES; i++) {
            REQUIRE((slices[i] = malloc(BYTES)) != NULL);
            test_fill(slices[i], BYTES, i);
        }
        /* Every second one first: blocks with holes, then empty ones between others. */
        for (unsigned i = 0; i < SLICES; i += 2)
            free(slices[i]);
        for (unsigned i = 1; i < SLICES; i += 2)
            free(slices[i]);
        if (test_mapping_count() > most)
            most = test_mapping_count();
    }
    if (most > before + MAPPINGS_MAX)
        test_fail("# from %zu to %zu mappings", before, most);
    return 0;
}
