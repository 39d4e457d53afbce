/* SPDX-License-Identifier: MIT */
/*
 * out: formatting and writing that is safe in a signal handler: no stdio, no malloc, no locale.
 * An `out` collects bytes in a buffer of its creator and writes them to a descriptor when full.
 * Whatever fails makes it `failed`, and from then on it swallows everything.
 */
#ifndef PINPOOL_BASE_OUT_H
#define PINPOOL_BASE_OUT_H

#include "base/base.h"

struct out {
    int fd; /* -1: the buffer is all there is, and what does not fit makes it failed */
    bool failed;
    bool first_field;  /* of the open record: no comma before it */
    size_t used, size; /* of buffer, in bytes */
    char *buffer;
    uint64_t written_bytes, limit_bytes; /* what would go beyond the limit makes it failed, unwritten */
    uint64_t records;                    /* lines ended with out_record_end */
};

void out_init_sigsafe(struct out *out, int fd, char *buffer, size_t size);
void out_bytes_sigsafe(struct out *out, const char *bytes, size_t count);
void out_text_sigsafe(struct out *out, const char *text);
void out_u64_sigsafe(struct out *out, uint64_t value);
void out_hex_sigsafe(struct out *out, uint64_t value); /* 0x... */
void out_flush_sigsafe(struct out *out);

/* Ends a text built in a buffer (fd -1) with NUL. False when it was cut. */
bool out_finish_text_sigsafe(struct out *out);

/* One JSON object a line: begin with its type, add fields, end. */
void out_record_begin_sigsafe(struct out *out, const char *type);
void out_field_u64_sigsafe(struct out *out, const char *name, uint64_t value);
void out_field_text_sigsafe(struct out *out, const char *name, const char *text); /* escaped */
void out_field_hex_sigsafe(struct out *out, const char *name, uint64_t value);    /* as "0x..." */
void out_field_open_sigsafe(struct out *out, const char *name);                   /* "name":{ */
void out_field_close_sigsafe(struct out *out);                                    /* } */
void out_record_end_sigsafe(struct out *out);

/* Writes "pinpool: LINE\n" to stderr in one write. For bad options and the verbose line. */
void out_stderr_line_sigsafe(const char *line);

/*
 * The dying function: corruption was found in `function` ("free") at `address`. Says
 * "pinpool: free(): <reason> 0x..." or, with the address first, "pinpool: free(): 0x... <reason>",
 * and aborts.
 */
_Noreturn COLD void fatal_reason_address(const char *function, const char *reason, const void *address);
_Noreturn COLD void fatal_address_reason(const char *function, const void *address, const char *reason);

#endif
