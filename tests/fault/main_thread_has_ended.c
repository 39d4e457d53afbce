/* SPDX-License-Identifier: MIT */
/*
 * main_thread_has_ended: the main thread has called pthread_exit, others live on. In /proc/self, which is the
 * main thread's, mappings and executable are gone then; a dump has them all the same, and the script
 * looks for them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

enum { PATIENCE_MS = 10000 };

/* The main thread's state is the process's: Z until the others have ended too. */
static bool main_thread_lives(void)
{
    char text[256];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t count;

    REQUIRE(fd >= 0);
    count = read(fd, text, sizeof text - 1);
    close(fd);
    REQUIRE(count > 0);
    text[count] = '\0';
    return strstr(text, "State:\tZ") == NULL;
}

static void *dump_alone(void *argument)
{
    uint64_t end_ms = test_now_ms() + PATIENCE_MS;
    void *slice = malloc(3000);

    (void)argument;
    REQUIRE(slice != NULL);
    while (main_thread_lives()) {
        if (test_now_ms() > end_ms)
            test_fail("# the main thread did not end");
        test_sleep_ms(1);
    }
    test_dump(SIGUSR1);
    REQUIRE(test_dump_count(getpid()) == 1);
    free(slice);
    _exit(0);
}

int main(void)
{
    pthread_t thread;

    free(test_hide(malloc(3000)));
    REQUIRE(pthread_create(&thread, NULL, dump_alone, NULL) == 0);
    pthread_exit(NULL);
}
