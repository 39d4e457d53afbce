/* SPDX-License-Identifier: MIT */
/* out: see out.h. */
#include "base/out.h"

#include <string.h>
#include <unistd.h>

#include "base/sys.h"

void out_init_sigsafe(struct out *out, int fd, char *buffer, size_t size)
{
    *out = (struct out){
        .fd = fd, .buffer = buffer, .size = size, .first_field = true, .limit_bytes = UINT64_MAX};
}

void out_flush_sigsafe(struct out *out)
{
    if (out->fd >= 0 && out->used > 0 && !out->failed) {
        out->written_bytes += out->used;
        if (out->written_bytes > out->limit_bytes || sys_write_all(out->fd, out->buffer, out->used) != 0)
            out->failed = true;
        out->used = 0;
    }
}

void out_bytes_sigsafe(struct out *out, const char *bytes, size_t count)
{
    while (count > 0 && !out->failed) {
        size_t part = min_size(count, out->size - out->used);

        if (part == 0) {
            if (out->fd < 0)
                out->failed = true;
            out_flush_sigsafe(out);
            continue;
        }
        memcpy(out->buffer + out->used, bytes, part);
        out->used += part;
        bytes += part;
        count -= part;
    }
}

void out_text_sigsafe(struct out *out, const char *text)
{
    out_bytes_sigsafe(out, text, strlen(text));
}

static void out_number(struct out *out, uint64_t value, unsigned radix)
{
    char digits[20]; /* 2^64 has 20 decimal digits */
    size_t at = sizeof digits;

    do {
        digits[--at] = "0123456789abcdef"[value % radix];
        value /= radix;
    } while (value != 0);
    out_bytes_sigsafe(out, digits + at, sizeof digits - at);
}

void out_u64_sigsafe(struct out *out, uint64_t value)
{
    out_number(out, value, 10);
}

void out_hex_sigsafe(struct out *out, uint64_t value)
{
    out_text_sigsafe(out, "0x");
    out_number(out, value, 16);
}

bool out_finish_text_sigsafe(struct out *out)
{
    size_t end = min_size(out->used, out->size - 1);

    out->buffer[end] = '\0';
    return !out->failed && end == out->used;
}

/*
 * RFC 8259: quotation mark, reverse solidus and controls are escaped. File names may be any bytes;
 * those outside ASCII are passed as they are when they form UTF-8, and as \u00XX otherwise, so that
 * the line stays valid JSON.
 */
static size_t utf8_length(const unsigned char *text)
{
    size_t length = text[0] < 0x80 ? 1 : (text[0] & 0xe0) == 0xc0 ? 2 : (text[0] & 0xf0) == 0xe0 ? 3 : 4;

    if (text[0] >= 0x80 && (text[0] < 0xc2 || text[0] > 0xf4))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* overlong forms, surrogates and what lies beyond U+10FFFF */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

static void out_json_string(struct out *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    out_text_sigsafe(out, "\"");
    while (*at != '\0') {
        size_t length = utf8_length(at);

        if (*at == '"' || *at == '\\') {
            char escaped[2] = {'\\', (char)*at};

            out_bytes_sigsafe(out, escaped, 2);
            length = 1;
        } else if (*at < 0x20 || length == 0) {
            char escaped[6] = {
                '\\', 'u', '0', '0', "0123456789abcdef"[*at >> 4], "0123456789abcdef"[*at & 15]};

            out_bytes_sigsafe(out, escaped, 6);
            length = 1;
        } else {
            out_bytes_sigsafe(out, (const char *)at, length);
        }
        at += length;
    }
    out_text_sigsafe(out, "\"");
}

static void field_name(struct out *out, const char *name)
{
    out_text_sigsafe(out, out->first_field ? "\"" : ",\"");
    out_text_sigsafe(out, name);
    out_text_sigsafe(out, "\":");
    out->first_field = false;
}

void out_record_begin_sigsafe(struct out *out, const char *type)
{
    out_text_sigsafe(out, "{");
    out->first_field = true;
    out_field_text_sigsafe(out, "type", type);
}

void out_field_u64_sigsafe(struct out *out, const char *name, uint64_t value)
{
    field_name(out, name);
    out_u64_sigsafe(out, value);
}

void out_field_text_sigsafe(struct out *out, const char *name, const char *text)
{
    field_name(out, name);
    out_json_string(out, text);
}

void out_field_hex_sigsafe(struct out *out, const char *name, uint64_t value)
{
    field_name(out, name);
    out_text_sigsafe(out, "\"");
    out_hex_sigsafe(out, value);
    out_text_sigsafe(out, "\"");
}

void out_field_open_sigsafe(struct out *out, const char *name)
{
    field_name(out, name);
    out_text_sigsafe(out, "{");
    out->first_field = true;
}

void out_field_close_sigsafe(struct out *out)
{
    out_text_sigsafe(out, "}");
    out->first_field = false;
}

void out_record_end_sigsafe(struct out *out)
{
    out_text_sigsafe(out, "}\n");
    out->records++;
}

void out_stderr_line_sigsafe(const char *line)
{
    char buffer[1024];
    struct out out;

    out_init_sigsafe(&out, -1, buffer, sizeof buffer - 1);
    out_text_sigsafe(&out, "pinpool: ");
    out_text_sigsafe(&out, line);
    buffer[out.used++] = '\n';
    (void)sys_write_all(STDERR_FILENO, buffer, out.used);
}

static _Noreturn void die_saying(const char *function, const char *before, const void *address,
                                 const char *after)
{
    char buffer[160];
    struct out out;

    out_init_sigsafe(&out, -1, buffer, sizeof buffer - 1);
    out_text_sigsafe(&out, function);
    out_text_sigsafe(&out, "(): ");
    out_text_sigsafe(&out, before);
    out_hex_sigsafe(&out, (uint64_t)(uintptr_t)address);
    out_text_sigsafe(&out, after);
    (void)out_finish_text_sigsafe(&out);
    out_stderr_line_sigsafe(buffer);
    sys_abort();
}

void fatal_reason_address(const char *function, const char *reason, const void *address)
{
    die_saying(function, reason, address, "");
}

void fatal_address_reason(const char *function, const void *address, const char *reason)
{
    die_saying(function, "", address, reason);
}
