/* SPDX-License-Identifier: MIT */
/*
 * dumping: has a process write a dump, and waits for it. The signal kills a process that does not expect it,
 * so everything is checked first.
 */
#ifndef PINPOOL_CLI_DUMPFILE_DUMPING_H
#define PINPOOL_CLI_DUMPFILE_DUMPING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dumping {
    pid_t pid;
    uint64_t timeout_ns;
    const char *dir; /* as we see it; NULL: where the process says */
    int signal;      /* -1: the one the process says */
    bool chain;      /* the program's own handler for the signal runs, too */
    bool quiet;      /* no warning on stderr */
};

/*
 * Returns NULL, and *path is the new and whole dump; or why there is none, a sentence. Either is to be freed.
 */
char *dumping_take(const struct dumping *dumping, char **path);

#endif
