/* SPDX-License-Identifier: MIT */
/*
 * vfork_child_changes_signal [ignored|default]: what a child of vfork sets for SIGUSR1 before it calls exec,
 * as shells and spawners do, holds for what it executes and not for its parent, whose memory it shares. With
 * an argument the program is that child after exec, and looks for what it was left.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

enum { CHILD_MS = 10000 };

static volatile sig_atomic_t calls;

static void handle(int number)
{
    (void)number;
    calls++;
}

static struct sigaction current_action(void)
{
    struct sigaction action;

    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
    return action;
}

static void vfork_and_ignore(void)
{
    pid_t pid = vfork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGUSR1, SIG_IGN);
        execl("/proc/self/exe", "child", "ignored", (char *)NULL);
        _exit(9);
    }
    REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
}

static void vfork_and_reset(void)
{
    pid_t pid = vfork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)sigaction(SIGUSR1, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        (void)signal(SIGUSR1, SIG_DFL);
        execl("/proc/self/exe", "child", "default", (char *)NULL);
        _exit(9);
    }
    REQUIRE(test_wait_child(pid, CHILD_MS) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return current_action().sa_handler == (strcmp(argv[1], "ignored") == 0 ? SIG_IGN : SIG_DFL) ? 0 : 8;
    REQUIRE(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle, .sa_flags = SA_RESTART}, NULL) == 0);
    vfork_and_ignore();
    vfork_and_reset();
    REQUIRE(current_action().sa_handler == handle && (current_action().sa_flags & SA_RESTART) != 0);
    test_dump(SIGUSR1);
    REQUIRE(calls == 1);
    return 0;
}
