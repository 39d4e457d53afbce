#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests run, dump, report and log together, with the real library in a process that pins known blocks.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

if [[ ! -e $library ]]; then
    printf 'Bail out! %s is not built\n' "$library"
    exit 1
fi
build json_value -ljson-c
build pinner
pinner=$scratch/pinner
dumps=$scratch/dumps
mkdir "$dumps" "$dumps/two words"
tool=$PINPOOL_TOOL
run=("$tool" run --lib "$library" --pools 64k --policy bump --dir "$dumps")
usr1=$(kill -l USR1)

# The figures of the pinned tier that a dump or a line of the log has.
figures() {
    "$scratch/json_value" "$@" | tr '\n' ' '
}
dump_figures=(tiers.0.block_bytes tiers.0.current_blocks tiers.0.pinned_blocks tiers.0.empty_blocks tiers.0.live_slices
    tiers.0.live_bytes tiers.0.held_bytes)
known='65536 1 99 0 100 409600 6553600 '

# shellcheck disable=SC2016 # for the inner shell
expect 'the library is loaded into what run starts, and into its children' 0 '*' '' \
    "${run[@]}" sh -c 'grep -q libpinpool.so /proc/self/maps && sh -c "grep -q libpinpool.so /proc/self/maps"'

start "${run[@]}" --stats=keep "$pinner" 100
expect 'a dump is written and found' 0 "$dumps/pinpool.$child.1.jsonl" '' "$tool" dump "$child"
first=$out
"$tool" report --json "$first" >"$scratch/json"
is 'it has exactly the blocks and bytes that the process pinned' "$(figures "${dump_figures[@]}" <"$scratch/json")" "$known"
is 'all of them by one slice each' "$(figures tiers.0.sole_pinner_blocks tiers.0.stranded_bytes <"$scratch/json")" \
    "99 $((99 * 61440)) "
is 'it names the process and the reason' "$(figures whole dump.pid dump.seq dump.reason dump.exe <"$scratch/json")" \
    "true $child 1 signal $pinner "
expect 'a second dump is another file' 0 "$dumps/pinpool.$child.2.jsonl" '' "$tool" dump "$child"
expect 'a report is shown' 0 "*(pid $child)*400.0 KiB live keep 6.2 MiB: 99 pinned blocks, each held by one slice.*" '' \
    "$tool" report "$first"
expect 'the log has a line' 0 '{*}' '' "$tool" log -n 2 -i 0.05 "$child"
tail -n 1 "$scratch/out" >"$scratch/json"
is 'with exactly the same figures' "$(figures "${dump_figures[@]}" <"$scratch/json")" "$known"
# Bounds: the current block may hold none of the live bytes, or as much as fits.
is 'and bounds of what is stranded around the truth' \
    "$(figures tiers.0.stranded_low_bytes tiers.0.stranded_high_bytes <"$scratch/json")" \
    "$((99 * 65536 - 409600)) $((100 * 65536 - 409600)) "
stats=$dumps/pinpool.$child.stats
expect 'the stats file by its name says the same' 0 '{*}' '' "$tool" log --file "$stats" -n 1
is 'of the same process' "$(figures pid active "${dump_figures[@]}" <"$scratch/out")" "$child true $known"
: >"$scratch/log"
"$tool" log -i 0.05 "$child" >"$scratch/log" 2>"$scratch/log.err" &
watcher=$!
children+=("$watcher")
sleep 0.3
stop "$child"
status=0
wait "$watcher" || status=$?
is 'the log ends well when the process does' "$status $(cat "$scratch/log.err")" '0 '
check 'after several lines' test "$(wc -l <"$scratch/log")" -ge 2
expect 'a process that was killed wrote nothing down, and that is said' 1 '' '*its process ended without writing down*' \
    timeout 10 "$tool" log --file "$stats" -i 0.01
"${run[@]}" --stats=keep "$pinner" 100 exit >"$scratch/kept" 2>&1 &
kept=$!
wait "$kept"
capture timeout 10 "$tool" log --file "$dumps/pinpool.$kept.stats" -i 0.01
is 'of one that ended by itself the file tells what it had done' \
    "$status $(wc -l <"$scratch/out") $(figures rss_bytes "${dump_figures[@]}" <"$scratch/out")" "0 1 null $known"

start "${run[@]}" "$pinner" 3
expect 'a process without a stats file can be followed, too' 0 '{*}' '' "$tool" log -n 1 "$child"
is 'and leaves nothing behind' "$(ls "$dumps/pinpool.$child".* 2>/dev/null)" ''
stop "$child"

start "${run[@]}" --signal USR2 --dir "$dumps/two words" "$pinner" 3 wipe
expect 'another signal and directory are found though the environment was written over' 0 \
    "$dumps/two words/pinpool.$child.1.jsonl" '' "$tool" dump "$child"
stop "$child"

start "${run[@]}" --signal off "$pinner" 3
expect 'a signal that is off is not sent' 1 '' '*its dump signal is off (PINPOOL_SIGNAL); nothing was sent' "$tool" dump "$child"
expect 'nor one that nobody catches' 1 '' '*signal USR1 has no handler and would kill it; nothing was sent' \
    "$tool" dump --signal USR1 "$child"
check 'and the process lives' is_alive "$child"
stop "$child"

start "${run[@]}" "$pinner" 3 "block=$usr1"
expect 'a blocked signal is a timeout that says so' 1 '' '*timeout: signal USR1 is blocked in every thread (1)*' \
    "$tool" dump --timeout 0.5 "$child"
check 'and the process lives' is_alive "$child"
stop "$child"

start "$pinner" 3
expect 'a process without the library is not sent a signal' 1 '' '*libpinpool.so is not loaded into it*' "$tool" dump "$child"
check 'and it lives' is_alive "$child"
stop "$child"

capture "${run[@]}" --dump-at-exit "$pinner" 3 exit
is 'a program ends as it would, and silently' "$status$out$err" 0
found=("$dumps"/pinpool.*.jsonl)
last=$(grep -l '"reason":"exit"' "${found[@]}")
"$tool" report --json "$last" >"$scratch/json"
is '--dump-at-exit leaves a whole dump' "$(figures whole dump.reason tiers.0.pinned_blocks <"$scratch/json")" 'true exit 2 '

start "${run[@]}" --off --stats "$pinner" 3
capture "$tool" log -n 1 "$child"
is 'the control arm says that it is not active' "$(figures active held_bytes <"$scratch/out")" 'false 0 '
stop "$child"
finish
