/* SPDX-License-Identifier: MIT */
/* reader: see reader.h. */
#include "cli/dumpfile/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/kit/util.h"

/*
 * What a dump has at most. The library writes 4 MiB, and of the records that have no fixed number 256 blocks,
 * 1024 threads and 1024 mappings; a later one may write more. They bound the memory that the reader takes.
 */
enum {
    FORMAT = 1,
    FILE_BYTES_MAX = 64 << 20,
    LINES_MAX = 1 << 16,
    LINE_BYTES_MAX = 1 << 20, /* the longest line of a dump has a few KiB */
    NESTING_MAX = 16,
};

/* ---- Checks between the fields of a record, and where it goes ---- */

#define APPEND(items, count, record)                                                                         \
    do {                                                                                                     \
        (items) = must_grow((items), (count), sizeof *(items));                                              \
        (items)[(count)++] = *(record);                                                                      \
    } while (0)

static const char not_block_size[] = "block_bytes: not a power of two";

static bool is_block_size(uint64_t bytes)
{
    return bytes >= 64 && (bytes & (bytes - 1)) == 0;
}

static const char *keep_header(struct dump_file *file, const union any_record *record)
{
    if (record->header.format != FORMAT)
        return "format: not 1, the only one that this pinpool reads";
    file->header = record->header;
    return NULL;
}

static const char *keep_memory(struct dump_file *file, const union any_record *record)
{
    file->memory = record->memory;
    return NULL;
}

static const char *check_tier(const struct dump_file *file, const struct dump_tier *tier)
{
    uint64_t held;
    const uint64_t blocks = tier->current_blocks + tier->pinned_blocks + tier->empty_blocks;
    if (!is_block_size(tier->block_bytes))
        return not_block_size;
    for (size_t i = 0; i < file->tier_count; i++)
        if (file->tiers[i].block_bytes == tier->block_bytes)
            return "block_bytes: this tier was here before";
    if (__builtin_mul_overflow(blocks, tier->block_bytes, &held) || held != tier->held_bytes)
        return "held_bytes: not the size of the current, pinned and empty blocks";
    const uint64_t pinned = tier->pinned_blocks * tier->block_bytes; /* a part of held */
    if (tier->stranded_bytes > pinned)
        return "stranded_bytes: more than the pinned blocks have";
    if (tier->stranded_resident_bytes != UINT64_MAX && tier->stranded_resident_bytes > tier->stranded_bytes)
        return "stranded_resident_bytes: more than stranded_bytes";
    if (tier->pinned_live_bytes > pinned)
        return "pinned_live_bytes: more than the pinned blocks have";
    if (tier->sole_pinner_blocks > tier->pinned_blocks)
        return "sole_pinner_blocks: more than pinned_blocks";
    return NULL;
}

static const char *keep_tier(struct dump_file *file, const union any_record *record)
{
    const char *reason = check_tier(file, &record->tier);
    if (!reason)
        APPEND(file->tiers, file->tier_count, &record->tier);
    return reason;
}

static const char *keep_occupancy(struct dump_file *file, const union any_record *record)
{
    const struct dump_occupancy *occupancy = &record->occupancy;
    if (!is_block_size(occupancy->block_bytes))
        return not_block_size;
    if (occupancy->from_slices > occupancy->to_slices)
        return "to_slices: less than from_slices";
    APPEND(file->occupancies, file->occupancy_count, occupancy);
    return NULL;
}

static const char *keep_age(struct dump_file *file, const union any_record *record)
{
    const struct dump_age *age = &record->age;
    if (!is_block_size(age->block_bytes))
        return not_block_size;
    if (age->from_ms >= age->to_ms)
        return "to_ms: not more than from_ms";
    APPEND(file->ages, file->age_count, age);
    return NULL;
}

static const char *keep_block(struct dump_file *file, const union any_record *record)
{
    const struct dump_block *block = &record->block;
    if (!is_block_size(block->block_bytes))
        return not_block_size;
    if (block->live_bytes > block->block_bytes)
        return "live_bytes: more than block_bytes";
    if (block->stranded_bytes > block->block_bytes)
        return "stranded_bytes: more than block_bytes";
    APPEND(file->blocks, file->block_count, block);
    return NULL;
}

