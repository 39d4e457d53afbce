/* SPDX-License-Identifier: MIT */
/*
 * check_dump: reads dumps (src/base/dump.def says what is in them) and tells what does not add up.
 *
 *   check_dump [--expect FILE | --expect-line TEXT]... DUMP...
 *
 * Every dump must be whole, have the fields of format 1, the name that fits its pid and seq, mode
 * 0600, and sums that agree. Each expectation is one line
 *
 *   KIND [FIELD=VALUE]... FIELD OPERATOR NUMBER            OPERATOR: = <= >=
 *
 * and is compared with the sum of FIELD over all records of that kind that have those values (0
 * when there is none): "tier block_bytes=8192 pinned_blocks = 37", "memory heaps <= 60".
 *
 * Prints a line for each thing wrong. Exit status: 0 nothing, 1 something, 2 usage.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXPECTATIONS_MAX = 4096, TIERS_MAX = 4 };

/* The fields each kind must have; names beginning with '$' are texts, '{' objects, others integers. */
struct kind {
    const char *name;
    const char *fields;
    size_t at_least; /* records a dump */
};

static const struct kind kinds[] = {
    {"dump",
     "format $version pid seq $reason time_unix_ns uptime_ns $exe page_bytes $kernel $thp $next {settings",
     1},
    {"memory", "reserved_bytes chunks metadata_bytes heaps", 1},
    {"tier",
     "block_bytes granule_bytes min_request_bytes max_request_bytes current_blocks pinned_blocks "
     "empty_blocks "
     "released_blocks live_slices live_bytes cached_bytes pinned_live_bytes sole_pinner_blocks "
     "stranded_bytes "
     "stranded_resident_bytes held_bytes",
     1},
    {"occupancy", "block_bytes from_slices to_slices blocks stranded_bytes", 0},
    {"age", "block_bytes from_ms blocks stranded_bytes", 0},
    {"block",
     "block_bytes $address heap live_slices live_bytes stranded_bytes stranded_resident_bytes age_ms", 0},
    {"thread", "heap tid $state held_bytes pinned_blocks live_bytes stranded_bytes", 0},
    {"counter", "$name $unit value", 1},
    {"map", "$start $end offset_bytes $build_id $path", 0}, /* none without /proc */
    {"end", "records duration_ns", 1},
};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

/* One dump in memory: an array of its objects. */
struct dump {
    const char *path;
    json_object **records;
    size_t count, room;
};

static const char *expectations[EXPECTATIONS_MAX];
static size_t expectation_count;
static unsigned wrong_count;

static void wrong(const struct dump *dump, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Line 0: the whole file. */
static void wrong(const struct dump *dump, size_t line, const char *format, ...)
{
    va_list arguments;

    if (line > 0)
        printf("%s:%zu: ", dump->path, line);
    else
        printf("%s: ", dump->path);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    wrong_count++;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "check_dump: %s: %s\n", what, strerror(errno));
    exit(2);
}

static const char *text_of(const json_object *record, const char *field)
{
    const char *text = json_object_get_string(json_object_object_get(record, field));

    return text == NULL ? "" : text;
}

static uint64_t number_of(const json_object *record, const char *field)
{
    json_object *value = json_object_object_get(record, field);

    return value == NULL ? 0 : json_object_get_uint64(value);
}

static const struct kind *kind_of(const json_object *record)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(kinds[i].name, text_of(record, "type")) == 0)
            return &kinds[i];
    return NULL;
}

/*
 * Under a system call filter a dump leaves out what only special calls tell, and says so in its first line.
 */
static bool is_left_out(const struct dump *dump, const char *listed, size_t length)
{
    static const char resident[] = "stranded_resident_bytes";

    return dump->count > 0 && number_of(dump->records[0], "filtered") == 1 && length == sizeof resident - 1 &&
           strncmp(listed, resident, length) == 0;
}

/* Whether a field of the list ("$exe", "{settings", "pid") is there with its type. */
static bool has_field(const json_object *record, const char *listed, size_t length)
{
    bool is_marked = listed[0] == '$' || listed[0] == '{';
    enum json_type type = listed[0] == '$'   ? json_type_string
                          : listed[0] == '{' ? json_type_object
                                             : json_type_int;
    char name[64];
    json_object *value;

    snprintf(name, sizeof name, "%.*s", (int)(length - is_marked), listed + is_marked);
    return json_object_object_get_ex(record, name, &value) && json_object_is_type(value, type);
}

