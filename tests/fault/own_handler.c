/* SPDX-License-Identifier: MIT */
/*
 * own_handler WHICH [CALLS [SENDER]]
 *
 * The program sets an action for SIGUSR1 in one of the ways there are, asks back what is set, and is sent the
 * signal twice. Whatever it set it must see again and nobody else's; its handler runs CALLS times in all
 * (default 2), with what it asked for. SENDER says who sends, and so whether each writes a dump:
 *
 *   chained   a request that leaves the program's own handler its turn: a dump (the default)
 *   asked     a request: a dump, and no handler
 *   outside   another program: a dump
 *   itself    no dump
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

static volatile sig_atomic_t calls, inner_calls, was_blocked, on_alternate_stack, infos;
static char alternate_stack[1 << 16];

static void handle(int number)
{
    sigset_t blocked;
    char here;

    REQUIRE(number == SIGUSR1);
    calls++;
    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    was_blocked += sigismember(&blocked, SIGUSR1);
    on_alternate_stack += (char *)test_hide(&here) >= alternate_stack &&
                          (char *)test_hide(&here) < alternate_stack + sizeof alternate_stack;
    errno = 1;
}

static void handle_info(int number, siginfo_t *info, void *context)
{
    infos += info->si_signo == SIGUSR1 && info->si_pid > 0 && context != NULL;
    handle(number);
}

static void handle_inner(int number)
{
    REQUIRE(number == SIGUSR2);
    inner_calls++;
}

/* A handler that sends itself what it asked to have blocked: that must wait until it returns. */
static void handle_with_mask(int number)
{
    int before = inner_calls;

    handle(number);
    test_raise(SIGUSR2);
    REQUIRE(inner_calls == before);
}

static struct sigaction current_action(void)
{
    struct sigaction action;

    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
    return action;
}

static const char *sender = "chained";

static void send_signal(void)
{
    errno = TEST_ERRNO;
    if (strcmp(sender, "outside") == 0) {
        test_kill_from_outside(getpid(), SIGUSR1, 1);
        return;
    }
    if (strcmp(sender, "itself") == 0)
        test_raise(SIGUSR1);
    else if (strcmp(sender, "asked") == 0)
        test_dump_alone(SIGUSR1);
    else
        test_dump(SIGUSR1);
    REQUIRE(calls > 0 || errno == TEST_ERRNO);
}

static void send_twice(void)
{
    for (unsigned i = 1; i <= 2; i++) {
        send_signal();
        REQUIRE(test_dump_count(getpid()) == (strcmp(sender, "itself") == 0 ? 0 : i));
    }
}

/* What nobody has changed is the default action, as the process was started with. */
static void with_nothing(void)
{
    REQUIRE(current_action().sa_handler == SIG_DFL);
    send_twice();
    REQUIRE(current_action().sa_handler == SIG_DFL);
}

static void with_sigaction(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART}, old;

    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGHUP);
    REQUIRE(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    old = current_action();
    REQUIRE(old.sa_handler == handle && (old.sa_flags & (SA_RESTART | SA_SIGINFO)) == SA_RESTART);
    REQUIRE(sigismember(&old.sa_mask, SIGHUP) == 1 && sigismember(&old.sa_mask, SIGINT) == 0);
    send_twice();
    REQUIRE(was_blocked == calls);
    action.sa_handler = SIG_DFL;
    REQUIRE(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == handle);
}

static void with_siginfo(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};

    action.sa_sigaction = handle_info;
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    REQUIRE(current_action().sa_sigaction == handle_info && (current_action().sa_flags & SA_SIGINFO) != 0);
    send_twice();
    REQUIRE(infos == calls);
}

static void with_signal(void)
{
    REQUIRE(signal(SIGUSR1, handle) == SIG_DFL);
    REQUIRE(current_action().sa_handler == handle);
    send_twice();
    REQUIRE(was_blocked == calls);
    REQUIRE(signal(SIGUSR1, SIG_IGN) == handle);
    REQUIRE(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

static void with_sysv_signal(void)
{
    REQUIRE(sysv_signal(SIGUSR1, handle) == SIG_DFL);
    send_twice();
    REQUIRE(was_blocked == 0);
    REQUIRE(current_action().sa_handler == SIG_DFL); /* it was for one signal */
}

static void with_reset(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = (int)SA_RESETHAND};

    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    send_twice();
    REQUIRE(calls != 1 || current_action().sa_handler == SIG_DFL);
}

static void with_nodefer(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_NODEFER};

    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    send_twice();
    REQUIRE(was_blocked == 0);
}

