#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the structure of the sources by their includes: few rooms, few levels, no arrow upwards, no circle.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

# A room is a folder. The rooms in the order in which they may stand on each other: each may include what is
# in a room after it, and its own. A folder that is not here has no place yet.
rooms=(
    src/cli
    src/cli/ab/run
    src/cli/ab/result
    src/cli/ab
    src/cli/dumpfile
    src/cli/system
    src/cli/kit
    preload
    src/evidence
    src/pool
    src/base
)

# "FILE INCLUDED", both from the root of the repository.
(cd "$root" && grep -rn --include='*.[ch]' '^#include "' src preload) |
    sed 's/^\([^:]*\):[0-9]*:#include "\([^"]*\)".*/\1 \2/' |
    awk '{ print $1, ($2 ~ /^preload\// ? $2 : "src/" $2) }' >"$scratch/includes"
check 'there are includes to look at' test "$(wc -l <"$scratch/includes")" -gt 200

awk -v order="${rooms[*]}" '
    function room(path) { sub(/\/[^\/]*$/, "", path); return path }
    function name(path) { sub(/\.(c|h|def)$/, "", path); return path }
    # The longest way down from a room. They are in order, so there is no circle to run in.
    function level(at,    below, most) {
        for (below in uses)
            if (index(below, at SUBSEP) == 1 && level(substr(below, length(at) + 2)) > most)
                most = level(substr(below, length(at) + 2))
        return most + 1
    }
    # Of one module (a .c and its .h) to others: a circle comes back to where it began.
    function visit(module,    next_one, parts) {
        state[module] = 1
        for (next_one in needs)
            if (index(next_one, module SUBSEP) == 1) {
                split(next_one, parts, SUBSEP)
                if (state[parts[2]] == 1)
                    print "circle: " module " -> " parts[2]
                else if (!state[parts[2]])
                    visit(parts[2])
            }
        state[module] = 2
    }
    BEGIN { count = split(order, list, " "); for (i = 1; i <= count; i++) rank[list[i]] = i }
    {
        from = room($1); to = room($2)
        if (!(from in rank)) print "no place: " from
        else if (!(to in rank)) print "no place: " to
        else if (rank[from] > rank[to]) print "upwards: " $1 " -> " $2
        else if (from != to && !(from SUBSEP to in uses)) uses[from SUBSEP to] = 1
        if (name($1) != name($2)) { needs[name($1) SUBSEP name($2)] = 1; modules[name($1)] = 1 }
        used[from] = 1
    }
    END {
        for (module in modules) if (!state[module]) visit(module)
        for (i = 1; i <= count; i++) {
            if (!used[list[i]]) print "empty: " list[i]
            if (level(list[i]) > levels) levels = level(list[i])
        }
        print "levels " levels
    }' "$scratch/includes" | sort -u >"$scratch/found"

is 'every folder has its place, no include goes upwards, no room is empty' \
    "$(grep -E '^(no place|upwards|empty)' "$scratch/found")" ''
# The first malloc starts the library, and starting it switches malloc: that circle is inherent.
is 'no module includes itself by way of others, but for the start of the library' \
    "$(grep '^circle' "$scratch/found" | grep -v '^circle: preload/\(interpose\|start\|operators\|mallinfo\|signals\|fork\|thread\) -> preload/' || true)" ''
check 'there are at most 12 rooms' test "${#rooms[@]}" -le 12
levels=$(sed -n 's/^levels //p' "$scratch/found")
check "they stand on at most 6 levels ($levels)" test "$levels" -le 6
is 'what compares arms is included only where arms are compared' \
    "$(grep -v '^src/cli/ab' "$scratch/includes" | grep ' src/cli/ab' | grep -v '^src/cli/ab.c ' || true)" ''
finish
