/* SPDX-License-Identifier: MIT */
/*
 * descriptors_are_used_up: the program has as many files open as it may. A dump cannot be written then,
 * and nothing happens; with one descriptor left it can, though what it would read in /proc is missing.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../support/test.h"

enum { DESCRIPTORS = 40 };

/* Looking for dumps takes descriptors: two of the program's are closed for it. */
static unsigned count_dumps(int first, int second)
{
    unsigned dumps;

    close(first);
    close(second);
    dumps = test_dump_count(getpid());
    REQUIRE(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
    REQUIRE(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
    return dumps;
}

int main(void)
{
    int last = -1, fd;

    REQUIRE(setrlimit(RLIMIT_NOFILE, &(struct rlimit){DESCRIPTORS, DESCRIPTORS}) == 0);
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        last = fd;
    REQUIRE(last == DESCRIPTORS - 1);
    for (unsigned i = 0; i < 200; i++)
        free(test_hide(malloc(1000 + 300 * i)));
    test_dump(SIGUSR1);
    REQUIRE(count_dumps(last - 1, last) == 0);
    REQUIRE(close(last) == 0);
    test_dump(SIGUSR1);
    REQUIRE(open("/dev/null", O_RDONLY | O_CLOEXEC) == last); /* it was given back */
    REQUIRE(count_dumps(last - 1, last) == 1);
    return 0;
}
