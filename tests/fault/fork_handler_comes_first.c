/* SPDX-License-Identifier: MIT */
/*
 * fork_handler_comes_first allocates|starts-thread
 *
 * Whoever is set up before the allocator registers its handler for forks before it, and in a child those
 * handlers run in that order: so a child may allocate before the allocator has been told that it is one. Here
 * the handler does, or starts a thread that does and goes on after it, while the parent's threads were in the
 * middle of everything. No child hangs, and no memory is given out twice.
 *
 * The C library gives the helper the stack of a thread that has vanished, and with it the addresses of that
 * one's thread-local variables: who held a lock at the fork must not be told from those.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

enum {
    THREADS = 4,
    CHILD_THREADS = 4,
    CHILD_ROUNDS = 10,
    CHILD_MS = 10000,
    KEPT = 60, /* slices; of the larger pool more than a heap keeps, so everybody's lists are in use */
    BYTES_MIN = 3000,
    BYTES_MAX = 32768,
    FILLED_BYTES = 512, /* two owners of one block carve the same places: the beginnings tell */
};

static atomic_bool is_stopping;
static bool starts_thread;
static pthread_t helper;
static atomic_bool helper_has_memory;
static unsigned forks, forks_handled;

/* Fills many slices, and looks whether they are all still whole when the last one is there. */
static void use_memory(uint64_t seed)
{
    void *slices[KEPT];
    uint64_t random = seed;

    for (unsigned i = 0; i < KEPT; i++) {
        REQUIRE((slices[i] = malloc(test_random_size(&random, BYTES_MIN, BYTES_MAX))) != NULL);
        test_fill(slices[i], FILLED_BYTES, seed * KEPT + i);
    }
    for (unsigned i = 0; i < KEPT; i++) {
        REQUIRE(test_is_filled(slices[i], FILLED_BYTES, seed * KEPT + i));
        free(slices[i]);
    }
}

static void *use_in_child(void *argument)
{
    uint64_t seed = (uintptr_t)argument;

    for (unsigned round = 0; round < CHILD_ROUNDS; round++)
        use_memory(seed * CHILD_ROUNDS + round);
    return NULL;
}

static void *use_in_parent(void *argument)
{
    uint64_t seed = (uintptr_t)argument << 32;

    while (!atomic_load(&is_stopping))
        use_memory(seed++);
    return NULL;
}

static void *help(void *argument)
{
    use_memory(4);
    atomic_store(&helper_has_memory, true);
    return use_in_child(argument);
}

/* Every other time the helper is the first in the child to allocate, and the other times it mostly is not. */
static void handle_fork(void)
{
    forks_handled++;
    if (starts_thread)
        REQUIRE(pthread_create(&helper, NULL, help, (void *)1) == 0);
    while (starts_thread && forks % 2 == 0 && !atomic_load(&helper_has_memory))
        sched_yield();
    use_memory(2);
}

/* The executable's preinit functions run before the constructors of all libraries. */
static void register_first(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    REQUIRE(pthread_atfork(NULL, NULL, handle_fork) == 0);
}

__attribute__((used, section(".preinit_array"))) static void (*const preinit)(int, char **,
                                                                              char **) = register_first;

/* New threads, besides the helper: they would be given its heap if that were taken for nobody's. */
static _Noreturn void child(void)
{
    pthread_t threads[CHILD_THREADS];

    REQUIRE(forks_handled == 1);
    for (uintptr_t i = 0; i < CHILD_THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use_in_child, (void *)(i + 10)) == 0);
    (void)use_in_child((void *)3);
    for (unsigned i = 0; i < CHILD_THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    if (starts_thread)
        REQUIRE(pthread_join(helper, NULL) == 0);
    _exit(0);
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS];
    unsigned long wanted = test_argument(argc, argv, 2, 100);

    REQUIRE(argc >= 2);
    starts_thread = strcmp(argv[1], "starts-thread") == 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use_in_parent, (void *)(i + 1)) == 0);
    for (; forks < wanted; forks++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0)
            child();
        REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
    }
    atomic_store(&is_stopping, true);
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    REQUIRE(forks_handled == 0);
    return 0;
}
