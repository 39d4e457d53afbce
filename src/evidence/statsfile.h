/* SPDX-License-Identifier: MIT */
/*
 * statsfile: the process's label, and the file that shows it (see label.h). The file proves that the library
 * was there, and says how much it did, to those who come when the process has ended. While it lives they read
 * its memory.
 *
 * Nothing is mapped and nothing written in between: allocation makes no call for it.
 */
#ifndef PINPOOL_EVIDENCE_STATSFILE_H
#define PINPOOL_EVIDENCE_STATSFILE_H

#include "base/label.h"

struct options;
struct pool;

/* What a process with these settings and this pool says of itself. */
void label_fill(struct label *label, const struct pool *pool, const struct options *options);

/* At start, if PINPOOL_STATS asks for it: makes the file. What cannot be made is left. */
void statsfile_begin(struct pool *pool, const struct options *options, const struct label *label);

/*
 * At the end of the process: takes the file away again, or with PINPOOL_STATS=keep writes what was done (a
 * forked child makes its file only then). Not under a system call filter that could kill for it.
 */
void statsfile_end(void);

#endif
