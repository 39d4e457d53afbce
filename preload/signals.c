/* SPDX-License-Identifier: MIT */
/*
 * signals: see signals.h.
 *
 * The program's action is a dozen words, read in handlers and changed by any thread. It is under a
 * spin lock that is only ever held with all signals blocked, so no handler can meet its own thread
 * inside, and for a few instructions and one system call.
 */
#include "preload/signals.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>

#include "base/base.h"
#include "evidence/dump.h"
#include "preload/interpose.h"
#include "preload/lifecycle.h"
#include "preload/next.h"

typedef void (*signal_handler)(int number);

static struct {
    _Atomic(int) number; /* 0: none of ours */
    bool chain;
    atomic_flag lock;
    struct sigaction program; /* what the program believes to be in force */
} guard = {.lock = ATOMIC_FLAG_INIT};

static void lock_guard(sigset_t *mask_before)
{
    sigset_t all;

    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, mask_before);
    /* acquire: pairs with the release in unlock_guard. */
    while (atomic_flag_test_and_set_explicit(&guard.lock, memory_order_acquire))
        sched_yield();
}

static void unlock_guard(const sigset_t *mask_before)
{
    atomic_flag_clear_explicit(&guard.lock, memory_order_release);
    (void)pthread_sigmask(SIG_SETMASK, mask_before, NULL);
}

static bool has_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int errno_of_program = errno;
    struct sigaction action;
    sigset_t mask;

    dump_write_sigsafe(DUMP_SIGNAL);
    lock_guard(&mask);
    action = guard.program;
    if (guard.chain && has_handler(&action) && (action.sa_flags & (int)SA_RESETHAND) != 0) {
        guard.program.sa_handler = SIG_DFL;
        guard.program.sa_flags &= ~SA_SIGINFO;
    }
    unlock_guard(&mask);
    errno = errno_of_program;
    if (!guard.chain || !has_handler(&action))
        return;
    if ((action.sa_flags & SA_SIGINFO) != 0)
        action.sa_sigaction(number, info, context);
    else
        action.sa_handler(number);
}

/*
 * What the kernel is told. With a handler of the program's behind ours everything is as it asked:
 * mask, stack, whether calls are restarted. Without one no call may notice the signal: SA_RESTART; and
 * an alternate stack is used if there is one, for the thread's own may be tiny.
 */
static struct sigaction kernel_action(void)
{
    const int program_decides = SA_RESTART | SA_ONSTACK | SA_NODEFER | SA_NOCLDSTOP | SA_NOCLDWAIT;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

    action.sa_sigaction = on_signal;
    sigemptyset(&action.sa_mask);
    if (guard.chain && has_handler(&guard.program)) {
        action.sa_mask = guard.program.sa_mask;
        action.sa_flags = SA_SIGINFO | (guard.program.sa_flags & program_decides);
    }
    return action;
}

void signals_install(int number, bool chain)
{
    struct sigaction action;

    if (next.sigaction(number, NULL, &guard.program) != 0)
        return;
    guard.chain = chain;
    action = kernel_action();
    if (next.sigaction(number, &action, NULL) == 0)
        store_relaxed(&guard.number, number);
}

void signals_after_fork(void)
{
    atomic_flag_clear_explicit(&guard.lock, memory_order_relaxed);
}

static bool is_guarded(int number)
{
    (void)lifecycle_start();
    return number != 0 && number == load_relaxed(&guard.number);
}

static void change_program_action(const struct sigaction *action, struct sigaction *old)
{
    struct sigaction before, wanted;
    sigset_t mask;

    if (action != NULL)
        wanted = *action; /* a bad pointer faults here, outside the lock */
    lock_guard(&mask);
    before = guard.program;
    if (action != NULL) {
        struct sigaction kernels;

        guard.program = wanted;
        kernels = kernel_action();
        (void)next.sigaction(load_relaxed(&guard.number), &kernels, NULL);
    }
    unlock_guard(&mask);
    if (old != NULL)
        *old = before;
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!is_guarded(number))
        return next.sigaction(number, action, old);
    change_program_action(action, old);
    return 0;
}

/* What signal() and its relatives return: the handler before. */
static signal_handler set_handler(int number, signal_handler handler, int flags, bool masks_itself)
{
    struct sigaction action = {.sa_flags = flags}, old;

    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    if (masks_itself)
        sigaddset(&action.sa_mask, number);
    change_program_action(&action, &old);
    return old.sa_handler;
}

EXPORT signal_handler signal(int number, signal_handler handler)
{
    if (!is_guarded(number))
        return next.signal(number, handler);
    return set_handler(number, handler, SA_RESTART, true);
}

EXPORT signal_handler ssignal(int number, signal_handler handler)
{
    return signal(number, handler);
}

EXPORT signal_handler bsd_signal(int number, signal_handler handler); /* no longer in signal.h */
EXPORT signal_handler bsd_signal(int number, signal_handler handler)
{
    return signal(number, handler);
}

EXPORT signal_handler sysv_signal(int number, signal_handler handler)
{
    if (!is_guarded(number))
        return next.sysv_signal(number, handler);
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

EXPORT signal_handler __sysv_signal(int number, signal_handler handler)
{
    return sysv_signal(number, handler);
}

/* SIG_HOLD and a signal that was held are about the mask, which is the kernel's and the program's. */
EXPORT signal_handler sigset(int number, signal_handler handler)
{
    sigset_t one, before;
    signal_handler old;

    if (!is_guarded(number) || handler == SIG_HOLD)
        return next.sigset(number, handler);
    old = set_handler(number, handler, 0, false);
    if (old == SIG_ERR)
        return old;
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, &before);
    return sigismember(&before, number) ? SIG_HOLD : old;
}

EXPORT int sigignore(int number)
{
    if (!is_guarded(number))
        return next.sigignore(number);
    (void)set_handler(number, SIG_IGN, 0, false);
    return 0;
}
