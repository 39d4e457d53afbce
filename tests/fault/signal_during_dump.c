/* SPDX-License-Identifier: MIT */
/*
 * signal_during_dump: while one thread writes a dump another one gets the signal too. Neither is lost:
 * there is a dump for each.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { SLICES = 60000, BYTES = 4000, ROUNDS = 10 };

static pthread_barrier_t barrier;

/* Waits until the other thread's dump has begun to appear, and asks for one more. */
static void *interfere(void *argument)
{
    char path[512];

    (void)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t end_ms = test_now_ms() + 5000;

        test_dump_path(path, sizeof path, getpid(), round * 2 + 1);
        pthread_barrier_wait(&barrier);
        while (access(path, F_OK) != 0)
            if (test_now_ms() > end_ms)
                test_fail("# dump %u did not appear", round * 2 + 1);
        test_dump(SIGUSR1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    static void *slices[SLICES];
    pthread_t thread;

    for (unsigned i = 0; i < SLICES; i++)
        REQUIRE((slices[i] = malloc(BYTES)) != NULL);
    REQUIRE(pthread_barrier_init(&barrier, NULL, 2) == 0);
    REQUIRE(pthread_create(&thread, NULL, interfere, NULL) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        test_dump(SIGUSR1);
        pthread_barrier_wait(&barrier);
        if (test_dump_count(getpid()) != round * 2 + 2)
            test_fail("# %u dumps for %u signals", test_dump_count(getpid()), round * 2 + 2);
    }
    REQUIRE(pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    return 0;
}
