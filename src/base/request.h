/* SPDX-License-Identifier: MIT */
/*
 * request: what comes with our signal when the tool sends it (sigqueue): a value that says what is asked for,
 * so that it is told from the program's own use of the signal, whoever sends it.
 */
#ifndef PINPOOL_BASE_REQUEST_H
#define PINPOOL_BASE_REQUEST_H

#include <stdint.h>

#define REQUEST_MAGIC UINT64_C(0x70696e706f6f6c00) /* "pinpool" and a byte for the request */

enum {
    REQUEST_MASK = 0xff,
    REQUEST_DUMP = 1,
    REQUEST_CHAIN = 0x80, /* besides: the program's own handler runs, too, after it */
};

#endif
