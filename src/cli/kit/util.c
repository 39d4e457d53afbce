/* SPDX-License-Identifier: MIT */
/* util: see util.h. */
#include "cli/kit/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS_MAX = 366 * 24 * 3600 };

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

/* ---- Text of others ---- */

/* Length of the UTF-8 character at `text`, whatever it is, or 0. */
static size_t utf8_length(const unsigned char *text)
{
    if (text[0] < 0x80)
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
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90)) /* too long a form */
        return 0;
    if ((text[0] == 0xed && text[1] >= 0xa0) || (text[0] == 0xf4 && text[1] >= 0x90)) /* no characters */
        return 0;
    return length;
}

static uint32_t utf8_code(const unsigned char *text, size_t length)
{
    static const unsigned char first_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = text[0] & first_mask[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (text[i] & 0x3f);
    return code;
}

bool text_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0); /* C1, too: U+009B is another ESC [ */
}

/*
 * Characters that have no look of their own, but move those around them: a name could read as another one, or
 * begin a line. Joiners stay: they make letters.
 */
bool text_is_layout(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x061c, 0x061c},   /* Arabic letter mark */
                  {0x200e, 0x200f},   /* marks of direction */
                  {0x2028, 0x202e},   /* ends of line and paragraph; embeddings and overrides */
                  {0x2066, 0x2069},   /* isolates */
                  {0xfeff, 0xfeff},   /* byte order mark */
                  {0xfff9, 0xfffb},   /* annotations */
                  {0xe0000, 0xe007f}, /* tags */
                  {0, 0}};
    for (size_t i = 0; ranges[i].last; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

bool text_is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        const size_t length = utf8_length(at);
        if (!length)
            return false;
        at += length;
    }
    return true;
}

uint32_t text_next_code(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    const size_t length = utf8_length(at);
    *text += length ? length : 1;
    return length ? utf8_code(at, length) : TEXT_NO_CODE;
}

/* See text_printable(). NULL without memory: the message that says so comes along here. */
static char *printable_copy(const char *text)
{
    char *copy = malloc(4 * strlen(text) + 1);
    char *to = copy;
    while (copy && *text) {
        const char *from = text;
        const uint32_t code = text_next_code(&text);
        if (code != TEXT_NO_CODE && text_is_layout(code)) {
            *to++ = '?';
        } else if (code == TEXT_NO_CODE || text_is_control(code)) {
            for (; from < text; from++)
                to += sprintf(to, "\\x%02x", (unsigned char)*from);
        } else {
            memcpy(to, from, (size_t)(text - from));
            to += text - from;
        }
    }
    if (!copy)
        return NULL;
    *to = '\0';
    char *fitting = realloc(copy, (size_t)(to - copy) + 1);
    return fitting ? fitting : copy;
}

/* ---- Sentences on stderr ---- */

/* The whole sentence is made harmless: whatever it quotes may come from a file or another process. */
static void PRINTF_LIKE(1, 0) say(const char *format, va_list arguments)
{
    char *text = NULL;
    /* What stdout holds was said before. A failure is found again when it is closed. */
    fflush(stdout);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    char *printable = text ? printable_copy(text) : NULL;
    fprintf(stderr, "pinpool: %s\n", printable ? printable : "out of memory");
    free(printable);
    free(text);
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

char *text_printable(const char *text)
{
    char *copy = printable_copy(text);
    if (!copy)
        die("out of memory");
    return copy;
}

/* ---- Standard output ---- */

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

/* ---- Memory ---- */

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

/* ---- Amounts ---- */

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

/* ---- Files ---- */

/* Why it is none that can be read from end to end. NULL when it is one. */
static char *reason_not_regular(const struct stat *file, uint64_t bytes_max)
{
    char limit[UTIL_TEXT_MAX];
    switch (file->st_mode & S_IFMT) {
    case S_IFREG:
        if (file->st_size >= 0 && (uint64_t)file->st_size <= bytes_max)
            return NULL;
        return must_format("Is larger than %s", format_size(limit, bytes_max));
    case S_IFDIR:
        return must_copy_text(strerror(EISDIR));
    case S_IFIFO:
        return must_copy_text("Is a FIFO");
    case S_IFSOCK:
        return must_copy_text("Is a socket");
    default:
        return must_copy_text("Is a device");
    }
}

int open_regular_file(const char *path, uint64_t bytes_max, char **reason)
{
    struct stat file;
    *reason = NULL;
    /* Before it is opened, because that alone does something to some devices. */
    if (stat(path, &file) == 0)
        *reason = reason_not_regular(&file, bytes_max);
    if (*reason)
        return -1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &file) != 0)
        *reason = must_copy_text(strerror(errno));
    else
        *reason = reason_not_regular(&file, bytes_max); /* it may be another one by now */
    if (!*reason)
        return fd;
    util_close(&fd);
    return -1;
}

FILE *open_regular_stream(const char *path, uint64_t bytes_max, char **reason)
{
    const int fd = open_regular_file(path, bytes_max, reason);
    if (fd < 0)
        return NULL;
    FILE *stream = fdopen(fd, "r");
    if (!stream)
        die("out of memory");
    return stream;
}

/* ---- Numbers ---- */

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
