/* SPDX-License-Identifier: MIT */
/*
 * many_threads_at_once THREADS: so many threads are alive at the same time, each with slices of its
 * own, and free each other's. For what there is one of a thread: heaps, slots of the stats file.
 */
#include <pthread.h>
#include <stdlib.h>

#include "../support/test.h"

enum { THREADS_MAX = 5000 };

static void *slices[THREADS_MAX];
static unsigned long thread_count;
static pthread_barrier_t barrier;

static void *run(void *argument)
{
    size_t index = (size_t)((void **)argument - slices);

    REQUIRE((slices[index] = malloc(1500 + index)) != NULL);
    test_fill(slices[index], 1500, index);
    pthread_barrier_wait(&barrier);
    index = (index + 1) % thread_count;
    REQUIRE(test_is_filled(slices[index], 1500, index));
    free(slices[index]);
    free(test_hide(malloc(20000)));
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];
    pthread_attr_t attributes;

    thread_count = test_argument(argc, argv, 1, 100);
    REQUIRE(thread_count <= THREADS_MAX);
    REQUIRE(pthread_barrier_init(&barrier, NULL, (unsigned)thread_count) == 0);
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, test_small_stack_bytes()) == 0);
    for (unsigned long i = 0; i < thread_count; i++)
        REQUIRE(pthread_create(&threads[i], &attributes, run, &slices[i]) == 0);
    for (unsigned long i = 0; i < thread_count; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    return 0;
}
