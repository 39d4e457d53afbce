#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the experiments readfile, lock-waits and pool-sizes, with the Node that is installed.'
# shellcheck source=tests/experiments/lib.sh
source "$(dirname "$0")/lib.sh"

need_node 'readfile, lock-waits and pool-sizes'
quick=(--node="$node" --rounds=2 --warmup=0 --seed=1 --seconds=0.1 --lead-in=0.05 --readers=2)

# row FILE FIRST...: the row that begins with these cells, one blank between cells, the bars left out
row() {
    local file=$1 begin
    shift
    begin=$(printf '%s ' "$@")
    sed -n 's/ *| */ /g; s/^ //; s/  */ /g; s/ $//p' "$file" | grep -F -- "$begin" | head -n 1
}

# has SENTENCE FILE TEXT
has() {
    if grep -q -F -- "$3" "$2"; then
        ok 0 "$1"
    else
        ok 1 "$1"
        printf 'not in %s: %s\n' "$2" "$3" | tap_diagnose
        tap_diagnose <"$2"
    fi
}

# --- Usage -------------------------------------------------------------------------------------------

while IFS=';' read -r script arguments reason; do
    read -ra words <<<"$arguments"
    expect "$script $arguments is a usage error that says why" 2 '' "$script: $reason*" \
        "$experiments/$script/run" --out="$scratch/none" --node="$node" "${words[@]}"
done <<'END'
readfile;--sizes 9x;--sizes 9x: 9x is not a size
readfile;--sizes 2k,2048;--sizes 2k,2048: 2048 is there twice
readfile;--sizes ,;--sizes ,: no sizes
readfile;--seconds 0;--seconds 0: not a number of seconds above 0
readfile;--readers none;--readers none: not a whole number
readfile;--size 2k;--size: no such option
lock-waits;--size 2k,4k;--size 2k,4k: one size
lock-waits;--sizes 2k;--sizes: no such option
pool-sizes;--lead-in x;--lead-in x: not a number of seconds above 0
END
check 'and leaves nothing' test ! -e "$scratch/none"
for script in readfile lock-waits pool-sizes; do
    expect "$script --help tells its own options and those of every experiment" 0 '*--seconds S*--resume*' '' "$experiments/$script/run" --help
done

# --- Reading files ----------------------------------------------------------------------------------------------

readfile=("$experiments/readfile/run" "${quick[@]}" --out="$scratch/readfile" '--sizes=512,16k' --arms='off 64k')
capture "${readfile[@]}"
is 'readfile measures' "$status" 0
[[ $status == 0 ]] || printf '%s\n' "$err" | tap_diagnose
cp "$scratch/out" "$scratch/readfile.table"
check 'what it prints is the table it keeps' cmp -s "$scratch/readfile.table" "$scratch/readfile/table.md"
for wanted in '512 B:+7 %' '16 KiB:+23 %'; do
    # Reads/s without preload, the change, the figure of the source; two rounds give no interval.
    check "the row of ${wanted%:*} has our change beside the source's" \
        grep -q -E "^${wanted%:*} [0-9,]+ [+-][0-9.]+ % \\${wanted#*:} -\$" <<<"$(row "$scratch/readfile.table" "${wanted%:*}")"
done
has 'that two rounds say nothing is said' "$scratch/readfile.table" '2 rounds: at least 6 are needed for an interval'
is 'each run has one process a size, with its readers' \
    "$(cat "$scratch"/readfile/readfile/runs/*/output | grep -o '"kind":"threads","readers":2,"bytes":[0-9]*' | sort | uniq -c | tr -s ' ' | tr '\n' ' ')" \
    ' 4 "kind":"threads","readers":2,"bytes":16384  4 "kind":"threads","readers":2,"bytes":512 '
