#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests scripts/experiments/buffer-creation and what it measures with, on the Node in PATH.'
# shellcheck source=tests/experiments/lib.sh
source "$(dirname "$0")/lib.sh"

experiment=$experiments/buffer-creation
measured=$experiment/measured.js
creation=$experiment/run

# --- What it refuses ---------------------------------------------------------------------------------

while IFS=';' read -r arguments reason; do
    read -ra words <<<"$arguments"
    expect "$arguments is a usage error that says why" 2 '' "buffer-creation: *$reason*" "$creation" --out "$scratch/none" "${words[@]}"
done <<'END'
--types fast;fast is none of buffer()
--types slow,slow;slow is there twice
--types ,;no types
--lengths 10,x;x is not a size
--held 4k,4096;4096 is there twice
--seconds 0;not a number of seconds above 0
--nodes no-such-node;no-such-node is no version and no program
--nodes /no/such/node;is no version and no program
--bogus 1;no such option
END
expect 'the help names what it compares' 0 '*--scavenger-max-new-space-capacity-mb*--nodes LIST*--resume*' '' "$creation" --help

need_node 'everything else'
version=$(node --version)
version=${version#v}

# --- The measured program ----------------------------------------------------------------------------

expect 'it creates buffers of every length and says how many a second' 0 \
    "Node v$version, *"$'\n''slow-allocUnsafe len=10: [1-9]*.*'$'\n''buffer() len=4096: [1-9]*.*'$'\n''fast-alloc-fill len=70000: [1-9]*.*' '' \
    node "$measured" speed 0.01 0.02 slow-allocUnsafe:10 'buffer():4096' fast-alloc-fill:70000
expect 'a type that there is not' 1 '' '*fast: no such type*' node "$measured" speed 0.01 0.02 fast:10
expect 'a length that is none' 1 '' '*:0: not TYPE:LENGTH*' node "$measured" speed 0.01 0.02 slow-allocUnsafe:0
expect 'a Node that is another one' 1 '' "*this is Node v$version, not 1.2.3*" \
    env BUFFER_CREATION_VERSION=1.2.3 node "$measured" speed 0.01 0.02 slow-allocUnsafe:10
expect 'no account without pinpool' 1 '*' '*account needs pinpool*' node "$measured" account 0.01 0.02 slow-allocUnsafe:4096
mkdir "$scratch/dumps"
preloaded=(env "LD_PRELOAD=$library" "PINPOOL_DIR=$scratch/dumps" "EXPERIMENT_TOOL=$PINPOOL_TOOL" PINPOOL_POOLS=64k)
expect 'no account of a length that no pool serves' 1 '*' '*no pool serves 40000 bytes*' \
    "${preloaded[@]}" node "$measured" account 0.01 0.1 slow-allocUnsafe:40000

capture "${preloaded[@]}" node "$measured" account 0.05 1 slow-allocUnsafe:16384
is 'an account comes to a good end' "$status$err" 0
figure() {
    sed -n "s/^slow-allocUnsafe len=16384 $1: //p" <<<"$out"
}
check 'what is held is at least what is live, stranded and empty' \
    awk -v held="$(figure held_bytes)" -v parts="$(figure live_bytes) $(figure stranded_bytes) $(figure empty_bytes)" \
    'BEGIN { split(parts, part); exit !(part[1] > 0 && held + 1 >= part[1] + part[2] + part[3]) }'
check 'blocks of 64 KiB have room for 4 slices of 16 KiB, and some are live' \
    awk -v room="$(figure room_per_block)" -v slices="$(figure slices_per_block)" \
    'BEGIN { exit !(room == 4 && slices > 0 && slices <= room) }'
check 'several dumps were taken' test "$(figure dumps | cut -d. -f1)" -ge 6
check 'the collector ran' awk -v gc="$(figure scavenges_per_s)" -v major="$(figure mark_compacts_per_s)" 'BEGIN { exit !(gc + major > 0) }'
is 'no dump is left' "$(ls "$scratch/dumps")" ''

# --- A whole experiment ------------------------------------------------------------------------------

# fake_node NAME CAPACITY: this Node, which says that V8's flag is CAPACITY by itself, and takes the flag
# whether there is such a one or not. So the tables of two Nodes and two capacities are tested on any Node.
fake_node() {
    cat >"$scratch/$1" <<END
#!/bin/sh
case \$1 in
--v8-options) printf '  --scavenger-max-new-space-capacity-mb (some words)\n        type: uint  default: --scavenger-max-new-space-capacity-mb=$2\n' ;;
--scavenger-max-new-space-capacity-mb=*) shift; exec "$node" "\$@" ;;
*) exec "$node" "\$@" ;;
esac
END
    chmod +x "$scratch/$1"
}
fake_node old 4
fake_node new 32
quick=(--rounds 2 --warmup 0 --seconds 0.02 --lead-in 0.01)
out_dir=$scratch/whole
capture "$creation" --out "$out_dir" --nodes "$scratch/old $scratch/new" --arms 'off 64k' "${quick[@]}" \
    --lengths 10,16k --types 'buffer()' --held 16k
is 'an experiment comes to a good end' "$status" 0
whole=$out
[[ $status == 0 ]] || tap_diagnose <<<"$err"

