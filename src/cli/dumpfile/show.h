/* SPDX-License-Identifier: MIT */
/* show: the two forms in which `pinpool report` shows a dump. */
#ifndef PINPOOL_CLI_DUMPFILE_SHOW_H
#define PINPOOL_CLI_DUMPFILE_SHOW_H

#include "cli/dumpfile/reader.h"

struct report_limits {
    size_t blocks;     /* how many of the worst blocks are shown */
    size_t threads;    /* and of the threads that strand most */
    bool all_counters; /* those by tier and those that are zero, too */
};

/* For a person. Sorts the lists of the file. */
void report_print_text(struct dump_file *file, const struct report_limits *limits);

/* For a program: all of it, in one object on one line. */
void report_print_json(const struct dump_file *file);

#endif
