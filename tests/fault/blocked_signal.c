/* SPDX-License-Identifier: MIT */
/*
 * blocked_signal: a program that blocks SIGUSR1 and takes it in its own time (sigwait, a signalfd,
 * sigsuspend) gets it just so; only what is delivered to a handler writes a dump.
 */
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../support/test.h"

static volatile sig_atomic_t calls;

static void handle(int number)
{
    (void)number;
    calls++;
}

int main(void)
{
    struct signalfd_siginfo info;
    sigset_t one, none;
    int number, fd;

    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    REQUIRE(sigprocmask(SIG_BLOCK, &one, NULL) == 0);
    test_dump(SIGUSR1);
    REQUIRE(sigwait(&one, &number) == 0 && number == SIGUSR1);
    REQUIRE((fd = signalfd(-1, &one, SFD_NONBLOCK | SFD_CLOEXEC)) >= 0);
    test_dump(SIGUSR1);
    REQUIRE(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    REQUIRE(close(fd) == 0);
    REQUIRE(test_dump_count(getpid()) == 0);
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    test_dump(SIGUSR1);
    REQUIRE(calls == 0);
    REQUIRE(sigsuspend(&none) == -1);
    REQUIRE(calls == 1 && test_dump_count(getpid()) == 1);
    return 0;
}
