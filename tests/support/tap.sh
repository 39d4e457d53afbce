# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # what is set here is used by the scripts that source this
# tap.sh: what the test scripts share, to be sourced: TAP lines, where things are, a scratch folder.
#
#   tap_ok SENTENCE | tap_not_ok SENTENCE | tap_skip SENTENCE REASON | tap_note TEXT... | tap_done
#   tap_is SENTENCE EXPECTED ACTUAL
#   tap_left_out SENTENCE: the test cannot be tried here, and a line says so
#   $repository $build $library $tool, and $scratch, which goes when the script ends
#   $launcher [VARIABLE=VALUE]... PROGRAM [ARGUMENT]...: env, or what runs PROGRAM on another architecture
#   $patience: how many times as long as usual a program may take

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD_DIR:-$repository/build}
library=${PINPOOL_LIB:-$build/libpinpool.so}
tool=${PINPOOL_TOOL:-$build/pinpool}
launcher=${TEST_LAUNCHER:-env}
patience=${TEST_PATIENCE:-1}

# shellcheck source=tests/support/tap_lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/tap_lines.sh"

tap_planned=
tap_cleanups=()

tap_note() {
    printf '%s\n' "$*" | tap_diagnose
}

# $TEST_LEFT_OUT is a file of lines 'PATTERN | REASON': of sentences that match the glob pattern, why they are
# not tried.
tap_left_out() {
    local pattern reason
    [ -n "${TEST_LEFT_OUT:-}" ] || return 1
    while IFS='|' read -r pattern reason; do
        # shellcheck disable=SC2053 # a glob pattern is meant
        if [[ $pattern != '#'* && $1 == ${pattern% } ]]; then
            tap_skip "$1" "${reason# }"
            return 0
        fi
    done <"$TEST_LEFT_OUT"
    return 1
}

tap_is() {
    if [ "$2" = "$3" ]; then
        tap_ok "$1"
    else
        tap_not_ok "$1"
        tap_note "expected: $2"
        tap_note "     got: $3"
    fi
}

# The plan, and the script's exit status.
tap_done() {
    tap_planned=1
    tap_plan
}

# A command line to run when the script ends, whatever ends it; last one first.
tap_at_end() {
    tap_cleanups=("$*" "${tap_cleanups[@]}")
}

# A command that nobody expected to fail ends a script in the middle; then the log says which.
tap_end() {
    local status=$? command=$BASH_COMMAND
    [ -n "$tap_planned" ] || [ "$status" -eq 0 ] ||
        tap_note "the test ends here with status $status, at: $command"
    for command in "${tap_cleanups[@]}"; do
        eval "$command" || true
    done
    rm -rf "$scratch"
}

# Ends the script when something it cannot do without is missing.
tap_need() {
    local path
    for path in "$@"; do
        if [ ! -e "$path" ]; then
            echo "${0##*/}: $path is missing: run make first" >&2
            exit 1
        fi
    done
}

# In /tmp and not below the repository: some tests run as another user, who may not come by there.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/pinpool-test.XXXXXX")
trap tap_end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# A crash is an expected outcome of some tests; their cores are not wanted.
ulimit -c 0
# Options from the caller's environment would change what is tested.
for variable in "${!PINPOOL_@}"; do
    case $variable in
    PINPOOL_LIB | PINPOOL_TOOL) ;;
    *) unset "$variable" ;;
    esac
done
unset variable LD_PRELOAD
