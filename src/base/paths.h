/* SPDX-License-Identifier: MIT */
/* paths: the names of the files that the library writes, for it and for the tool. */
#ifndef PINPOOL_BASE_PATHS_H
#define PINPOOL_BASE_PATHS_H

#include "base/options.h"
#include "base/out.h"

#define PATHS_PREFIX "pinpool."

enum {
    PATHS_NAME_MAX = 64,
    PATHS_MAX = OPTIONS_DIR_MAX + PATHS_NAME_MAX,
    PATHS_STATS = 0, /* as a sequence number: the stats file; dumps count from 1 */
};

/* pinpool.<pid>.<seq>.jsonl, or pinpool.<pid>.stats. Always fits. */
INLINE void path_name_sigsafe(char name[PATHS_NAME_MAX], int32_t pid, uint64_t sequence)
{
    struct out out;

    out_init_sigsafe(&out, -1, name, PATHS_NAME_MAX);
    out_text_sigsafe(&out, PATHS_PREFIX);
    out_u64_sigsafe(&out, (uint64_t)pid);
    out_text_sigsafe(&out, ".");
    if (sequence == PATHS_STATS) {
        out_text_sigsafe(&out, "stats");
    } else {
        out_u64_sigsafe(&out, sequence);
        out_text_sigsafe(&out, ".jsonl");
    }
    (void)out_finish_text_sigsafe(&out);
}

/* <dir>/<name> */
INLINE void path_format_sigsafe(char path[PATHS_MAX], const char *dir, int32_t pid, uint64_t sequence)
{
    char name[PATHS_NAME_MAX];
    struct out out;

    path_name_sigsafe(name, pid, sequence);
    out_init_sigsafe(&out, -1, path, PATHS_MAX);
    out_text_sigsafe(&out, dir);
    out_text_sigsafe(&out, "/");
    out_text_sigsafe(&out, name);
    (void)out_finish_text_sigsafe(&out);
}

#endif
