/* SPDX-License-Identifier: MIT */
/*
 * workers_in_rounds: 50 workers start, allocate, hand some of their slices to the main thread and
 * end; again and again. Memory stays flat, for a heap outlives its thread and the next one takes it. In
 * every round all of them hold their slices at the same moment: how much memory that takes must not depend
 * on how the threads happen to be scheduled.
 * Ends with a dump, in which the script looks how many heaps there are.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "../support/test.h"

enum { WORKERS = 50, ROUNDS = 40, SLICES = 100, HANDED = 10, GROWTH_KIB_MAX = 12 << 10 };

static void *handed[WORKERS][HANDED];
static pthread_barrier_t all_hold;

static void *work(void *argument)
{
    size_t index = *(const size_t *)argument;
    uint64_t random = index;
    void *slices[SLICES];

    for (unsigned i = 0; i < SLICES; i++) {
        size_t bytes = test_random_size(&random, 1100, 32768);

        REQUIRE((slices[i] = malloc(bytes)) != NULL);
        test_fill(slices[i], bytes, i);
    }
    pthread_barrier_wait(&all_hold);
    for (unsigned i = HANDED; i < SLICES; i++)
        free(slices[i]);
    for (unsigned i = 0; i < HANDED; i++)
        handed[index][i] = slices[i];
    return NULL;
}

static void do_round(void)
{
    static pthread_t threads[WORKERS];
    static size_t indices[WORKERS];

    for (size_t i = 0; i < WORKERS; i++) {
        indices[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, work, &indices[i]) == 0);
    }
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < WORKERS; i++)
        for (size_t k = 0; k < HANDED; k++)
            free(handed[i][k]);
}

int main(int argc, char **argv)
{
    size_t early_kib = 0, late_kib;

    REQUIRE(pthread_barrier_init(&all_hold, NULL, WORKERS) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        do_round();
        if (round == ROUNDS / 4)
            early_kib = test_status_kib("VmRSS:");
    }
    late_kib = test_status_kib("VmRSS:");
    if (late_kib > early_kib + GROWTH_KIB_MAX)
        test_fail("# from %zu to %zu KiB resident", early_kib, late_kib);
    if (test_argument(argc, argv, 1, 0) != 0)
        test_dump(SIGUSR1);
    return 0;
}
