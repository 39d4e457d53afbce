# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # what is used here is set by tap.sh
# search.sh: what the scripts of this folder share, to be sourced after tap.sh: searches of a model by Spin.
#
#   model_holds SENTENCE MODEL [-DNAME]...   every interleaving was searched, and nothing that is asserted fails
#   model_fails SENTENCE MODEL [-DNAME]...   the search finds something that fails: there is a mistake in the model
#   $model_options: compiler's, for the searcher; $model_limits: the searcher's (-w: log2 of its table's slots, -m:
#   the longest path that it follows). A thread that waits for ever is no failure.

# search MODEL [-DNAME]...: leaves the searcher's output in $scratch/search/out
search() {
    local model=$repository/tests/model/$1.pml
    shift
    rm -rf "$scratch/search"
    mkdir "$scratch/search"
    # shellcheck disable=SC2086 # options
    (cd "$scratch/search" && spin -a "$@" "$model" && "${CC:-cc}" -w -DSAFETY $model_options -o pan pan.c &&
        ./pan -E $model_limits) >"$scratch/search/out" 2>&1 || true
}

# A path that was cut off, or memory that ran out, means that not all was searched.
model_holds() {
    local sentence=$1 out=$scratch/search/out
    shift
    search "$@"
    if grep -q 'errors: 0' "$out" && ! grep -q 'Search not completed\|out of memory\|too small\|too long' "$out"; then
        tap_ok "$sentence"
        tap_note "$(grep 'states, stored\|total actual memory' "$out")"
    else
        tap_not_ok "$sentence"
        tap_note "$(tail -n 30 "$out")"
    fi
}

model_fails() {
    local sentence=$1 out=$scratch/search/out
    shift
    search "$@"
    if grep -q 'errors: 1' "$out" && grep -q 'assertion violated' "$out"; then
        tap_ok "$sentence"
    else
        tap_not_ok "$sentence"
        tap_note "$(tail -n 30 "$out")"
    fi
}
