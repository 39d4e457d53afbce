/* SPDX-License-Identifier: MIT */
/*
 * handler_ends_program WAY: the usual end of a handler: it cleans up, puts the default action back and sends
 * the signal again, and the process dies of it. Whoever waits for it sees that signal. Also where there was
 * no handler at all: a program's own signals are its business alone, the default action included.
 *
 *   raise    in the handler, by raise()            default  without a handler
 *   kill     in the handler, by kill()             thread   in the handler, on another thread
 *   reset    the handler was to run once (SA_RESETHAND)
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

static const char *way;

static void handle(int number)
{
    sigset_t one;

    if (strcmp(way, "reset") != 0)
        REQUIRE(signal(number, SIG_DFL) == handle);
    REQUIRE((strcmp(way, "kill") == 0 ? kill(getpid(), number) : raise(number)) == 0);
    sigemptyset(&one);
    sigaddset(&one, number);
    REQUIRE(sigprocmask(SIG_UNBLOCK, &one, NULL) == 0);
    test_fail("# still alive behind its own signal");
}

static void *send(void *argument)
{
    test_raise(SIGUSR1);
    return argument;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = handle};
    pthread_t thread;

    REQUIRE(argc == 2);
    way = argv[1];
    if (strcmp(way, "reset") == 0)
        action.sa_flags = (int)SA_RESETHAND;
    if (strcmp(way, "default") != 0)
        REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    if (strcmp(way, "thread") == 0) {
        REQUIRE(pthread_create(&thread, NULL, send, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    test_raise(SIGUSR1);
    test_fail("# still alive after its own signal");
}
