/* SPDX-License-Identifier: MIT */
/* json: see json.h. */
#include "cli/json.h"

#include <math.h>
#include <stdio.h>

#include "cli/util.h"

void json_add_u64(struct json_object *json, const char *name, uint64_t value)
{
    json_object_object_add(json, name, json_object_new_uint64(value));
}

void json_add_double(struct json_object *json, const char *name, double value)
{
    if (!isfinite(value)) {
        json_object_object_add(json, name, NULL);
        return;
    }
    CLEANUP_FREE char *text = must_format("%.4f", value);
    json_object_object_add(json, name, json_object_new_double_s(value, text));
}

void json_add_ratio(struct json_object *json, const char *name, uint64_t numerator, uint64_t denominator)
{
    json_add_double(json, name, denominator ? (double)numerator / (double)denominator : NAN);
}

void json_print_line(struct json_object *json)
{
    puts(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    flush_stdout_or_fail();
}
