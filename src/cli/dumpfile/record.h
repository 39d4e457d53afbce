/* SPDX-License-Identifier: MIT */
/*
 * record: the records of a dump (base/record.h) from and to JSON. A dump is untrusted: every field is checked
 * for its type and range here, as base/dump.def has them. Fields that are not known there are skipped.
 */
#ifndef PINPOOL_CLI_DUMPFILE_RECORD_H
#define PINPOOL_CLI_DUMPFILE_RECORD_H

#include <json-c/json.h>

#include "base/record.h"

/*
 * Fills *record, a zeroed structure of that kind, from a JSON object. Returns NULL, or why the object is
 * none ("pinned_blocks: negative"), to be freed. record_free() is due in both cases.
 */
char *record_parse(const struct record_kind *kind, struct json_object *json, void *record);

/* Why a value is no text that a C string can hold; NULL when it is one. */
const char *record_check_text(struct json_object *value);

/* Frees the texts of a record, not the record. */
void record_free(const struct record_kind *kind, void *record);

/* The record as a JSON object with the dump's own names; the caller's to put. */
struct json_object *record_to_json(const struct record_kind *kind, const void *record);

#endif
