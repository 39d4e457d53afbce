/* SPDX-License-Identifier: MIT */
/* report: a result for people and for other programs' tables. Each writer ends the tool when it cannot
 * write. */
#ifndef PINPOOL_CLI_AB_RESULT_REPORT_H
#define PINPOOL_CLI_AB_RESULT_REPORT_H

#include <stdio.h>

#include "cli/ab/result/result.h"
#include "cli/kit/page.h"

/* The tables; on a terminal without where they come from. */
void report_write_tables(const struct ab_result *result, const struct page *page);

/* DIR/report.md, and DIR/report.html with the plots. */
void report_write_markdown(const struct ab_result *result);
void report_write_html(const struct ab_result *result);

/*
 * DIR/runs.csv: Node's benchmark/compare.js writes such files and its compare.R reads them. They know two
 * binaries, old and new: so each arm is "new" beside the baseline as "old", a configuration for each arm and
 * measure. `rate` is the measure as it is; where lower is better the configuration says so.
 */
void report_write_node_csv(const struct ab_result *result);

/* DIR/long.csv: a line for every value of every run, warm-up included and marked. */
void report_write_long_csv(const struct ab_result *result);

/* DIR/samples.csv: a line for every sample of a service, all runs; nothing for a command. */
void report_write_samples_csv(const struct ab_result *result);

/* The command as one line that a shell would take; to be freed. */
char *report_command_line(const struct settings *settings);

#endif
