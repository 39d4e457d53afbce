#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests scripts/bench/demo: it measures with pinpool ab, its table shows what that found, and a dump ends it.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

export PINPOOL_LIB=$library PINPOOL_TOOL BUILD_DIR
demo=$root/scripts/bench/demo

expect 'another library in its place is found out' 1 '' '*left no stats file*' \
    env PINPOOL_LIB="$BUILD_DIR/bench/libjump_only.so" "$demo" --quick --out="$scratch/wrong"
expect 'results are not written over' 1 '' "*$scratch/wrong/own*" "$demo" --quick --out="$scratch/wrong"

capture "$demo" --quick --seed=7 --out="$scratch/demo"
is 'the demo measures' "$status" 0
[[ $status == 0 ]] || tap_diagnose <<<"$err"
check 'with the seed that was given' grep -q 'from seed 7' "$scratch/out"
figure='[0-9]+\.[0-9]+'
range="\\($figure-$figure\\)"
is 'three arms without pools' "$(grep -cE "^no preload +$figure $range +1\.00( +$figure){3}( +-){4}$" <<<"$out")" 3
is 'and nine with' "$(grep -cE "^(8k|64k|reuse) +$figure $range +$figure( +$figure){3}( +$figure){4}$" <<<"$out")" 9
retention=$(awk '$1 == "64k" && $2 !~ /^\(/ { print ($10 > 5) }' <<<"$out" | sed -n 2p)
is '64k holds more than five times what is live of small buffers' "$retention" 1
check 'the report of a dump ends it' grep -q "^pinpool's own memory: " <<<"$(tail -n 1 "$scratch/out")"
finish