row() {
    grep -c -E "^\| $1" <<<"$whole" || true
}
is 'the first table has each length with each capacity' "$(row "(10 B|16 KiB) +\| $version@(8|32) ")" 4
is 'the second the old Node and all arms at each length' "$(row '(10 B|16 KiB) +\| +[0-9,]+ \| .*\|.*\|.*\|')" 2
is 'the third each type with each length' "$(row 'buffer\(\) \| +(10 B|16 KiB) ')" 2
is 'the last the pool with each capacity, with a word' "$(row '16 KiB \| 64k +\| @(8|32) .*(gc-held|pool-pinned|mixed|none pinned) +\|')" 2
check "the source's figures stand in the rows they belong to" grep -q -E "^\| 10 B +\| $version@32 .*-12.5 % \*\* .*-9.3 % \* " <<<"$whole"
check 'and not beside another capacity' grep -q -E "^\| 10 B +\| $version@8 .*\| +- \| +- \|$" <<<"$whole"
is 'every arm was proved in every run' "$(cat "$out_dir"/*/runs.jsonl | grep -c '"failure":null')" "$((2 * (5 + 2 + 2)))"
is 'by the version that each run says' "$(cat "$out_dir"/*/runs/*/output | grep -c "^Node v$version, ")" "$((2 * (5 + 2 + 2)))"
is 'the printed table is kept' "$(cat "$out_dir/table.md")" "$whole"
expect 'and made again of stored results' 0 "$whole" '' "$creation" --out "$out_dir" --node "$node" --table
expect 'results are not overwritten' 1 '' '*has results*' "$creation" --out "$out_dir" --nodes "$scratch/old $scratch/new"
expect 'resuming what is complete measures nothing' 0 "$whole" '' "$creation" --out "$out_dir" --nodes "$scratch/old $scratch/new" \
    --arms 'off 64k' "${quick[@]}" --lengths 10,16k --types 'buffer()' --held 16k --resume

# --- What the table says depends on the figures ----------------------------------------------------

# with_figures NAME STATEMENTS: table of these results, changed in JavaScript (result is result.json's).
with_figures() {
    local copy=$scratch/changed
    rm -rf "$copy"
    mkdir -p "$copy/$1"
    node -e "const fs = require('node:fs'); const [, from, to, table] = process.argv;
        const result = JSON.parse(fs.readFileSync(from + '/$1/result.json')); $2;
        fs.writeFileSync(to + '/$1/result.json', JSON.stringify(result));
        process.argv[2] = to; require(table);" "$out_dir" "$copy" "$experiment/table.js"
}
while IFS=';' read -r slices word; do
    with_figures retention "for (const { values } of result.runs) Object.assign(values, { pinned_blocks_16384: 9, room_per_block_16384: 4, slices_per_block_16384: $slices })" >"$scratch/table"
    is "$slices slices of 4 are $word" "$(grep -c "| $word *|$" "$scratch/table")/$(grep -c "^Pinned blocks are $word in 2 of 2 rows: $word\.$" "$scratch/table")" 2/1
done <<'END'
3.2;gc-held
1.9;mixed
1.2;pool-pinned
END
with_figures retention 'for (const { arm, values } of result.runs) values.live_bytes_16384 = arm.includes("@32-") ? 3e7 : 1e7' >"$scratch/table"
check 'live bytes are compared between the capacities' grep -q '^With the capacity at 32 instead of 8 live bytes are 3.00 times as many' "$scratch/table"
while IFS=';' read -r improvement stars slower; do
    with_figures versions "for (const row of result.comparisons) Object.assign(row, { improvement_percent: $improvement, confidence: '$stars' })" >"$scratch/table"
    check "$improvement % $stars is counted as that" grep -q -F "$version@32 is slower with a star at $slower (" "$scratch/table"
done <<'END'
-20;***;1 of 1 lengths from 16 to 64 KiB, with *** at 1
-20;*;1 of 1 lengths from 16 to 64 KiB, with *** at 0
-20;;0 of 1 lengths from 16 to 64 KiB, with *** at 0
20;***;0 of 1 lengths from 16 to 64 KiB, with *** at 0
END

# --- What goes wrong ---------------------------------------------------------------------------------

cat >"$scratch/liar" <<END
#!/bin/sh
[ "\$1" != --version ] || { echo v1.2.3; exit; }
exec "$node" "\$@"
END
chmod +x "$scratch/liar"
expect 'a Node that is not what its arm says fails the run' 1 '' "*this is Node v$version, not 1.2.3*is not complete*--resume*" \
    "$creation" --out "$scratch/liar-out" --nodes "$scratch/liar" "${quick[@]}" --lengths 10 --arms 'off 64k'
check 'and gives no table' test ! -e "$scratch/liar-out/table.md"
if [[ $(node --v8-options) == *'--scavenger-max-new-space-capacity-mb '* ]]; then
    tap_skip 'a Node without the flag' 'this one has it'
else
    expect 'a Node without the flag runs without it, which the table says' 0 \
        "*has no --scavenger-max-new-space-capacity-mb: its arms ran without it*" '*what they hold is left out*' \
        "$creation" --out "$scratch/flagless" --nodes "$node" "${quick[@]}" --lengths 16k --types slow-allocUnsafe --arms off
fi

finish
