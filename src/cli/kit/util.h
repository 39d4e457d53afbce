/* SPDX-License-Identifier: MIT */
/*
 * util: what every command of the tool needs. Ending with a sentence, memory that is there or the
 * tool ends, cleanup at the end of a scope, sizes and times as a person reads them.
 *
 * Text that came from outside (file names in a dump, a process's name) goes to a terminal only
 * through text_printable(): it may hold escape sequences. die() and warn_user() see to it themselves.
 */
#ifndef PINPOOL_CLI_KIT_UTIL_H
#define PINPOOL_CLI_KIT_UTIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/base.h"

/* What the tool exits with. EXIT_FAILURE and EXIT_SUCCESS are the other two. */
enum { EXIT_USAGE = 2 };

#define PRINTF_LIKE(format_at, arguments_at) __attribute__((format(printf, format_at, arguments_at)))

void util_free(void *pointer_to_pointer);
void util_close(const int *fd);
void util_fclose(FILE **file);

/* Declarations that undo themselves at the end of their scope. */
#define CLEANUP_FREE __attribute__((cleanup(util_free)))
#define CLEANUP_CLOSE __attribute__((cleanup(util_close)))
#define CLEANUP_FCLOSE __attribute__((cleanup(util_fclose)))

/*
 * "pinpool: " and the sentence on stderr, on one line and printable whatever it quotes; exit status 1. By
 * convention "what: why".
 */
_Noreturn void die(const char *format, ...) PRINTF_LIKE(1, 2);

/* The same with another exit status, for `run`, which ends as shells do. */
_Noreturn void die_with_status(int status, const char *format, ...) PRINTF_LIKE(2, 3);

/* "pinpool: " and the sentence on stderr, and on we go. */
void warn_user(const char *format, ...) PRINTF_LIKE(1, 2);

/* Registered with atexit: output that did not reach its file must not look like success. */
void close_stdout_or_fail(void);

/* Pushes what was printed out to stdout's file, for output that is followed live. */
void flush_stdout_or_fail(void);

/* Memory or the end of the tool. Zeroed where it is new. */
void *must_allocate(size_t bytes);
char *must_copy_text(const char *text);
char *must_format(const char *format, ...) PRINTF_LIKE(1, 2);
char *must_format_list(const char *format, va_list arguments) PRINTF_LIKE(1, 0);

/*
 * Room for one more item in an array of `count` items that only this function has grown: returns
 * the array, moved when `count` is a power of two. The new item is not initialised.
 */
void *must_grow(void *items, size_t count, size_t item_bytes);

enum { UTIL_TEXT_MAX = 32 };

/* 53687091 -> "51.2 MiB". Returns `text`, so that it fits into an argument list. */
const char *format_bytes(char text[UTIL_TEXT_MAX], uint64_t bytes);

/* Sizes that are whole: 65536 -> "64 KiB", 1025 -> "1025 B". */
const char *format_size(char text[UTIL_TEXT_MAX], uint64_t bytes);

/* 7380000 -> "2 h 03 min". */
const char *format_ms(char text[UTIL_TEXT_MAX], uint64_t ms);

/*
 * A copy in which control characters and bytes that are not UTF-8 are written \xNN, and characters that move
 * others about (U+202E) are "?". To be freed. A second time it changes nothing.
 */
char *text_printable(const char *text);

/* Whether it is UTF-8 from end to end, whatever characters it has. */
bool text_is_utf8(const char *text);

#define TEXT_NO_CODE UINT32_MAX

/* The number of the character at *text, and on to the next; TEXT_NO_CODE for a byte that is not UTF-8. */
uint32_t text_next_code(const char **text);

/* Control characters (C0, DEL, C1), and those that only move others about. */
bool text_is_control(uint32_t code);
bool text_is_layout(uint32_t code);

/*
 * Opens a file for reading that somebody named, or that lies where others can write. It never waits, as
 * open() does for a FIFO, and reads nothing: a FIFO, a socket, a device, a directory and a file of more than
 * `bytes_max` are refused. Returns the descriptor, or -1, and then *reason says why not ("Is a FIFO"), to be
 * freed.
 */
int open_regular_file(const char *path, uint64_t bytes_max, char **reason);

/* The same as a stream; NULL instead of -1. */
FILE *open_regular_stream(const char *path, uint64_t bytes_max, char **reason);

/* Whole decimal text -> process id. False when it is none. */
bool parse_pid(const char *text, pid_t *pid);

/* Whole decimal text -> number of at most `max`. */
bool parse_count(const char *text, uint64_t max, uint64_t *count);

/* "2", "0.25" seconds -> ns; more than zero and at most a year. */
bool parse_seconds(const char *text, uint64_t *ns);

/* CLOCK_MONOTONIC and CLOCK_REALTIME in ns. */
uint64_t now_monotonic_ns(void);
uint64_t now_unix_ns(void);

/*
 * The path from the root, to be freed. Symbolic links stay: a link's name may be the one that LD_PRELOAD can
 * hold. Ends the tool when the current directory cannot be known.
 */
char *must_absolute_path(const char *path);

#endif
