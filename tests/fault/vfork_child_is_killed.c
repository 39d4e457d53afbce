/* SPDX-License-Identifier: MIT */
/*
 * vfork_child_is_killed: a child of vfork, which runs in its parent's memory, sets and asks for the action of
 * SIGUSR1, is asked for dumps, and is killed in the middle of it. Its parent goes on, is dumped, and has the
 * action that it had. The child sees what it set itself.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/test.h"
#include "base/request.h"

enum { ROUNDS = 40 };

static _Atomic(pid_t) child;

static void handle(int number)
{
    (void)number;
}

static void ask_for_dump(pid_t pid)
{
    uint64_t value = REQUEST_MAGIC | REQUEST_DUMP;
    union sigval request;

    memcpy(&request.sival_ptr, &value, sizeof request.sival_ptr);
    (void)sigqueue(pid, SIGUSR1, request);
}

static void *kill_child(void *argument)
{
    while (atomic_load(&child) == 0)
        ;
    if (argument != NULL)
        ask_for_dump(atomic_load(&child));
    usleep(500);
    kill(atomic_load(&child), SIGKILL);
    return NULL;
}

static _Noreturn void be_the_child(bool is_asked)
{
    struct sigaction other = {.sa_handler = SIG_IGN}, seen;

    atomic_store(&child, (pid_t)syscall(SYS_getpid));
    for (;;) {
        if (is_asked)
            continue;
        (void)sigaction(SIGUSR1, &other, NULL);
        (void)sigaction(SIGUSR1, NULL, &seen);
        if (seen.sa_handler != SIG_IGN)
            _exit(3);
    }
}

int main(void)
{
    struct sigaction action;

    REQUIRE(signal(SIGUSR1, handle) == SIG_DFL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t killer;
        pid_t pid;
        int status;

        atomic_store(&child, 0);
        REQUIRE(pthread_create(&killer, NULL, kill_child, round % 2 == 0 ? NULL : &child) == 0);
        pid = vfork();
        if (pid == 0)
            be_the_child(round % 2 != 0);
        REQUIRE(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        REQUIRE(pthread_join(killer, NULL) == 0);
        REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == handle);
        REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
        test_dump(SIGUSR1);
        REQUIRE(test_dump_count(getpid()) == round + 1);
    }
    return 0;
}
