/* SPDX-License-Identifier: MIT */
/* record: see record.h. */
#include "cli/dumpfile/record.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/kit/util.h"

/*
 * No size or count of a real process comes near the limit, and sums over all tiers (one for each
 * power of two at most) stay below 2^63.
 */
#define AMOUNT_MAX (UINT64_C(1) << 57)

enum field_kind {
    FIELD_NUMBER,  /* a whole number, 0 .. max */
    FIELD_ADDRESS, /* the same, or a text "0x..." */
    FIELD_TEXT,
};

enum field_presence {
    REQUIRED,
    OPTIONAL,  /* 0 or "" when it is absent */
    APPLIES,   /* 0 when it is absent, and then absent from the JSON */
    UNBOUNDED, /* UINT64_MAX (no bound, not known) when it is absent, and then absent from the JSON */
};

struct field {
    const char *name;
    size_t offset;
    enum field_kind kind;
    enum field_presence presence;
    uint64_t max;
};

#define FIELD(record, member, its_kind, its_presence, most)                                                  \
    {                                                                                                        \
        .name = #member, .offset = offsetof(struct record, member), .kind = (its_kind),                      \
        .presence = (its_presence), .max = (most)                                                            \
    }
#define AMOUNT(record, member) FIELD(record, member, FIELD_NUMBER, REQUIRED, AMOUNT_MAX)
#define BIG(record, member, presence) FIELD(record, member, FIELD_NUMBER, presence, INT64_MAX)
#define ADDRESS(record, member) FIELD(record, member, FIELD_ADDRESS, REQUIRED, UINT64_MAX)
#define TEXT(record, member) FIELD(record, member, FIELD_TEXT, OPTIONAL, 0)

static const struct field header_fields[] = {
    AMOUNT(dump_header, format),
    TEXT(dump_header, version),
    FIELD(dump_header, pid, FIELD_NUMBER, REQUIRED, INT_MAX),
    AMOUNT(dump_header, seq),
    TEXT(dump_header, reason),
    BIG(dump_header, time_unix_ns, REQUIRED),
    BIG(dump_header, uptime_ns, OPTIONAL),
    TEXT(dump_header, exe),
    BIG(dump_header, page_bytes, OPTIONAL),
    TEXT(dump_header, kernel),
    TEXT(dump_header, thp),
    TEXT(dump_header, next),
    FIELD(dump_header, filtered, FIELD_NUMBER, OPTIONAL, 1),
};

static const struct field memory_fields[] = {
    AMOUNT(dump_memory, reserved_bytes),
    AMOUNT(dump_memory, chunks),
    AMOUNT(dump_memory, metadata_bytes),
    AMOUNT(dump_memory, heaps),
};

static const struct field tier_fields[] = {
    AMOUNT(dump_tier, block_bytes),
    AMOUNT(dump_tier, granule_bytes),
    AMOUNT(dump_tier, min_request_bytes),
    AMOUNT(dump_tier, max_request_bytes),
    AMOUNT(dump_tier, current_blocks),
    AMOUNT(dump_tier, pinned_blocks),
    AMOUNT(dump_tier, empty_blocks),
    AMOUNT(dump_tier, released_blocks),
    AMOUNT(dump_tier, live_slices),
    AMOUNT(dump_tier, live_bytes),
    AMOUNT(dump_tier, cached_bytes),
    AMOUNT(dump_tier, pinned_live_bytes),
    AMOUNT(dump_tier, sole_pinner_blocks),
    AMOUNT(dump_tier, stranded_bytes),
    FIELD(dump_tier, stranded_resident_bytes, FIELD_NUMBER, UNBOUNDED, AMOUNT_MAX),
    AMOUNT(dump_tier, held_bytes),
};

static const struct field occupancy_fields[] = {
    AMOUNT(dump_occupancy, block_bytes),    AMOUNT(dump_occupancy, from_slices),
    AMOUNT(dump_occupancy, to_slices),      AMOUNT(dump_occupancy, blocks),
    AMOUNT(dump_occupancy, stranded_bytes),
};

static const struct field age_fields[] = {
    AMOUNT(dump_age, block_bytes), AMOUNT(dump_age, from_ms),        BIG(dump_age, to_ms, UNBOUNDED),
    AMOUNT(dump_age, blocks),      AMOUNT(dump_age, stranded_bytes),
};

