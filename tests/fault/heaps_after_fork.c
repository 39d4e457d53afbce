/* SPDX-License-Identifier: MIT */
/*
 * heaps_after_fork: threads that only waited at the fork leave their heaps to the child, whose new
 * threads take them. Ends with a dump by the child, in which the script looks how many heaps there are.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { THREADS = 8 };

static pthread_barrier_t have_allocated, may_end, children;

static void *allocate_and_wait(void *argument)
{
    void *slice = malloc(3000);

    REQUIRE(slice != NULL);
    pthread_barrier_wait(&have_allocated);
    pthread_barrier_wait(&may_end);
    free(slice);
    return argument;
}

/* All are alive at once, so that each needs a heap of its own. */
static void *allocate_in_child(void *argument)
{
    void *slice = malloc(3000);

    REQUIRE(slice != NULL);
    pthread_barrier_wait(&children);
    free(slice);
    return argument;
}

static _Noreturn void child(void)
{
    pthread_t threads[THREADS];

    REQUIRE(pthread_barrier_init(&children, NULL, THREADS) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate_in_child, NULL) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    test_dump(SIGUSR1);
    _exit(0);
}

int main(void)
{
    pthread_t threads[THREADS];
    pid_t pid;

    REQUIRE(pthread_barrier_init(&have_allocated, NULL, THREADS + 1) == 0);
    REQUIRE(pthread_barrier_init(&may_end, NULL, THREADS + 1) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate_and_wait, NULL) == 0);
    free(test_hide(malloc(3000)));
    pthread_barrier_wait(&have_allocated);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child();
    REQUIRE(test_wait_child(pid, 10000) == 0);
    pthread_barrier_wait(&may_end);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    return 0;
}
