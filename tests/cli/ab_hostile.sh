#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool ab with files that are none, and with names and output that a terminal, HTML or gnuplot might obey.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build json_value -ljson-c
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

# --- Texts -------------------------------------------------------------------------------------------

# Names, words and output with whatever a terminal, HTML and gnuplot might obey.
evil=$(printf '\033[31m\302\2335m\033]0;x\007\n\342\200\256\233\377<b>&"|[x](y)`')
shown='\x1b[31m\xc2\x9b5m\x1b]0;x\x07\x0a?\x9b\xff<b>&"|[x](y)`'
# evil_run STATUS: into the folder evil.STATUS, of a command that ends with that status.
evil_run() {
    # shellcheck disable=SC2016
    capture "${ab[@]}" --out "$scratch/evil.$1" --rounds 2 --warmup 0 --arm "a$evil=off" --arm "b$evil=off+env:WORD=$evil" \
        --metric 'm=^(\d) ' -- sh -c 'printf "1 %s" "$2"; sleep 0.1; exit "$1"' sh "$1" "$evil"
}
evil_run 0
is 'an experiment with such names runs' "$status" 0
harmless 'its tables are harmless' "$scratch/out"
harmless 'so is what is said while it runs' "$scratch/err"
for file in report.md report.html runs.csv long.csv result.json; do
    harmless "so is $file" "$scratch/evil.0/$file"
done
check 'the tables show all of it' grep -qF "a$shown" "$scratch/out"
is 'HTML has none of it as its own' "$(grep -c '<b>' "$scratch/evil.0/report.html" || true)" 0
is 'Markdown neither' "$(grep -cE '(^|[^\\\\])(<b>|\[x\]\(y\))' "$scratch/evil.0/report.md" || true)" 0
check 'CSV quotes it' grep -qF "\"a${shown//\"/\"\"}\"" "$scratch/evil.0/long.csv"
is 'JSON has it as it was, but for bytes that are no text' "$("$scratch/json_value" arms.0.name <"$scratch/evil.0/result.json" | od -c)" \
    "$(printf 'a\033[31m\302\2335m\033]0;x\007\n\342\200\256\\x9b\\xff<b>&"|[x](y)`\n' | od -c)"
evil_run 3
is 'a run that fails with such output is an error' "$status" 1
harmless 'which is said without it' "$scratch/err"
harmless 'in the tables, too' "$scratch/out"
if command -v gnuplot >"$scratch/found"; then
    capture env -u PINPOOL_GNUPLOT "$PINPOOL_TOOL" ab --resume --out "$scratch/evil.0"
    is 'plots with such names are drawn' "$status $(grep -c 'no plots' "$scratch/err" || true)" '0 0'
    harmless 'their scripts are harmless' "$scratch/evil.0/plots/distribution-m.gp"
    tr '\t' ' ' <"$scratch/evil.0/plots/distribution-m.svg" >"$scratch/svg" # gnuplot's own
    harmless 'and so are they' "$scratch/svg"
    check 'the plots show all of it' grep -qF '>a\x1b[31m\xc2\x9b5m' "$scratch/svg"
else
    tap_skip 'plots with such names are drawn' 'gnuplot is not installed'
fi

finish
