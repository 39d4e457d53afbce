/* SPDX-License-Identifier: MIT */
/*
 * thread_exit_storm: many threads end at the same moment, joined and detached, by return and by
 * cancellation, while the main thread frees what they allocated.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../support/test.h"

enum { THREADS = 48, STORMS = 40, SLICES = 8, BYTES = 2500 };

static void *slices[THREADS][SLICES];
static pthread_barrier_t gate;
static atomic_uint detached_left;

static void *run(void *argument)
{
    size_t index = *(const size_t *)argument;

    for (unsigned i = 0; i < SLICES; i++) {
        REQUIRE((slices[index][i] = malloc(BYTES)) != NULL);
        test_fill(slices[index][i], BYTES, index * SLICES + i);
    }
    pthread_barrier_wait(&gate);
    if (index % 4 == 1)
        pthread_exit(NULL);
    if (index % 4 == 2) { /* a thread that is cancelled while it waits */
        test_sleep_ms(60000);
        test_fail("# not cancelled");
    }
    if (index % 4 == 3)
        atomic_fetch_sub(&detached_left, 1);
    return NULL;
}

int main(void)
{
    static pthread_t threads[THREADS];
    static size_t indices[THREADS];

    for (unsigned storm = 0; storm < STORMS; storm++) {
        REQUIRE(pthread_barrier_init(&gate, NULL, THREADS + 1) == 0);
        atomic_store(&detached_left, THREADS / 4);
        for (size_t i = 0; i < THREADS; i++) {
            indices[i] = i;
            REQUIRE(pthread_create(&threads[i], NULL, run, &indices[i]) == 0);
            if (i % 4 == 3)
                REQUIRE(pthread_detach(threads[i]) == 0);
        }
        pthread_barrier_wait(&gate);
        for (size_t i = 0; i < THREADS; i++) {
            if (i % 4 == 2)
                REQUIRE(pthread_cancel(threads[i]) == 0);
            for (unsigned k = 0; k < SLICES; k++) {
                REQUIRE(test_is_filled(slices[i][k], BYTES, i * SLICES + k));
                free(slices[i][k]);
            }
        }
        for (size_t i = 0; i < THREADS; i++)
            if (i % 4 != 3)
                REQUIRE(pthread_join(threads[i], NULL) == 0);
        while (atomic_load(&detached_left) > 0)
            test_sleep_ms(1);
        REQUIRE(pthread_barrier_destroy(&gate) == 0);
    }
    return 0;
}
