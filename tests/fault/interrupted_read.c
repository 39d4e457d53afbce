/* SPDX-License-Identifier: MIT */
/*
 * interrupted_read nothing|ignored|restart|interrupt: a dump is asked for while read(2) waits on an
 * empty pipe. A program that did nothing about the signal, ignores it or asked for SA_RESTART does not
 * notice; one whose own handler is to interrupt the call sees EINTR.
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

/* Sends the signal while the other thread waits; afterwards there is something to read. */
static void *send_and_write(void *argument)
{
    test_sleep_ms(100);
    REQUIRE(pthread_kill(*(pthread_t *)argument, SIGUSR1) == 0);
    test_sleep_ms(100);
    REQUIRE(write(pipe_ends[1], "x", 1) == 1);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t reader = pthread_self(), sender;
    ssize_t count;
    char byte;

    REQUIRE(argc == 2);
    if (strcmp(argv[1], "ignored") == 0)
        REQUIRE(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    if (strcmp(argv[1], "restart") == 0)
        REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_RESTART}, NULL) ==
                0);
    if (strcmp(argv[1], "interrupt") == 0)
        REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    REQUIRE(pipe(pipe_ends) == 0);
    REQUIRE(pthread_create(&sender, NULL, send_and_write, &reader) == 0);
    errno = 0;
    count = read(pipe_ends[0], &byte, 1);
    if (strcmp(argv[1], "interrupt") == 0)
        REQUIRE(count == -1 && errno == EINTR);
    else
        REQUIRE(count == 1 && byte == 'x');
    REQUIRE(pthread_join(sender, NULL) == 0);
    REQUIRE(test_dump_count(getpid()) == 1);
    return 0;
}
