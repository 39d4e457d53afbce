/* SPDX-License-Identifier: MIT */
/* sender: who sent our signal decides what it is for. */
#ifndef PINPOOL_PRELOAD_SENDER_H
#define PINPOOL_PRELOAD_SENDER_H

#include <signal.h>

enum sender {
    SENDER_REQUEST, /* whoever sends a value of ours: the tool */
    SENDER_PROGRAM, /* the process itself, or one of the same executable: workers, a master; its own timers */
    SENDER_OTHER,   /* anybody else, and whoever cannot be told: kill(1), a supervisor, a terminal */
};

/* At start: remembers which executable this is. */
void sender_init(void);

/* In a forked child: from now on it is known as one of the family, also when it has ended. */
void sender_after_fork(void);

/*
 * Signal-safe. Of another process the executable is compared or, where the kernel does not let us see that
 * (another user's process, one that has just ended, a system call filter), the name.
 */
enum sender sender_of(const siginfo_t *info);

#endif
