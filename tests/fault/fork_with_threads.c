/* SPDX-License-Identifier: MIT */
/*
 * fork_with_threads [THREADS]: the main thread forks while many others allocate and free for each
 * other. Each child can use all sizes, start threads, fork again, and comes to its end.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/test.h"

enum { THREADS_MAX = 64, SLOTS = 512, CHILD_STEPS = 2000, CHILD_MS = 20000 };

static _Atomic(void *) slots[SLOTS]; /* anybody's */
static atomic_bool is_stopping;

/* Swaps a fresh slice for whatever is in a slot, and frees that. */
static void step(uint64_t *random)
{
    size_t bytes = test_random_size(random, 1, 140000);
    void *slice = malloc(bytes);

    REQUIRE(slice != NULL);
    test_fill(slice, bytes < 256 ? bytes : 256, bytes);
    free(atomic_exchange(&slots[test_random_below(random, SLOTS)], slice));
}

static void *work(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;

    while (!atomic_load(&is_stopping))
        step(&random);
    return NULL;
}

static void *work_a_little(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;

    for (unsigned i = 0; i < CHILD_STEPS; i++)
        step(&random);
    return NULL;
}

static _Noreturn void child(uint64_t seed, unsigned depth)
{
    pthread_t threads[4];

    work_a_little((void *)(uintptr_t)seed);
    for (unsigned i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work_a_little, (void *)(uintptr_t)(seed + i)) == 0);
    if (depth == 0) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0) {
            work_a_little((void *)(uintptr_t)(seed + 9));
            _exit(0);
        }
        REQUIRE(test_wait_child(pid, CHILD_MS / 2) == 0);
    }
    for (unsigned i = 0; i < 4; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    exit(0); /* and the exit handlers run */
}

int main(int argc, char **argv)
{
    unsigned long thread_count = test_argument(argc, argv, 1, 8), forks = test_argument(argc, argv, 2, 12);
    static pthread_t threads[THREADS_MAX];

    REQUIRE(thread_count <= THREADS_MAX);
    for (unsigned long i = 0; i < thread_count; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < forks; i++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0)
            child(i + 100, i % 2);
        REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
    }
    atomic_store(&is_stopping, true);
    for (unsigned long i = 0; i < thread_count; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    return 0;
}
