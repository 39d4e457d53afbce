/* SPDX-License-Identifier: MIT */
/*
 * reader: a dump file as lists of records. src/base/dump.def has the format.
 *
 * A dump is untrusted: a line that cannot be right is an error that names file and line, and so are more
 * bytes and lines than any dump has. Kinds of record that are not known here are skipped. A file that stops
 * early, as one does when the disk is full, is read as far as it goes, and `damage` says so.
 */
#ifndef PINPOOL_CLI_DUMPFILE_READER_H
#define PINPOOL_CLI_DUMPFILE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/dumpfile/record.h"

struct dump_setting {
    char *name; /* PINPOOL_POOLS */
    char *value;
};

struct dump_file {
    char *path; /* as it was given */
    struct dump_header header;
    struct dump_memory memory;
    struct dump_setting *settings;
    size_t setting_count;
    struct dump_tier *tiers; /* one for each block size at most */
    size_t tier_count;
    struct dump_occupancy *occupancies;
    size_t occupancy_count;
    struct dump_age *ages;
    size_t age_count;
    struct dump_block *blocks;
    size_t block_count;
    struct dump_thread *threads;
    size_t thread_count;
    struct dump_counter *counters;
    size_t counter_count;
    struct dump_map *maps;
    size_t map_count;
    struct dump_end end;
    char *damage; /* why it is not whole; NULL when it is */
};

/*
 * Reads `path`, or standard input for "-"; what is neither that nor a file is refused, not waited for.
 * Returns NULL, or why not, "FILE:LINE: field: reason", to be freed; *file is empty then. A file without its
 * end is no error: see `damage`.
 */
char *reader_load(struct dump_file *file, const char *path);
void reader_free(struct dump_file *file);

/*
 * Whether the open file ends with an `end` record that counts the lines before it. It looks at
 * nothing else, so it is for a file that is just being written. A file larger than a dump is none. Moves the
 * file's position.
 */
bool reader_is_whole(int fd);

#endif