static void check_fields(const struct dump *dump, size_t line, const json_object *record)
{
    const struct kind *kind = kind_of(record);

    if (kind == NULL) {
        wrong(dump, line, "unknown kind \"%s\"", text_of(record, "type"));
        return;
    }
    for (const char *at = kind->fields; *at != '\0';) {
        size_t length = strcspn(at, " ");

        if (!has_field(record, at, length) && !is_left_out(dump, at, length))
            wrong(dump, line, "%s lacks the field %.*s, or it has another type", kind->name, (int)length, at);
        at += length + (at[length] == ' ');
    }
}

static void add_record(struct dump *dump, json_object *record)
{
    if (dump->count == dump->room) {
        dump->room = dump->room == 0 ? 256 : dump->room * 2;
        dump->records = realloc(dump->records, dump->room * sizeof *dump->records);
        if (dump->records == NULL)
            die("memory");
    }
    dump->records[dump->count++] = record;
}

/* False when the file is not lines of JSON objects: nothing else of it can be judged then. */
static bool read_dump(struct dump *dump)
{
    FILE *file = fopen(dump->path, "r");
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    bool is_good = true;

    if (file == NULL)
        die(dump->path);
    while (is_good && (length = getline(&text, &room, file)) > 0) {
        enum json_tokener_error error;
        json_object *record = json_tokener_parse_verbose(text, &error);

        is_good = json_object_is_type(record, json_type_object) && text[length - 1] == '\n';
        if (!is_good)
            wrong(dump, dump->count + 1, "not one whole JSON object: %s", json_tokener_error_desc(error));
        add_record(dump, record);
    }
    free(text);
    fclose(file);
    return is_good;
}

/* The sum of a field over the records of a kind, of one block size or (0) of all. */
static uint64_t sum(const struct dump *dump, const char *kind, uint64_t block_bytes, const char *field)
{
    uint64_t total = 0;

    for (size_t i = 0; i < dump->count; i++)
        if (strcmp(text_of(dump->records[i], "type"), kind) == 0 &&
            (block_bytes == 0 || number_of(dump->records[i], "block_bytes") == block_bytes))
            total += number_of(dump->records[i], field);
    return total;
}

static size_t count(const struct dump *dump, const char *kind)
{
    size_t total = 0;

    for (size_t i = 0; i < dump->count; i++)
        total += strcmp(text_of(dump->records[i], "type"), kind) == 0;
    return total;
}

static void check_equal(const struct dump *dump, const char *what, uint64_t block_bytes, uint64_t left,
                        uint64_t right)
{
    if (left != right)
        wrong(dump, 0, "tier %" PRIu64 ": %s: %" PRIu64 " is not %" PRIu64, block_bytes, what, left, right);
}

static uint64_t sole_pinners(const struct dump *dump, uint64_t block_bytes)
{
    uint64_t blocks = 0;

    for (size_t i = 0; i < dump->count; i++)
        if (strcmp(text_of(dump->records[i], "type"), "occupancy") == 0 &&
            number_of(dump->records[i], "block_bytes") == block_bytes &&
            number_of(dump->records[i], "to_slices") == 1)
            blocks += number_of(dump->records[i], "blocks");
    return blocks;
}

/* The value of a counter of one tier. */
static uint64_t tier_counter(const struct dump *dump, uint64_t block_bytes, const char *name)
{
    for (size_t i = 0; i < dump->count; i++)
        if (number_of(dump->records[i], "block_bytes") == block_bytes &&
            strcmp(text_of(dump->records[i], "name"), name) == 0)
            return number_of(dump->records[i], "value");
    return 0;
}

/*
 * No block can have taken longer to become empty than the process lives. The counters are read while they
 * grow, and blocks may have been retired before the clock of `uptime_ns` was started: so with a margin, far
 * below the 1.8e13 ms of a difference that went below zero.
 */
static void check_time_to_emptiness(const struct dump *dump, uint64_t block_bytes)
{
    uint64_t uptime_ms = sum(dump, "dump", 0, "uptime_ns") / 1000000;
    uint64_t blocks = tier_counter(dump, block_bytes, "emptied_blocks");
    uint64_t after_ms = tier_counter(dump, block_bytes, "emptied_after_ms");

    if (after_ms > (blocks + 1000) * (uptime_ms + 1000))
        wrong(dump, 0,
              "tier %" PRIu64 ": %" PRIu64 " blocks were emptied after %" PRIu64 " ms, in %" PRIu64 " ms",
              block_bytes, blocks, after_ms, uptime_ms);
}

