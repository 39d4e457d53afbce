/* SPDX-License-Identifier: MIT */
/*
 * stats_file_is_cut: somebody cuts the stats file while the program counts (a log rotation, "> file"). It
 * goes on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

int main(void)
{
    char path[512];

    free(test_hide(malloc(3000)));
    snprintf(path, sizeof path, "%s/pinpool.%d.stats", test_dump_dir(), (int)getpid());
    REQUIRE(truncate(path, 0) == 0);
    for (unsigned i = 0; i < 10000; i++) {
        free(test_hide(malloc(3000)));
        free(test_hide(malloc(10)));
    }
    return 0;
}
