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
#include "base/sys.h"
#include "evidence/dump.h"
#include "preload/interpose.h"
#include "preload/lifecycle.h"
#include "preload/next.h"

static struct {
    _Atomic(int) number; /* 0: none of ours */
    int32_t pid;         /* the process whose actions these are */
    bool chain;
    _Atomic(bool)
        interrupts; /* siginterrupt() also holds for handlers that signal() sets later, as in glibc */
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

/* sa_handler and sa_sigaction are one word, and SIG_IGN with SA_SIGINFO is still SIG_IGN. */
static bool has_handler(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/*
 * Where the program has a handler, most of these signals are not for us (PostgreSQL sends thousands): then
 * there is one dump a second, and up to DUMPS_AT_ONCE after a while without. `paid_until_ns` is when all
 * dumps so far will have had their second (the generic cell rate algorithm, ITU-T I.371).
 */
static bool is_dump_due(void)
{
    enum { DUMPS_AT_ONCE = 16, SECOND_NS = 1000000000 };
    static _Atomic(uint64_t) paid_until_ns;
    uint64_t now_ns = sys_now_coarse_ns(), paid_ns = load_relaxed(&paid_until_ns);

    if (!guard.chain || !has_handler(&guard.program))
        return true;
    if (paid_ns > now_ns + (uint64_t)(DUMPS_AT_ONCE - 1) * SECOND_NS)
        return false;
    store_relaxed(&paid_until_ns, (paid_ns > now_ns ? paid_ns : now_ns) + SECOND_NS);
    return true;
}

/*
 * All signals wait until the dump is written: a handler that jumped out of it, or forked in it, would leave
 * it half done for ever. Then the program's handler runs with the mask that the kernel gave us.
 */
static void on_signal(int number, siginfo_t *info, void *context)
{
    int errno_of_program = errno;
    struct sigaction action;
    sigset_t all, mask;

    lifecycle_look_for_fork();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    if (is_dump_due())
        dump_write_sigsafe(DUMP_SIGNAL);
    lock_guard(&all);
    action = guard.program;
    if (guard.chain && has_handler(&action) && (action.sa_flags & (int)SA_RESETHAND) != 0)
        guard.program.sa_handler = SIG_DFL;
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
 * mask, stack, whether calls are restarted. Without one calls are restarted wherever the kernel can
 * (signal(7) lists those that never are); and an alternate stack is used if there is one, for the thread's
 * own may be tiny.
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
    guard.pid = sys_getpid();
    action = kernel_action();
    if (next.sigaction(number, &action, NULL) == 0)
        store_relaxed(&guard.number, number);
}

void signals_after_fork(void)
{
    atomic_flag_clear_explicit(&guard.lock, memory_order_relaxed);
    guard.pid = sys_getpid();
}

static bool is_guarded(int number)
{
    if (lifecycle_start())
        lifecycle_look_for_fork();
    return number != 0 && number == load_relaxed(&guard.number);
}

/* A child of vfork has our memory and a table of its own in the kernel: only that is its to change. */
static void change_childs_action(const struct sigaction *action)
{
    if (action != NULL)
        (void)next.sigaction(load_relaxed(&guard.number), action, NULL);
}

static void change_program_action(const struct sigaction *action, struct sigaction *old)
{
    struct sigaction before, wanted;
    sigset_t mask;

    if (action != NULL)
        wanted = *action; /* a bad pointer faults here, outside the lock */
    lock_guard(&mask);
    before = guard.program;
    if (sys_getpid() != guard.pid) {
        change_childs_action(action);
    } else if (action != NULL) {
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
    return set_handler(number, handler, load_relaxed(&guard.interrupts) ? 0 : SA_RESTART, true);
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

/* SIG_HOLD blocks the signal and leaves its action; any other call unblocks it. */
EXPORT signal_handler sigset(int number, signal_handler handler)
{
    sigset_t one, mask;
    struct sigaction old;

    if (!is_guarded(number))
        return next.sigset(number, handler);
    if (handler == SIG_HOLD)
        change_program_action(NULL, &old);
    else
        old.sa_handler = set_handler(number, handler, 0, false);
    if (old.sa_handler == SIG_ERR)
        return SIG_ERR;
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)pthread_sigmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &one, &mask);
    return sigismember(&mask, number) ? SIG_HOLD : old.sa_handler;
}

EXPORT int siginterrupt(int number, int interrupts)
{
    struct sigaction action;

    if (!is_guarded(number))
        return next.siginterrupt(number, interrupts);
    if (sys_getpid() == guard.pid) /* not for the parent of a vfork child */
        store_relaxed(&guard.interrupts, interrupts != 0);
    change_program_action(NULL, &action);
    action.sa_flags = interrupts ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
    change_program_action(&action, NULL);
    return 0;
}

EXPORT int sigignore(int number)
{
    if (!is_guarded(number))
        return next.sigignore(number);
    (void)set_handler(number, SIG_IGN, 0, false);
    return 0;
}