/* The equations of one tier: see dump.h, and the words in the design. */
static void check_tier(const struct dump *dump, const json_object *tier)
{
    uint64_t block_bytes = number_of(tier, "block_bytes");
    uint64_t pinned = number_of(tier, "pinned_blocks");
    uint64_t stranded = number_of(tier, "stranded_bytes");
    uint64_t used = number_of(tier, "current_blocks") + pinned + number_of(tier, "empty_blocks");

    check_equal(dump, "held_bytes = (current + pinned + empty) * block_bytes", block_bytes,
                number_of(tier, "held_bytes"), used * block_bytes);
    check_equal(dump, "stranded_bytes = pinned_blocks * block_bytes - pinned_live_bytes", block_bytes,
                stranded, pinned * block_bytes - number_of(tier, "pinned_live_bytes"));
    check_equal(dump, "granule_bytes * 64 = block_bytes", block_bytes, number_of(tier, "granule_bytes") * 64,
                block_bytes);
    check_equal(dump, "max_request_bytes * 2 = block_bytes", block_bytes,
                number_of(tier, "max_request_bytes") * 2, block_bytes);
    check_equal(dump, "blocks of occupancy = pinned_blocks", block_bytes,
                sum(dump, "occupancy", block_bytes, "blocks"), pinned);
    check_equal(dump, "stranded_bytes of occupancy = stranded_bytes", block_bytes,
                sum(dump, "occupancy", block_bytes, "stranded_bytes"), stranded);
    check_equal(dump, "blocks of age = pinned_blocks", block_bytes, sum(dump, "age", block_bytes, "blocks"),
                pinned);
    check_equal(dump, "stranded_bytes of age = stranded_bytes", block_bytes,
                sum(dump, "age", block_bytes, "stranded_bytes"), stranded);
    check_equal(dump, "occupancy of one slice = sole_pinner_blocks", block_bytes,
                sole_pinners(dump, block_bytes), number_of(tier, "sole_pinner_blocks"));
    if (number_of(tier, "stranded_resident_bytes") > stranded)
        wrong(dump, 0, "tier %" PRIu64 ": more stranded bytes resident than there are", block_bytes);
    if (number_of(tier, "pinned_live_bytes") > number_of(tier, "live_bytes"))
        wrong(dump, 0, "tier %" PRIu64 ": more live bytes pinned than there are", block_bytes);
    if (number_of(tier, "live_bytes") > used * block_bytes)
        wrong(dump, 0, "tier %" PRIu64 ": more live bytes than blocks hold", block_bytes);
    check_time_to_emptiness(dump, block_bytes);
}

/* Block records: each is a pinned block of its own, the worst first, and no more than there are. */
static void check_blocks(const struct dump *dump)
{
    uint64_t last = UINT64_MAX;

    for (size_t i = 0; i < dump->count; i++) {
        const json_object *record = dump->records[i];
        uint64_t stranded;

        if (strcmp(text_of(record, "type"), "block") != 0)
            continue;
        stranded = number_of(record, "stranded_bytes");
        if (stranded > last)
            wrong(dump, i + 1, "a worse block after a better one");
        if (stranded + number_of(record, "live_bytes") != number_of(record, "block_bytes"))
            wrong(dump, i + 1, "stranded_bytes + live_bytes is not block_bytes");
        if (number_of(record, "live_slices") == 0)
            wrong(dump, i + 1, "a block without a live slice is not pinned");
        last = stranded;
    }
    if (count(dump, "block") > sum(dump, "tier", 0, "pinned_blocks"))
        wrong(dump, 0, "more block records than pinned blocks");
}

static void check_threads(const struct dump *dump)
{
    static const char *const fields[] = {"pinned_blocks", "stranded_bytes"};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (sum(dump, "thread", 0, fields[i]) > sum(dump, "tier", 0, fields[i]))
            wrong(dump, 0, "the threads' %s are more than the tiers'", fields[i]);
}

/* The name, the mode, the first and the last record. */
static void check_frame(const struct dump *dump)
{
    const json_object *first = dump->records[0], *last = dump->records[dump->count - 1];
    const char *slash = strrchr(dump->path, '/');
    char name[128];
    struct stat status;

    if (strcmp(text_of(first, "type"), "dump") != 0 || number_of(first, "format") != 1)
        wrong(dump, 1, "does not begin with a dump record of format 1");
    if (strcmp(text_of(last, "type"), "end") != 0)
        wrong(dump, dump->count, "does not end with an end record: it was cut");
    else if (number_of(last, "records") != dump->count - 1)
        wrong(dump, dump->count, "says %" PRIu64 " records, has %zu before", number_of(last, "records"),
              dump->count - 1);
    snprintf(name, sizeof name, "pinpool.%" PRIu64 ".%" PRIu64 ".jsonl", number_of(first, "pid"),
             number_of(first, "seq"));
    if (strcmp(name, slash == NULL ? dump->path : slash + 1) != 0)
        wrong(dump, 1, "is from %s", name);
    if (stat(dump->path, &status) != 0)
        die(dump->path);
    if ((status.st_mode & 07777) != 0600)
        wrong(dump, 0, "has mode %04o", (unsigned)(status.st_mode & 07777));
}

