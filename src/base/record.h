/* SPDX-License-Identifier: MIT */
/*
 * record: the records of a dump, as dump.def says, as C structures: a struct dump_NAME for each, whose texts are
 * never NULL. The library writes them, the tool reads them.
 */
#ifndef PINPOOL_BASE_RECORD_H
#define PINPOOL_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/out.h"

#define RECORD(name, type, sentence) struct dump_##name {
#define NUMBER(record, name, presence, max, unit, sentence) uint64_t name;
#define ADDRESS(record, name, sentence) uint64_t name;
#define TEXT(record, name, sentence) const char *name;
#define END(name)                                                                                            \
    }                                                                                                        \
    ;
#include "base/dump.def"

/* Large enough for any of them. */
union any_record {
#define RECORD(name, type, sentence) struct dump_##name name;
#include "base/dump.def"
};

enum field_kind { FIELD_NUMBER, FIELD_ADDRESS, FIELD_TEXT };
enum field_presence { FIELD_REQUIRED, FIELD_OPTIONAL, FIELD_APPLIES, FIELD_UNBOUNDED }; /* see dump.def */

/* Names stand in the tables, not beside them, so that the library's need no relocation. */
struct record_field {
    char name[32];
    uint16_t offset;        /* in the structure */
    uint8_t kind, presence; /* enum field_kind, enum field_presence */
    uint64_t max;           /* of a number */
};

struct record_kind {
    char type[16];
    uint32_t field_count;
    const struct record_field *fields;
};

#define RECORD(name, type, sentence) extern const struct record_kind record_##name;
#include "base/dump.def"

/* Whether *member, the field in a structure, stands for one that is absent. */
bool record_lacks(const struct record_field *field, const void *member);

/* Writes a record's fields, or all of it as one line. */
void record_write_fields_sigsafe(struct out *out, const struct record_kind *kind, const void *record);
void record_write_sigsafe(struct out *out, const struct record_kind *kind, const void *record);

#endif
