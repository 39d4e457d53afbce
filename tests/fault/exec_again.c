/* SPDX-License-Identifier: MIT */
/*
 * exec_again: a process that has written a dump executes itself anew: the pid is the same, the library
 * begins afresh. The second dump takes the next free number, and the stats file is the new image's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/test.h"
#include "base/label.h"

/* When the image that made the stats file started. */
static uint64_t start_of_stats(void)
{
    struct statsfile file;
    char path[512];
    FILE *stream;

    snprintf(path, sizeof path, "%s/pinpool.%d.stats", test_dump_dir(), (int)getpid());
    stream = fopen(path, "r");
    REQUIRE(stream != NULL && fread(&file, sizeof file, 1, stream) == 1 && fclose(stream) == 0);
    REQUIRE(file.pid == getpid() && file.label.start_unix_ns != 0);
    return file.label.start_unix_ns;
}

int main(int argc, char **argv)
{
    char before[32];

    free(test_hide(malloc(3000)));
    test_dump(SIGUSR1);
    if (argc == 1) {
        REQUIRE(test_dump_count(getpid()) == 1);
        snprintf(before, sizeof before, "%llu", (unsigned long long)start_of_stats());
        execl("/proc/self/exe", argv[0], before, (char *)NULL);
        test_fail("# cannot execute itself");
    }
    REQUIRE(test_dump_count(getpid()) == 2 && test_dump_last_seq(getpid()) == 2);
    REQUIRE(start_of_stats() > strtoull(argv[1], NULL, 10));
    return 0;
}
