/* SPDX-License-Identifier: MIT */
/*
 * signal_burst own|none: 200 signals at once. A program with a handler of its own for SIGUSR1 uses it for
 * something, and most signals are not for us: the handler runs for each, but there are at most 20 dumps,
 * and a later signal writes one again. Without a handler each signal asks for a dump, and gets it.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

enum { SIGNALS = 200, DUMPS_MAX = 20, QUIET_MS = 1500 };

static volatile sig_atomic_t calls;

static void handle(int number)
{
    (void)number;
    calls++;
}

int main(int argc, char **argv)
{
    bool has_own = argc == 2 && strcmp(argv[1], "own") == 0;
    unsigned dumps;

    if (has_own)
        REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_RESTART}, NULL) ==
                0);
    for (unsigned i = 0; i < SIGNALS; i++)
        test_raise(SIGUSR1);
    dumps = test_dump_count(getpid());
    if (has_own ? dumps < 1 || dumps > DUMPS_MAX : dumps != SIGNALS)
        test_fail("# %u dumps for %d signals", dumps, SIGNALS);
    REQUIRE(calls == (has_own ? SIGNALS : 0));
    test_sleep_ms(QUIET_MS);
    test_raise(SIGUSR1);
    REQUIRE(test_dump_count(getpid()) == dumps + 1);
    REQUIRE(calls == (has_own ? SIGNALS + 1 : 0));
    return 0;
}
