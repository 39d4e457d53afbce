#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool log on stats files made by hand: known answers, wrong files, and when it ends.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build json_value -ljson-c
build make_stats
build fake_process -pthread
file=$scratch/x.stats
log=("$PINPOOL_TOOL" log)
make_stats=$scratch/make_stats
code=$scratch/libpinpool.so
head -c 8192 /dev/zero >"$code"

# value PATH...: of the line in $scratch/out
value() {
    head -n 1 "$scratch/out" | "$scratch/json_value" "$@" | tr '\n' ' '
}

# Two heaps and the shared slot; tier 0 is 8 KiB, tier 1 is 64 KiB.
figures=(
    0.1.freed_remote_slices=3 0.1.freed_remote_bytes=12288 0.passed_dying=4
    1.1.opened_fresh_blocks=10 1.1.opened_empty_blocks=2 1.1.opened_released_blocks=1 1.1.retired_blocks=12
    1.1.emptied_blocks=6 1.1.released_blocks=3 1.1.carved_slices=100 1.1.carved_bytes=409600
    1.1.freed_local_slices=80 1.1.freed_local_bytes=327680 1.passed_small=5
    2.0.opened_fresh_blocks=1 2.0.carved_slices=2 2.0.carved_bytes=4096 2.passed_small=7
)
"$make_stats" "$file" heaps=3 pid=2147483646 "${figures[@]}"
expect 'a stats file of a process that has ended gives one line' 0 '{*}' '' timeout 10 "${log[@]}" --file "$file" -i 0.01
is 'one line' "$(wc -l <"$scratch/out")" 1
# opened 13, retired 12, emptied 6: 1 current, 6 pinned, 6 - 2 - 3 = 1 empty. Live: 100 - 80 - 3 slices, 69632 bytes.
is 'gauges of a tier are differences of the slots'\'' sums' \
    "$(value tiers.1.block_bytes tiers.1.current_blocks tiers.1.pinned_blocks tiers.1.empty_blocks tiers.1.live_slices \
        tiers.1.live_bytes tiers.1.held_bytes)" \
    "65536 1 6 1 17 69632 524288 "
is 'what is stranded lies between bounds' "$(value tiers.1.stranded_low_bytes tiers.1.stranded_high_bytes)" '323584 389120 '
is 'the retention ratio is held / live' "$(value tiers.1.retention_ratio)" '7.5294 '
is 'the other tier' \
    "$(value tiers.0.block_bytes tiers.0.current_blocks tiers.0.pinned_blocks tiers.0.live_bytes tiers.0.held_bytes \
        tiers.0.stranded_low_bytes tiers.0.stranded_high_bytes)" '8192 1 0 4096 8192 0 4096 '
is 'sums over the tiers' "$(value current_blocks pinned_blocks empty_blocks live_slices live_bytes held_bytes retention_ratio)" \
    '2 6 1 19 73728 532480 7.2222 '
is 'counters are sums over the slots' "$(value counters.passed_small counters.passed_dying counters.passed_large)" '12 4 0 '
is 'no memory of a process that has ended' "$(value rss_bytes pss_bytes)" 'null null '
is 'the process and its state' "$(value pid active heaps unlisted_heaps)" '2147483646 true 2 0 '
check 'the first line has no rates' test "$(value tiers.1.opened_per_s 2>&1)" = ''

"$make_stats" "$file" heaps=2 unlisted=1 active=0 3.passed_small=100 2.passed_small=10 1.passed_small=1
capture "${log[@]}" --file "$file"
is 'slots behind the hole of a heap without a slot are counted, others not' \
    "$(value counters.passed_small heaps unlisted_heaps active)" '11 2 1 false '
"$make_stats" "$file" 0.0.carved_slices=1 0.0.carved_bytes=100 0.0.freed_remote_slices=2 0.0.freed_remote_bytes=200 \
    0.0.retired_blocks=5 0.0.emptied_blocks=9
capture "${log[@]}" --file "$file"
is 'a difference that is not settled yet is zero, not huge' \
    "$(value live_slices live_bytes current_blocks pinned_blocks retention_ratio)" '0 0 0 0 null '

# Wrong files. The sizes: a header of 4096 bytes, then slots.
slot=$(($("$make_stats" "$file" && stat -c %s "$file") - 4096))
slot=$((slot / 8))
expect 'no such file' 1 '' 'pinpool: /no/such: No such file or directory' "${log[@]}" --file /no/such
expect 'a directory' 1 '' "pinpool: $scratch: Is a directory" "${log[@]}" --file "$scratch"
wrong() {
    local sentence=$1 message=$2
    shift 2
    "$make_stats" "$file" "$@"
    expect "$sentence" 1 '' "pinpool: $file: $message" "${log[@]}" --file "$file"
}
wrong 'an empty file' 'not a pinpool stats file: too short' size=0
wrong 'a file shorter than a header' 'not a pinpool stats file: too short' size=100
wrong 'a file without the magic' 'not a pinpool stats file' magic=x
other='written by another pinpool (9.8.7), whose counters differ from this one'\''s (*)'
wrong 'another layout' "$other" layout=2
wrong 'another size of slots' "$other" slot_bytes=64
wrong 'another number of counters' "$other" counter_count=3
wrong 'no slots' 'not a pinpool stats file: no sensible number of slots' slot_count=0
wrong 'far too many slots' 'not a pinpool stats file: no sensible number of slots' slot_count=4294967295
wrong 'a file cut behind its header is no SIGBUS' 'the file was cut: it has room for 0 of 3 slots' heaps=3 size=4096
wrong 'a file cut in its header is no SIGBUS' 'the file was cut' heaps=3 size=2048
wrong 'a file cut between slots in use is no SIGBUS' 'the file was cut: it has room for 2 of 3 slots' heaps=3 \
    size=$((4096 + 2 * slot + 8))
