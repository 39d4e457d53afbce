#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool ab on services: a known retention, children, shapes, everything that goes wrong, Ctrl-C in each phase.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build json_value -ljson-c
build pinner
build grower
export PINPOOL_GNUPLOT=''
pinner=$scratch/pinner
grower=$scratch/grower
ab=("$PINPOOL_TOOL" ab --lib "$library")
# shellcheck disable=SC2016 # for the shell of --ready
ready=(--ready 'grep -q ready "$PINPOOL_AB_OUTPUT"')
one=(--warmup 0 --rounds 2 --seed 1 --arm off --arm 64k=64k:bump)

# figure OUT ARM MEASURE: of its runs, in order
figure() {
    awk -F, -v arm="\"$2\"" -v measure="$3" '$4 == arm && $6 == measure { print $9 }' "$1/long.csv" | tr '\n' ' '
}

# shellcheck disable=SC2317 # called by check
nothing_left() {
    local file tries found
    for ((tries = 0; tries < 150; tries++)); do
        found=
        for file in /proc/[0-9]*/cmdline; do
            if { tr '\0' ' ' <"$file"; } 2>"$scratch/err.tr" | grep -q -- "$1"; then
                found=$file
            fi
        done
        [[ -n $found ]] || return 0
        sleep 0.02
    done
    return 1
}

# --- A service that pins known blocks ------------------------------------------------------------------

out_known=$scratch/known
# shellcheck disable=SC2016 # for the shell of --load
expect 'a service is started, loaded, sampled and stopped' 0 '*' '*' \
    "${ab[@]}" --out "$out_known" "${one[@]}" "${ready[@]}" --settle 1.2 --metric 'rate=rate: (\d+)' \
    --load 'echo "preload <$LD_PRELOAD> arm $PINPOOL_AB_ARM pid $PINPOOL_AB_PID"; sleep 2.2; echo rate: 4711' -- "$pinner" 100
