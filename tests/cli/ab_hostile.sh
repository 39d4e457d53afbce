#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool ab with files and programs that are none.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

export PINPOOL_GNUPLOT=''
ab=("$PINPOOL_TOOL" ab --lib "$library")

# --- Files -------------------------------------------------------------------------------------------

mkfifo "$scratch/fifo.so"
expect 'a library that is a FIFO is refused, and not waited for' 1 '' "pinpool: $scratch/fifo.so: Is a FIFO" \
    timeout 20 "$PINPOOL_TOOL" ab --lib "$scratch/fifo.so" --out "$scratch/none" true
expect 'so is one of an arm' 1 '' "pinpool: $scratch/fifo.so: Is a FIFO" \
    timeout 20 "${ab[@]}" --out "$scratch/none" --arm off --arm "x=lib:$scratch/fifo.so" true

"${ab[@]}" --out "$scratch/good" --rounds 2 --warmup 0 --arm off --aa -- true >"$scratch/out" 2>"$scratch/err"
is 'an empty PINPOOL_GNUPLOT draws nothing and misses nothing' "$(cat "$scratch/err" "$scratch/good/report.html" | grep -c gnuplot || true)" 0
capture env PINPOOL_GNUPLOT=/no/such "$PINPOOL_TOOL" ab --resume --out "$scratch/good"
check 'one that is not there is missed, by its name' grep -q 'There are no plots: /no/such was not found' "$scratch/err"

# resumed SENTENCE STDERR-PATTERN COMMAND...: --resume is refused once the command has changed a copy of the experiment
# with its file names `plan` and `runs`.
resumed() {
    local sentence=$1 wanted=$2
    shift 2
    rm -rf "$scratch/spoilt"
    cp -r "$scratch/good" "$scratch/spoilt"
    plan=$scratch/spoilt/plan.json runs=$scratch/spoilt/runs.jsonl bash -c "$1"
    # shellcheck disable=SC2016
    expect "--resume: $sentence" 1 '' "$wanted" \
        sh -c 'ulimit -v 2000000 && exec timeout -s KILL 20 "$@"' sh "$PINPOOL_TOOL" ab --resume --out "$scratch/spoilt"
}
# shellcheck disable=SC2016 # for the inner shell
while IFS=';' read -r sentence wanted command; do
    resumed "$sentence" "$wanted" "$command"
done <<'END'
a plan that is a FIFO is not waited for;pinpool: --resume: */plan.json: Is a FIFO;rm "$plan"; mkfifo "$plan"
a plan that is a device is not read;pinpool: --resume: */plan.json: Is a device;ln -sf /dev/zero "$plan"
a plan that is a directory is none;pinpool: --resume: */plan.json: Is a directory;rm "$plan"; mkdir "$plan"
a plan of 1 TB is not read;pinpool: --resume: */plan.json: Is larger than 64 MiB;truncate -s 1T "$plan"
a plan that is no JSON is none;pinpool: --resume: */plan.json: not a plan;echo x >"$plan"
a plan with a word that is none is refused;pinpool: */plan.json: has no proper words*;sed -i 's/"words":\[[^]]*/"words":[null/' "$plan"
a plan without a command is refused;pinpool: */plan.json: has no command*;sed -i 's/"words":\[[^]]*/"words":["--resume","--out=x"/' "$plan"
runs that are a FIFO are not waited for;pinpool: */runs.jsonl: Is a FIFO;rm "$runs"; mkfifo "$runs"
runs that are a device are not read;pinpool: */runs.jsonl: Is a device;ln -sf /dev/zero "$runs"
a run of no arm is refused;pinpool: */runs.jsonl:1: not a run of this experiment;sed -i '1s/"arm":"[^"]*"/"arm":null/' "$runs"
a run with a number below 0 is refused;pinpool: */runs.jsonl:1: not a run of this experiment;sed -i '1s/"run":0/"run":-1/' "$runs"
a run whose number is none is refused;pinpool: */runs.jsonl:1: not a run of this experiment;sed -i '1s/"run":0/"run":null/' "$runs"
a run with notes that are no text is refused;pinpool: */runs.jsonl:1: not a run of this experiment;sed -i '1s/"notes":"[^"]*"/"notes":null/' "$runs"
a run with a start that is no number is refused;pinpool: */runs.jsonl:1: not a run of this experiment;sed -i '1s/"start_unix_ns":[0-9]*/"start_unix_ns":null/' "$runs"
a run with a value that is none is refused;pinpool: */runs.jsonl:1: not a run of this experiment;sed -i '1s/"wall_s":[0-9.e-]*/"wall_s":"x"/' "$runs"
runs without an end of a line are not kept in memory;pinpool: */runs.jsonl:*: not a run of this experiment;truncate -s 1T "$runs"
END

finish
