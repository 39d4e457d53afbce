#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests scripts/bench/bench: it measures with pinpool ab, and its table shows what that found.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

export PINPOOL_GNUPLOT='' PINPOOL_LIB=$library PINPOOL_TOOL BUILD_DIR
folder=$root/scripts/bench
bench=$folder/bench

# --- What they refuse ----------------------------------------------------------------------------------

while IFS=';' read -r script arguments reason; do
    read -ra words <<<"$arguments"
    expect "$script $arguments is a usage error" 2 '' "$script: $reason*" "$folder/$script" --out="$scratch/none" "${words[@]}"
done <<'END'
bench;--bogus 1;--bogus: no such option
bench;--rounds 0;--rounds 0: not a whole number
bench;--rounds;--rounds needs a value
bench;--seconds 1;--seconds: no such option
demo;--seed x;--seed x: not 0 to 999999999
demo;--seconds 0;--seconds 0: not a number of seconds
END
expect 'a build that is not there is named' 1 '' '*/costs is missing: run make first' env BUILD_DIR="$scratch/none" "$bench" --out="$scratch/none"

# --- bench ---------------------------------------------------------------------------------------------

capture "$bench" --quick --out="$scratch/bench"
is 'bench measures' "$status" 0
[[ $status == 0 ]] || tap_diagnose <<<"$err"
is 'every comparison is complete' "$(grep -l '"complete":true' "$scratch"/bench/*/result.json | wc -l)" 3
table=$(sed -n '/^| what/,/^$/p' <<<"$out")
is 'the table has every row' "$(wc -l <<<"$table")" 21
check 'with a figure in each' test "$(grep -cE '^\|[^|]+\|[^|]*\| +[0-9.]+ (ns|us|ms|KiB|MiB) \| [0-9. ]*\(-?[0-9.]+-[0-9.]+\)' <<<"$table")" -ge 19
check 'and none that is no number' sh -c '! grep -qi -e nan -e inf' <<<"$table"

# value ARM METRIC: the median of the two rounds, from another file than the table's.
value() {
    awk -F, -v arm="\"$1\"" -v metric="$2" '$4 == arm && $6 == metric { sum += $9 } END { printf "%.1f", sum / 2 * 1e9 }' \
        "$scratch/bench/costs/long.csv"
}
# row TEXT: the cells without and with of the table's first row that has it.
row() {
    awk -F'|' -v text="$1" 'index($2, text) { split($3, off, " "); split($4, on, " "); print off[1], on[1]; exit }' <<<"$table"
}
is 'a row shows the medians of the two arms' "$(row 'malloc(4096) and free, one')" "$(value off pair) $(value pinpool pair)"
is 'the row of the one jump is of that arm' "$(row 'the least any preload')" "$(value off small) $(value jump small)"
expect 'a dump of fewer blocks than were pinned is an error' 1 '*' 'bench: a dump has * pinned blocks where *' \
    awk -f "$folder/results.awk" -f "$folder/bench.awk" -v blocks=100000 "$scratch"/bench/*/result.json
finish
