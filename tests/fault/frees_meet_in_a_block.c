/* SPDX-License-Identifier: MIT */
/*
 * frees_meet_in_a_block: several threads free slices of the same blocks at the same moment, while the
 * owner goes on allocating. No free is lost. Ends with a dump, in which the script looks that no slice
 * is live.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../support/test.h"

enum {
    FREERS = 3,
    ROUNDS = 400,
    SLICES = 3 * 4 * 64, /* a round; four fill a block of 8 KiB */
    BYTES = 2000,
};

static void *slices[2][SLICES];
static pthread_barrier_t barrier;

/* Each takes every third slice, in the same order: so the threads are in the same block most of the time. */
static void *free_every_third(void *argument)
{
    size_t first = *(const size_t *)argument;

    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        for (size_t i = first; i < SLICES; i += FREERS)
            free(slices[round % 2][i]);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[FREERS];
    size_t firsts[FREERS];

    REQUIRE(pthread_barrier_init(&barrier, NULL, FREERS + 1) == 0);
    for (size_t i = 0; i < FREERS; i++) {
        firsts[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, free_every_third, &firsts[i]) == 0);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < SLICES; i++) {
            REQUIRE((slices[round % 2][i] = malloc(BYTES)) != NULL);
            test_fill(slices[round % 2][i], 64, i);
        }
        pthread_barrier_wait(&barrier);
    }
    for (size_t i = 0; i < FREERS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    test_dump(SIGUSR1);
    return 0;
}
