/* SPDX-License-Identifier: MIT */
/*
 * exec_with_signal ignored|blocked COMMAND...: runs a command with SIGUSR1 ignored or blocked, as a
 * parent may leave it. Is itself run without the library.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    sigset_t dump_signal;

    REQUIRE(argc >= 3);
    sigemptyset(&dump_signal);
    sigaddset(&dump_signal, SIGUSR1);
    if (strcmp(argv[1], "ignored") == 0)
        REQUIRE(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    else
        REQUIRE(sigprocmask(SIG_BLOCK, &dump_signal, NULL) == 0);
    execvp(argv[2], argv + 2);
    test_fail("# cannot run %s", argv[2]);
}