static const char *keep_thread(struct dump_file *file, const union any_record *record)
{
    APPEND(file->threads, file->thread_count, &record->thread);
    return NULL;
}

static const char *keep_counter(struct dump_file *file, const union any_record *record)
{
    const struct dump_counter *counter = &record->counter;
    if (counter->name[0] == '\0')
        return "name: missing";
    if (counter->block_bytes && !is_block_size(counter->block_bytes))
        return not_block_size;
    APPEND(file->counters, file->counter_count, counter);
    return NULL;
}

static const char *keep_map(struct dump_file *file, const union any_record *record)
{
    if (record->map.start >= record->map.end)
        return "end: not above start";
    APPEND(file->maps, file->map_count, &record->map);
    return NULL;
}

static const char *keep_end(struct dump_file *file, const union any_record *record)
{
    if (record->end.records == 0) /* the first line is one */
        return "records: 0";
    file->end = record->end;
    return NULL;
}

/* ---- One line ---- */

static const struct {
    const struct record_kind *kind;
    const char *(*keep)(struct dump_file *, const union any_record *); /* takes the texts when it is NULL */
} record_keepers[] = {
    {&record_header, keep_header}, {&record_memory, keep_memory},
    {&record_tier, keep_tier},     {&record_occupancy, keep_occupancy},
    {&record_age, keep_age},       {&record_block, keep_block},
    {&record_thread, keep_thread}, {&record_counter, keep_counter},
    {&record_map, keep_map},       {&record_end, keep_end},
};

/* The settings of the `dump` record: names and texts that are not known here either. */
static char *read_settings(struct dump_file *file, struct json_object *json)
{
    struct json_object *settings;
    if (!json_object_object_get_ex(json, "settings", &settings))
        return NULL;
    if (!json_object_is_type(settings, json_type_object))
        return must_copy_text("settings: not an object");
    json_object_object_foreach(settings, name, value)
    {
        const char *wrong = record_check_text(value);
        if (wrong)
            return must_format("settings: %.64s: %s", name, wrong);
        const struct dump_setting setting = {must_copy_text(name),
                                             must_copy_text(json_object_get_string(value))};
        APPEND(file->settings, file->setting_count, &setting);
    }
    return NULL;
}

/* Reads a record into the file. NULL, or the reason why it is none. */
static char *read_record(struct dump_file *file, const char *type, struct json_object *json)
{
    for (size_t i = 0; i < sizeof record_keepers / sizeof record_keepers[0]; i++) {
        const struct record_kind *kind = record_keepers[i].kind;
        if (strcmp(type, kind->type) != 0)
            continue;
        union any_record record;
        memset(&record, 0, sizeof record);
        char *reason = record_parse(kind, json, &record);
        if (!reason) {
            const char *wrong = record_keepers[i].keep(file, &record);
            reason = wrong ? must_copy_text(wrong) : NULL;
        }
        if (reason)
            record_free(kind, &record);
        else if (kind == &record_header)
            reason = read_settings(file, json);
        return reason;
    }
    return NULL; /* a later pinpool's */
}

