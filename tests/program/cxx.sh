#!/bin/bash
# SPDX-License-Identifier: MIT
#
# containers.cc: a C++ program over containers, strings, threads and exceptions, through every form
# of operator new and delete. With jemalloc or mimalloc behind us, which define those operators
# themselves, it shows that ours are in front.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin cxx 'A C++ program over containers, threads and exceptions (containers.cc).' "$@"
CXX=${CXX:-g++}
program_needs "$CXX"

ROUNDS=4
[ "$LONG" = 0 ] || ROUNDS=30

if ! "$CXX" -std=c++17 -O1 -fsized-deallocation -Wall -Wextra -pthread -o "$PROGRAM_WORK/containers" "$PROGRAM_SOURCES/containers.cc" \
    2>"$PROGRAM_WORK/compile"; then
    tap_not_ok 'containers.cc compiles'
    tap_diagnose_some <"$PROGRAM_WORK/compile"
    tap_plan || exit 1
fi

session() {
    local mode=''
    # Debian's mimalloc is compiled as C: its operator new cannot throw and ends the program instead,
    # with or without us.
    [ "$ARM_BEHIND" != mimalloc ] || mode=no-bad-alloc
    step containers 120 "$PROGRAM_WORK/containers" "$ROUNDS" "$mode"
    cat containers.out
    prove containers 10000
}

program_matrix session
