/* SPDX-License-Identifier: MIT */
/*
 * exhausted BYTES AT_LEAST_KIB [LIMIT_MIB [THREADS]]
 *
 * Allocates slices of BYTES until there is no more memory, as the C library's own allocator would
 * have it: NULL and ENOMEM, a failed realloc leaves the old memory alone, what was freed can be had
 * again. At least so much must have been given out. LIMIT_MIB: RLIMIT_AS is set here, after the
 * allocator was used; without it the script has set it before the start.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "../support/test.h"

enum { SLICES_MAX = 400000, THREADS_MAX = 8 };

static void *slices[SLICES_MAX];
static size_t bytes, per_thread;

/* Fills slots with slices until memory is out; returns how many there are. */
static size_t take_all(void **mine)
{
    size_t count = 0;

    for (; count < per_thread; count++) {
        errno = 0;
        mine[count] = malloc(bytes);
        if (mine[count] == NULL) {
            REQUIRE(errno == ENOMEM);
            break;
        }
        test_fill(mine[count], bytes, count);
    }
    return count;
}

static void give_all(void **mine, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        REQUIRE(test_is_filled(mine[i], bytes, i));
        free(mine[i]);
    }
}

/* Growing beyond what is left fails, and the slice stays what it was. */
static void fail_to_grow(void **mine, size_t count)
{
    void *moved;

    if (count == 0)
        return;
    errno = 0;
    moved = realloc(mine[count - 1], (size_t)1 << 40);
    REQUIRE(moved == NULL && errno == ENOMEM);
    REQUIRE(calloc(1, (size_t)1 << 40) == NULL);
    REQUIRE(test_is_filled(mine[count - 1], bytes, count - 1));
}

/* Fills memory twice; the second time there must be about as much. */
static void *run(void *argument)
{
    void **mine = &slices[*(const size_t *)argument * per_thread];
    size_t first = take_all(mine), second;

    fail_to_grow(mine, first);
    give_all(mine, first);
    second = take_all(mine);
    give_all(mine, second);
    return (void *)(uintptr_t)(first < second ? first : second);
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];
    static size_t indices[THREADS_MAX];
    size_t at_least = test_argument(argc, argv, 2, 0) << 10;
    size_t limit = test_argument(argc, argv, 3, 0) << 20;
    size_t thread_count = test_argument(argc, argv, 4, 1);
    size_t total = 0;
    void *result;

    bytes = test_argument(argc, argv, 1, 4096);
    per_thread = SLICES_MAX / thread_count;
    for (unsigned i = 0; i < 100; i++)
        free(test_hide(malloc(bytes)));
    if (limit != 0)
        REQUIRE(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);
    if (thread_count == 1) {
        indices[0] = 0;
        total = (uintptr_t)run(&indices[0]);
    } else {
        for (size_t i = 0; i < thread_count; i++) {
            indices[i] = i;
            REQUIRE(pthread_create(&threads[i], NULL, run, &indices[i]) == 0);
        }
        for (size_t i = 0; i < thread_count; i++) {
            REQUIRE(pthread_join(threads[i], &result) == 0);
            total += (uintptr_t)result;
        }
    }
    if (total * bytes < at_least)
        test_fail("# only %zu KiB could be had", total * bytes >> 10);
    return 0;
}
