/* SPDX-License-Identifier: MIT */
/* paths: the names of the files we write. */
#ifndef PINPOOL_EVIDENCE_PATHS_H
#define PINPOOL_EVIDENCE_PATHS_H

#include <stdint.h>

#include "base/options.h"
#include "base/out.h"

enum { PATHS_MAX = OPTIONS_DIR_MAX + 64 };

/* <dir>/pinpool.<pid>.stats, or with a sequence number other than 0 <dir>/pinpool.<pid>.<seq>.jsonl */
INLINE void path_format_sigsafe(char path[PATHS_MAX], const char *dir, int32_t pid, uint64_t sequence)
{
    struct out out;

    out_init_sigsafe(&out, -1, path, PATHS_MAX);
    out_text_sigsafe(&out, dir);
    out_text_sigsafe(&out, "/pinpool.");
    out_u64_sigsafe(&out, (uint64_t)pid);
    if (sequence == 0) {
        out_text_sigsafe(&out, ".stats");
    } else {
        out_text_sigsafe(&out, ".");
        out_u64_sigsafe(&out, sequence);
        out_text_sigsafe(&out, ".jsonl");
    }
    (void)out_finish_text_sigsafe(&out); /* always fits: PATHS_MAX */
}

#endif
