#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool log on stats files made by hand and on a process: known answers, wrong files, and when it ends.'
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

# Tier 0 is 8 KiB, tier 1 is 64 KiB.
figures=(
    1.freed_remote_slices=3 1.freed_remote_bytes=12288 passed_dying=4
    1.opened_fresh_blocks=10 1.opened_empty_blocks=2 1.opened_released_blocks=1 1.retired_blocks=12
    1.emptied_blocks=6 1.released_blocks=3 1.carved_slices=100 1.carved_bytes=409600
    1.freed_local_slices=80 1.freed_local_bytes=327680 passed_small=12
    0.opened_fresh_blocks=1 0.carved_slices=2 0.carved_bytes=4096
)
"$make_stats" "$file" heaps=2 "${figures[@]}"
expect 'a stats file of a process that has ended gives one line' 0 '{*}' '' timeout 10 "${log[@]}" --file "$file" -i 0.01
is 'one line' "$(wc -l <"$scratch/out")" 1
# opened 13, retired 12, emptied 6: 1 current, 6 pinned, 6 - 2 - 3 = 1 empty. Live: 100 - 80 - 3 slices, 69632 bytes.
is 'gauges of a tier are differences of the counters' \
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
is 'counters are there' "$(value counters.passed_small counters.passed_dying counters.passed_large)" '12 4 0 '
is 'no memory of a process that has ended' "$(value rss_bytes pss_bytes)" 'null null '
is 'the process, its state, and when that was' "$(value pid active heaps time_unix_ns uptime_ns)" \
    '2147483646 true 2 3000000000 2000000000 '
check 'the first line has no rates' test "$(value tiers.1.opened_per_s 2>&1)" = ''

"$make_stats" "$file" 0.carved_slices=1 0.carved_bytes=100 0.freed_remote_slices=2 0.freed_remote_bytes=200 \
    0.retired_blocks=5 0.emptied_blocks=9
capture "${log[@]}" --file "$file"
is 'a difference that is not settled yet is zero, not huge' \
    "$(value live_slices live_bytes current_blocks pinned_blocks retention_ratio)" '0 0 0 0 null '

# Wrong files.
expect 'no such file' 1 '' 'pinpool: /no/such: No such file or directory' "${log[@]}" --file /no/such
expect 'a directory' 1 '' "pinpool: $scratch: not a file" "${log[@]}" --file "$scratch"
mkfifo "$scratch/fifo"
expect 'a FIFO is not waited for' 1 '' "pinpool: $scratch/fifo: not a file" timeout 5 "${log[@]}" --file "$scratch/fifo"
expect 'a device' 1 '' 'pinpool: /dev/zero: not a file' timeout 5 "${log[@]}" --file /dev/zero
wrong() {
    local sentence=$1 message=$2
    shift 2
    "$make_stats" "$file" "$@"
    expect "$sentence" 1 '' "pinpool: $file: $message" "${log[@]}" --file "$file"
}
wrong 'an empty file' 'not a pinpool stats file: too short' size=0
wrong 'a file shorter than a label' 'not a pinpool stats file: too short' size=100
wrong 'a file without the magic' 'not a pinpool stats file' magic=x
other='written by another pinpool (9.8.7), whose counters differ from this one'\''s (*)'
wrong 'another layout' "$other" layout=1
wrong 'another size of the label' "$other" label_bytes=64
wrong 'another size of counters' "$other" counters_bytes=64
wrong 'another number of counters' "$other" counter_count=3
wrong 'a file that was cut' 'the file was cut' size=400
wrong 'a file of a process that was killed' \
    'its process ended without writing down what it had done (killed, or by _exit), or may not be looked at' \
    final=0

# A process.
page=signal=0:dir=$scratch
start "$scratch/fake_process"
expect 'a process without the library is an error' 1 '' '*libpinpool.so is not loaded into it*' "${log[@]}" "$child"
stop "$child"
start "$scratch/fake_process" lib="$code" page="$page"
expect 'a page without a label is an error' 1 '' "pinpool: $child (fake_process): not a pinpool stats file" "${log[@]}" "$child"
stop "$child"
start "$scratch/fake_process" lib="$code"
expect 'a process without a page is an error that says why' 1 '' \
    "pinpool: $child (fake_process): it has no sealed page of pinpool's (memfd_create was refused when it started?)" \
    "${log[@]}" "$child"
stop "$child"

build pinner
start "$PINPOOL_TOOL" run --lib "$library" --pools 64k --policy bump --stats --dir "$scratch" "$scratch/pinner" 7
stats=$scratch/pinpool.$child.stats
expect 'a process is followed' 0 '{*}' '' "${log[@]}" --interval 0.05 --count 3 "$child"
is 'as many lines as asked for' "$(wc -l <"$scratch/out")" 3
is 'with what it pinned' "$(value pid pinned_blocks)" "$child 6 "
read -r rss pss <<<"$(value rss_bytes pss_bytes)"
check 'with its RSS' test "$rss" -gt 100000
check 'and its PSS' test "$pss" -gt 0 -a "$pss" -le "$rss"
tail -n 1 "$scratch/out" >"$scratch/last"
is 'later lines have rates' "$("$scratch/json_value" tiers.0.opened_per_s opened_per_s emptied_per_s released_per_s \
    <"$scratch/last" | tr '\n' ' ')" '0.0000 0.0000 0.0000 0.0000 '
capture "${log[@]}" --no-pss -n 1 "$child"
is '--no-pss leaves the PSS out and keeps the RSS' "$(value pss_bytes) $(value rss_bytes | grep -c '^[0-9]')" 'null  1'
expect '--file of a live process follows it' 0 '{*}' '' "${log[@]}" --file "$stats" -i 0.05 -n 2
is 'for as many lines as asked for' "$(wc -l <"$scratch/out")" 2
is 'and shows what it does now' "$(value pid pinned_blocks)" "$child 6 "
if [[ $(id -u) == 0 ]] && cp "$PINPOOL_TOOL" "$scratch/tool" && chmod 755 "$scratch" "$scratch/tool" &&
    setpriv --reuid 65534 --regid 65534 --clear-groups "$scratch/tool" --version >"$scratch/out" 2>&1; then
    expect 'another user may not look' 1 '' "pinpool: $child (pinner): cannot read its memory map: Permission denied" \
        setpriv --reuid 65534 --regid 65534 --clear-groups "$scratch/tool" log "$child"
else
    tap_skip 'another user may not look' 'this needs root, and a build folder open to others'
fi

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
    tap_skip 'a full disk ends it with a message' 'no /dev/full here'
fi
finish
