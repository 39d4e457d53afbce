/* SPDX-License-Identifier: MIT */
/*
 * locked_memory_is_zero [everything]: the kernel takes no locked pages back, and calloc gives zero in them
 * all the same. `everything` locks the whole process (mlockall), as real-time programs and databases do. Exit
 * status 77: so much may not be locked here.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../support/test.h"

enum { SLICES = 150, ROUNDS = 4, NOT_PERMITTED = 77 };

static const size_t sizes[] = {4000, 20000}; /* together below 8 MiB, what an ordinary user may lock */

enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void *slices[SLICES][SIZES];

static void lock_everything(void)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_MEMLOCK, &all) != 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        _Exit(NOT_PERMITTED);
}

static void *take_locked(size_t bytes)
{
    void *slice = calloc(1, bytes);

    REQUIRE(slice != NULL);
    if (!test_is_zero(slice, bytes))
        test_fail("# calloc of %zu bytes is not zero", bytes);
    if (mlock(slice, bytes) != 0)
        _Exit(NOT_PERMITTED);
    memset(slice, 0xff, bytes);
    return slice;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "everything") == 0)
        lock_everything();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SLICES; i++)
            for (unsigned k = 0; k < SIZES; k++)
                slices[i][k] = take_locked(sizes[k]);
        for (unsigned i = 0; i < SLICES; i++)
            for (unsigned k = 0; k < SIZES; k++)
                free(slices[i][k]);
        (void)malloc_trim(0);
    }
    return 0;
}
