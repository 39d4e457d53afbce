/* SPDX-License-Identifier: MIT */
/* ab_json: result.json, and short forms for it. */
#ifndef PINPOOL_CLI_AB_JSON_H
#define PINPOOL_CLI_AB_JSON_H

#include <json-c/json.h>

/* All 15 digits that a double surely has; null for what is not a number. */
void ab_json_add_number(struct json_object *json, const char *name, double value);

/* On one line; valid as long as the object. */
const char *ab_json_text(struct json_object *json);

struct ab_result;
struct experiment;
struct run;

/* A finished run, as runs.jsonl and result.json have it. The caller's to put. */
struct json_object *ab_json_of_run(const struct experiment *experiment, const struct run *run);

/* Writes DIR/result.json; ends the tool when it cannot. */
void ab_json_write(const struct ab_result *result);

#endif
