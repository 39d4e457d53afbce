/* SPDX-License-Identifier: MIT */
/*
 * only_frees: one thread allocates, others do nothing but free. Memory stays flat: what they free
 * comes back to the thread that allocates, also when the freeing threads are short-lived.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../support/test.h"

enum {
    RING = 64,
    SLICES = 400000,
    PER_THREAD = 10000, /* then the next thread frees */
    BYTES = 3000,
    GROWTH_KIB_MAX = 8 << 10,
};

static _Atomic(void *) ring[RING];

static void *take_and_free(void *argument)
{
    unsigned long first = *(const unsigned long *)argument;

    for (unsigned long i = first; i < first + PER_THREAD; i++) {
        void *slice;

        while ((slice = atomic_exchange(&ring[i % RING], NULL)) == NULL)
            sched_yield();
        REQUIRE(test_is_filled(slice, 64, i));
        free(slice);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    unsigned long first = 0;
    size_t early_kib = 0, late_kib;

    for (unsigned long i = 0; i < SLICES; i++) {
        void *slice = malloc(BYTES), *expected = NULL;

        REQUIRE(slice != NULL);
        test_fill(slice, 64, i);
        if (i % PER_THREAD == 0) {
            if (i > 0)
                REQUIRE(pthread_join(thread, NULL) == 0);
            first = i;
            REQUIRE(pthread_create(&thread, NULL, take_and_free, &first) == 0);
        }
        while (!atomic_compare_exchange_weak(&ring[i % RING], &expected, slice)) {
            expected = NULL;
            sched_yield();
        }
        if (i == SLICES / 4)
            early_kib = test_status_kib("VmRSS:");
        /* Before the thread is replaced it must have taken all that is in the ring. */
        if (i % PER_THREAD == PER_THREAD - 1)
            for (unsigned k = 0; k < RING; k++)
                while (atomic_load(&ring[k]) != NULL)
                    sched_yield();
    }
    REQUIRE(pthread_join(thread, NULL) == 0);
    late_kib = test_status_kib("VmRSS:");
    if (late_kib > early_kib + GROWTH_KIB_MAX)
        test_fail("# from %zu to %zu KiB resident", early_kib, late_kib);
    return 0;
}
