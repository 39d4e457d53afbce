/* SPDX-License-Identifier: MIT */
/*
 * dump_storm: many threads that allocate ask for dumps all the time. None hangs, each dump is whole, and
 * when it is quiet again a dump is still to be had.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { THREADS = 8, DUMPS = 25 };

static void *allocate_and_dump(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    void *slices[50] = {NULL};

    for (unsigned dump = 0; dump < DUMPS; dump++) {
        for (unsigned i = 0; i < 200; i++) {
            size_t slot = test_random_below(&random, 50);

            free(slices[slot]);
            REQUIRE((slices[slot] = malloc(test_random_size(&random, 1, 40000))) != NULL);
        }
        test_dump(SIGUSR1);
    }
    for (unsigned i = 0; i < 50; i++)
        free(slices[i]);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned dumps;

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate_and_dump, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    dumps = test_dump_count(getpid());
    /* Wishes that meet a dump being written are one: how many there are depends on the machine. */
    if (dumps < 2 || dumps > THREADS * DUMPS)
        test_fail("# %u dumps", dumps);
    test_dump(SIGUSR1);
    REQUIRE(test_dump_count(getpid()) == dumps + 1);
    return 0;
}
