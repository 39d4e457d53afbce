/* SPDX-License-Identifier: MIT */
/*
 * request: what comes with our signal when the tool sends it (sigqueue): a value that says what is asked for,
 * so that it is told from the program's own use of the signal, whoever sends it.
 *
 *   63              24 23           8 7         0
 *   +------------------+-------------+-----------+
 *   | "pinpo"          | number      | request   |
 *   +------------------+-------------+-----------+
 *
 * A request with the number of the one before is the same one, sent again; number 0 is always a new one.
 */
#ifndef PINPOOL_BASE_REQUEST_H
#define PINPOOL_BASE_REQUEST_H

#include <stdint.h>

#define REQUEST_MAGIC UINT64_C(0x70696e706f000000)

enum {
    REQUEST_NUMBER_SHIFT = 8,
    REQUEST_NUMBER_MASK = 0xffff,
    REQUEST_MASK = 0xffffff, /* all but the magic */
    REQUEST_DUMP = 1,
    REQUEST_CHAIN = 0x80, /* besides: the program's own handler runs, too, after it */
};

#endif
