/* SPDX-License-Identifier: MIT */
/*
 * store: what makes a comparison survive Ctrl-C, a full disk and a reboot: two files in its directory.
 *
 *   plan.json    the command line as words, the seed, hashes of what is measured; written once
 *   runs.jsonl   a line for each run that is finished, appended and flushed before the next one starts
 *
 * Everything else is made from them.
 */
#ifndef PINPOOL_CLI_AB_STORE_H
#define PINPOOL_CLI_AB_STORE_H

#include "cli/ab/experiment.h"

/* A new experiment: makes the directory, refuses one that is in use, writes plan.json. Ends the tool on
 * failure. */
void store_create(struct experiment *experiment);

/*
 * An experiment that is there: reads plan.json into the settings (a command line that was given has to be the
 * same) and its provenance. The finished runs are read by store_load_runs(), once there is a plan to put them
 * into.
 */
void store_open(struct experiment *experiment);
void store_load_runs(struct experiment *experiment);

/* Appends a finished run. Returns NULL, or why it could not, to be freed: then the file is as it was. */
char *store_append(struct experiment *experiment, const struct run *run);

/* A finished run, as runs.jsonl and result.json have it. The caller's to put. */
struct json_object *store_run_to_json(const struct experiment *experiment, const struct run *run);

#endif
