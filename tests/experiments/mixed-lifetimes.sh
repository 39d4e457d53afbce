#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the experiment mixed-lifetimes with runs of half a second: arms, figures, tables, what goes wrong.'
# shellcheck source=tests/experiments/lib.sh
source "$(dirname "$0")/lib.sh"

need_node mixed-lifetimes
mixed=$experiments/mixed-lifetimes/run

# --- What it refuses ---------------------------------------------------------------------------------

while IFS=';' read -r arguments reason; do
    read -ra words <<<"$arguments"
    expect "mixed-lifetimes $arguments is a usage error" 2 '' "mixed-lifetimes: $reason*" "$mixed" --out "$scratch/none" --node "$node" "${words[@]}"
done <<'END'
--seconds 0;--seconds 0: not a number of seconds above 0
--seconds 3 --steady-from 3;--seconds 3: not more than --steady-from (3)
--rounds 1;--rounds 1: 2 or more
--arms jsx;--arms: jsx is not js and a size
--connections 3;--connections: no such option
END

# --- Mixed lifetimes ---------------------------------------------------------------------------------

out_mixed=$scratch/mixed
capture env BUFFER_POOL_SIZE=1 PINPOOL_POOLS=1m "$mixed" --node "$node" --out "$out_mixed" --rounds 2 --seconds 0.5 --steady-from 0.2 \
    --rate 5000 --arms 'js8k js64k 64k'
is 'mixed lifetimes are measured' "$status" 0
[[ $status == 0 ]] || tap_diagnose <"$scratch/err"
for arm in js8k js64k 64k; do
    check "with a row of $arm in both tables" test "$(grep -cE "^\| $arm +\|" <<<"$out")" = 2
done
check 'the source stands beside the arms that it had' grep -qE '^\| js64k .* 228\.8 \|.* 257\.3 \|.* 34\.8 \|' <<<"$out"
is 'the table is kept' "$(cat "$out_mixed/table.md")" "$out"
expect '--table prints it again' 0 "$out" '' "$mixed" --node "$node" --out "$out_mixed" --table
figure() {
    cat "$out_mixed"/node/runs/*-round0-"$1"/output | tail -n 1 | "$node" -p "JSON.parse(require('fs').readFileSync(0))['$2']"
}
is 'each arm has its pool' "$(figure js8k pool_bytes) $(figure js64k pool_bytes) $(figure 64k pool_bytes)" '8192 65536 0'
is 'all of them do the same work' "$(figure js8k allocated) $(figure js64k allocated) $(figure 64k allocated)" '2500 2500 2500'
is 'and end with the same buffers' "$(figure js64k live_bytes)" "$(figure js8k live_bytes)"
check 'a larger pool has more pinned' test "$(figure js64k pinned_bytes)" -gt "$(figure js8k pinned_bytes)"
is 'without a pool in Node nothing is pinned there' "$(figure 64k pinned_bytes)" "$(figure 64k live_bytes)"
check 'and the buffers are in the blocks of pinpool' test "$(figure 64k pool_live_bytes)" -ge "$(figure 64k live_bytes)"
is 'an arm without pinpool has no account of its' "$(figure js8k pool_live_bytes)" undefined
expect 'results are not overwritten' 1 '' '*has results: --resume goes on*' "$mixed" --node "$node" --out "$out_mixed"

# A Node whose buffers overlap: the program has to notice.
cat >"$scratch/overlap.js" <<'END'
const one = Buffer.allocUnsafeSlow(65536);
Buffer.allocUnsafe = (bytes) => one.subarray(0, bytes);
END
node_with "$scratch/overlap.js" overlapping
expect 'a buffer that another one overwrites fails the run' 1 '*' '*was overwritten*is not complete*' \
    "$mixed" --node "$scratch/overlapping" --out "$scratch/overlap" --rounds 2 --seconds 0.5 --steady-from 0.2 --arms 'js64k js65536'
finish
