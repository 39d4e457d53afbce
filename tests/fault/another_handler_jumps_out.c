/* SPDX-License-Identifier: MIT */
/*
 * another_handler_jumps_out: the program's handler for another signal leaves with siglongjmp, and that signal
 * comes while dumps are written. No dump stays half written, no descriptor stays open, and later signals
 * write dumps as before.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "../support/test.h"

enum { SLICES = 20000, ROUNDS = 150, DESCRIPTORS_MAX = 256, AFTER_US_MAX = 4000 };

static sigjmp_buf before;
static volatile sig_atomic_t may_jump, jumps;

static void handle_alarm(int number)
{
    if (!may_jump)
        return;
    may_jump = 0;
    jumps++;
    siglongjmp(before, number);
}

static void list_descriptors(char *is_open)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

/*
 * Between the jump's start and its end there is nothing but the signal: nothing else may be left half done.
 */
static void dump_under_alarm(unsigned after_us)
{
    const struct itimerval timer = {.it_value = {.tv_usec = (suseconds_t)after_us}},
                           off = {.it_value = {0, 0}};

    if (sigsetjmp(before, 1) == 0) {
        may_jump = 1;
        REQUIRE(setitimer(ITIMER_REAL, &timer, NULL) == 0);
        test_dump(SIGUSR1);
    }
    may_jump = 0;
    REQUIRE(setitimer(ITIMER_REAL, &off, NULL) == 0);
}

int main(void)
{
    static char descriptors_before[DESCRIPTORS_MAX], descriptors_after[DESCRIPTORS_MAX];
    static void *slices[SLICES];
    uint64_t random = 1;
    unsigned dumps;

    for (unsigned i = 0; i < SLICES; i++)
        REQUIRE((slices[i] = malloc(4000)) != NULL);
    REQUIRE(sigaction(SIGALRM, &(struct sigaction){.sa_handler = handle_alarm}, NULL) == 0);
    list_descriptors(descriptors_before);
    for (volatile unsigned round = 0; round < ROUNDS; round++)
        dump_under_alarm(20 + (unsigned)test_random_below(&random, AFTER_US_MAX));
    REQUIRE(jumps > 0);
    list_descriptors(descriptors_after);
    REQUIRE(memcmp(descriptors_before, descriptors_after, sizeof descriptors_before) == 0);
    dumps = test_dump_count(getpid());
    if (dumps != test_dump_last_seq(getpid()) || dumps < ROUNDS / 4)
        test_fail("# %u dumps of %u are whole, after %u signals", dumps, test_dump_last_seq(getpid()),
                  ROUNDS);
    test_dump(SIGUSR1);
    REQUIRE(test_dump_count(getpid()) == dumps + 1);
    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    return 0;
}