is 'Node itself had the preload of its arm' \
    "$(cat "$scratch"/readfile/readfile/runs/*-64k/output | grep -c "\"preload\":\"$(realpath "$library")\"") $(cat "$scratch"/readfile/readfile/runs/*-off/output | grep -c '"preload":""')" '4 4'
check 'and the pools carved in it' test "$(grep -o '"arm":"64k".*"carved_slices":[0-9]*' "$scratch/readfile/readfile/runs.jsonl" | grep -c 'carved_slices":[1-9]')" = 2

capture "${readfile[@]}" --table
check '--table prints the same again' cmp -s "$scratch/out" "$scratch/readfile.table"
capture "${readfile[@]}" --resume
is '--resume of what is complete runs nothing' "$status $err" '0 '
check 'and prints the same' cmp -s "$scratch/out" "$scratch/readfile.table"
expect 'results are not overwritten' 1 '' '*has results: --resume goes on with them*' "${readfile[@]}"
expect 'a folder without results has no table' 1 '' '*no results there*' "$experiments/readfile/run" --node="$node" --out="$scratch" --table

# --- What the table says of results that are known ---------------------------------------------------

# known FROM TO NAME: the same results with six rounds' intervals: slower at 512 B, and as in the source, +23 %
# and more than it reports for 512 B, at 16 KiB.
known() {
    mkdir -p "$2"
    "$node" - "$1/result.json" "$2/result.json" <<'END'
const fs = require('node:fs');
const [from, to] = process.argv.slice(2);
const result = JSON.parse(fs.readFileSync(from, 'utf8'));
const known = { reads_512: [-5, -7, -3], reads_16384: [22, 20, 26] };
for (const row of result.comparisons.filter((comparison) => comparison.metric in known)) {
    [row.paired_percent, row.paired_low95_percent, row.paired_high95_percent] = known[row.metric];
    row.n_pairs = 6;
}
for (const arm of result.arms) {
    arm.runs = 6;
}
fs.writeFileSync(to, JSON.stringify(result));
END
}

known "$scratch/readfile/readfile" "$scratch/known/readfile"
"$experiments/readfile/run" --node="$node" --out="$scratch/known" --table >"$scratch/known.readfile"
check 'a change is compared to the source by its interval: below' \
    grep -q -F -- '-5.0 % (-7.0 to -3.0) +7 % below' <<<"$(row "$scratch/known.readfile" '512 B')"
check 'the same' grep -q -F -- '+22.0 % (+20.0 to +26.0) +23 % as the PR' <<<"$(row "$scratch/known.readfile" '16 KiB')"
has 'where an arm is faster and where slower is said' "$scratch/known.readfile" '- 64k: faster at 16 KiB; slower at 512 B.'
"$experiments/pool-sizes/run" --node="$node" --out="$scratch/known" --table >"$scratch/known.pool-sizes"
check 'in pool-sizes what an interval shows has a star, and the best arm is named' \
    grep -q -F -- '+22.0 % * 64k 256: +64 %' <<<"$(row "$scratch/known.pool-sizes" '16 KiB')"
check 'but only when it is faster' grep -q -F -- '-5.0 % * - -' <<<"$(row "$scratch/known.pool-sizes" '512 B')"

# --- Pool sizes ---------------------------------------------------------------------------------------

capture "$experiments/pool-sizes/run" "${quick[@]}" --out="$scratch/pool-sizes" --sizes=16k --arms='off 256k'
is 'pool-sizes measures' "$status" 0
[[ $status == 0 ]] || printf '%s\n' "$err" | tap_diagnose
check 'its row has the change of each pool, and the source' \
    grep -q -E '^16 KiB [0-9,]+ [+-][0-9.]+ % - 256: \+64 %$' <<<"$(row "$scratch/out" '16 KiB')"
check 'the one figure that the source has stands beside ours' grep -q -E '^256k at 16 KiB: [+-][0-9.]+ %; the source has \+64 %\.$' "$scratch/out"

# --- A measured program that fails -------------------------------------------------------------------

# Plays Node, and instead of measuring does what the file `does` says.
cat >"$scratch/bad-node" <<'END'
#!/bin/sh
case $1 in
--v8-options | */table.js) exec node "$@" ;;
esac
. "$0.does"
END
chmod +x "$scratch/bad-node"
bad=("$experiments/readfile/run" "${quick[@]}" --node="$scratch/bad-node" --arms='off 64k' --sizes=512)
cat >"$scratch/bad-node.does" <<'END'
for word; do
    case $word in
    /dev/shm/*) echo "$word" >"$0.file" ;;
    esac
done
echo no memory >&2
exit 3
END
expect 'a Node that fails ends the experiment, and is told' 1 '' \
    '*no memory*512 bytes: Node ended with status 3*go on with it' "${bad[@]}" --out="$scratch/bad1"
check 'its file was on tmpfs and is gone' test "$(wc -l <"$scratch/bad-node.file")" = 1 -a ! -e "$(cat "$scratch/bad-node.file")"
echo 'echo "{\"bytes\":513,\"reads_per_s\":1,\"peak_rss_kib\":1}"' >"$scratch/bad-node.does"
expect 'figures of another size, too' 1 '' '*512 bytes: Node printed no figures of that size*' "${bad[@]}" --out="$scratch/bad2"
expect 'and what is no Node at all' 1 '' '*false --v8-options failed*' "${bad[@]}" --node=false --out="$scratch/bad3"
printf 'x' >"$scratch/short"
for kind in threads processes; do
    expect "readers that are $kind check what they read" 1 '' '*short does not have 2 bytes*' \
        timeout 10 "$node" "$root/scripts/experiments/read_file.js" "$scratch/short" 2 2 0.05 0.05 "$kind"
done

# --- Lock waits ---------------------------------------------------------------------------------------------

# Plays scripts/mmap-lock: runs the command, and tells of waits that depend on arm and readers.
cat >"$scratch/traces" <<'END'
#!/bin/sh
[ "$1" != --check ] || exit 0
file=$2 ns=16000
case "$*" in
*PINPOOL_POOLS=64k*) ns=4000 ;;
esac
case "$*" in
*processes*) ns=$((ns / 16)) ;;
esac
printf '{"write":{"acquired":300,"waited":20,"total_ns":%d,"p99_ns":9},"read":{"acquired":100,"waited":10,"total_ns":%d,"p99_ns":9},"syscalls":{"mmap":7,"munmap":6}}' \
    $((ns * 300)) $((ns * 200)) >"$file"
shift 5
exec "$@"
END
chmod +x "$scratch/traces"
capture env PINPOOL_MMAP_LOCK="$scratch/traces" "$experiments/lock-waits/run" "${quick[@]}" --out="$scratch/lock-waits" --arms='off 64k'
is 'lock-waits measures' "$status" 0
[[ $status == 0 ]] || printf '%s\n' "$err" | tap_diagnose
cp "$scratch/out" "$scratch/lock-waits.table"
is 'the time for an acquisition to write, of threads and of processes' "$(row "$scratch/lock-waits.table" off write)" 'off write 16.00 1.00 16x ~17x'
is 'to read' "$(row "$scratch/lock-waits.table" off read)" 'off read 32.00 2.00 16x ~17x'
is 'and of both together' "$(row "$scratch/lock-waits.table" off both)" 'off both 20.00 1.25 16x ~17x'
is 'with a pool' "$(row "$scratch/lock-waits.table" 64k write)" '64k write 4.00 0.25 16x'
has 'and in words' "$scratch/lock-waits.table" 'off: workers wait 16x as long for each acquisition as processes (write 16x, read 16x), less than the ~17x of the source.'
# Of one run by hand: its waits over its own reads, which are in the traced run's output.
per_read() {
    local directory sums=()
    for directory in "$scratch"/lock-waits/workers/runs/*-"$1"; do
        sums+=("$(sed -n 's/.*"all_reads":\([0-9]*\).*/\1/p' "$directory/traced-output")")
    done
    awk -v a="${sums[0]}" -v b="${sums[1]}" -v wait_s="$2" 'BEGIN { printf "%.3f", (wait_s * 1e6 / a + wait_s * 1e6 / b) / 2 }'
}
check 'waits together are for a million reads of the traced runs' \
    grep -q -F "off write $(per_read off 0.0048) " <<<"$(grep -A 99 'All waits' "$scratch/lock-waits.table" >"$scratch/lock-waits.together"; row "$scratch/lock-waits.together" off write)"
check 'the pool that the source has stands beside it' grep -q -E '^64k both .* ~2\.5x$' <<<"$(row "$scratch/lock-waits.together" 64k both)"
check 'there are system calls for each arm and kind' \
    test "$(grep -c -E '^\| (off|64k) +\| (workers|processes) ' "$scratch/lock-waits.table")" = 4
is 'the processes are processes' "$(cat "$scratch"/lock-waits/processes/runs/*/output | grep -c '"kind":"processes","readers":2,"bytes":16384')" 4
check 'each of them in its arm' \
    test "$(sed -n 's/.*"arm":"64k".*"processes_active":\([0-9]*\).*/\1/p' "$scratch/lock-waits/processes/runs.jsonl" | awk '$1 >= 3' | wc -l)" = 2

cat >"$scratch/refuses" <<'END'
#!/bin/sh
echo 'mmap-lock: tracing is not possible here: it needs root' >&2
exit 77
END
chmod +x "$scratch/refuses"
expect 'where tracing is not possible it says so' 77 '' '*tracing is not possible here*' \
    env PINPOOL_MMAP_LOCK="$scratch/refuses" "$experiments/lock-waits/run" "${quick[@]}" --out="$scratch/untraced"
finish
