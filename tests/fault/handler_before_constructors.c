/* SPDX-License-Identifier: MIT */
/*
 * handler_before_constructors: the program's handler for SIGUSR1 is in force before the library's
 * constructor runs. It stays the program's: a dump is written, and the handler runs.
 */
#include <signal.h>
#include <unistd.h>

#include "../support/test.h"

static volatile sig_atomic_t calls;

static void handle(int number)
{
    (void)number;
    calls++;
}

/* The executable's preinit functions run before the constructors of all its libraries. */
static void before_constructors(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_RESTART}, NULL) == 0);
}

__attribute__((used, section(".preinit_array"))) static void (*const preinit)(int, char **,
                                                                              char **) = before_constructors;

int main(void)
{
    struct sigaction action;

    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
    REQUIRE(action.sa_handler == handle && (action.sa_flags & SA_SIGINFO) == 0);
    test_dump(SIGUSR1);
    REQUIRE(calls == 1);
    REQUIRE(test_dump_count(getpid()) == 1);
    return 0;
}
