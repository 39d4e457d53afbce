/* SPDX-License-Identifier: MIT */
/*
 * interrupted_read nothing|ignored|restart|interrupt|siginterrupt[-first|-off|-alone]: a dump is asked for
 * while read(2) waits on an empty pipe. A program that did nothing about the signal, ignores it, asked for
 * SA_RESTART or has no handler that could interrupt does not notice; one whose own handler is to interrupt
 * the call sees EINTR.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

static int pipe_ends[2];

static void handle(int number)
{
    (void)number;
}

/* siginterrupt() is obsolete, and used. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void set_interrupt(int interrupts)
{
    struct sigaction action;

    REQUIRE(siginterrupt(SIGUSR1, interrupts) == 0);
    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
    REQUIRE(((action.sa_flags & SA_RESTART) == 0) == (interrupts != 0));
}

#pragma GCC diagnostic pop

/* Arranges what the signal is to do; returns whether read(2) will see it. */
static bool arrange(const char *way)
{
    if (strcmp(way, "ignored") == 0)
        REQUIRE(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    if (strcmp(way, "restart") == 0)
        REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_RESTART}, NULL) ==
                0);
    if (strcmp(way, "interrupt") == 0 || strcmp(way, "siginterrupt-off") == 0)
        REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    if (strcmp(way, "siginterrupt") == 0)
        REQUIRE(signal(SIGUSR1, handle) == SIG_DFL);
    if (strncmp(way, "siginterrupt", strlen("siginterrupt")) == 0)
        set_interrupt(strcmp(way, "siginterrupt-off") != 0);
    if (strcmp(way, "siginterrupt-first") == 0) /* as in glibc, it holds for what signal() sets later */
        REQUIRE(signal(SIGUSR1, handle) == SIG_DFL);
    return strcmp(way, "interrupt") == 0 || strcmp(way, "siginterrupt") == 0 ||
           strcmp(way, "siginterrupt-first") == 0;
}

/* Sends the signal while the other thread waits; afterwards there is something to read. */
static void *send_and_write(void *argument)
{
    test_sleep_ms(100);
    test_dump_to(getpid(), *(pid_t *)argument, SIGUSR1);
    test_sleep_ms(100);
    REQUIRE(write(pipe_ends[1], "x", 1) == 1);
    return NULL;
}

int main(int argc, char **argv)
{
    pid_t reader = getpid(); /* the first thread */
    pthread_t sender;
    bool is_interrupted;
    ssize_t count;
    char byte;

    REQUIRE(argc == 2);
    is_interrupted = arrange(argv[1]);
    REQUIRE(pipe(pipe_ends) == 0);
    REQUIRE(pthread_create(&sender, NULL, send_and_write, &reader) == 0);
    errno = 0;
    count = read(pipe_ends[0], &byte, 1);
    if (is_interrupted)
        REQUIRE(count == -1 && errno == EINTR);
    else
        REQUIRE(count == 1 && byte == 'x');
    REQUIRE(pthread_join(sender, NULL) == 0);
    REQUIRE(test_dump_count(getpid()) == 1);
    return 0;
}
