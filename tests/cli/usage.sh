#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the tool before a command does its work: help, version, usage errors, its output failing.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

expect 'no command is a usage error' 2 '' 'Usage: pinpool *COMMAND*' "$PINPOOL_TOOL"
expect 'an unknown command is a usage error that names it' 2 '' \
    "pinpool: there is no command 'bogus'*" "$PINPOOL_TOOL" bogus
expect 'an unknown option is a usage error' 2 '' "*unrecognized option '--bogus'*" "$PINPOOL_TOOL" --bogus
expect '--version prints name and version' 0 'pinpool [0-9]*.[0-9]*.[0-9]*' '' "$PINPOOL_TOOL" --version
expect '--help lists the commands' 0 '*run  *dump  *report  *log  *help  *' '' "$PINPOOL_TOOL" --help
"$PINPOOL_TOOL" --help | sed -n 's/^  \([a-z]\{2,\}\)  .*/\1/p' >"$scratch/commands"
is 'there are commands' "$(grep -c . "$scratch/commands")" 6
while read -r command; do
    expect "$command --help names the command" 0 "Usage: pinpool $command *" '' "$PINPOOL_TOOL" "$command" --help
    cp "$scratch/out" "$scratch/help"
    capture "$PINPOOL_TOOL" help "$command"
    is "help $command says the same" "$out" "$(cat "$scratch/help")"
    expect "$command with an unknown option is a usage error that names the command" 2 '' \
        "pinpool $command: unrecognized option '--bogus'*" "$PINPOOL_TOOL" "$command" --bogus
done <"$scratch/commands"

expect 'help alone lists the commands' 0 '*run  *dump  *report  *log  *help  *' '' "$PINPOOL_TOOL" help
expect 'help on an unknown topic is a usage error' 2 '' \
    "pinpool: help: there is no command or topic 'bogus'" "$PINPOOL_TOOL" help bogus
expect 'help on two topics is a usage error' 2 '' '*one topic at a time*' "$PINPOOL_TOOL" help run dump
expect 'help in an unknown format is a usage error' 2 '' \
    '*--format=html: neither text, roff nor markdown*' "$PINPOOL_TOOL" help variables --format html

# Each row of the .def files, in each format, and nothing else.
variables=$(sed -n 's/^OPTION(\([A-Z_]*\),.*/PINPOOL_\1/p' "$root/src/base/options.def")
counters=$(sed -n 's/^\(TIER_\)\{0,1\}COUNTER(\([a-z_]*\), ".*/\2/p' "$root/src/base/counters.def")
capture "$PINPOOL_TOOL" help variables
is 'help variables has every row of options.def' "$(sed -n 's/^\(PINPOOL_[A-Z_]*\) .*/\1/p' "$scratch/out")" "$variables"
capture "$PINPOOL_TOOL" help variables --format markdown
# shellcheck disable=SC2016 # backticks of Markdown
is 'help variables as Markdown has every row' "$(sed -n 's/^| `\(PINPOOL_[A-Z_]*\)` .*/\1/p' "$scratch/out")" "$variables"
capture "$PINPOOL_TOOL" help variables --format roff
is 'help variables as roff has every row' "$(sed -n 's/^\.B \(PINPOOL_[A-Z_]*\)$/\1/p' "$scratch/out")" "$variables"
capture "$PINPOOL_TOOL" help counters
is 'help counters has every row of counters.def' "$(sed -n 's/^\([a-z_]*\) (.*/\1/p' "$scratch/out")" "$counters"
capture "$PINPOOL_TOOL" help counters --format roff
is 'help counters as roff has every row' "$(sed -n 's/^\.BR \([a-z_]*\) .*/\1/p' "$scratch/out")" "$counters"
records=$(sed -n 's/^RECORD([a-z]*, "\([a-z]*\)", .*/\1/p' "$root/src/base/dump.def")
capture "$PINPOOL_TOOL" help records
is 'help records has every record of dump.def' "$(sed -n 's/^\([a-z]*\)$/\1/p' "$scratch/out")" "$records"
is 'with every field' "$(grep -c '^    [a-z_]*\( (.*)\)\{0,1\}$' "$scratch/out")" "$(grep -cE '^(NUMBER|ADDRESS|TEXT)\(' "$root/src/base/dump.def")"
capture "$PINPOOL_TOOL" run --help
is 'run has an option for every row of options.def' \
    "$(sed -n 's/^      --\([a-z-]*\)[=[].*/\1/p' "$scratch/out" | grep -vx -e lib -e next | sort)" \
    "$(tr 'A-Z_' 'a-z-' <<<"$variables" | sed 's/^pinpool-//' | sort)"

if [[ -w /dev/full ]]; then
    # shellcheck disable=SC2016 # for the inner shell
    expect 'a full disk under stdout is a failure' 1 '' \
        'pinpool: standard output: No space left on device' \
        sh -c '"$1" help variables >/dev/full' sh "$PINPOOL_TOOL"
else
    tap_skip 'a full disk under stdout is a failure' 'no /dev/full here'
fi
# shellcheck disable=SC2016
expect 'a closed stdout is a failure' 1 '' 'pinpool: standard output: Bad file descriptor' \
    sh -c '"$1" --help >&-' sh "$PINPOOL_TOOL"

for command in dump log; do
    expect "$command without a process is a usage error" 2 '' '*which process?*' "$PINPOOL_TOOL" "$command"
    for pid in 0 1x x '' 99999999999; do
        expect "$command of '$pid' is a usage error" 2 '' "*$pid: not a process id*" "$PINPOOL_TOOL" "$command" "$pid"
    done
    expect "$command of two processes is a usage error" 2 '' '*one process at a time*' "$PINPOOL_TOOL" "$command" 1 2
done
for seconds in 0 -1 x 1x nan inf '' 0x10 1e99; do
    expect "dump --timeout=$seconds is a usage error" 2 '' "*--timeout=$seconds: not a number of seconds above 0*" \
        "$PINPOOL_TOOL" dump "--timeout=$seconds" 1
    expect "log --interval=$seconds is a usage error" 2 '' "*--interval=$seconds: not a number of seconds above 0*" \
        "$PINPOOL_TOOL" log "--interval=$seconds" 1
done
for signal in off KILL SEGV 0 99 bogus; do
    expect "dump --signal=$signal is a usage error" 2 '' "*--signal=$signal: no usable signal*" \
        "$PINPOOL_TOOL" dump "--signal=$signal" 1
done
expect 'log of a process and a file is a usage error' 2 '' '*which process?*' "$PINPOOL_TOOL" log 1 --file x
expect 'log --count=0 is a usage error' 2 '' '*--count=0: not a number above 0*' "$PINPOOL_TOOL" log 1 --count=0
expect 'report without a file is a usage error' 2 '' '*which dump?*' "$PINPOOL_TOOL" report
expect 'report --blocks=x is a usage error' 2 '' '*--blocks=x: not a number*' "$PINPOOL_TOOL" report --blocks=x y
expect 'run without a command is a usage error' 2 '' '*which command?*' "$PINPOOL_TOOL" run --stats --
finish
