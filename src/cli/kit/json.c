/* SPDX-License-Identifier: MIT */
/* json: see json.h. */
#include "cli/kit/json.h"

#include <math.h>
#include <stdio.h>

#include "cli/kit/util.h"

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

/* A character above 0xffff takes two, as in UTF-16. */
static void put_escaped(uint32_t code, FILE *to)
{
    if (code > 0xffff)
        fprintf(to, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    else
        fprintf(to, "\\u%04x", code);
}

void json_put(struct json_object *json, int flags, FILE *to)
{
    const char *text = json_object_to_json_string_ext(json, flags | JSON_C_TO_STRING_NOSLASHESCAPE);
    while (*text) {
        const char *from = text;
        const uint32_t code = text_next_code(&text);
        if (code == TEXT_NO_CODE)
            fprintf(to, "\\\\x%02x", (unsigned char)*from);
        else if (code >= 0x7f && (text_is_control(code) || text_is_layout(code)))
            put_escaped(code, to);
        else
            fwrite_unlocked(from, 1, (size_t)(text - from), to);
    }
    fputc('\n', to);
}

void json_print_line(struct json_object *json)
{
    json_put(json, JSON_C_TO_STRING_PLAIN, stdout);
    flush_stdout_or_fail();
}

void json_add_number(struct json_object *json, const char *name, double value)
{
    if (!isfinite(value)) {
        json_object_object_add(json, name, NULL);
        return;
    }
    CLEANUP_FREE char *text = must_format("%.15g", value);
    json_object_object_add(json, name, json_object_new_double_s(value, text));
}

void json_add_text(struct json_object *json, const char *name, const char *text)
{
    json_object_object_add(json, name, text ? json_object_new_string(text) : NULL);
}

const char *json_text(struct json_object *json)
{
    return json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}