"$make_stats" "$file" heaps=2 size=$((4096 + 2 * slot))
expect 'a file that lacks only slots that are not in use is fine' 0 '{*}' '' "${log[@]}" --file "$file"
"$make_stats" "$file" heaps=1 slot_count=1000000
expect 'more slots than the file has room for are fine while they are not in use' 0 '{*}' '' "${log[@]}" --file "$file"

# Cut at any moment: between the look at its size and the look into it, too.
start "$make_stats" "$scratch/flapping" heaps=3 flap=1
statuses=
for ((i = 0; i < 150; i++)); do
    capture "${log[@]}" --file "$scratch/flapping"
    statuses+=" $status"
done
stop "$child"
is 'a file that is cut at any moment is read or refused, and never a SIGBUS' "$(tr -d ' 01' <<<"$statuses")" ''

# A process.
page=signal=0:dir=$scratch
start "$scratch/fake_process"
expect 'a process without the library is an error' 1 '' '*libpinpool.so is not loaded into it*' "${log[@]}" "$child"
stop "$child"
start "$scratch/fake_process" lib="$code" page="$page"
expect 'a process without a stats file is an error that says how' 1 '' \
    "pinpool: $child (fake_process): it keeps no stats file; start it with PINPOOL_STATS=1 ('pinpool run --stats')" \
    "${log[@]}" "$child"
stop "$child"

"$make_stats" "$scratch/template" heaps=3 "${figures[@]}"
start "$scratch/fake_process" lib="$code" page="$page" dir="$scratch" stats="$scratch/template"
stats=$scratch/pinpool.$child.stats
expect 'a process with one is followed' 0 '{*}' '' "${log[@]}" --interval 0.05 --count 3 "$child"
is 'as many lines as asked for' "$(wc -l <"$scratch/out")" 3
is 'the same figures' "$(value pid pinned_blocks)" "$child 6 "
read -r rss pss <<<"$(value rss_bytes pss_bytes)"
check 'with its RSS' test "$rss" -gt 100000
check 'and its PSS' test "$pss" -gt 0 -a "$pss" -le "$rss"
tail -n 1 "$scratch/out" >"$scratch/last"
is 'later lines have rates' "$("$scratch/json_value" tiers.1.opened_per_s opened_per_s emptied_per_s released_per_s \
    <"$scratch/last" | tr '\n' ' ')" '0.0000 0.0000 0.0000 0.0000 '
capture "${log[@]}" --no-pss -n 1 "$child"
is '--no-pss leaves the PSS out and keeps the RSS' "$(value rss_bytes pss_bytes)" "$rss null "
expect '--file of a live process follows it' 0 '{*}' '' "${log[@]}" --file "$stats" -i 0.05 -n 2
is 'for as many lines as asked for' "$(wc -l <"$scratch/out")" 2
cp "$stats" "$scratch/copy"
capture timeout 10 "${log[@]}" --file "$scratch/copy" -i 0.05
is 'but a copy of its file is one line: nobody counts there' "$status $(wc -l <"$scratch/out")" '0 1'

# watch ARGUMENT...: starts a log of the child in the background and waits for its first line. Sets watcher.
watch() {
    : >"$scratch/log"
    "${log[@]}" "$@" >"$scratch/log" 2>"$scratch/log.err" &
    watcher=$!
    children+=("$watcher")
    local tries
    for ((tries = 0; tries < 500; tries++)); do
        if [[ -s $scratch/log ]]; then
            return 0
        fi
        sleep 0.02
    done
    printf 'Bail out! log wrote nothing: %s\n' "$(cat "$scratch/log.err")"
    exit 1
}
# ended SENTENCE STATUS STDERR
ended() {
    status=0
    wait "$watcher" || status=$?
    is "$1" "$status $(cat "$scratch/log.err")" "$2 $3"
}
watch -i 30 "$child"
ok 0 'a line is there as soon as it is written, though stdout is a file'
kill -TERM "$watcher"
ended 'SIGTERM ends it well' 0 ''
watch -i 30 "$child"
kill -INT "$watcher" # bash starts it with SIGINT ignored; it is caught all the same
ended 'SIGINT ends it well' 0 ''
watch -i 0.02 "$child"
truncate -s 4096 "$stats"
ended 'a stats file that is cut meanwhile ends it with a message' 1 \
    "pinpool: $stats: the file was cut: it has room for 0 of 3 slots"
stop "$child"

start "$scratch/fake_process" lib="$code" page="$page" dir="$scratch" stats="$scratch/template"
watch -i 30 "$child"
stop "$child"
ended 'the end of the process ends it well, at once' 0 ''
expect 'and then there is no such process' 1 '' "pinpool: $child: there is no such process" "${log[@]}" "$child"

if [[ -w /dev/full ]]; then
    "$make_stats" "$file"
    # shellcheck disable=SC2016 # for the inner shell
    expect 'a full disk ends it with a message' 1 '' 'pinpool: standard output: No space left on device' \
        sh -c '"$1" log --file "$2" >/dev/full' sh "$PINPOOL_TOOL" "$file"
else
    skip 'a full disk ends it with a message' 'no /dev/full here'
fi
finish