static const struct field block_fields[] = {
    AMOUNT(dump_block, block_bytes),
    ADDRESS(dump_block, address),
    AMOUNT(dump_block, heap),
    AMOUNT(dump_block, live_slices),
    AMOUNT(dump_block, live_bytes),
    AMOUNT(dump_block, stranded_bytes),
    FIELD(dump_block, stranded_resident_bytes, FIELD_NUMBER, UNBOUNDED, AMOUNT_MAX),
    AMOUNT(dump_block, age_ms),
};

static const struct field thread_fields[] = {
    AMOUNT(dump_thread, heap),           AMOUNT(dump_thread, tid),           TEXT(dump_thread, state),
    AMOUNT(dump_thread, held_bytes),     AMOUNT(dump_thread, pinned_blocks), AMOUNT(dump_thread, live_bytes),
    AMOUNT(dump_thread, stranded_bytes),
};

static const struct field counter_fields[] = {
    TEXT(dump_counter, name),
    TEXT(dump_counter, unit),
    BIG(dump_counter, value, REQUIRED),
    BIG(dump_counter, block_bytes, APPLIES),
};

static const struct field map_fields[] = {
    ADDRESS(dump_map, start), ADDRESS(dump_map, end), ADDRESS(dump_map, offset_bytes),
    TEXT(dump_map, build_id), TEXT(dump_map, path),
};

static const struct field end_fields[] = {
    AMOUNT(dump_end, records),
    BIG(dump_end, duration_ns, OPTIONAL),
};

#define ROWS(table) (table), sizeof(table) / sizeof((table)[0])

const struct record_kind record_header = {"dump", ROWS(header_fields)};
const struct record_kind record_memory = {"memory", ROWS(memory_fields)};
const struct record_kind record_tier = {"tier", ROWS(tier_fields)};
const struct record_kind record_occupancy = {"occupancy", ROWS(occupancy_fields)};
const struct record_kind record_age = {"age", ROWS(age_fields)};
const struct record_kind record_block = {"block", ROWS(block_fields)};
const struct record_kind record_thread = {"thread", ROWS(thread_fields)};
const struct record_kind record_counter = {"counter", ROWS(counter_fields)};
const struct record_kind record_map = {"map", ROWS(map_fields)};
const struct record_kind record_end = {"end", ROWS(end_fields)};

/* ---- Reading ---- */

static void *member_of(void *record, const struct field *field)
{
    return (char *)record + field->offset;
}

static const void *const_member_of(const void *record, const struct field *field)
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

static const char *parse_field(const struct field *field, struct json_object *value, void *member)
{
    const bool is_text = json_object_is_type(value, json_type_string);
    if (field->kind == FIELD_TEXT) {
        char **text = member;
        const char *wrong = record_check_text(value);
        if (wrong)
            return wrong;
        free(*text);
        *text = must_copy_text(json_object_get_string(value));
        return NULL;
    }
    if (field->kind == FIELD_ADDRESS && is_text)
        return parse_hex(json_object_get_string(value), member);
    return parse_number(value, field->max, member);
}

/* Sets a field that the record lacks. */
static const char *parse_absent_field(const struct field *field, void *member)
{
    if (field->presence == REQUIRED)
        return "missing";
    if (field->kind == FIELD_TEXT) {
        char **text = member;
        *text = must_copy_text("");
    } else {
        uint64_t *number = member;
        *number = field->presence == UNBOUNDED ? UINT64_MAX : 0;
    }
    return NULL;
}

char *record_parse(const struct record_kind *kind, struct json_object *json, void *record)
{
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct field *field = &kind->fields[i];
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
            char **text = member_of(record, &kind->fields[i]);
            free(*text);
            *text = NULL;
        }
}

/* ---- Writing ---- */

static struct json_object *field_to_json(const struct field *field, const void *member)
{
    if (field->kind == FIELD_TEXT) {
        char *const *text = member;
        return json_object_new_string(*text);
    }
    const uint64_t *number = member;
    if (field->kind == FIELD_NUMBER)
        return json_object_new_uint64(*number);
    CLEANUP_FREE char *address = must_format("0x%" PRIx64, *number);
    return json_object_new_string(address);
}

static bool is_absent(const struct field *field, const void *member)
{
    const uint64_t *number = member;
    return (field->presence == APPLIES && *number == 0) ||
           (field->presence == UNBOUNDED && *number == UINT64_MAX);
}

struct json_object *record_to_json(const struct record_kind *kind, const void *record)
{
    struct json_object *json = json_object_new_object();
    for (size_t i = 0; i < kind->field_count; i++) {
        const struct field *field = &kind->fields[i];
        const void *member = const_member_of(record, field);
        if (!is_absent(field, member))
            json_object_object_add(json, field->name, field_to_json(field, member));
    }
    return json;
}
