/* SPDX-License-Identifier: MIT */
/*
 * handler_jumps_out: the program's own handler leaves with siglongjmp. The next signals still write
 * dumps, and the family still works.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { ROUNDS = 5 };

static sigjmp_buf before;

static void handle(int number)
{
    siglongjmp(before, number);
}

int main(void)
{
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    for (volatile unsigned round = 0; round < ROUNDS; round++) {
        if (sigsetjmp(before, 1) == 0) {
            test_dump(SIGUSR1);
            test_fail("# the handler did not run");
        }
        for (unsigned i = 0; i < 1000; i++)
            free(test_hide(malloc(1000 + 30 * i)));
        REQUIRE(test_dump_count(getpid()) == round + 1);
    }
    return 0;
}
