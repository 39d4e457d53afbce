/* SPDX-License-Identifier: MIT */
/* record: see record.h. */
#include "cli/dumpfile/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

/* ---- Reading ---- */

/* The texts of a record are its own once it is read, though nobody may change them. */
static void free_text(const char **text)
{
    const union {
        const char *read_only;
        char *own;
    } owner = {*text};
    free(owner.own);
    *text = NULL;
}

static void *member_of(void *record, const struct record_field *field)
{
    return (char *)record + field->offset;
}

static const void *const_member_of(const void *record, const struct record_field *field)
{
    return (const char *)record + field->offset;
}

static const char *parse_number(struct json_object *value, uint64_t max, uint64_t *number)
{
    if (!json_object_is_type(value, json_type_int))
        return "not a whole number";
    const int64_t read = json_object_get_int64(value);
    if (read < 0)
        return "negative";
    if (read == INT64_MAX || (uint64_t)read > max) /* json-c's answer for anything larger, too */
        return "too large";
    *number = (uint64_t)read;
    return NULL;
}

static const char *parse_hex(const char *text, uint64_t *number)
{
    char *end;
    if (strncmp(text, "0x", 2) != 0 || !strchr("0123456789abcdefABCDEF", text[2]) || text[2] == '\0')
        return "not an address";
    errno = 0;
    const unsigned long long read = strtoull(text + 2, &end, 16);
    if (errno || *end)
        return "not an address";
    *number = read;
    return NULL;
}

const char *record_check_text(struct json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return "not a text";
    const size_t length = (size_t)json_object_get_string_len(value);
    return strlen(json_object_get_string(value)) == length ? NULL : "has a NUL character";
}

static const char *parse_field(const struct record_field *field, struct json_object *value, void *member)
{
    const bool is_text = json_object_is_type(value, json_type_string);
    if (field->kind == FIELD_TEXT) {
        const char **text = member;
        const char *wrong = record_check_text(value);
        if (wrong)
            return wrong;
        free_text(text);
        *text = must_copy_text(json_object_get_string(value));
        return NULL;
    }
    if (field->kind == FIELD_ADDRESS && is_text)
        return parse_hex(json_object_get_string(value), member);
    return parse_number(value, field->max, member);
}

/* Sets a field that the record lacks. */
static const char *parse_absent_field(const struct record_field *field, void *member)
{
    if (field->presence == FIELD_REQUIRED)
        return "missing";
    if (field->kind == FIELD_TEXT) {
        const char **text = member;
        *text = must_copy_text("");
    } else {
        uint64_t *number = member;
        *number = field->presence == FIELD_UNBOUNDED ? UINT64_MAX : 0;
    }
    return NULL;
}

char *record_parse(const struct record_kind *kind, struct json_object *json, void *record)
{
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct record_field *field = &kind->fields[i];
        struct json_object *value;
        const char *reason = json_object_object_get_ex(json, field->name, &value)
                                 ? parse_field(field, value, member_of(record, field))
                                 : parse_absent_field(field, member_of(record, field));
        if (reason)
            return must_format("%s: %s", field->name, reason);
    }
    return NULL;
}

void record_free(const struct record_kind *kind, void *record)
{
    for (size_t i = 0; i < kind->field_count; i++)
        if (kind->fields[i].kind == FIELD_TEXT) {
            const char **text = member_of(record, &kind->fields[i]);
            free_text(text);
            *text = NULL;
        }
}

/* ---- Writing ---- */

static struct json_object *field_to_json(const struct record_field *field, const void *member)
{
    if (field->kind == FIELD_TEXT) {
        const char *const *text = member;
        return json_object_new_string(*text);
    }
    const uint64_t *number = member;
    if (field->kind == FIELD_NUMBER)
        return json_object_new_uint64(*number);
    CLEANUP_FREE char *address = must_format("0x%" PRIx64, *number);
    return json_object_new_string(address);
}

struct json_object *record_to_json(const struct record_kind *kind, const void *record)
{
    struct json_object *json = json_object_new_object();
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct record_field *field = &kind->fields[i];
        const void *member = const_member_of(record, field);
        if (!record_lacks(field, member))
            json_object_object_add(json, field->name, field_to_json(field, member));
    }
    return json;
}
