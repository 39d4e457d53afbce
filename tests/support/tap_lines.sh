# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# tap_lines.sh: the lines of TAP, counted; sourced by what the test scripts share, and by nobody else.

tap_count=0
tap_failed=0

# tap_ok SENTENCE, tap_not_ok SENTENCE, tap_skip SENTENCE REASON
tap_ok() {
    tap_count=$((tap_count + 1))
    printf 'ok %d - %s\n' "$tap_count" "$1"
}

tap_not_ok() {
    tap_count=$((tap_count + 1))
    tap_failed=$((tap_failed + 1))
    printf 'not ok %d - %s\n' "$tap_count" "$1"
}

tap_skip() {
    tap_ok "$1 # SKIP $2"
}

# Prints stdin as diagnostics.
tap_diagnose() {
    sed 's/^/# /'
}

# Prints the plan; status 0 when nothing failed.
tap_plan() {
    printf '1..%d\n' "$tap_count"
    ((tap_failed == 0))
}
