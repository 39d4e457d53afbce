#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the experiments mixed-lifetimes and proxy with runs of a second: arms, figures, tables, what goes wrong.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/../cli/support/tap.sh"

if ! node=$(command -v node) || ! "$node" -e 'process.exit(parseInt(process.versions.node, 10) < 18 ? 1 : 0)'; then
    skip 'mixed-lifetimes and proxy' 'there is no Node of version 18 or later'
    finish
fi
export PINPOOL_GNUPLOT='' PINPOOL_LIB=$library PINPOOL_TOOL BUILD_DIR
experiments=$root/scripts/experiments
mixed=$experiments/mixed-lifetimes/run
proxy=$experiments/proxy/run

# --- What they refuse --------------------------------------------------------------------------------

while IFS=';' read -r arguments reason; do
    read -ra words <<<"$arguments"
    expect "$arguments is a usage error" 2 '' "*: $reason*" "$experiments/${words[0]}/run" --out "$scratch/none" --node "$node" "${words[@]:1}"
done <<'END'
mixed-lifetimes --seconds 0;--seconds 0: not a number of seconds above 0
mixed-lifetimes --seconds 3 --steady-from 3;--seconds 3: not more than --steady-from (3)
mixed-lifetimes --rounds 1;--rounds 1: 2 or more
mixed-lifetimes --arms jsx;--arms: jsx is not js and a size
mixed-lifetimes --connections 3;--connections: no such option
proxy --connections x;--connections x: not a whole number of at least 1
proxy --rounds 1;--rounds 1: 2 or more
END

# --- The word for a curve ----------------------------------------------------------------------------

# 600 samples of about 200 MB in which the second half climbs by so many per cent; sawtooth and noise of 3 %
# each. Prints how often each word was given to 200 curves.
cat >"$scratch/curves.js" <<'END'
const { judgeCurve } = require(process.argv[2]);
const climb = Number(process.argv[3]) / 100;
const seconds = Number(process.argv[4]);
let state = 7;
const random = () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) / 0x80000000;
const words = {};
for (let i = 0; i < 200; i++) {
    const phase = 10 * random();
    const samples = Array.from({ length: seconds }, (_, t) => ({
        timeS: t,
        value: 200e6 * (1 + climb * Math.max(0, (2 * t) / seconds - 1) + 0.03 * (((t + phase) % 7) / 7) + 0.03 * (random() - 0.5)),
    }));
    const { word } = judgeCurve(samples, 200e6);
    words[word] = (words[word] ?? 0) + 1;
}
console.log(Object.entries(words).sort(([, a], [, b]) => b - a).map(([word, count]) => `${word} ${count}`).join(' '));
END
curves() {
    "$node" "$scratch/curves.js" "$experiments/proxy/table.js" "$@"
}
is 'a level with sawtooth and noise is a plateau in 10 minutes' "$(curves 0 600)" 'plateau 200'
is 'a climb of 5 % is one' "$(curves 5 600)" 'climbs 200'
is 'and the other way round' "$(curves -5 600)" 'falls 200'
two=$(curves 0 120)
check "in 2 minutes a plateau is hardly ever taken for something else ($two)" test "$(grep -cE 'climbs|falls' <<<"$two")" = 0
at_margin=$(curves 2 600)
check "at the margin it is unclear ($at_margin)" grep -q '^unclear' <<<"$at_margin"
is 'and with too few samples' "$(curves 5 40)" 'unclear 200'

# --- Mixed lifetimes ---------------------------------------------------------------------------------

out_mixed=$scratch/mixed
capture env MIXED_POOL_SIZE=1 PINPOOL_POOLS=1m "$mixed" --node "$node" --out "$out_mixed" --rounds 2 --seconds 0.5 --steady-from 0.2 \
    --rate 5000 --arms 'js8k js64k 64k'
is 'mixed lifetimes are measured' "$status" 0
[[ $status == 0 ]] || diagnose <"$scratch/err"
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

# node_with SCRIPT NAME: a Node that loads SCRIPT before everything but the table.
node_with() {
    cat >"$scratch/$2" <<END
#!/bin/sh
case \$1 in
--v8-options | */table.js) exec "$node" "\$@" ;;
esac
exec "$node" --require "$1" "\$@"
END
    chmod +x "$scratch/$2"
}

# A Node whose buffers overlap: the program has to notice.
cat >"$scratch/overlap.js" <<'END'
const one = Buffer.allocUnsafeSlow(65536);
Buffer.allocUnsafe = (bytes) => one.subarray(0, bytes);
END
node_with "$scratch/overlap.js" overlapping
expect 'a buffer that another one overwrites fails the run' 1 '*' '*was overwritten*is not complete*' \
    "$mixed" --node "$scratch/overlapping" --out "$scratch/overlap" --rounds 2 --seconds 0.5 --steady-from 0.2 --arms 'js64k js65536'

# --- The proxy ---------------------------------------------------------------------------------------

if ! command -v wrk >"$scratch/found"; then
    skip 'the proxy is measured' 'wrk is not installed'
    finish
fi
# shellcheck disable=SC2317 # called by check; the brackets keep grep from finding itself
no_origin_left() {
    ! grep -ls -- "$scratch/[p]roxy" /proc/[0-9]*/cmdline >"$scratch/found"
}
out_proxy=$scratch/proxy
capture "$proxy" --node "$node" --out "$out_proxy" --rounds 2 --seconds 1 --settle 0.1 --connections 20 --arms 'js64k 64k'
is 'the proxy is measured' "$status" 0
[[ $status == 0 ]] || diagnose <"$scratch/err"
for arm in js64k 64k; do
    check "with a row of $arm in the tables of resident size and of external" test "$(grep -cE "^\| $arm +\|" <<<"$out")" -ge 2
done
check 'its requests were answered' test "$(grep -ho '^requests: [0-9]*' "$out_proxy"/node/runs/*-round0-js64k/load | cut -d' ' -f2)" -gt 20
check 'none of them failed' grep -q '"served":[1-9][0-9]*,"failed":0' "$out_proxy"/node/runs/*-round0-64k/output
check 'the service said what it kept' grep -q '^{"time_s":.*"external":[1-9]' "$out_proxy"/node/runs/*-round0-js64k/output
check 'the source stands beside it' grep -qE '^\| js64k .*\| climbs +\|$' <<<"$out"
check 'a second is too short for a word' grep -qE '^\| 64k .*\| unclear +\| -' <<<"$out"
is 'the table is kept, too' "$(cat "$out_proxy/table.md")" "$out"
check 'the origin is gone' no_origin_left

# An origin that sends something else than it announces.
cat >"$scratch/short.js" <<'END'
if (/proxy\/origin/.test(process.argv[1])) {
    const { ServerResponse } = require('node:http');
    const end = ServerResponse.prototype.end;
    ServerResponse.prototype.end = function (body) { return end.call(this, body && Buffer.alloc(body.length, 252)); };
}
END
node_with "$scratch/short.js" liar
expect 'answers that are wrong fail the run' 1 '*' '*the load ended with exit status 1*requests:*status*is not complete*' \
    "$proxy" --node "$scratch/liar" --out "$scratch/proxy-wrong" --rounds 2 --seconds 1 --settle 0.1 --connections 20 --arms 'js64k 64k'
check 'and the origin is gone then, too' no_origin_left
finish