is 'metrics are from the load' "$(figure "$out_known" 64k rate)" '4711 4711 '
check 'which runs without the preload and knows whom it serves' grep -q '^preload <> arm 64k pid [0-9][0-9]*$' "$out_known"/runs/*-round0-64k/load
# One slice of 4 KiB in each of 100 blocks, the last of them current: tests/cli/live.sh.
is 'what is live at the end of the load is known' "$(figure "$out_known" 64k live_load_bytes)" '409600 409600 '
is 'what is held' "$(figure "$out_known" 64k held_load_bytes)" '6553600 6553600 '
is 'and what is stranded' "$(figure "$out_known" 64k stranded_load_bytes)" "$((99 * 61440)) $((99 * 61440)) "
is 'after the settle time, too' "$(figure "$out_known" 64k stranded_settled_bytes)" "$((99 * 61440)) $((99 * 61440)) "
is 'an arm without pinpool has none of that' "$(figure "$out_known" off stranded_load_bytes)" ''
is 'there is a dump for each time' "$(find "$out_known"/runs/*-round0-64k -name '*.jsonl' -printf '%f\n' | sed 's/[0-9]//g' | sort | tr '\n' ' ')" 'load-.jsonl settled-.jsonl '
is 'samples are of every phase' "$(awk -F, '$1 == 0 { print $6 }' "$out_known/samples.csv" | uniq | tr '\n' ' ')" 'before load end settle '
is 'each second' "$(awk -F, '$1 == 0 && $6 == "load"' "$out_known/samples.csv" | wc -l)" 3
is 'with the pools of the arm that has some' "$(awk -F, '$4 == "\"64k\"" && $6 == "load" { print $11, $14 }' "$out_known/samples.csv" | sort -u)" '6553600 99'
is 'and none of the other' "$(awk -F, '$4 == "\"off\"" && $6 == "load" { print $11 $14 }' "$out_known/samples.csv" | sort -u)" ''
check 'the resident size is that of the service' test "$(figure "$out_known" off rss_load_bytes | awk '{ print ($1 > 1e6 && $1 < 2e7) }')" = 1
check 'how long it took to get ready is measured' test "$(figure "$out_known" off ready_s | awk '{ print ($1 > 0 && $1 < 5) }')" = 1
check 'and how long the load took' test "$(figure "$out_known" off load_s | awk '{ print ($1 > 2.1 && $1 < 5) }')" = 1

out_two=$scratch/two
expect 'children of a service count' 0 '*' '*' \
    "${ab[@]}" --out "$out_two" "${one[@]}" "${ready[@]}" --settle 0 --load 'sleep 1.1' -- sh -c "'$pinner' 100 & exec '$pinner' 100"
is 'in the samples' "$(awk -F, '$6 == "load" { print $7 }' "$out_two/samples.csv" | sort -u)" 2
is 'and in the dumps' "$(figure "$out_two" 64k stranded_load_bytes)" "$((2 * 99 * 61440)) $((2 * 99 * 61440)) "
check 'none of them is left' nothing_left "$pinner"

out_off=$scratch/signal
expect 'a service that writes no dump is no failure' 0 '*' '*' \
    "${ab[@]}" --out "$out_off" --warmup 0 --rounds 2 --arm off --arm '64k:bump+env:PINPOOL_SIGNAL=off' "${ready[@]}" --settle 0 --load true -- "$pinner" 100
check 'but noted' grep -q '1 of 1 processes wrote no dump' "$out_off/report.md"

# --- Shapes --------------------------------------------------------------------------------------------

out_shape=$scratch/shape
"${ab[@]}" --out "$out_shape" --warmup 0 --rounds 2 --arm flat=off --arm climbing=env:GROW=64 "${ready[@]}" --settle 0 --load 'sleep 5.2' -- "$grower" >"$scratch/out" 2>"$scratch/err"
is 'a curve that climbs is told from one on a plateau' \
    "$(awk -F'"' '/"arm":/ { arm = $4 } /"shape":/ { print arm, $4 }' "$out_shape/result.json" | tr '\n' ' ')" 'flat plateau climbing climbs '
# 64 KiB each 20 ms and a little: at most 187.5 MiB a minute.
printf '# climbs by %s bytes a minute\n' "$(figure "$out_shape" climbing rss_climb_bytes_per_min)"
check 'and the slope is right' test "$(figure "$out_shape" climbing rss_climb_bytes_per_min | awk '{ print ($1 > 120e6 && $1 < 200e6) }')" = 1

# --- What goes wrong -----------------------------------------------------------------------------------

failing() {
    local sentence=$1 message=$2
    shift 2
    expect "$sentence" 1 '*not complete*' "*$message*--resume*goes on*" "${ab[@]}" --out "$scratch/failing" "${one[@]}" --settle 0 "$@"
    check 'and nothing is left' nothing_left "$scratch/[pgw]"
    rm -rf "$scratch/failing"
}
failing 'a service that is never ready is an error, with what was said last' \
    "the service was not ready after 1 s; the ready command's last output: still not; the service's last output: ready" \
    --timeout 1 --ready 'echo still not; exit 1' --load true -- "$pinner" 100
failing 'so is one whose ready command hangs' 'the service was not ready after 1 s' --timeout 1 --ready 'sleep 61.11' --load true -- "$pinner" 100
failing 'so is one that ends before it is ready' 'the service, not ready yet, ended with exit status 4; its last output: port in use' \
    --ready false --load true -- sh -c 'echo port in use; exit 4'
# shellcheck disable=SC2016 # for the shell of --load
failing 'so is one that ends under load' 'the service, under load, ended with signal 9 (Killed)' "${ready[@]}" --load 'kill -9 $PINPOOL_AB_PID; sleep 61.12' -- "$pinner" 100
failing 'so is a load that fails' 'the load ended with exit status 3; its last output: refused' "${ready[@]}" --load 'echo refused; exit 3' -- "$pinner" 100
failing 'so is a load that does not end' 'the load had not ended after 1 s' --timeout 1 "${ready[@]}" --load 'sleep 61.13; true' -- "$pinner" 100
failing 'so is a load without the metric' "metric rps: 'rps: (.*)' matches nothing in the output, which ends with: done" \
    "${ready[@]}" --metric 'rps=rps: (.*)' --load 'echo done' -- "$pinner" 100
failing 'so is a service that is not there' 'nowhere-to-be-found: No such file or directory' "${ready[@]}" --load true -- nowhere-to-be-found
failing 'so is an arm that is not active' 'what the arm preloads was in no process of the service in the end' --ready true --load 'sleep 0.3' -- env -i "$pinner" 100
TERM_DOES=crash failing 'so is one that crashes when it is asked to stop' 'the service, asked to stop, ended with signal 6 (Aborted)' "${ready[@]}" --load true -- "$grower"
check 'and no ready command or load is left' nothing_left 'sleep 61.1'

expect 'a service that ignores SIGTERM gets SIGKILL' 0 '*' '*' \
    env TERM_DOES=ignore "${ab[@]}" --out "$scratch/ignores" --warmup 0 --rounds 2 --arm off --aa "${ready[@]}" --settle 0 --load true -- "$grower"
check 'and that is said' grep -q 'the service had not ended 10 s after SIGTERM and got SIGKILL' "$scratch/ignores/report.md"

# --- Ctrl-C in each phase --------------------------------------------------------------------------------

# stopped PHASE SETTLE READY LOAD: waits for the file `mark`, and half a second, which is inside the phase.
stopped() {
    local phase=$1 pid tries
    rm -rf "$scratch/mark" "$scratch/stopped"
    "${ab[@]}" --out "$scratch/stopped" "${one[@]}" --settle "$2" --ready "$3" --load "$4" -- "$pinner" 100 >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    children+=("$pid")
    for ((tries = 0; tries < 500; tries++)); do
        if [[ -e $scratch/mark ]]; then
            break
        fi
        sleep 0.02
    done
    sleep 0.5
    kill -INT "$pid"
    status=0
    wait "$pid" || status=$?
    is "Ctrl-C $phase ends the comparison" "$status" 130
    check 'with nothing left running' nothing_left "$pinner"
    check 'and results' test -s "$scratch/stopped/result.json" -a -s "$scratch/stopped/report.md"
}
stopped 'before the service is ready' 30 "touch '$scratch/mark'; false" true
stopped 'while the ready command runs' 30 "touch '$scratch/mark'; sleep 61.14; true" true
stopped 'before the load' 30 "touch '$scratch/mark'" true
stopped 'under load' 0 true "touch '$scratch/mark'; sleep 61.14; true"
stopped 'after the load' 3 true "touch '$scratch/mark'"
check 'the commands of --ready and --load are gone, too' nothing_left 'sleep 61.14'
finish
