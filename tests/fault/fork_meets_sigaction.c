/* SPDX-License-Identifier: MIT */
/*
 * fork_meets_sigaction: one thread changes the action of SIGUSR1 between two settings while another forks.
 * Each child sees one of them, whole, and what the kernel does with the signal in it is the same one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { FORKS = 1000, CHILD_MS = 10000 };

static struct sigaction first, second;
static atomic_bool is_stopping;
static volatile sig_atomic_t blocked_in_first, calls_of_second;

static void handle_first(int number)
{
    sigset_t blocked;

    (void)number;
    (void)sigprocmask(SIG_BLOCK, NULL, &blocked);
    blocked_in_first = sigismember(&blocked, SIGUSR2) ? 1 : -1;
}

static void handle_second(int number, siginfo_t *info, void *context)
{
    sigset_t blocked;

    (void)number;
    (void)sigprocmask(SIG_BLOCK, NULL, &blocked);
    calls_of_second = info != NULL && context != NULL && !sigismember(&blocked, SIGUSR2) ? 1 : -1;
}

static void *change(void *argument)
{
    while (!atomic_load(&is_stopping)) {
        REQUIRE(sigaction(SIGUSR1, &first, NULL) == 0);
        REQUIRE(sigaction(SIGUSR1, &second, NULL) == 0);
    }
    return argument;
}

static _Noreturn void child(void)
{
    struct sigaction seen;
    bool is_first, has_info, has_mask;

    REQUIRE(sigaction(SIGUSR1, NULL, &seen) == 0);
    is_first = seen.sa_handler == handle_first;
    has_info = (seen.sa_flags & SA_SIGINFO) != 0;
    has_mask = sigismember(&seen.sa_mask, SIGUSR2) == 1;
    REQUIRE(is_first ? !has_info && has_mask : has_info && !has_mask);
    test_raise(SIGUSR1);
    REQUIRE(is_first ? blocked_in_first == 1 && calls_of_second == 0
                     : blocked_in_first == 0 && calls_of_second == 1);
    _exit(0);
}

int main(void)
{
    pthread_t thread;

    first.sa_handler = handle_first;
    sigaddset(&first.sa_mask, SIGUSR2);
    second.sa_sigaction = handle_second;
    second.sa_flags = SA_SIGINFO | SA_RESTART;
    REQUIRE(sigaction(SIGUSR1, &first, NULL) == 0);
    REQUIRE(pthread_create(&thread, NULL, change, NULL) == 0);
    for (unsigned i = 0; i < FORKS; i++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0)
            child();
        REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
    }
    atomic_store(&is_stopping, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    return 0;
}
