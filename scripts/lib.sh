# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by the measuring scripts; sourced, never run. It gives them one meaning of
#
#   where things are   ROOT_DIR, BUILD_DIR (build), PINPOOL_LIB (build/libpinpool.so), all absolute
#   failing            die, usage_error, need_command
#   tidying up         scratch_make, child_started, child_end and so on; one EXIT trap does the rest
#   sizes, libraries   size_to_bytes, library_find
#
# Callers set `set -euo pipefail` themselves. Only bash, coreutils and util-linux are needed.

PROGRAM=${0##*/}
ROOT_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD_DIR=$(realpath -m -- "${BUILD_DIR:-$ROOT_DIR/build}")
PINPOOL_LIB=${PINPOOL_LIB:-$BUILD_DIR/libpinpool.so}

# --- saying and failing ---------------------------------------------------------------------------

note() {
    printf '%s: %s\n' "$PROGRAM" "$*" >&2
}

die() {
    note "$*"
    exit 1
}

usage_error() {
    note "$*"
    printf "Try '%s --help'.\n" "$0" >&2
    exit 2
}

# need_command COMMAND PACKAGE
need_command() {
    command -v "$1" >/dev/null || die "$1 is not installed (apt-get install $2)"
}

# option_value OPTION COUNT: an option that needs a value must have one; COUNT is the caller's $#.
option_value() {
    (($2 >= 2)) || usage_error "$1 needs a value"
}

# number_check OPTION VALUE: whole and at least 1.
number_check() {
    [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || usage_error "$1 $2: not a whole number of at least 1"
}

# seconds_check OPTION VALUE: a decimal fraction above 0.
seconds_check() {
    [[ $2 =~ ^[0-9]{1,6}(\.[0-9]{1,3})?$ && $2 =~ [1-9] ]] || usage_error "$1 $2: not a number of seconds above 0"
}

# --- tidying up -----------------------------------------------------------------------------------

SCRATCH_DIRS=()
CHILD_PID=

child_started() {
    CHILD_PID=$1
}

child_ended() {
    CHILD_PID=
}

# The shell's own table of jobs says whether the child still runs: its number alone does not, the
# kernel may have handed it out again.
child_is_running() {
    [[ -n $CHILD_PID && $'\n'$(jobs -rp)$'\n' == *$'\n'"$CHILD_PID"$'\n'* ]]
}

child_terminate() {
    if child_is_running; then
        kill -TERM "$CHILD_PID" || true
    fi
}

child_end() {
    child_terminate
    if [[ -n $CHILD_PID ]]; then
        wait "$CHILD_PID" 2>/dev/null || true
    fi
    child_ended
}

# Only what this shell itself made or started.
tidy_up() {
    local dir
    child_end
    for dir in ${SCRATCH_DIRS[@]+"${SCRATCH_DIRS[@]}"}; do
        rm -rf -- "$dir"
    done
}
trap tidy_up EXIT

# scratch_make VARIABLE PARENT: a new folder only we can read, gone when the script ends.
scratch_make() {
    local made
    made=$(mktemp -d "$2/pinpool-$PROGRAM.XXXXXX") || die "no scratch folder can be made in $2"
    SCRATCH_DIRS+=("$made")
    printf -v "$1" '%s' "$made"
}

# --- sizes ----------------------------------------------------------------------------------------

# size_to_bytes 8k -> 8192; k and m, nothing else.
size_to_bytes() {
    local number=${1%[kKmM]}
    [[ $number =~ ^[1-9][0-9]{0,8}$ ]] || return 1
    case $1 in
    *[kK]) echo $((number * 1024)) ;;
    *[mM]) echo $((number * 1024 * 1024)) ;;
    *) echo "$number" ;;
    esac
}

# --- libraries ------------------------------------------------------------------------------------

# library_find NAME...: the path of the first of these shared libraries that the loader knows.
library_find() {
    local cache name path
    cache=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
    for name; do
        path=$(awk -v name="$name" '$1 == name { print $NF; exit }' <<<"$cache")
        if [[ -n $path ]]; then
            realpath -- "$path"
            return 0
        fi
    done
    return 1
}