static void with_mask(void)
{
    struct sigaction action = {.sa_handler = handle_with_mask};

    REQUIRE(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = handle_inner}, NULL) == 0);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    send_twice();
    REQUIRE(inner_calls == calls);
}

static void with_alternate_stack(void)
{
    stack_t stack = {.ss_sp = alternate_stack, .ss_size = sizeof alternate_stack};

    REQUIRE(sigaltstack(&stack, NULL) == 0);
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_ONSTACK}, NULL) == 0);
    send_twice();
    REQUIRE(on_alternate_stack == calls);
}

static void with_ignore(void)
{
    REQUIRE(signal(SIGUSR1, SIG_IGN) == SIG_DFL);
    REQUIRE(current_action().sa_handler == SIG_IGN);
    send_twice();
    REQUIRE(current_action().sa_handler == SIG_IGN);
}

/* The flag is about a handler, and there is none. */
static void with_siginfo_and(void (*disposition)(int))
{
    struct sigaction action = {.sa_handler = disposition, .sa_flags = SA_SIGINFO};

    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    REQUIRE(current_action().sa_handler == disposition && (current_action().sa_flags & SA_SIGINFO) != 0);
    send_twice();
    REQUIRE(current_action().sa_handler == disposition);
}

static void with_siginfo_ignore(void)
{
    with_siginfo_and(SIG_IGN);
}

static void with_siginfo_default(void)
{
    with_siginfo_and(SIG_DFL);
}

static bool is_blocked(void)
{
    sigset_t blocked;

    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    return sigismember(&blocked, SIGUSR1) == 1;
}

/* sigset() and its relatives are obsolete, and used: what one returns is handed to the next. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void with_sigset(void)
{
    void (*old)(int);

    REQUIRE(sigset(SIGUSR1, handle) == SIG_DFL && current_action().sa_handler == handle);
    old = sigset(SIGUSR1, SIG_HOLD);
    REQUIRE(old == handle && is_blocked() && current_action().sa_handler == handle);
    REQUIRE(sigset(SIGUSR1, SIG_HOLD) == SIG_HOLD);
    REQUIRE(sigset(SIGUSR1, old) == SIG_HOLD && !is_blocked());
    REQUIRE(current_action().sa_handler == handle);
    send_twice();
    REQUIRE(was_blocked == calls);
    REQUIRE(sigset(SIGUSR1, SIG_DFL) == handle);
}

static void with_sigignore(void)
{
    REQUIRE(sigset(SIGUSR1, handle) == SIG_DFL);
    REQUIRE(sigignore(SIGUSR1) == 0 && current_action().sa_handler == SIG_IGN);
    send_twice();
    REQUIRE(sigset(SIGUSR1, SIG_DFL) == SIG_IGN);
}

#pragma GCC diagnostic pop

/* Another signal is not the library's business at all. */
static void with_another_signal(void)
{
    REQUIRE(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = handle_inner}, NULL) == 0);
    test_raise(SIGUSR2);
    REQUIRE(inner_calls == 1 && test_dump_count(getpid()) == 0);
    send_twice();
}

static void with_bad_arguments(void)
{
    errno = 0;
    REQUIRE(sigaction(1000, NULL, NULL) == -1 && errno == EINVAL);
    errno = 0;
    REQUIRE(signal(1000, handle) == SIG_ERR && errno == EINVAL);
    errno = 0;
    REQUIRE(sigaction(SIGKILL, &(struct sigaction){.sa_handler = handle}, NULL) == -1 && errno == EINVAL);
    errno = 0;
    REQUIRE(signal(SIGUSR1, SIG_ERR) == SIG_ERR && errno == EINVAL);
    send_twice();
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"nothing", with_nothing},
    {"sigaction", with_sigaction},
    {"siginfo", with_siginfo},
    {"signal", with_signal},
    {"sysv-signal", with_sysv_signal},
    {"reset", with_reset},
    {"nodefer", with_nodefer},
    {"mask", with_mask},
    {"alternate-stack", with_alternate_stack},
    {"ignore", with_ignore},
    {"siginfo-ignore", with_siginfo_ignore},
    {"siginfo-default", with_siginfo_default},
    {"sigset", with_sigset},
    {"sigignore", with_sigignore},
    {"another-signal", with_another_signal},
    {"bad-arguments", with_bad_arguments},
};

int main(int argc, char **argv)
{
    long expected = (long)test_argument(argc, argv, 2, 2);

    REQUIRE(argc >= 2);
    if (argc > 3)
        sender = argv[3];
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            if (calls != expected)
                test_fail("# the handler ran %ld times, not %ld", (long)calls, expected);
            return 0;
        }
    test_fail("# no such way: %s", argv[1]);
}
