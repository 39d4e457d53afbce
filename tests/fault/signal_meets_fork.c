/* SPDX-License-Identifier: MIT */
/*
 * signal_meets_fork: a child is asked for a dump just as it begins: at any moment of what the library
 * does for it. It writes the dump and goes on.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/test.h"
#include "base/request.h"

enum { FORKS = 300, SLICES = 2000, AFTER_NS_MAX = 400000, CHILD_MS = 5000 };

static void *slices[SLICES];

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static _Noreturn void child(void)
{
    uint64_t end_ms = test_now_ms() + CHILD_MS;

    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    while (test_dump_count(getpid()) == 0) {
        REQUIRE(test_now_ms() < end_ms);
        free(test_hide(malloc(3000)));
        test_sleep_ms(1);
    }
    _exit(0);
}

int main(void)
{
    uint64_t random = 1, value = REQUEST_MAGIC | REQUEST_DUMP;
    union sigval request;

    for (unsigned i = 0; i < SLICES; i++)
        REQUIRE((slices[i] = malloc(4000)) != NULL);
    for (unsigned i = 0; i < FORKS; i++) {
        uint64_t after_ns = test_random_below(&random, AFTER_NS_MAX), start_ns;
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0)
            child();
        start_ns = now_ns();
        while (now_ns() - start_ns < after_ns)
            continue;
        memcpy(&request.sival_ptr, &value, sizeof request.sival_ptr);
        REQUIRE(sigqueue(pid, SIGUSR1, request) == 0);
        REQUIRE(test_wait_child(pid, 2 * CHILD_MS) == 0);
    }
    return 0;
}
