# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# tap.sh: sourced by the tests of the tool. TAP output, a scratch folder, helpers built from this
# folder's C files, and processes that are ended when the test is.
#
# A test sets `about` (one sentence for --help) before it sources this, and calls `finish` last.

case ${1-} in
--help)
    printf 'Usage: %s\n%s\nWrites TAP. Uses PINPOOL_LIB, PINPOOL_TOOL, BUILD_DIR and CC.\n' "${0##*/}" "${about:?}"
    exit 0
    ;;
esac

# shellcheck source=tests/support/tap_lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/tap_lines.sh"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
BUILD_DIR=${BUILD_DIR:-$root/build}
PINPOOL_TOOL=${PINPOOL_TOOL:-$BUILD_DIR/pinpool}
PINPOOL_LIB=${PINPOOL_LIB:-$BUILD_DIR/libpinpool.so}
# shellcheck disable=SC2034 # for the tests that source this
library=$PINPOOL_LIB
unset PINPOOL_LIB LD_PRELOAD TMPDIR # what the tool reads is for each test to set

if [[ ! -x $PINPOOL_TOOL ]]; then
    printf 'Bail out! %s is not built\n' "$PINPOOL_TOOL"
    exit 1
fi

mkdir -p "$BUILD_DIR/tests/cli"
scratch=$(mktemp -d "$BUILD_DIR/tests/cli/${0##*/}.XXXXXX")
children=()

# A command that nobody expected to fail ends a test in the middle; then the log says which, and what it said.
finished=
say_what_ended_it() {
    printf '# the test ends here with status %s, at: %s\n' "$1" "$2"
    tail -n 5 "$scratch/err" 2>"$scratch/kill" | tap_diagnose
}

clean_up() {
    local status=$? command=$BASH_COMMAND pid
    [[ -n $finished || $status == 0 ]] || say_what_ended_it "$status" "$command"
    for pid in "${children[@]}"; do
        kill -KILL "$pid" 2>"$scratch/kill" || true
    done
    wait
    rm -rf "$scratch"
}
trap clean_up EXIT

# ok CONDITION-STATUS SENTENCE
ok() {
    if [[ $1 == 0 ]]; then
        tap_ok "$2"
    else
        tap_not_ok "$2"
    fi
}

# check SENTENCE COMMAND...: the command shall succeed.
check() {
    local sentence=$1
    shift
    if "$@"; then
        ok 0 "$sentence"
    else
        ok 1 "$sentence"
    fi
}

# capture COMMAND...: sets status, out and err.
capture() {
    status=0
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    out=$(cat "$scratch/out")
    err=$(cat "$scratch/err")
}

# expect SENTENCE STATUS STDOUT-PATTERN STDERR-PATTERN COMMAND...; the patterns are globs for the whole text.
expect() {
    local sentence=$1 want_status=$2 want_out=$3 want_err=$4
    shift 4
    capture "$@"
    # shellcheck disable=SC2053 # globs are meant
    if [[ $status == "$want_status" && $out == $want_out && $err == $want_err ]]; then
        ok 0 "$sentence"
    else
        ok 1 "$sentence"
        printf 'status %s, wanted %s\nstdout: %s\nwanted: %s\nstderr: %s\nwanted: %s\n' \
            "$status" "$want_status" "$out" "$want_out" "$err" "$want_err" | tap_diagnose
    fi
}

# is SENTENCE GOT WANTED
is() {
    if [[ $2 == "$3" ]]; then
        ok 0 "$1"
    else
        ok 1 "$1"
        printf 'got %s, wanted %s\n' "$2" "$3" | tap_diagnose
    fi
}

# harmless SENTENCE FILE: it is UTF-8, and a terminal obeys nothing in it but the ends of its lines.
harmless() {
    if iconv -f UTF-8 -t UTF-8 "$2" >"$scratch/utf8" 2>&1 &&
        ! LC_ALL=C grep -naP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf' \
            "$2" >"$scratch/harmful"; then
        ok 0 "$1"
    else
        ok 1 "$1"
        cat -v "$scratch/utf8" "$scratch/harmful" | tail -n 5 | tap_diagnose
    fi
}

# build NAME [LIBRARY...]: compiles support/NAME.c into the scratch folder.
build() {
    local name=$1
    shift
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -O1 -I"$root/src" -o "$scratch/$name" \
        "$root/tests/cli/support/$name.c" "$@"
}

# start COMMAND...: starts it in the background and waits till it prints "ready". Sets child.
start() {
    : >"$scratch/started"
    "$@" >"$scratch/started" 2>"$scratch/started.err" </dev/null &
    child=$!
    children+=("$child")
    local tries
    for ((tries = 0; tries < 500; tries++)); do
        if grep -q '^ready' "$scratch/started"; then
            return 0
        fi
        sleep 0.02
    done
    printf 'Bail out! %s did not start: %s\n' "$1" "$(cat "$scratch/started.err")"
    exit 1
}

# stop PID: ends a process that `start` started.
stop() {
    kill -KILL "$1" 2>"$scratch/kill" || true
    wait "$1" 2>"$scratch/kill" || true
}

is_alive() {
    kill -0 "$1" 2>"$scratch/kill"
}

finish() {
    finished=1
    tap_plan
    exit
}
