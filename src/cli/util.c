/* SPDX-License-Identifier: MIT */
/* util: see util.h. */
#include "cli/util.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000, SECONDS_MAX = 366 * 24 * 3600 };

void util_free(void *pointer_to_pointer)
{
    /* By memcpy, because the variable is a char * as often as a struct pointer. */
    void *memory;
    memcpy(&memory, pointer_to_pointer, sizeof memory);
    free(memory);
}

void util_close(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

void util_fclose(FILE **file)
{
    if (*file && *file != stdin)
        fclose(*file);
}

static void PRINTF_LIKE(1, 0) say(const char *format, va_list arguments)
{
    /* What stdout holds was said before. A failure is found again when it is closed. */
    fflush(stdout);
    fputs("pinpool: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

_Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

_Noreturn void die_with_status(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    exit(status);
}

void warn_user(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

static _Noreturn void fail_stdout(int error)
{
    fprintf(stderr, "pinpool: standard output: %s\n", error ? strerror(error) : "write error");
    _exit(EXIT_FAILURE);
}

void flush_stdout_or_fail(void)
{
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        fail_stdout(errno);
}

void close_stdout_or_fail(void)
{
    /* A stdout that was closed from the start is no error for a command that wrote nothing. */
    const bool unwritten = __fpending(stdout) != 0;
    const bool failed_before = ferror(stdout) != 0;
    errno = 0;
    const bool failed_now = fclose(stdout) != 0;
    if (failed_before || (failed_now && (unwritten || errno != EBADF)))
        fail_stdout(errno);
}

void *must_allocate(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        die("out of memory");
    return memory;
}

char *must_copy_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        die("out of memory");
    return copy;
}

char *must_format_list(const char *format, va_list arguments)
{
    char *text;
    if (vasprintf(&text, format, arguments) < 0)
        die("out of memory");
    return text;
}

char *must_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = must_format_list(format, arguments);
    va_end(arguments);
    return text;
}

void *must_grow(void *items, size_t count, size_t item_bytes)
{
    const bool is_full = (count & (count - 1)) == 0; /* 0 and the powers of two */
    if (!is_full)
        return items;
    size_t bytes;
    if (__builtin_mul_overflow(count ? 2 * count : 1, item_bytes, &bytes))
        die("out of memory");
    void *moved = realloc(items, bytes);
    if (!moved)
        die("out of memory");
    return moved;
}

static const char *const byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

const char *format_bytes(char text[UTIL_TEXT_MAX], uint64_t bytes)
{
    if (bytes < 1024) {
        snprintf(text, UTIL_TEXT_MAX, "%u B", (unsigned)bytes);
        return text;
    }
    double amount = (double)bytes;
    unsigned unit = 0;
    while (amount >= 1023.95) { /* what "%.1f" would print as 1024.0 */
        amount /= 1024;
        unit++;
    }
    snprintf(text, UTIL_TEXT_MAX, "%.1f %s", amount, byte_units[unit]);
    return text;
}

const char *format_size(char text[UTIL_TEXT_MAX], uint64_t bytes)
{
    unsigned unit = 0;
    while (bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, UTIL_TEXT_MAX, "%llu %s", (unsigned long long)bytes, byte_units[unit]);
    return text;
}

const char *format_ms(char text[UTIL_TEXT_MAX], uint64_t ms)
{
    const unsigned long long s = ms / 1000;
    if (ms < 1000)
        snprintf(text, UTIL_TEXT_MAX, "%u ms", (unsigned)ms);
    else if (s < 60 && ms % 1000 == 0)
        snprintf(text, UTIL_TEXT_MAX, "%llu s", s);
    else if (s < 60)
        snprintf(text, UTIL_TEXT_MAX, "%llu.%u s", s, (unsigned)(ms % 1000 / 100));
    else if (s < 3600)
        snprintf(text, UTIL_TEXT_MAX, "%llu min %02llu s", s / 60, s % 60);
    else if (s < 48 * 3600)
        snprintf(text, UTIL_TEXT_MAX, "%llu h %02llu min", s / 3600, s / 60 % 60);
    else
        snprintf(text, UTIL_TEXT_MAX, "%llu d %02llu h", s / 86400, s / 3600 % 24);
    return text;
}

/* Length of the UTF-8 character at `text` that a terminal shows as a letter, or 0. */
static size_t printable_length(const unsigned char *text)
{
    if (text[0] >= 0x20 && text[0] < 0x7f)
        return 1;
    size_t length = 0;
    if (text[0] >= 0xc2 && text[0] < 0xe0)
        length = 2;
    else if (text[0] >= 0xe0 && text[0] < 0xf0)
        length = 3;
    else if (text[0] >= 0xf0 && text[0] < 0xf5)
        length = 4;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if (text[0] == 0xc2 && text[1] < 0xa0) /* C1 controls: 0x9b is another ESC [ */
        return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90)) /* too long a form */
        return 0;
    return length;
}

char *text_printable(const char *text)
{
    char *copy = must_allocate(4 * strlen(text) + 1);
    char *to = copy;
    const unsigned char *from = (const unsigned char *)text;
    while (*from) {
        const size_t length = printable_length(from);
        if (length) {
            memcpy(to, from, length);
            to += length;
            from += length;
        } else {
            to += sprintf(to, "\\x%02x", *from);
            from++;
        }
    }
    return copy;
}

bool parse_count(const char *text, uint64_t max, uint64_t *count)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || value > max)
        return false;
    *count = value;
    return true;
}

bool parse_pid(const char *text, pid_t *pid)
{
    uint64_t value;
    if (!parse_count(text, INT_MAX, &value) || value == 0)
        return false;
    *pid = (pid_t)value;
    return true;
}

bool parse_seconds(const char *text, uint64_t *ns)
{
    if (!strchr("0123456789.", text[0]) || strpbrk(text, "xXpP"))
        return false;
    char *end;
    const double seconds = strtod(text, &end);
    if (end == text || *end || !isfinite(seconds) || seconds > SECONDS_MAX)
        return false;
    *ns = (uint64_t)(seconds * NS_PER_S);
    return *ns > 0;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        die("clock_gettime: %s", strerror(errno));
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t now_monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t now_unix_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

char *must_absolute_path(const char *path)
{
    if (path[0] == '/')
        return must_copy_text(path);
    CLEANUP_FREE char *here = getcwd(NULL, 0);
    if (!here)
        die("current directory: %s", strerror(errno));
    return must_format("%s/%s", here, path);
}
