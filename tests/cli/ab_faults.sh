#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool ab when things go wrong: arms that are not what they say, commands that fail, full disks, Ctrl-C.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build json_value -ljson-c
build noisy -lm
export PINPOOL_GNUPLOT='' NOISE=2
state=$scratch/state
ab=("$PINPOOL_TOOL" ab --lib "$library")
two=(--warmup 0 --rounds 2)

value() {
    local file=$1
    shift
    "$scratch/json_value" "$@" <"$file" | tr '\n' ' '
}

# Whether a process still runs that has this word in its command line. Each test uses words of its own.
# shellcheck disable=SC2317 # called by check
is_running() {
    local file
    for file in /proc/[0-9]*/cmdline; do
        if [[ ${file//[!0-9]/} != "$$" ]] && { tr '\0' ' ' <"$file"; } 2>"$scratch/err.tr" | grep -q -- "$1"; then
            return 0
        fi
    done
    return 1
}

# shellcheck disable=SC2317 # called by check
nothing_left() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        if ! is_running "$1"; then
            return 0
        fi
        sleep 0.02
    done
    return 1
}

runs_kept() {
    grep -c '"failure":null' "$1/runs.jsonl" || true
}

# --- Arms that are not what they say -------------------------------------------------------------------

printf '#include <stdlib.h>\nint main(void) { for (int i = 0; i < 999; i++) free(malloc(3000)); return 0; }\n' >"$scratch/main.c"
"${CC:-cc}" -O0 -o "$scratch/dynamic" "$scratch/main.c"
"${CC:-cc}" -O0 -static -o "$scratch/static" "$scratch/main.c"
expect 'a static program fails the arms with pinpool' 1 '*failed: libpinpool.so left no stats file*' '*libpinpool.so left no stats file: it was not loaded*' \
    "${ab[@]}" --out "$scratch/static.ab" "${two[@]}" --arm off --arm 64k -- "$scratch/static"
# The program that uses the CPU time counts, not the one that was started: that one has the library.
# shellcheck disable=SC2016 # for the inner shell
work='i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'
expect 'so does a program that drops LD_PRELOAD on the way' 1 '*' '*: sh ran without what the arm preloads: it was not in the processes that used*' \
    "${ab[@]}" --out "$scratch/dropped.ab" "${two[@]}" --arm off --arm 64k -- env -i sh -c "$work"
expect 'or a child that does' 1 '*' '*: sh ran without what the arm preloads*' \
    "${ab[@]}" --out "$scratch/dropping.ab" "${two[@]}" --arm off --arm 64k -- sh -c "$scratch/dynamic; env -i sh -c '$work'; true"
expect 'a small child without it is none' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/helped.ab" "${two[@]}" --arm off --arm 64k -- sh -c "$scratch/dynamic; env -i true; $work"
# On a busy machine it takes 10 ms and more until the dynamic linker maps what is preloaded. Auditors come
# first, so one that takes its time makes any machine a busy one.
printf 'unsigned la_version(unsigned v) { for (volatile long i = 0; i < 50000000; i++) continue; return v; }\n' >"$scratch/slow.c"
"${CC:-cc}" -shared -fPIC -nostdlib -o "$scratch/slow.so" "$scratch/slow.c"
expect 'nor is a program that ends right after a slow start' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/slow.ab" "${two[@]}" --arm off --arm "64k+env:LD_AUDIT=$scratch/slow.so" -- "$scratch/dynamic"
expect 'and none is lost when exec brings one' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/slower.ab" "${two[@]}" --arm off --arm 64k -- env "LD_AUDIT=$scratch/slow.so" "$scratch/dynamic"
printf 'int main(void) { return 0; }\n' >"$scratch/nothing.c"
"${CC:-cc}" -o "$scratch/nothing" "$scratch/nothing.c"
expect 'so does a command that makes no request of pinpool'\''s sizes' 1 '*' '*pinpool was loaded and carved nothing*' \
    "${ab[@]}" --out "$scratch/nothing.ab" "${two[@]}" --arm off --arm 64k+env:PINPOOL_MIN=32000 -- "$scratch/nothing"
cat >"$scratch/changes" <<END
#!/bin/sh
PINPOOL_POOLS=8k exec "$scratch/dynamic"
END
cat >"$scratch/stops" <<END
#!/bin/sh
PINPOOL_OFF=1 exec "$scratch/dynamic"
END
cat >"$scratch/adds" <<END
#!/bin/sh
LD_PRELOAD="$library" exec "$scratch/dynamic"
END
chmod +x "$scratch/changes" "$scratch/stops" "$scratch/adds"
expect 'so does a command that chooses other pools itself' 1 '*' '*pinpool served other pools than 64k*' \
    "${ab[@]}" --out "$scratch/changes.ab" "${two[@]}" --arm off --arm 64k -- "$scratch/changes"
expect 'or switches pinpool off' 1 '*' '*pinpool was loaded and passed everything on*' \
    "${ab[@]}" --out "$scratch/stops.ab" "${two[@]}" --arm off --arm 64k -- "$scratch/stops"
expect 'a command that loads pinpool itself fails the arm without it' 1 '*' '*libpinpool.so was loaded, though the arm is without it*' \
    "${ab[@]}" --out "$scratch/adds.ab" "${two[@]}" --arm off --aa -- "$scratch/adds"
expect 'an arm that is idle has to be it' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/idle.ab" "${two[@]}" --arm off --arm idle -- "$scratch/dynamic"
is 'and then has its stats file, not active' "$(sed -n 's/.*"arm":"idle".*"processes_with_pinpool":\([0-9]*\),"processes_active":\([0-9]*\).*/\1 \2/p' "$scratch/idle.ab/runs.jsonl" | sort -u)" '1 0'

printf 'int stand_in;\n' >"$scratch/empty.c"
"${CC:-cc}" -shared -fPIC -o "$scratch/libother.so" "$scratch/empty.c"
expect 'another library is found in the memory map' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/other.ab" "${two[@]}" --arm off --arm "other=lib:$scratch/libother.so" -- sleep 0.1
expect 'also in a child of the command' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/child.ab" "${two[@]}" --arm off --arm "other=lib:$scratch/libother.so" -- sh -c 'sleep 0.1; true'
# The CPU time does not tell in either case: most of it is used before the library is lost.
cat >"$scratch/waits.c" <<'END'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    free(malloc(3000));
    while (clock() < CLOCKS_PER_SEC / 5)
        continue;
    if (argc == 1)
        return 0;
    unsetenv("LD_PRELOAD");
    return execvp(argv[1], argv + 1);
}
END
"${CC:-cc}" -o "$scratch/waits" "$scratch/waits.c"
"${CC:-cc}" -static -o "$scratch/waits_static" "$scratch/waits.c"
expect 'a library that is not loaded fails the arm' 1 '*' "*$scratch/libother.so was in no memory map of the run*" \
    "${ab[@]}" --out "$scratch/unloaded.ab" "${two[@]}" --arm off --arm "other=lib:$scratch/libother.so" -- "$scratch/waits_static"
expect 'so does one that the measured program has lost' 1 '*' '*sleep ran without what the arm preloads: only the program before it*' \
    "${ab[@]}" --out "$scratch/lost.ab" "${two[@]}" --arm off --arm "other=lib:$scratch/libother.so" -- "$scratch/waits" sleep 0.6
expect 'pinpool, too' 1 '*' '*sleep ran without what the arm preloads: only the program before it*' \
    "${ab[@]}" --out "$scratch/lost_pinpool.ab" "${two[@]}" --arm off --arm 64k -- "$scratch/waits" sleep 0.6

printf '#include <stdlib.h>\n__attribute__((constructor)) static void crash(void) { abort(); }\n' >"$scratch/crash.c"
"${CC:-cc}" -shared -fPIC -o "$scratch/libcrash.so" "$scratch/crash.c"
expect 'an arm that crashes is an error that says how' 1 '*not complete*' '*arm crash: the command ended with signal 6 (Aborted)*--resume*goes on*' \
    "${ab[@]}" --out "$scratch/crash.ab" --seed 4 "${two[@]}" --rounds 5 --arm off --arm "crash=lib:$scratch/libcrash.so" -- sleep 0.01
check 'with its results and the runs before it' test -s "$scratch/crash.ab/result.json" -a "$(runs_kept "$scratch/crash.ab")" -ge 0
is 'which says that it is not complete' "$(value "$scratch/crash.ab/result.json" complete)" 'false '

# --- Commands that fail --------------------------------------------------------------------------------

expect 'a command that is not there is an error' 1 '*' '*round 0, arm *: nowhere-to-be-found: No such file or directory*' \
    "${ab[@]}" --out "$scratch/nowhere.ab" "${two[@]}" --arm off --aa -- nowhere-to-be-found
expect 'an exit status is one, with the last output' 1 '*' '*the command ended with exit status 3; its last output: alas*' \
    "${ab[@]}" --out "$scratch/status.ab" "${two[@]}" --arm off --aa -- sh -c 'echo alas; exit 3'
expect 'a time limit is one' 1 '*' '*the command had not ended after 0.3 s*' \
    "${ab[@]}" --out "$scratch/time.ab" "${two[@]}" --timeout 0.3 --arm off --aa -- sh -c 'sleep 61.01; true'
check 'and leaves nothing running' nothing_left 'sleep 61.01'
expect 'a metric that matches nothing is one, with the end of the output' 1 '*' \
    "*metric ops: 'ops: (.*)' matches nothing in the output, which ends with: no figures today*" \
    "${ab[@]}" --out "$scratch/metric.ab" "${two[@]}" --arm off --aa --metric 'ops=ops: (.*)' -- echo 'no figures today'
expect 'an output that is empty is said' 1 '*' '*metric ops: the output is empty*' \
    "${ab[@]}" --out "$scratch/silent.ab" "${two[@]}" --arm off --aa --metric 'ops=ops: (.*)' -- true
expect 'a metric that is no number is one' 1 '*' "*metric ops: 'many' is not a number*" \
    "${ab[@]}" --out "$scratch/word.ab" "${two[@]}" --arm off --aa --metric 'ops=ops: (.*)' -- echo 'ops: many'
# The last match counts, a unit of time gives seconds, a pattern may hold colons.
cat >"$scratch/figures" <<'END'
#!/bin/sh
printf 'ops: 1\nops: 2.5e3\nslow: 340us\nlong: 1.5m\nmany: 12k\nat 12:30: 7\n' >&2
END
chmod +x "$scratch/figures"
"${ab[@]}" --out "$scratch/figures.ab" "${two[@]}" --arm off --aa --metric 'ops=ops: ([\d.e]+)' --metric 'slow=slow: (\S+):lower' \
    --metric 'long=long: (\S+):lower' --metric 'many=many: (\S+):higher' --metric 'colon=at \d+:\d+: (\d)' -- "$scratch/figures" >"$scratch/out" 2>"$scratch/err"
is 'the last match counts, units are understood, stderr is searched too' \
    "$(awk -F, '$1 == 0 && $6 ~ /^(ops|slow|long|many|colon)$/ { print $6 "=" $9 $7 "," $8 }' "$scratch/figures.ab/long.csv" | tr '\n' ' ')" \
    'ops=2500,higher slow=0.00034s,lower long=90s,lower many=12000,higher colon=7,higher '

capture "${ab[@]}" --out "$scratch/leaves.ab" "${two[@]}" --arm off --aa -- sh -c 'setsid sleep 61.02 & exit 0'
is 'a command that leaves processes behind is no error' "$status" 0
check 'but it is noted' grep -q 'the command left 1 process running, which was ended' "$scratch/leaves.ab/report.md"
check 'and they are ended' nothing_left 'sleep 61.02'

# --- Ctrl-C --------------------------------------------------------------------------------------------

# until_there FILE
until_there() {
    local tries
    for ((tries = 0; tries < 500; tries++)); do
        if [[ -e $1 ]]; then
            return 0
        fi
        sleep 0.02
    done
    return 1
}

# interrupted SIGNAL OUT MARK ARGUMENTS...: starts a comparison, sends the signal when the file MARK is there, waits.
interrupted() {
    local signal=$1 out=$2 mark=$3 pid
    shift 3
    rm -f "$mark"
    "${ab[@]}" --out "$out" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    children+=("$pid")
    until_there "$mark" || printf '# %s did not appear\n' "$mark"
    sleep 0.2
    kill "-$signal" "$pid"
    status=0
    wait "$pid" || status=$?
}

# Fast for four runs, then slow.
cat >"$scratch/slows" <<END
#!/bin/sh
"$scratch/noisy" "$state"
if [ "\$(cat "$state")" -gt 4 ] && [ ! -e "$scratch/hurry" ]; then
    touch "$scratch/mark"
    sleep "\${NAP-61.03}"
    true
fi
END
chmod +x "$scratch/slows"
rm -f "$state"
interrupted INT "$scratch/int.ab" "$scratch/mark" --seed 9 --rounds 6 --warmup 1 --arm off --arm 64k --metric 'm=^m0: (.*) per' -- "$scratch/slows"
is 'Ctrl-C ends a comparison as shells expect' "$status" 130
check 'nothing is left running' nothing_left 'sleep 61.03'
check 'it says how to go on' grep -q "stopped by signal 2; finished runs are kept, --resume --out=$scratch/int.ab goes on" "$scratch/err"
is 'the finished runs are kept' "$(runs_kept "$scratch/int.ab")" 4
is 'and are in the results' "$(value "$scratch/int.ab/result.json" complete arms.0.runs)" 'false 1 '
before=$(cat "$scratch/int.ab/runs.jsonl")
touch "$scratch/hurry"
expect '--resume with other arguments is refused' 1 '' '*the experiment was started with other arguments: --seed=9, where there is --seed=8 now*' \
    "${ab[@]}" --out "$scratch/int.ab" --resume --seed 8 --rounds 6 --warmup 1 --arm off --arm 64k --metric 'm=^m0: (.*) per' -- "$scratch/slows"
expect '--resume goes on' 0 '*' '*' "$PINPOOL_TOOL" ab --resume --out "$scratch/int.ab"
is 'to the end' "$(value "$scratch/int.ab/result.json" complete arms.0.runs arms.1.runs)" 'true 6 6 '
is 'without doing again what was done' "$(head -n 4 "$scratch/int.ab/runs.jsonl")" "$before"
is 'and no run twice' "$(sed -n 's/^{"run":\([0-9]*\),.*/\1/p' "$scratch/int.ab/runs.jsonl" | sort -n | tr '\n' ' ')" '0 1 2 3 4 5 6 7 8 9 10 11 12 13 '
expect 'one that nobody interrupts comes to its end, too' 0 '*' '*' \
    "${ab[@]}" --out "$scratch/whole.ab" --seed 9 --rounds 6 --warmup 1 --arm off --arm 64k -- "$scratch/slows"
is 'and has the same order' "$(sed 's/.*"arm":"\([^"]*\)".*/\1/' "$scratch/int.ab/runs.jsonl")" \
    "$(sed 's/.*"arm":"\([^"]*\)".*/\1/' "$scratch/whole.ab/runs.jsonl")"

cp -r "$scratch/int.ab" "$scratch/cut.ab"
printf '{"run":3,"round":1,"ar' >>"$scratch/cut.ab/runs.jsonl"
capture "$PINPOOL_TOOL" ab --resume --out "$scratch/cut.ab"
is 'a line that a crash cut off is dropped' "$status" 0
check 'and said' grep -q 'runs.jsonl:15: the line is cut; that run is done again' "$scratch/err"
printf 'bogus\n' >>"$scratch/cut.ab/runs.jsonl"
expect 'a line that is none is an error' 1 '' '*runs.jsonl:15: not a run of this experiment' "$PINPOOL_TOOL" ab --resume --out "$scratch/cut.ab"
cp "$library" "$scratch/libpinpool.so"
expect 'a copy of the library does' 0 '*' '*' \
    "$PINPOOL_TOOL" ab --lib "$scratch/libpinpool.so" --out "$scratch/lib.ab" "${two[@]}" --arm off --arm 64k -- "$scratch/dynamic"
printf 'x' >>"$scratch/libpinpool.so"
expect '--resume with another library is refused' 1 '' "*$scratch/libpinpool.so has changed since the experiment was started*" \
    "$PINPOOL_TOOL" ab --resume --out "$scratch/lib.ab"

rm -f "$state" "$scratch/hurry"
interrupted TERM "$scratch/term.ab" "$scratch/mark" --rounds 6 --warmup 1 --arm off --arm 64k -- "$scratch/slows"
is 'SIGTERM ends it too' "$status" 143
check 'with nothing left running' nothing_left 'sleep 61.03'
rm -f "$state"
# What the command has started in turn is beyond the kernel's help: it ends by itself.
NAP=3.03 interrupted KILL "$scratch/kill.ab" "$scratch/mark" --rounds 6 --warmup 1 --arm off --arm 64k -- "$scratch/slows"
is 'after SIGKILL' "$status" 137
check 'the command is gone, too' nothing_left "$scratch/slows"
is 'and what was finished is there' "$(runs_kept "$scratch/kill.ab")" 4
touch "$scratch/hurry"
expect 'and can be gone on with' 0 '*' '*' "$PINPOOL_TOOL" ab --resume --out "$scratch/kill.ab"

rm -f "$scratch/hurry" "$scratch/mark" "$state"
"${ab[@]}" --out "$scratch/busy.ab" --rounds 6 --arm off --arm 64k -- "$scratch/slows" >"$scratch/out" 2>"$scratch/err" </dev/null &
first=$!
children+=("$first")
until_there "$scratch/mark"
expect 'two at one experiment are refused' 1 '' "*$scratch/busy.ab: another pinpool ab is at work on it" "$PINPOOL_TOOL" ab --resume --out "$scratch/busy.ab"
kill -INT "$first"
wait "$first" || true
check 'and the first can be stopped as ever' nothing_left 'sleep 61.03'

# --- A full disk -----------------------------------------------------------------------------------------

mkdir "$scratch/disk"
cat >"$scratch/full" <<END
#!/bin/sh
mount -t tmpfs -o size=\$1 none "$scratch/disk" || exit 99
shift
"\$@"
status=\$?
grep -c '"failure":null' "$scratch/disk/ab/runs.jsonl" >"$scratch/kept"
tail -c 1 "$scratch/disk/ab/runs.jsonl" | od -An -c >"$scratch/last"
exit \$status
END
chmod +x "$scratch/full"
# One page a run and a few more: it is full after some runs.
capture unshare -rm "$scratch/full" 160k "${ab[@]}" --out "$scratch/disk/ab" --rounds 40 --warmup 0 --arm off --aa --metric 'm=^m0: (.*) per' -- "$scratch/noisy" "$state"
if [[ $status == 99 || $err == *unshare:* ]]; then
    for sentence in 'a full disk is an error' 'that names the file' 'finished runs are kept' 'in whole lines'; do
        tap_skip "$sentence" 'a file system of one'\''s own cannot be mounted here'
    done
else
    is 'a full disk is an error' "$status" 1
    check 'that names the file' grep -q "$scratch/disk/ab/.*: No space left on device" "$scratch/err"
    check 'finished runs are kept' test "$(cat "$scratch/kept")" -ge 2
    is 'in whole lines' "$(tr -d ' ' <"$scratch/last")" '\n'
fi
if [[ $(id -u) != 0 ]]; then
    mkdir "$scratch/readonly"
    chmod 555 "$scratch/readonly"
    expect 'a directory that cannot be made is an error' 1 '' "*pinpool: --out: $scratch/readonly/x: Permission denied" \
        "${ab[@]}" --out "$scratch/readonly/x" "${two[@]}" --arm off --aa -- true
else
    expect 'a directory that cannot be made is an error' 1 '' '*pinpool: --out: /proc/x: No such file or directory' \
        "${ab[@]}" --out /proc/x "${two[@]}" --arm off --aa -- true
fi

# --- The tracer ------------------------------------------------------------------------------------------

cat >"$scratch/refuses" <<'END'
#!/bin/sh
echo 'mmap-lock: tracing is not possible here: it needs root' >&2
exit 77
END
cat >"$scratch/traces" <<'END'
#!/bin/sh
if [ "$1" = --check ]; then
    exit 0
fi
printf '{"write":{"acquired":90,"waited":5,"total_ns":2000,"p99_ns":700},"read":{"acquired":70,"waited":1,"total_ns":300,"p99_ns":40},"syscalls":{"brk":8,"mmap":59}}' >"$2"
shift 5
exec "$@"
END
chmod +x "$scratch/refuses" "$scratch/traces"
capture env PINPOOL_MMAP_LOCK="$scratch/refuses" "${ab[@]}" --out "$scratch/refused.ab" "${two[@]}" --mmap-lock --arm off --arm 64k -- "$scratch/dynamic"
is '--mmap-lock where tracing is not possible is no error' "$status" 0
check 'and clearly noted' grep -q 'No waits for mmap_lock were measured: .*it needs root' "$scratch/refused.ab/report.md"
capture env PINPOOL_MMAP_LOCK="$scratch/traces" "${ab[@]}" --out "$scratch/traced.ab" "${two[@]}" --mmap-lock --arm off --arm 64k -- "$scratch/dynamic"
is 'where it is, each run has its figures' \
    "$(awk -F, '$1 == 0 && $6 ~ /^(lock|calls)/ { print $6 "=" $9 }' "$scratch/traced.ab/long.csv" | tr '\n' ' ')" \
    'lock_write_acquisitions=90 lock_write_waits=5 lock_write_wait_s=2e-06 lock_write_p99_s=7e-07 lock_read_acquisitions=70 lock_read_waits=1 lock_read_wait_s=3e-07 lock_read_p99_s=4e-08 calls_mmap=59 calls_munmap=0 calls_madvise=0 calls_brk=8 calls_mprotect=0 '
is 'and the traced run has its arm, too' "$(value "$scratch/traced.ab/result.json" complete)" 'true '
finish
