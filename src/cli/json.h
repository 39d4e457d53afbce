/* SPDX-License-Identifier: MIT */
/* json: short forms of what the tool writes with json-c. */
#ifndef PINPOOL_CLI_JSON_H
#define PINPOOL_CLI_JSON_H

#include <json-c/json.h>
#include <stdint.h>

void json_add_u64(struct json_object *json, const char *name, uint64_t value);

/* With four decimals; null for a value that is no number. */
void json_add_double(struct json_object *json, const char *name, double value);

/* numerator / denominator, or null where there is nothing to divide by. */
void json_add_ratio(struct json_object *json, const char *name, uint64_t numerator, uint64_t denominator);

/* Prints it on one line and pushes it out to stdout's file; that failing ends the tool. */
void json_print_line(struct json_object *json);

#endif
