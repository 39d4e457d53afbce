/* SPDX-License-Identifier: MIT */
/*
 * blocked_signal: a program that blocks SIGUSR1 and takes it in its own time (sigwait, a signalfd,
 * sigsuspend) gets it just so. A request that sigwait takes writes a dump, and is not the program's unless it
 * says so; what a signalfd takes writes none.
 */
#include <errno.h>
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
    struct timespec no_time = {0, 0};
    struct signalfd_siginfo info;
    siginfo_t taken;
    sigset_t one, none;
    int number, fd;

    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    REQUIRE(sigprocmask(SIG_BLOCK, &one, NULL) == 0);
    test_dump(SIGUSR1);
    REQUIRE(sigwait(&one, &number) == 0 && number == SIGUSR1);
    REQUIRE(test_dump_count(getpid()) == 1);
    test_dump_alone(SIGUSR1);
    REQUIRE(sigtimedwait(&one, NULL, &no_time) == -1 && errno == EAGAIN);
    REQUIRE(test_dump_count(getpid()) == 2);
    test_raise(SIGUSR1);
    REQUIRE(sigwaitinfo(&one, &taken) == SIGUSR1 && taken.si_pid == getpid());
    REQUIRE(test_dump_count(getpid()) == 2);
    REQUIRE((fd = signalfd(-1, &one, SFD_NONBLOCK | SFD_CLOEXEC)) >= 0);
    test_dump(SIGUSR1);
    REQUIRE(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
    REQUIRE(close(fd) == 0);
    REQUIRE(test_dump_count(getpid()) == 2);
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    test_dump(SIGUSR1);
    REQUIRE(calls == 0);
    REQUIRE(sigsuspend(&none) == -1);
    REQUIRE(calls == 1 && test_dump_count(getpid()) == 3);
    return 0;
}
