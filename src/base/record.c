/* SPDX-License-Identifier: MIT */
/* record: see record.h. */
#include "base/record.h"

/*
 * No size or count of a real process comes near this, and sums over all tiers (one for each power of two at
 * most) stay below 2^63.
 */
#define AMOUNT (UINT64_C(1) << 57)

#define RECORD(name, type, sentence) static const struct record_field name##_fields[] = {
#define NUMBER(record, name, presence, max, unit, sentence)                                                  \
    {#name, offsetof(struct dump_##record, name), FIELD_NUMBER, FIELD_##presence, (max)},
#define ADDRESS(record, name, sentence)                                                                      \
    {#name, offsetof(struct dump_##record, name), FIELD_ADDRESS, FIELD_REQUIRED, UINT64_MAX},
#define TEXT(record, name, sentence)                                                                         \
    {#name, offsetof(struct dump_##record, name), FIELD_TEXT, FIELD_OPTIONAL, 0},
#define END(name)                                                                                            \
    }                                                                                                        \
    ;
#include "base/dump.def"

#define RECORD(name, type, sentence)                                                                         \
    const struct record_kind record_##name = {type, sizeof name##_fields / sizeof name##_fields[0],          \
                                              name##_fields};
#include "base/dump.def"

bool record_lacks(const struct record_field *field, const void *member)
{
    const uint64_t *number = member;

    return (field->presence == FIELD_APPLIES && *number == 0) ||
           (field->presence == FIELD_UNBOUNDED && *number == UINT64_MAX);
}

static void write_field(struct out *out, const struct record_field *field, const void *member)
{
    const char *const *text = member;
    const uint64_t *number = member;

    if (field->kind == FIELD_TEXT)
        out_field_text_sigsafe(out, field->name, *text);
    else if (field->kind == FIELD_ADDRESS)
        out_field_hex_sigsafe(out, field->name, *number);
    else if (!record_lacks(field, member))
        out_field_u64_sigsafe(out, field->name, *number);
}

void record_write_fields_sigsafe(struct out *out, const struct record_kind *kind, const void *record)
{
    for (uint32_t i = 0; i < kind->field_count; i++)
        write_field(out, &kind->fields[i], (const char *)record + kind->fields[i].offset);
}

void record_write_sigsafe(struct out *out, const struct record_kind *kind, const void *record)
{
    out_record_begin_sigsafe(out, kind->type);
    record_write_fields_sigsafe(out, kind, record);
    out_record_end_sigsafe(out);
}
