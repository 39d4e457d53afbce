/* SPDX-License-Identifier: MIT */
/*
 * sigwait: programs that take signals one by one instead of in a handler (the Erlang VM). A request of ours that
 * they would take for their own is done here, and they go on waiting; who else sent our signal decides as in the
 * handler. The next definition waits, for it is a place where threads are cancelled.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "base/base.h"
#include "base/sys.h"
#include "preload/interpose.h"
#include "preload/next.h"
#include "preload/signals.h"

static struct timespec left_of(uint64_t end_ns)
{
    uint64_t now_ns = sys_now_ns();
    uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;

    return (struct timespec){(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    uint64_t end_ns = 0;
    siginfo_t own;
    int number;

    if (!signals_are_guarded(set))
        return next.sigtimedwait(set, info, timeout);
    if (timeout)
        end_ns = sys_now_ns() + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
    number = next.sigtimedwait(set, &own, timeout);
    while (number > 0 && !signals_leave_to_program(number, &own)) {
        struct timespec left = left_of(end_ns);

        number = next.sigtimedwait(set, &own, !timeout ? NULL : &left);
    }
    if (number > 0 && info)
        *info = own;
    return number;
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    return sigtimedwait(set, info, NULL);
}

/* Returns errors instead of setting errno, and is not interrupted. */
EXPORT int sigwait(const sigset_t *set, int *number)
{
    int errno_of_program = errno;
    int result;

    if (!signals_are_guarded(set))
        return next.sigwait(set, number);
    do
        result = sigtimedwait(set, NULL, NULL);
    while (result < 0 && errno == EINTR);
    if (result < 0) {
        result = errno;
    } else {
        *number = result;
        result = 0;
    }
    errno = errno_of_program;
    return result;
}