/* NULL, and then *why says what is wrong. */
static struct json_object *parse_json(const char *line, size_t length, const char **why)
{
    struct json_tokener *tokener = json_tokener_new_ex(NESTING_MAX);
    if (!tokener)
        die("out of memory");
    json_tokener_set_flags(tokener, JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *json = json_tokener_parse_ex(tokener, line, (int)length);
    const enum json_tokener_error error = json_tokener_get_error(tokener);
    if (error != json_tokener_success)
        *why = error == json_tokener_continue ? "the line ends too early" : json_tokener_error_desc(error);
    else if (json_tokener_get_parse_end(tokener) != length)
        *why = "more than one value";
    else if (!json_object_is_type(json, json_type_object))
        *why = "another kind of value";
    else
        *why = NULL;
    json_tokener_free(tokener);
    if (!*why)
        return json;
    json_object_put(json);
    return NULL;
}

static char *read_line(struct dump_file *file, const char *line, size_t length, uint64_t number)
{
    const char *why;
    struct json_object *json = parse_json(line, length, &why);
    if (!json)
        return must_format("not a JSON object: %s", why);
    struct json_object *type_json;
    char *reason;
    const bool has_type =
        json_object_object_get_ex(json, "type", &type_json) && !record_check_text(type_json);
    const char *type = has_type ? json_object_get_string(type_json) : "";
    if (!has_type)
        reason = must_copy_text("type: missing");
    else if ((number == 1) != (strcmp(type, record_header.type) == 0))
        reason = must_copy_text(number == 1 ? "not a pinpool dump: it begins with another record"
                                            : "a second dump begins here");
    else
        reason = read_record(file, type, json);
    json_object_put(json);
    return reason;
}

/* ---- The file ---- */

enum line_end { LINE_WHOLE, LINE_CUT, LINE_NONE, LINE_TOO_LONG, LINE_TOO_FAR, LINE_ERROR };

struct line {
    char *bytes;
    size_t length;
    size_t file_bytes; /* read so far: a pipe has no size, and a file may grow */
};

/* Reads one line without its newline. It is bounded: the file may be anything, even without an end. */
static enum line_end get_line(FILE *stream, struct line *line)
{
    line->length = 0;
    for (int byte; (byte = getc_unlocked(stream)) != EOF;) {
        if (++line->file_bytes > FILE_BYTES_MAX)
            return LINE_TOO_FAR;
        if (byte == '\n')
            return LINE_WHOLE;
        if (line->length == LINE_BYTES_MAX)
            return LINE_TOO_LONG;
        line->bytes = must_grow(line->bytes, line->length, 1);
        line->bytes[line->length++] = (char)byte;
    }
    if (ferror(stream))
        return LINE_ERROR;
    return line->length ? LINE_CUT : LINE_NONE;
}

static bool has_end(const struct dump_file *file)
{
    return file->end.records != 0;
}

static const char size_limit[] = ", the most that a dump has";

static char *check_line(struct dump_file *file, enum line_end end, const struct line *line, uint64_t number)
{
    char size[UTIL_TEXT_MAX];
    if (end == LINE_TOO_FAR)
        return must_format("Is larger than %s%s", format_size(size, FILE_BYTES_MAX), size_limit);
    if (number > LINES_MAX)
        return must_format("more lines than a dump has (%d)", LINES_MAX);
    if (end == LINE_TOO_LONG)
        return must_copy_text("longer than any line of a dump");
    if (has_end(file))
        return must_copy_text("something follows the end record");
    return read_line(file, line->length ? line->bytes : "", line->length, number);
}

/* What it means that the file ends here. */
static char *check_end(struct dump_file *file, uint64_t lines)
{
    if (lines == 0)
        return must_format("%s: empty", file->path);
    if (!has_end(file))
        file->damage = must_format("cut after line %" PRIu64, lines);
    else if (file->end.records != lines - 1)
        file->damage =
            must_format("the end record counts %" PRIu64 " lines before it, but there are %" PRIu64,
                        file->end.records, lines - 1);
    return NULL;
}

static char *read_lines(struct dump_file *file, FILE *stream, struct line *line)
{
    for (uint64_t number = 1;; number++) {
        errno = 0;
        const enum line_end end = get_line(stream, line);
        if (end == LINE_NONE)
            return check_end(file, number - 1);
        if (end == LINE_ERROR)
            return must_format("%s: %s", file->path, strerror(errno));
        CLEANUP_FREE char *reason = check_line(file, end, line, number);
        if (reason && end == LINE_CUT && number > 1) {
            file->damage = must_format("cut in line %" PRIu64, number);
            return NULL;
        }
        if (reason)
            return must_format("%s:%" PRIu64 ": %s", file->path, number, reason);
    }
}

/* Opens the file; NULL, and then *reason says why not. */
static FILE *open_dump(const char *path, char **reason)
{
    struct stat file;
    *reason = NULL;
    if (strcmp(path, "-") == 0)
        return stdin;
    FILE *stream = open_regular_stream(path, FILE_BYTES_MAX, reason);
    if (stream)
        return stream;
    CLEANUP_FREE char *why = *reason;
    const char *hint = "";
    if (stat(path, &file) != 0)
        file.st_mode = 0;
    if (S_ISREG(file.st_mode) && file.st_size > FILE_BYTES_MAX)
        hint = size_limit;
    else if (S_ISFIFO(file.st_mode) || S_ISCHR(file.st_mode))
        hint = "; use - for standard input";
    *reason = must_format("%s: %s%s", path, why, hint);
    return NULL;
}

char *reader_load(struct dump_file *file, const char *path)
{
    char *reason;
    *file = (struct dump_file){.path = must_copy_text(path)};
    CLEANUP_FCLOSE FILE *stream = open_dump(path, &reason);
    struct line line = {NULL, 0, 0};
    if (stream)
        reason = read_lines(file, stream, &line);
    free(line.bytes);
    if (reason)
        reader_free(file);
    return reason;
}

#define FREE_RECORDS(kind, items, count)                                                                     \
    do {                                                                                                     \
        for (size_t at = 0; at < (count); at++)                                                              \
            record_free((kind), &(items)[at]);                                                               \
        free(items);                                                                                         \
    } while (0)

void reader_free(struct dump_file *file)
{
    record_free(&record_header, &file->header);
    FREE_RECORDS(&record_tier, file->tiers, file->tier_count);
    FREE_RECORDS(&record_occupancy, file->occupancies, file->occupancy_count);
    FREE_RECORDS(&record_age, file->ages, file->age_count);
    FREE_RECORDS(&record_block, file->blocks, file->block_count);
    FREE_RECORDS(&record_thread, file->threads, file->thread_count);
    FREE_RECORDS(&record_counter, file->counters, file->counter_count);
    FREE_RECORDS(&record_map, file->maps, file->map_count);
    for (size_t i = 0; i < file->setting_count; i++) {
        free(file->settings[i].name);
        free(file->settings[i].value);
    }
    free(file->settings);
    free(file->damage);
    free(file->path);
    *file = (struct dump_file){0};
}

/* ---- A file that is being written ---- */

enum { TAIL_BYTES = 4096 }; /* an end record is far shorter */

/* Counts the lines of a file and keeps its last bytes, which it returns the number of. -1: not readable. */
static ssize_t read_tail(int fd, char tail[2 * TAIL_BYTES], uint64_t *lines)
{
    struct stat file;
    size_t kept = 0;
    *lines = 0;
    if (fstat(fd, &file) != 0 || file.st_size > FILE_BYTES_MAX || lseek(fd, 0, SEEK_SET) < 0)
        return -1;
    for (ssize_t got; (got = read(fd, tail + kept, TAIL_BYTES)) != 0;) {
        if (got < 0)
            return -1;
        for (ssize_t i = 0; i < got; i++)
            *lines += tail[kept + (size_t)i] == '\n';
        kept += (size_t)got;
        if (kept > TAIL_BYTES) { /* leave room for the next read */
            memmove(tail, tail + kept - TAIL_BYTES, TAIL_BYTES);
            kept = TAIL_BYTES;
        }
    }
    return (ssize_t)kept;
}

static bool is_end_record(const char *line, size_t length, uint64_t lines_before)
{
    const char *why;
    struct json_object *json = parse_json(line, length, &why);
    struct json_object *type, *records;
    const bool is_whole = json && json_object_object_get_ex(json, "type", &type) &&
                          json_object_is_type(type, json_type_string) &&
                          strcmp(json_object_get_string(type), record_end.type) == 0 &&
                          json_object_object_get_ex(json, "records", &records) &&
                          json_object_is_type(records, json_type_int) &&
                          json_object_get_uint64(records) == lines_before;
    json_object_put(json);
    return is_whole;
}

bool reader_is_whole(int fd)
{
    char tail[2 * TAIL_BYTES];
    uint64_t lines;
    const ssize_t bytes = read_tail(fd, tail, &lines);
    if (lines < 2 || bytes < 2 || tail[bytes - 1] != '\n')
        return false;
    const size_t length = (size_t)bytes - 1;
    const char *newline_before = memrchr(tail, '\n', length);
    if (!newline_before)
        return false;
    const char *line = newline_before + 1;
    return is_end_record(line, length - (size_t)(line - tail), lines - 1);
}
