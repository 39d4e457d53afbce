/* SPDX-License-Identifier: MIT */
/*
 * filter: is this thread under a filter of system calls (seccomp)? One that kills does so for a call that
 * its author did not expect from the program, so what we do beyond the plainest calls asks first.
 */
#ifndef PINPOOL_EVIDENCE_FILTER_H
#define PINPOOL_EVIDENCE_FILTER_H

#include <stdbool.h>

/*
 * True under a filter, and where nobody can tell (no /proc). It opens and reads a file, for there is no
 * system call to ask that a filter could not kill for. Once true it stays so: a filter is never taken off.
 */
bool filter_may_kill_sigsafe(void);

#endif
