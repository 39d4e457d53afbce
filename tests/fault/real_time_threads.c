/* SPDX-License-Identifier: MIT */
/*
 * real_time_threads: two threads of fixed priorities share a processor. The lower one asks for the action of
 * SIGUSR1 all the time, and changes it; the higher one now and then does the same. It waits for nobody who
 * cannot run before it sleeps again.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../support/test.h"

enum { LOW = 1, HIGH = 50, PAUSE_NS = 50000, RUN_MS = 1500, STALL_MS = 400 };

static atomic_long beats;
static atomic_bool is_stopping;

static void handle(int number)
{
    (void)number;
}

static void ask_and_change(void)
{
    struct sigaction action;

    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
    action.sa_handler = handle;
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void *run_low(void *argument)
{
    while (!atomic_load(&is_stopping))
        ask_and_change();
    return argument;
}

static void *run_high(void *argument)
{
    struct timespec pause = {0, PAUSE_NS};

    while (!atomic_load(&is_stopping)) {
        nanosleep(&pause, NULL);
        ask_and_change();
        atomic_fetch_add(&beats, 1);
    }
    return argument;
}

static void start(pthread_t *thread, void *(*run)(void *), int priority)
{
    struct sched_param parameters = {.sched_priority = priority};
    pthread_attr_t attributes;
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
    REQUIRE(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0);
    REQUIRE(pthread_attr_setschedparam(&attributes, &parameters) == 0);
    REQUIRE(pthread_attr_setaffinity_np(&attributes, sizeof first, &first) == 0);
    if (pthread_create(thread, &attributes, run, NULL) != 0)
        exit(77);
}

int main(void)
{
    uint64_t end_ms = test_now_ms() + RUN_MS, beat_ms = test_now_ms();
    pthread_t low, high;
    long last = 0;
    cpu_set_t others;

    CPU_ZERO(&others);
    CPU_SET(1, &others);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || sched_setaffinity(0, sizeof others, &others) != 0)
        return 77;
    start(&high, run_high, HIGH);
    start(&low, run_low, LOW);
    while (test_now_ms() < end_ms) {
        test_sleep_ms(10);
        if (atomic_load(&beats) != last) {
            last = atomic_load(&beats);
            beat_ms = test_now_ms();
        }
        if (test_now_ms() - beat_ms > STALL_MS)
            test_fail("# the thread of high priority has been in sigaction() for %d ms", STALL_MS);
    }
    atomic_store(&is_stopping, true);
    REQUIRE(pthread_join(high, NULL) == 0 && pthread_join(low, NULL) == 0);
    return 0;
}
