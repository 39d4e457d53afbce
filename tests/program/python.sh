#!/bin/bash
# SPDX-License-Identifier: MIT
#
# python3: its own test suite, as Debian ships it: bytes, io, threads, subprocess, mmap and
# multiprocessing by fork. Most of its time is spent asleep, so the suite is cut into shards that
# run beside each other. The reference runs all of it, the arms leave out the tests that took
# longest in it; with LONG=1 everything runs in every arm.
#
# Objects of up to 512 bytes come from Python's own arenas, so two arms turn those off
# (PYTHONMALLOC=malloc): every object then reaches malloc and its frees reach our ownership test.
#
# What is compared is the outcome of every test. Some of these tests depend on timing and fail now
# and then on a busy machine without any preload: what fails differently from the reference is run
# again by itself, once, and said so. A crash gets no second chance.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin python3 "python3: its own test suite (bytes, io, threading, subprocess, mmap, multiprocessing_fork)." "$@"

# The interpreter that the test suite belongs to: not whatever python3 comes first on PATH.
PYTHON=/usr/bin/python3
"$PYTHON" -c 'import test.test_bytes, test.libregrtest' 2>/dev/null ||
    tap_skip_all "Debian's python3 test suite is not installed (scripts/install-deps check)"

MALLOC_ARMS=' 64k 8k,64k+jemalloc '
SLOW_SECONDS=0.2
# The longest of these scripts leaves the other arms to LONG=1.
[ "$LONG" != 0 ] || [ ${#PROGRAM_ARMS[@]} -gt 0 ] || PROGRAM_ARMS=(8k:bump '8k,64k+jemalloc')
SHARD_SECONDS=240
RERUNS_MAX=20

# name, then the arguments that pick its tests
SHARDS=(
    'small          test_bytes test_mmap'
    'threads        test_threading'
    'io             test_io -i *SignalsTest*'
    'io-signals     test_io -m *SignalsTest*'
    'subprocess     test_subprocess -i *NoPoll*'
    'subprocess-np  test_subprocess -m *NoPoll*'
    'mp             test_multiprocessing_fork -i *WithProcesses* -i *WithThreads* -i *WithManager*'
    'mp-processes   test_multiprocessing_fork -m *WithProcesses*'
    'mp-threads     test_multiprocessing_fork -m *WithThreads*'
    'mp-manager     test_multiprocessing_fork -m *WithManager*'
)

# Is the library in a folder that only its owner can enter, such as /root? Then the children that the
# suite starts as other users, when it is run by root, cannot load it, and ld.so says so.
library_is_hidden() {
    local folder=$PINPOOL_LIB
    while [ "$folder" != / ]; do
        folder=$(dirname "$folder")
        [ -n "$(find "$folder" -maxdepth 0 -perm -001)" ] || return 0
    done
    return 1
}

# Python's own diagnostics of its races go to stderr in any run; what counts is what an allocator or
# the loader would say.
stderr_filter() {
    if library_is_hidden; then
        grep -av 'cannot be preloaded (cannot open shared object file)'
    else
        cat
    fi | grep -aE '^pinpool:|ld\.so|cannot be preloaded|Fatal Python error|Segmentation fault|Aborted|free\(\)|malloc|corrupt' || true
}

runs_everything() {
    [ "$ARM_LABEL" = reference ] || [ "$LONG" != 0 ]
}

# Starts one shard or rerun in the background.
start_suite() {
    local name=$1 malloc=()
    shift
    [[ $MALLOC_ARMS != *" $ARM_LABEL "* ]] || malloc=(PYTHONMALLOC=malloc)
    serve "$name" "$SHARD_SECONDS" "${malloc[@]}" "$PYTHON" -m test --junit-xml "$ARM_DIR/$name.xml" --tempdir "$ARM_DIR" "$@"
}

# 0: every test passed, 2: some failed, which the results tell; anything else is the suite's own end.
end_suite() {
    program_wait "${SERVER_PIDS[$1]}"
    case $PROGRAM_STATUS in
    0 | 2) printf '%s: ended\n' "$1" ;;
    *) printf '%s: ended with status %d\n' "$1" "$PROGRAM_STATUS"
        tail -n 5 "$ARM_DIR/$1.out" >>"$ARM_DIR/notes" ;;
    esac
    prove "$1" 1000
}

# Runs again, each by itself, the tests that failed here but not in the reference.
rerun_failures() {
    local id n=0
    join -t $'\t' -a 1 -o 1.1,1.2,2.2 results "$PROGRAM_WORK/reference/results" |
        awk -F '\t' '$2 == "failed" && $3 != "failed" { print $1 }' >again
    [ -s again ] && [ "$(wc -l <again)" -le $RERUNS_MAX ] || return 0
    while IFS= read -r id; do
        n=$((n + 1))
        printf 'run again by itself: %s\n' "$id" >>notes
        start_suite "again-$n" "$(cut -d . -f 2 <<<"$id")" -m "$id"
        program_wait "${SERVER_PIDS[again-$n]}"
        join -t $'\t' -v 1 results <(printf '%s\n' "$id") >others
        "$PYTHON" "$PROGRAM_SOURCES/junit_results.py" "again-$n.xml" | sort - others >results
    done <again
}

session() {
    local shard name arguments limit=() files=()
    runs_everything || limit=(--ignorefile "$PROGRAM_WORK/slow")
    set -f # the patterns are for Python, not for the shell
    for shard in "${SHARDS[@]}"; do
        read -r name arguments <<<"$shard"
        # shellcheck disable=SC2086
        start_suite "$name" $arguments "${limit[@]}"
        files+=("$name.xml")
    done
    for shard in "${SHARDS[@]}"; do
        end_suite "${shard%% *}"
    done
    "$PYTHON" "$PROGRAM_SOURCES/junit_results.py" "${files[@]}" | sort >results
    if [ "$ARM_LABEL" = reference ]; then
        awk -F '\t' -v limit="$SLOW_SECONDS" '$3 > limit { print $1 }' results >"$PROGRAM_WORK/slow"
    else
        rerun_failures
    fi
    cut -f 1,2 results
}

# The tests that this arm leaves out are left out of what it is compared with.
result_expected() {
    if runs_everything; then
        cat "$PROGRAM_WORK/reference/result"
    else
        awk -F '\t' 'NR == FNR { slow[$0]; next } !($1 in slow)' "$PROGRAM_WORK/slow" "$PROGRAM_WORK/reference/result"
    fi
}

program_matrix session
