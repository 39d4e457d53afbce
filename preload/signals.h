/* SPDX-License-Identifier: MIT */
/*
 * signals: our one signal, shared with the program.
 *
 * The kernel has our handler. What the program asks for that signal is kept here: it is what the
 * program sees when it asks back, and what our handler calls after the dump. For all other signals
 * nothing of ours is in the way but one comparison.
 */
#ifndef PINPOOL_PRELOAD_SIGNALS_H
#define PINPOOL_PRELOAD_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Takes signal `number`. chain: the program's own handler still runs, after ours. Once, at start. */
void signals_install(int number, bool chain);

/* In a forked child. */
void signals_after_fork(void);

/* Is our signal among these? Any thread. */
bool signals_are_guarded(const sigset_t *set);

/*
 * A thread took signal `number` by waiting for it. Does what is asked, if it is ours; true when the program is to
 * have it, too.
 */
bool signals_leave_to_program(int number, siginfo_t *info);

#endif
