/* SPDX-License-Identifier: MIT */
/*
 * signals: see signals.h.
 *
 * What the program believes to be in force is a dozen words, read in handlers and changed by any thread.
 * Readers take no lock and wait for nobody, whatever the priorities of the threads: a change is written
 * beside the version in force and then published with one store, so a copy made by fork is whole at every
 * instant, too.
 *
 *   version = 5      ... | 3 | 4 | 5 | (6 is being written) | ...        version n is in place n % VERSIONS
 *
 * A reader's version is written over only when VERSIONS - 1 later ones have been published; then it looks
 * again. Changes exclude each other by a lock that is only ever held with all signals blocked, so no handler
 * can meet its own thread inside. A child of vfork, which runs in our memory and may be killed at any moment,
 * takes no lock and changes nothing but its own table in the kernel.
 */
#include "preload/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/request.h"
#include "base/sys.h"
#include "evidence/dump.h"
#include "preload/fork.h"
#include "preload/interpose.h"
#include "preload/next.h"
#include "preload/sender.h"
#include "preload/start.h"
#include "preload/thread.h"

enum { VERSIONS = 8, ACTION_WORDS = (sizeof(struct sigaction) + 7) / 8 };

union action_copy {
    struct sigaction action;
    uint64_t words[ACTION_WORDS];
};

/*
 * All of it in one page: fork copies page by page while other threads work, so only what lies in one is
 * copied as it was at one instant.
 */
enum { GUARD_BYTES_MAX = 2048 };

static _Alignas(GUARD_BYTES_MAX) struct guard {
    _Atomic(int) number;  /* 0: none of ours */
    _Atomic(int32_t) pid; /* the process whose actions these are */
    bool chain;
    _Atomic(bool) interrupts; /* siginterrupt() holds for what signal() sets later, too, as in glibc */
    struct lock changing;
    _Atomic(uint64_t) version; /* of what the program believes to be in force */
    _Atomic(uint64_t) actions[VERSIONS][ACTION_WORDS];
} guard;

_Static_assert(sizeof guard <= GUARD_BYTES_MAX, "the guard lies in one page");

/* ---- what the program believes to be in force ------------------------------------------------- */

static void read_action(struct sigaction *action)
{
    union action_copy copy;
    uint64_t version;

    do {
        /* acquire: pairs with the release in publish_locked. */
        version = atomic_load_explicit(&guard.version, memory_order_acquire);
        for (unsigned i = 0; i < ACTION_WORDS; i++)
            copy.words[i] = load_relaxed(&guard.actions[version % VERSIONS][i]);
        /* acquire: pairs with the fence in publish_locked: who saw a later word sees the later version. */
        atomic_thread_fence(memory_order_acquire);
    } while (load_relaxed(&guard.version) - version >= VERSIONS - 1);
    *action = copy.action;
}

static void publish_locked(const struct sigaction *action)
{
    uint64_t version = load_relaxed(&guard.version) + 1;
    union action_copy copy;

    copy.action = *action;
    atomic_thread_fence(memory_order_release); /* the versions so far are in sight before these words */
    for (unsigned i = 0; i < ACTION_WORDS; i++)
        store_relaxed(&guard.actions[version % VERSIONS][i], copy.words[i]);
    /* release: pairs with the acquire in read_action, and keeps the order for a fork. */
    atomic_store_explicit(&guard.version, version, memory_order_release);
}

static uint64_t lock_guard(void)
{
    uint64_t mask = sys_block_signals();

    lock_take(&guard.changing, &self);
    return mask;
}

static void unlock_guard(uint64_t mask)
{
    lock_drop(&guard.changing);
    sys_restore_signals(mask);
}

/* False in a child of vfork: everything here is its parent's. */
static bool is_our_process(void)
{
    return load_relaxed(&guard.pid) == sys_getpid();
}

