/* SPDX-License-Identifier: MIT */
/*
 * signal_burst itself|worker|outside|ignored: 200 signals at once.
 *
 *   itself    the program sends them to itself: its handler runs for each, and no file appears
 *   worker    a process of the same executable sends them: likewise
 *   outside   another program does, for a while: few dumps are written, and after a quiet time one again
 *   ignored   likewise, and the program ignores the signal
 *
 * Of what plain signals had written at most 16 dumps stay, however long it goes on.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

enum { SIGNALS = 200, DUMPS_AT_ONCE = 17, DUMPS_KEPT = 16, QUIET_MS = 1500, SECONDS = 4, WAIT_MS = 20000 };

static volatile sig_atomic_t calls;

static void handle(int number)
{
    (void)number;
    calls++;
}

/* A signal that comes while one is pending is lost, so each waits for the one before. */
static void send_as_worker(void)
{
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        for (unsigned i = 0; i < SIGNALS; i++) {
            REQUIRE(kill(getppid(), SIGUSR1) == 0);
            test_sleep_ms(2);
        }
        _exit(0);
    }
    REQUIRE(test_wait_child(pid, WAIT_MS) == 0);
    REQUIRE(calls > 0);
}

static void require_bounded(void)
{
    uint64_t end_ms = test_now_ms() + SECONDS * 1000;
    unsigned dumps;

    test_kill_from_outside(getpid(), SIGUSR1, SIGNALS);
    dumps = test_dump_last_seq(getpid());
    if (dumps < 1 || dumps > DUMPS_AT_ONCE)
        test_fail("# %u dumps for %d signals at once", dumps, SIGNALS);
    while (test_now_ms() < end_ms)
        test_kill_from_outside(getpid(), SIGUSR1, 5);
    dumps = test_dump_last_seq(getpid());
    if (dumps > DUMPS_AT_ONCE + 2 * SECONDS)
        test_fail("# %u dumps in %d s", dumps, SECONDS);
    test_sleep_ms(QUIET_MS);
    test_kill_from_outside(getpid(), SIGUSR1, 1);
    REQUIRE(test_dump_last_seq(getpid()) == dumps + 1);
    REQUIRE(test_dump_count(getpid()) <= DUMPS_KEPT);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    REQUIRE(argc == 2);
    if (strcmp(argv[1], "ignored") == 0)
        action.sa_handler = SIG_IGN;
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    if (strcmp(argv[1], "itself") == 0) {
        for (unsigned i = 0; i < SIGNALS; i++)
            test_raise(SIGUSR1);
        REQUIRE(calls == SIGNALS);
    } else if (strcmp(argv[1], "worker") == 0) {
        send_as_worker();
    } else {
        require_bounded();
        REQUIRE((calls > 0) == (action.sa_handler == handle));
        return 0;
    }
    REQUIRE(test_dump_last_seq(getpid()) == 0);
    return 0;
}
