/* SPDX-License-Identifier: MIT */
/*
 * interpose: the exported malloc family. The four hot functions jump through `entry`, which start
 * switches once: from functions that start us, to the pool's, or with PINPOOL_OFF=1 to ones that do
 * nothing but pass on. So neither "are we started?" nor "are we off?" is asked on a hot path.
 */
#ifndef PINPOOL_PRELOAD_INTERPOSE_H
#define PINPOOL_PRELOAD_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

/* Start is done: from now on the pool serves, or with `off` nobody. */
void interpose_switch(bool off);

/*
 * For operator new: a slice, or NULL when the size is not ours or there is none; nothing is passed on.
 * For operator delete: true when the address was ours, and is free now.
 */
void *interpose_take(size_t bytes, size_t alignment);
bool interpose_give_back(void *address, const char *function);

/* operators.c: finds the operators behind ours; at start. */
void operators_resolve(void);

#endif
