/* SPDX-License-Identifier: MIT */
/*
 * provenance: where a result comes from: machine, kernel, settings that change what allocators do, and the
 * very files that were measured. Read from files; what cannot be read is null, not left out.
 */
#ifndef PINPOOL_CLI_AB_PROVENANCE_H
#define PINPOOL_CLI_AB_PROVENANCE_H

#include <json-c/json.h>

/* The machine and its settings. The caller's to put. */
struct json_object *provenance_of_machine(void);

/*
 * "Measured on ...": processor, cores, caches, kernel of a result's provenance, whose "machine" this is. Results
 * depend on them, so every report says it. To be freed.
 */
char *provenance_line(struct json_object *provenance);

/* {"path", "resolved", "bytes", "sha256"} of a file; sha256 is null where sha256sum is missing. */
struct json_object *provenance_of_file(const char *path);

/* The SHA-256 of a file as text, to be freed, or NULL. */
char *provenance_hash(const char *path);

/* Load average of one minute; NAN if unknown. */
double provenance_load_average(void);

/* CPU time that the whole machine has used so far, in seconds; NAN if unknown. */
double provenance_busy_s(void);

#endif
