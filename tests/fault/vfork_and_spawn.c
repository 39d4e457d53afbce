/* SPDX-License-Identifier: MIT */
/*
 * vfork_and_spawn: vfork, posix_spawn, a raw clone that works like fork, and system, while another
 * thread allocates. The parent's heap is the same afterwards; a raw clone's child can allocate and
 * writes its dump under its own pid.
 */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/test.h"

enum { ROUNDS = 30, CHILD_MS = 10000 };

extern char **environ;

static atomic_bool is_stopping;

static void *allocate(void *argument)
{
    uint64_t random = 1;

    (void)argument;
    while (!atomic_load(&is_stopping))
        free(test_hide(malloc(test_random_size(&random, 1, 70000))));
    return NULL;
}

static void do_vfork(void)
{
    pid_t pid = vfork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
}

static void do_spawn(void)
{
    char name[] = "true";
    char *arguments[] = {name, NULL};
    pid_t pid;

    REQUIRE(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0);
    REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
}

/* The child of a clone that no fork handler knows of. Only before there are threads. */
static void do_raw_clone(void)
{
    void *before = malloc(3000);
    pid_t pid;

    test_fill(before, 3000, 1);
    pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    REQUIRE(pid >= 0);
    if (pid == 0) {
        void *slices[100];

        for (unsigned i = 0; i < 100; i++)
            REQUIRE((slices[i] = malloc(4000)) != NULL);
        REQUIRE(test_is_filled(before, 3000, 1));
        free(before);
        for (unsigned i = 0; i < 100; i++)
            free(slices[i]);
        test_dump(SIGUSR1);
        _exit(test_dump_count((pid_t)syscall(SYS_getpid)) == 1 ? 0 : 8);
    }
    REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
    REQUIRE(test_is_filled(before, 3000, 1));
    free(before);
    REQUIRE(test_dump_count(getpid()) == 0);
}

int main(void)
{
    pthread_t thread;
    void *kept = malloc(5000);

    REQUIRE(kept != NULL);
    test_fill(kept, 5000, 2);
    do_raw_clone();
    REQUIRE(pthread_create(&thread, NULL, allocate, NULL) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        do_vfork();
        do_spawn();
        REQUIRE(system("exit 3") == 3 << 8);
        free(test_hide(malloc(2000)));
    }
    atomic_store(&is_stopping, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(test_is_filled(kept, 5000, 2));
    free(kept);
    return 0;
}
