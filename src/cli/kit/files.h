/* SPDX-License-Identifier: MIT */
/* files: files and directories of a comparison. Results are there whole or not at all. */
#ifndef PINPOOL_CLI_KIT_FILES_H
#define PINPOOL_CLI_KIT_FILES_H

#include <stdbool.h>
#include <stdio.h>

/* Removes a directory and all that is in it, if it is there. Follows no symbolic link. */
void files_remove_directory(const char *path);

/* Makes a directory, and what is missing above it. Returns NULL or why not, to be freed. */
char *files_make_directory(const char *path);

/* The first line of a file, of /proc too, without its newline. False, and errno, when there is none. */
bool files_read_line(const char *path, char *line, size_t line_bytes);

/* The end of a regular file, at most bytes_max of it, and a NUL, to be freed; NULL, and errno, if not. */
char *files_read_end(const char *path, size_t bytes_max, size_t *length);

/* The last few hundred bytes of a file, printable; "" when there are none. To be freed. */
char *files_read_tail(const char *path);

/* Copies a file. Returns NULL or why not, to be freed. */
char *files_copy(const char *from, const char *to);

/* A result that is being written, in memory till it is whole. */
struct result_file {
    FILE *file;
    char *text;
    size_t bytes;
    char *path;
};

struct result_file *files_open_result(const char *directory, const char *name);

/* The file is there now, whole, or the tool ends: what it measured is in runs.jsonl. Frees the result. */
void files_close_result(struct result_file *result);

/* Whether nothing more fits onto the file system that holds `path`. */
bool files_is_disk_full(const char *path);

#endif
