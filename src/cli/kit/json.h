/* SPDX-License-Identifier: MIT */
/* json: short forms of what the tool writes with json-c. */
#ifndef PINPOOL_CLI_KIT_JSON_H
#define PINPOOL_CLI_KIT_JSON_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

void json_add_u64(struct json_object *json, const char *name, uint64_t value);

/* With four decimals; null for a value that is no number. */
void json_add_double(struct json_object *json, const char *name, double value);

/* numerator / denominator, or null where there is nothing to divide by. */
void json_add_ratio(struct json_object *json, const char *name, uint64_t numerator, uint64_t denominator);

/*
 * Writes it and a newline, in one of json-c's styles. It is UTF-8 whatever its texts are, and a terminal
 * obeys nothing in it: json-c escapes the control characters below 0x20 only, so the others, and those that
 * move text about, are escaped here, which means the same. A byte that is not UTF-8 becomes the four
 * characters \xNN.
 */
void json_put(struct json_object *json, int flags, FILE *to);

/* Prints it on one line and pushes it out to stdout's file; that failing ends the tool. */
void json_print_line(struct json_object *json);

/* All 15 digits that a double surely has; null for what is not a number. */
void json_add_number(struct json_object *json, const char *name, double value);

/* null for NULL. */
void json_add_text(struct json_object *json, const char *name, const char *text);

/* On one line; valid as long as the object. */
const char *json_text(struct json_object *json);

#endif
