/* SPDX-License-Identifier: MIT */
/*
 * fork_in_handler [THREADS]: a signal handler forks, at any moment of the main program's allocations
 * of 0 to 70000 bytes. Each child ends at once. With THREADS others that allocate too, the handler
 * uses _Fork, which a handler in a program with threads may call. Nothing may hang.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/test.h"

enum { SLOTS = 64, BYTES_MAX = 70000, RUN_MS = 1500, PAUSE_MS = 2, THREADS_MAX = 8, FORKS_MIN = 20 };

static atomic_uint fork_count;
static atomic_bool is_stopping;
static bool has_threads;

static void handle(int signal)
{
    int error = errno, status;
    pid_t pid = has_threads ? _Fork() : fork();

    (void)signal;
    if (pid == 0)
        _exit(7);
    /* waitpid is called until it answers: other signals of the same kind interrupt it */
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        _exit(1);
    atomic_fetch_add(&fork_count, 1);
    errno = error;
}

static void allocate_until_stopped(uint64_t random)
{
    void *slots[SLOTS] = {NULL};

    while (!atomic_load(&is_stopping)) {
        size_t i = test_random_below(&random, SLOTS), bytes = test_random_below(&random, BYTES_MAX + 1);

        free(slots[i]);
        REQUIRE((slots[i] = malloc(bytes)) != NULL);
        test_fill(slots[i], bytes < 64 ? bytes : 64, i);
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}

static void *allocate(void *argument)
{
    sigset_t signals;

    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    allocate_until_stopped((uint64_t)(uintptr_t)argument);
    return NULL;
}

/* Another process sends the signals: so they come at any moment. */
static pid_t start_sender(pid_t target)
{
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        uint64_t end_ms = test_now_ms() + RUN_MS;

        while (test_now_ms() < end_ms && kill(target, SIGUSR2) == 0)
            test_sleep_ms(PAUSE_MS);
        kill(target, SIGTERM);
        _exit(0);
    }
    return pid;
}

static void stop(int signal)
{
    (void)signal;
    atomic_store(&is_stopping, true);
}

int main(int argc, char **argv)
{
    unsigned long thread_count = test_argument(argc, argv, 1, 0);
    pthread_t threads[THREADS_MAX];
    pid_t sender;

    REQUIRE(thread_count <= THREADS_MAX);
    has_threads = thread_count > 0;
    REQUIRE(sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop, .sa_flags = SA_RESTART}, NULL) == 0);
    REQUIRE(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_RESTART}, NULL) == 0);
    sender = start_sender(getpid());
    for (unsigned long i = 0; i < thread_count; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)) == 0);
    allocate_until_stopped(0);
    for (unsigned long i = 0; i < thread_count; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    REQUIRE(test_wait_child(sender, 5000) == 0);
    if (atomic_load(&fork_count) < FORKS_MIN)
        test_fail("# only %u forks", atomic_load(&fork_count));
    return 0;
}
