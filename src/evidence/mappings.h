/* SPDX-License-Identifier: MIT */
/*
 * mappings: the `map` records of a dump: which object lies where, and its build id, so that addresses
 * can be given names later and on another machine.
 */
#ifndef PINPOOL_EVIDENCE_MAPPINGS_H
#define PINPOOL_EVIDENCE_MAPPINGS_H

#include <stdbool.h>

#include "base/out.h"

/*
 * Writes one record for each executable mapping of a file, and for [vdso], at most MAPPINGS_MAX. One
 * caller at a time. Headers are read through /proc/thread-self/mem (the main thread may
 * have ended): a mapping that vanishes meanwhile is an error there, and would be a fault here. Where that
 * file may not be opened, and without `with_build_ids`, build ids stay empty and only open, read and close
 * are called.
 */
void mappings_write_sigsafe(struct out *out, bool with_build_ids);

enum { MAPPINGS_MAX = 1024 };

#endif