/* "FIELD=VALUE": does the record have it? */
static bool has_value(const json_object *record, const char *condition)
{
    char field[64];
    size_t length = strcspn(condition, "=");

    snprintf(field, sizeof field, "%.*s", (int)length, condition);
    return strcmp(text_of(record, field), condition + length + 1) == 0;
}

/* An expectation taken apart, in place. */
struct expectation {
    const char *kind, *conditions[4], *field, *relation;
    size_t condition_count;
    uint64_t number;
};

static struct expectation parse_expectation(char *line)
{
    struct expectation expectation = {0};
    char *state, *word = strtok_r(line, " ", &state);

    expectation.kind = word;
    while ((word = strtok_r(NULL, " ", &state)) != NULL && strchr(word, '=') != NULL &&
           expectation.condition_count < 4)
        expectation.conditions[expectation.condition_count++] = word;
    expectation.field = word;
    expectation.relation = word == NULL ? NULL : strtok_r(NULL, " ", &state);
    word = expectation.relation == NULL ? NULL : strtok_r(NULL, " ", &state);
    if (word == NULL || strspn(word, "0123456789") != strlen(word) || strtok_r(NULL, " ", &state) != NULL) {
        fprintf(stderr, "check_dump: not an expectation: %s...\n", line);
        exit(2);
    }
    expectation.number = strtoull(word, NULL, 10);
    return expectation;
}

static bool is_met(const struct expectation *expectation, uint64_t number)
{
    if (strcmp(expectation->relation, "=") == 0)
        return number == expectation->number;
    if (strcmp(expectation->relation, "<=") == 0)
        return number <= expectation->number;
    return strcmp(expectation->relation, ">=") == 0 && number >= expectation->number;
}

static void check_expectation(const struct dump *dump, const char *text)
{
    char *line = strdup(text);
    struct expectation expectation = parse_expectation(line);
    uint64_t total = 0;

    for (size_t i = 0; i < dump->count; i++) {
        bool is_selected = strcmp(text_of(dump->records[i], "type"), expectation.kind) == 0;

        for (size_t k = 0; k < expectation.condition_count && is_selected; k++)
            is_selected = has_value(dump->records[i], expectation.conditions[k]);
        if (is_selected)
            total += number_of(dump->records[i], expectation.field);
    }
    if (!is_met(&expectation, total))
        wrong(dump, 0, "expected %s, found %" PRIu64, text, total);
    free(line);
}

static void check_dump(const char *path)
{
    struct dump dump = {.path = path};

    if (!read_dump(&dump)) {
        /* said already */
    } else if (dump.count == 0) {
        wrong(&dump, 0, "is empty");
    } else {
        check_frame(&dump);
        for (size_t i = 0; i < dump.count; i++)
            check_fields(&dump, i + 1, dump.records[i]);
        for (size_t i = 0; i < KIND_COUNT; i++)
            if (count(&dump, kinds[i].name) < kinds[i].at_least)
                wrong(&dump, 0, "has no %s record", kinds[i].name);
        for (size_t i = 0; i < dump.count; i++)
            if (strcmp(text_of(dump.records[i], "type"), "tier") == 0)
                check_tier(&dump, dump.records[i]);
        check_blocks(&dump);
        check_threads(&dump);
        for (size_t i = 0; i < expectation_count; i++)
            check_expectation(&dump, expectations[i]);
    }
    for (size_t i = 0; i < dump.count; i++)
        json_object_put(dump.records[i]);
    free(dump.records);
}

static void expect(const char *line)
{
    if (expectation_count == EXPECTATIONS_MAX) {
        fprintf(stderr, "check_dump: more than %d expectations\n", EXPECTATIONS_MAX);
        exit(2);
    }
    expectations[expectation_count++] = line;
}

static void expect_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    if (file == NULL)
        die(path);
    while ((length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        expect(strdup(line));
    }
    free(line);
    fclose(file);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"expect", required_argument, NULL, 'e'},
                                            {"expect-line", required_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    static const char usage[] = "usage: check_dump [--expect FILE | --expect-line TEXT]... DUMP...\n";
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'e')
            expect_file(optarg);
        else if (option == 'l')
            expect(optarg);
        else
            return fputs(usage, option == 'h' ? stdout : stderr), option == 'h' ? 0 : 2;
    }
    if (optind == argc)
        return fputs(usage, stderr), 2;
    for (int i = optind; i < argc; i++)
        check_dump(argv[i]);
    return wrong_count == 0 ? 0 : 1;
}