/* sa_handler and sa_sigaction are one word, and SIG_IGN with SA_SIGINFO is still SIG_IGN. */
static bool has_handler(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* ---- the handler ------------------------------------------------------------------------------ */

/*
 * Plain signals from others: one dump a second, and up to DUMPS_AT_ONCE after a while without.
 * `paid_until_ns` is when all dumps so far will have had their second (the generic cell rate algorithm, ITU-T
 * I.371).
 */
static bool is_dump_due(void)
{
    enum { DUMPS_AT_ONCE = 16 };
    static _Atomic(uint64_t) paid_until_ns;
    uint64_t now_ns = sys_now_coarse_ns(), paid_ns = load_relaxed(&paid_until_ns);

    if (paid_ns > now_ns + (uint64_t)(DUMPS_AT_ONCE - 1) * NS_PER_S)
        return false;
    store_relaxed(&paid_until_ns, (paid_ns > now_ns ? paid_ns : now_ns) + NS_PER_S);
    return true;
}

/* A signal that is sent while one is pending is lost, so the tool sends again until it sees what it asked for. */
static bool is_request_new(uint64_t value)
{
    static _Atomic(uint32_t) served;
    uint32_t number = value >> REQUEST_NUMBER_SHIFT & REQUEST_NUMBER_MASK;

    return number == 0 || atomic_exchange_explicit(&served, number, memory_order_relaxed) != number;
}

/*
 * All signals wait until the dump is written: a handler that jumped out of it, or forked in it, would leave
 * it half done for ever. False: this thread may not, and the one that puts a forked child in order was told.
 */
static bool do_what_is_asked(int number, siginfo_t *info, enum sender sender)
{
    uint64_t mask;

    if (!fork_is_in_order())
        return sys_pass_signal_on(sys_getpid(), number, info) != 0;
    mask = sys_block_signals();
    if (sender == SENDER_REQUEST) {
        if (is_request_new((uintptr_t)info->si_value.sival_ptr))
            dump_write_sigsafe(DUMP_REQUEST);
    } else if (is_dump_due())
        dump_write_sigsafe(DUMP_SIGNAL);
    sys_restore_signals(mask);
    return true;
}

/*
 * Signal is delivered by the kernel as soon as our handler returns, and the process dies of it as it would.
 */
static void die_by_default(int number)
{
    static const struct sigaction default_action; /* zeroed: SIG_DFL */

    if (number == SIGURG || number == SIGWINCH)
        return; /* the default is to ignore them */
    (void)libc.sigaction(number, &default_action, NULL);
    (void)sys_signal_thread(sys_gettid(), number);
}

/* A handler that is to run once runs once, however many threads are interrupted. */
static void reset_action(struct sigaction *action)
{
    uint64_t mask = lock_guard();

    read_action(action);
    if (has_handler(action) && (action->sa_flags & (int)SA_RESETHAND) != 0) {
        struct sigaction after = *action;

        after.sa_handler = SIG_DFL;
        publish_locked(&after);
    }
    unlock_guard(mask);
}

/* What the program's own action for the signal is, as the kernel would do it. */
static void run_program_action(int number, siginfo_t *info, void *context, bool is_its_own)
{
    int errno_of_program = errno;
    struct sigaction action;

    read_action(&action);
    if ((action.sa_flags & (int)SA_RESETHAND) != 0 && is_our_process())
        reset_action(&action);
    errno = errno_of_program;
    if (!has_handler(&action)) {
        if (action.sa_handler == SIG_DFL && is_its_own)
            die_by_default(number);
    } else if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(number, info, context);
    } else {
        action.sa_handler(number);
    }
}

/*
 * Who sent it decides (sender.h). The program's own signals are its business alone, default action included;
 * a request of ours is ours alone, unless it says otherwise; any other signal is both. True when the program is
 * to have it.
 */
static bool serve(int number, siginfo_t *info, enum sender sender)
{
    if (sender == SENDER_PROGRAM)
        return true;
    if (!do_what_is_asked(number, info, sender))
        return false;
    return sender == SENDER_OTHER ? guard.chain : ((uintptr_t)info->si_value.sival_ptr & REQUEST_CHAIN) != 0;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int errno_of_program = errno;
    enum sender sender = sender_of(info);
    bool is_programs = serve(number, info, sender);

    errno = errno_of_program;
    if (is_programs)
        run_program_action(number, info, context, sender == SENDER_PROGRAM);
}

bool signals_leave_to_program(int number, siginfo_t *info)
{
    return number != load_relaxed(&guard.number) || serve(number, info, sender_of(info));
}

/* ---- what the kernel is told ------------------------------------------------------------------ */

/*
 * With a handler of the program's behind ours everything is as it asked: mask, stack, whether calls are
 * restarted. Without one calls are restarted wherever the kernel can (signal(7) lists those that never are);
 * and an alternate stack is used if there is one, for the thread's own may be tiny.
 */
