/* SPDX-License-Identifier: MIT */
/*
 * small_stacks: threads with stacks of 64 KiB allocate, free and dump. The stack is painted before,
 * and how deep it was used is measured: no call of the family may use more than 4 KiB on its way
 * through the pools, nor may a dump, beyond the frame that the kernel puts there for any handler.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/test.h"

enum { DEPTH_MAX = 4096, PAINT = 0x5a };

static unsigned char *stack; /* the lowest byte */
static size_t depth_of_allocation, depth_of_dump, depth_of_handler;

/* Bytes of stack used below the caller, by what was called since paint(). */
static size_t depth(const unsigned char *here)
{
    const unsigned char *at = stack;

    while (at < here && *at == PAINT)
        at++;
    return (size_t)(here - at);
}

/* Paints what lies below the caller's frame, less what this function itself needs. */
static __attribute__((noinline)) void paint(const unsigned char *here)
{
    for (unsigned char *at = stack; at < here - 512; at++)
        *(volatile unsigned char *)at = PAINT;
}

/* Every way through the pools: new blocks, growth in place, moves, the last slice of a block. */
static __attribute__((noinline)) void allocate(void)
{
    static void *slices[400];

    for (unsigned i = 0; i < 400; i++) {
        size_t bytes = i % 2 == 0 ? 1500 + i : 5000 + 50 * i;

        slices[i] = i % 3 == 0 ? calloc(1, bytes) : i % 3 == 1 ? aligned_alloc(256, 8192) : malloc(bytes);
        slices[i] = realloc(slices[i], bytes + 900);
    }
    for (unsigned i = 0; i < 400; i++)
        free(slices[i]);
}

static void handle_nothing(int signal)
{
    (void)signal;
}

static void *run(void *argument)
{
    unsigned char here;

    (void)argument;
    allocate(); /* the first time: symbols, the thread's heap */
    paint(&here);
    allocate();
    depth_of_allocation = depth(&here);
    REQUIRE(raise(SIGUSR2) == 0);
    paint(&here);
    REQUIRE(raise(SIGUSR2) == 0);
    depth_of_handler = depth(&here);
    paint(&here);
    test_dump(SIGUSR1);
    depth_of_dump = depth(&here);
    return NULL;
}

int main(void)
{
    size_t stack_bytes = test_small_stack_bytes();
    pthread_attr_t attributes;
    pthread_t thread;

    stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    REQUIRE(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = handle_nothing}, NULL) == 0);
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstack(&attributes, stack, stack_bytes) == 0);
    REQUIRE(pthread_create(&thread, &attributes, run, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(test_dump_count(getpid()) == 1);
    if (depth_of_allocation > DEPTH_MAX || depth_of_dump > depth_of_handler + DEPTH_MAX)
        test_fail("# %zu bytes of stack for allocations, %zu for a dump, %zu for any handler",
                  depth_of_allocation, depth_of_dump, depth_of_handler);
    return 0;
}
