/* SPDX-License-Identifier: MIT */
/*
 * record: the records of a dump as C structures, and their translation from and to JSON. The format
 * is in src/evidence/dump.h.
 *
 * What a record holds is said once, in the tables of record.c. A dump is untrusted: every field is
 * checked for its type and range there. Fields that are not known here are skipped.
 */
#ifndef PINPOOL_CLI_DUMPFILE_RECORD_H
#define PINPOOL_CLI_DUMPFILE_RECORD_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

/* Texts are never NULL. What a record may lack is "" or 0; stranded_resident_bytes is UINT64_MAX then. */

struct dump_header {
    uint64_t format, pid, seq, time_unix_ns, uptime_ns, page_bytes;
    uint64_t filtered; /* 1: what only special system calls tell was left out */
    char *version, *reason, *exe, *kernel, *thp, *next;
};

struct dump_memory {
    uint64_t reserved_bytes, chunks, metadata_bytes, heaps;
};

struct dump_tier {
    uint64_t block_bytes, granule_bytes, min_request_bytes, max_request_bytes;
    uint64_t current_blocks, pinned_blocks, empty_blocks, released_blocks; /* each block is one of these */
    uint64_t live_slices, live_bytes, cached_bytes;
    uint64_t pinned_live_bytes;  /* the part of live_bytes that is in pinned blocks */
    uint64_t sole_pinner_blocks; /* pinned by one slice */
    uint64_t stranded_bytes, stranded_resident_bytes;
    uint64_t held_bytes; /* (current + pinned + empty) * block_bytes */
};

struct dump_occupancy {
    uint64_t block_bytes, from_slices, to_slices, blocks, stranded_bytes;
};

struct dump_age {
    uint64_t block_bytes, from_ms;
    uint64_t to_ms; /* UINT64_MAX in the last */
    uint64_t blocks, stranded_bytes;
};

struct dump_block {
    uint64_t block_bytes, address, heap, live_slices, live_bytes, stranded_bytes, stranded_resident_bytes,
        age_ms;
};

struct dump_thread {
    uint64_t heap, tid, held_bytes, pinned_blocks, live_bytes, stranded_bytes;
    char *state; /* live, waiting, lost */
};

struct dump_counter {
    char *name, *unit;
    uint64_t value;
    uint64_t block_bytes; /* 0: not kept by tier */
};

struct dump_map {
    uint64_t start, end, offset_bytes;
    char *build_id, *path;
};

struct dump_end {
    uint64_t records, duration_ns;
};

/* Large enough for any of them. */
union any_record {
    struct dump_header header;
    struct dump_memory memory;
    struct dump_tier tier;
    struct dump_occupancy occupancy;
    struct dump_age age;
    struct dump_block block;
    struct dump_thread thread;
    struct dump_counter counter;
    struct dump_map map;
    struct dump_end end;
};

struct field;

struct record_kind {
    const char *type; /* the record's "type" */
    const struct field *fields;
    size_t field_count;
};

extern const struct record_kind record_header, record_memory, record_tier, record_occupancy, record_age,
    record_block, record_thread, record_counter, record_map, record_end;

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