static struct sigaction kernel_action(const struct sigaction *program)
{
    const int program_decides = SA_RESTART | SA_ONSTACK | SA_NODEFER | SA_NOCLDSTOP | SA_NOCLDWAIT;
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    action.sa_sigaction = on_signal;
    if (has_handler(program)) {
        action.sa_mask = program->sa_mask;
        action.sa_flags = SA_SIGINFO | (program->sa_flags & program_decides);
    }
    return action;
}

static void tell_kernel(const struct sigaction *program)
{
    struct sigaction action = kernel_action(program);

    (void)libc.sigaction(load_relaxed(&guard.number), &action, NULL);
}

void signals_install(int number, bool chain)
{
    struct sigaction before, action;

    if (libc.sigaction(number, NULL, &before) != 0)
        return;
    sender_init();
    guard.chain = chain;
    store_relaxed(&guard.pid, sys_getpid());
    publish_locked(&before);
    action = kernel_action(&before);
    if (libc.sigaction(number, &action, NULL) == 0)
        store_relaxed(&guard.number, number);
}

/*
 * The kernel's table was copied a moment before our memory was, and a thread may have been between the two in
 * a change: so the kernel is told once more what is in force.
 */
void signals_after_fork(void)
{
    struct sigaction action;

    sender_after_fork();
    store_relaxed(&guard.pid, sys_getpid());
    if (lock_is_orphaned(&guard.changing, &self))
        lock_reset(&guard.changing);
    if (load_relaxed(&guard.number) == 0)
        return;
    read_action(&action);
    tell_kernel(&action);
}

bool signals_are_guarded(const sigset_t *set)
{
    int number;
    uint64_t word;

    (void)start_is_done(); /* so that the next definition is found */
    number = load_relaxed(&guard.number);
    memcpy(&word, set, sizeof word);
    return number != 0 && (word >> (number - 1) & 1) != 0;
}

static bool is_guarded(int number)
{
    if (start_is_done())
        (void)fork_is_in_order();
    return number != 0 && number == load_relaxed(&guard.number);
}

/*
 * A child of vfork has a table of its own in the kernel: it begins as its parent's, and only that is changed.
 */
static void change_childs_action(const struct sigaction *action, struct sigaction *old)
{
    struct sigaction before;

    (void)libc.sigaction(load_relaxed(&guard.number), action, &before);
    if (before.sa_sigaction == on_signal)
        read_action(&before);
    if (old)
        *old = before;
}

static void change_program_action(const struct sigaction *action, struct sigaction *old)
{
    struct sigaction before, wanted;
    uint64_t mask;

    if (!is_our_process()) {
        change_childs_action(action, old);
        return;
    }
    if (!action) {
        read_action(&before);
    } else {
        wanted = *action; /* a bad pointer faults here, outside the lock */
        mask = lock_guard();
        read_action(&before);
        publish_locked(&wanted);
        tell_kernel(&wanted);
        unlock_guard(mask);
    }
    if (old)
        *old = before;
}

/* ---- the functions that the program calls ----------------------------------------------------- */

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!is_guarded(number))
        return next.sigaction(number, action, old);
    change_program_action(action, old);
    return 0;
}

/* The name below it in glibc, for programs that define sigaction() themselves (the Erlang VM). */
EXPORT int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
EXPORT int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    return sigaction(number, action, old);
}

/*
 * Of glibc's 1024 bits the kernel takes the first 64, as one word. sigaddset() is a name that can be wrapped.
 */
static void add_signal(sigset_t *set, int number)
{
    uint64_t word;

    memcpy(&word, set, sizeof word);
    word |= bit_at((unsigned)number - 1);
    memcpy(set, &word, sizeof word);
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
    if (masks_itself)
        add_signal(&action.sa_mask, number);
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
    struct sigaction old;
    uint64_t mask;

    if (!is_guarded(number))
        return next.sigset(number, handler);
    if (handler == SIG_HOLD)
        change_program_action(NULL, &old);
    else
        old.sa_handler = set_handler(number, handler, 0, false);
    if (old.sa_handler == SIG_ERR)
        return SIG_ERR;
    mask =
        sys_change_signal_mask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, bit_at((unsigned)number - 1));
    return (mask >> (number - 1) & 1) != 0 ? SIG_HOLD : old.sa_handler;
}

EXPORT int siginterrupt(int number, int interrupts)
{
    struct sigaction action;

    if (!is_guarded(number))
        return next.siginterrupt(number, interrupts);
    if (is_our_process()) /* not for the parent of a vfork child */
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
