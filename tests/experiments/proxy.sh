#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the experiment proxy with runs of a second: the word for a curve, arms, tables, what goes wrong.'
# shellcheck source=tests/experiments/lib.sh
source "$(dirname "$0")/lib.sh"

need_node proxy
proxy=$experiments/proxy/run

# --- What it refuses ---------------------------------------------------------------------------------

while IFS=';' read -r arguments reason; do
    read -ra words <<<"$arguments"
    expect "proxy $arguments is a usage error" 2 '' "proxy: $reason*" "$proxy" --out "$scratch/none" --node "$node" "${words[@]}"
done <<'END'
--connections x;--connections x: not a whole number of at least 1
--rounds 1;--rounds 1: 2 or more
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

# --- The proxy ---------------------------------------------------------------------------------------

if ! command -v wrk >"$scratch/found"; then
    tap_skip 'the proxy is measured' 'wrk is not installed'
    finish
fi
# shellcheck disable=SC2317 # called by check; the brackets keep grep from finding itself
no_origin_left() {
    ! grep -ls -- "$scratch/[p]roxy" /proc/[0-9]*/cmdline >"$scratch/found"
}
out_proxy=$scratch/proxy
capture "$proxy" --node "$node" --out "$out_proxy" --rounds 2 --seconds 1 --settle 0.1 --connections 20 --arms 'js64k 64k'
is 'the proxy is measured' "$status" 0
[[ $status == 0 ]] || tap_diagnose <"$scratch/err"
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
