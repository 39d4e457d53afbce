/* SPDX-License-Identifier: MIT */
/*
 * recycled_memory_is_zero: calloc gives zero on memory that was written before, that grew in place
 * over written granules, that other threads freed, and that went back to the kernel in between.
 * Run with PINPOOL_DECAY_MS=0 and without.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../support/test.h"

enum { SLICES = 600, ROUNDS = 12, BYTES_MAX = 40000 };

static void *slices[SLICES];

static void *free_half(void *argument)
{
    (void)argument;
    for (unsigned i = 1; i < SLICES; i += 2)
        free(slices[i]);
    return NULL;
}

int main(void)
{
    uint64_t random = 1;

    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t thread;

        for (unsigned i = 0; i < SLICES; i++) {
            size_t bytes = test_random_size(&random, 1, BYTES_MAX);

            REQUIRE((slices[i] = calloc(1, bytes)) != NULL);
            REQUIRE(test_is_zero(slices[i], bytes));
            memset(slices[i], 0xff, bytes);
            if (i % 3 == 0) { /* shrink and grow: what calloc gives next may lie over its tail */
                REQUIRE((slices[i] = realloc(slices[i], bytes / 2 + 1)) != NULL);
                REQUIRE((slices[i] = realloc(slices[i], bytes * 2)) != NULL);
                memset(slices[i], 0xee, bytes * 2);
            }
        }
        REQUIRE(pthread_create(&thread, NULL, free_half, NULL) == 0);
        for (unsigned i = 0; i < SLICES; i += 2)
            free(slices[i]);
        REQUIRE(pthread_join(thread, NULL) == 0);
        test_sleep_ms(3);
    }
    return 0;
}
