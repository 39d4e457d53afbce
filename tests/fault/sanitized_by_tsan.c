/* SPDX-License-Identifier: MIT */
/* sanitized_by_tsan: built with ThreadSanitizer; threads free each other's slices, properly locked. */
#include <pthread.h>
#include <stdlib.h>

#include "../support/test.h"

enum { THREADS = 4, STEPS = 2000, SLOTS = 16 };

static void *slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *run(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;

    for (unsigned i = 0; i < STEPS; i++) {
        void **slot = &slots[test_random_below(&random, SLOTS)], *taken;
        void *slice = malloc(1100 + test_random_below(&random, 30000));

        REQUIRE(slice != NULL);
        *(unsigned *)slice = i;
        pthread_mutex_lock(&lock);
        taken = *slot;
        *slot = slice;
        pthread_mutex_unlock(&lock);
        if (taken != NULL)
            *(unsigned *)taken = 0;
        free(taken);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (unsigned i = 0; i < SLOTS; i++)
        free(slots[i]);
    return 0;
}
