#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Node: node_session.js, which checks itself: buffers, zlib, crypto, streams, HTTP, child processes,
# and rounds of workers that are started and stopped, over which the resident memory must not grow.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin node 'Node: buffers, zlib, crypto, streams, HTTP, children, rounds of workers.' "$@"
program_needs node

ROUNDS=18
[ "$LONG" = 0 ] || ROUNDS=90

session() {
    step node 240 node --expose-gc "$PROGRAM_SOURCES/node_session.js" "$ARM_DIR/scratch" "$ROUNDS"
    cat node.out
    prove node 10000
}

program_matrix session
