/* SPDX-License-Identifier: MIT */
/* textfile: small files of /proc and /sys, read with open, read and close and nothing else. */
#ifndef PINPOOL_EVIDENCE_TEXTFILE_H
#define PINPOOL_EVIDENCE_TEXTFILE_H

#include <stddef.h>

/*
 * Reads the beginning, without the last newline, into text; "" when it cannot be read. Its length or -errno.
 */
long textfile_read_sigsafe(const char *path, char *text, size_t size);

/*
 * Finds the first line that begins with `key` and copies what follows. 1, 0 without such a line, or -errno.
 */
int textfile_find_sigsafe(const char *path, const char *key, char *value, size_t size);

#endif
