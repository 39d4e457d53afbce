/* SPDX-License-Identifier: MIT */
/*
 * inherited_signal ignored|blocked: SIGUSR1 was ignored or blocked when the process began. It sees
 * that, and can be dumped all the same: at once, or as soon as it no longer blocks the signal.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    struct sigaction action;
    sigset_t blocked, pending;

    REQUIRE(argc == 2);
    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    if (strcmp(argv[1], "ignored") == 0) {
        REQUIRE(action.sa_handler == SIG_IGN);
        test_dump(SIGUSR1);
        REQUIRE(test_dump_count(getpid()) == 1);
        return 0;
    }
    REQUIRE(action.sa_handler == SIG_DFL && sigismember(&blocked, SIGUSR1) == 1);
    test_dump(SIGUSR1);
    REQUIRE(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
    REQUIRE(test_dump_count(getpid()) == 0);
    REQUIRE(sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0);
    REQUIRE(test_dump_count(getpid()) == 1);
    return 0;
}
