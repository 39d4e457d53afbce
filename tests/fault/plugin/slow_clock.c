/* SPDX-License-Identifier: MIT */
/*
 * slow_clock: a library to preload that wraps clocks and raw system calls under a lock, as those that fake
 * the time or redirect connections do. A forked child finds the lock held for ever if another thread had it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_a_while(void)
{
    pthread_mutex_lock(&lock);
    for (volatile int i = 0; i < 2000; i++)
        ;
    pthread_mutex_unlock(&lock);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*next)(clockid_t, struct timespec *);

    take_a_while();
    if (next == NULL)
        *(void **)(void *)&next = dlsym(RTLD_NEXT, "clock_gettime");
    return next(clock, now);
}

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long a[6];
    va_list arguments;

    take_a_while();
    if (next == NULL)
        *(void **)(void *)&next = dlsym(RTLD_NEXT, "syscall");
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
