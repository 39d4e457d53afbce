/* SPDX-License-Identifier: MIT */
/*
 * dump_on SIGNAL [DUMPS]: allocates a little, sends itself a signal, and looks that so many dumps are
 * there (default 1). For the signals that PINPOOL_SIGNAL may name, and for folders that a dump cannot
 * be written to.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    void *slices[20];

    for (unsigned i = 0; i < 20; i++)
        REQUIRE((slices[i] = malloc(3000)) != NULL);
    test_dump((int)test_argument(argc, argv, 1, SIGUSR1));
    for (unsigned i = 0; i < 20; i++)
        free(slices[i]);
    if (access(test_dump_dir(), R_OK | X_OK) == 0 &&
        test_dump_count(getpid()) != test_argument(argc, argv, 2, 1))
        test_fail("# %u dumps", test_dump_count(getpid()));
    return 0;
}
