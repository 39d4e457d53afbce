/* SPDX-License-Identifier: MIT */
/* progress: where a comparison stands, on stderr: one line that is written over on a terminal, else a line
 * a round. */
#ifndef PINPOOL_CLI_AB_RUN_PROGRESS_H
#define PINPOOL_CLI_AB_RUN_PROGRESS_H

#include <stdbool.h>

#include "cli/ab/experiment.h"

struct progress {
    const struct experiment *experiment;
    bool is_terminal, is_shown;
    unsigned said_round; /* + 1; 0: none yet */
};

struct progress progress_start(const struct experiment *experiment);
void progress_show(struct progress *progress, const struct run *run);

/* Clears the line, for whatever is printed next. */
void progress_end(struct progress *progress);

#endif
