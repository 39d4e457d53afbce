# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # tap.sh, sourced before this, sets $scratch and $launcher
# lib.sh: for tests that consist of other TAP programs; to be sourced after tap.sh.

# shellcheck source-path=SCRIPTDIR source=qemu.sh
. "$(dirname "${BASH_SOURCE[0]}")/qemu.sh"

# Unit tests that qemu is not asked: Check's tag for them, what they are, and why.
UNIT_LEFT_OUT=(
    'address_space|region: without_address_space_nothing_is_given_and_nothing_breaks|qemu ignores RLIMIT_AS'
    'address_space|bins: without_address_space_the_current_block_is_still_held|qemu ignores RLIMIT_AS'
    'address_space|heap: without_memory_for_a_cache_slices_go_to_their_blocks|qemu ignores RLIMIT_AS'
    'downwards|region: growth_adds_few_mappings_and_is_counted|qemu before 8.1 maps from low to high addresses, where every growth costs an alignment more'
    'residency|retention: pinned_blocks_are_counted_to_the_slice|mincore speaks in the pages of the machine, which are smaller than those the program is told'
)

# collect NAME COMMAND...: the command's TAP lines, counted on, with NAME in front of each sentence.
collect() {
    local name=$1 status=0 line ran=0 bad=0 plan=''
    shift
    "$@" >"$scratch/collected" 2>&1 </dev/null || status=$?
    while IFS= read -r line; do
        case $line in
        'ok '*)
            tap_ok "$name: ${line#ok * - }"
            ran=$((ran + 1))
            ;;
        'not ok '*)
            tap_not_ok "$name: ${line#not ok * - }"
            ran=$((ran + 1))
            bad=1
            ;;
        1..*) plan=${line#1..} ;;
        *) tap_note "${line#\# }" ;;
        esac
    done <"$scratch/collected"
    if [ "$plan" != "$ran" ] || { [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        tap_not_ok "$name: comes to an end"
        tap_note "exit status $status, planned ${plan:-none} and ran $ran"
    fi
}

# unit_tests NAME [TAG]...: every unit program, without the tests that have one of these tags, or that this qemu
# is not asked with any size of pages.
unit_tests() {
    local name=$1 program row tag test reason tags
    shift
    tags="address_space $*"
    [ "$(qemu_release)" -ge 801 ] || tags+=' downwards'
    for program in block tier region bins cache heap options out retention; do
        collect "$name$program" timeout -k 5 $((60 * patience)) "$launcher" "CK_EXCLUDE_TAGS=$tags" \
            CK_TIMEOUT_MULTIPLIER=5 "$build/tests/unit/$program"
    done
    for row in "${UNIT_LEFT_OUT[@]}"; do
        IFS='|' read -r tag test reason <<<"$row"
        if [[ " $tags " == *" $tag "* ]]; then
            tap_skip "$name$test" "$reason"
        fi
    done
}

# pool_torture NAME POOLS: a second of it.
pool_torture() {
    local sentence="$1nothing is damaged in 1 s of torture of the pool under $2"
    local seed=$((RANDOM * 32768 + RANDOM)) status=0
    timeout -k 5 $((60 * patience)) "$launcher" POOL_POOLS="$2" "$build/tests/torture/pool" --seconds 1 \
        --seed "$seed" --no-fork >"$scratch/out" 2>&1 || status=$?
    if [ "$status" -eq 0 ] && [ ! -s "$scratch/out" ]; then
        tap_ok "$sentence"
    else
        tap_not_ok "$sentence"
        tap_note "exit status $status (124: hung), seed $seed"
        tap_note "$(head -n 20 "$scratch/out")"
    fi
}
