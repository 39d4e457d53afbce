#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the manual page: it is generated whole, says every option of every command, and is clean roff.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

page=$scratch/pinpool.1
"$root/man/generate" "$PINPOOL_TOOL" 1.2.3 <"$root/man/pinpool.1.in" >"$page"
is 'nothing is left to be put in' "$(grep -n '@' "$page" || true)" ''
check 'it has the version' grep -q '"pinpool 1.2.3"' "$page"
variables=$(sed -n 's/^OPTION(\([A-Z_]*\),.*/PINPOOL_\1/p' "$root/src/base/options.def")
environment=$(sed -n '/^\.SH ENVIRONMENT/,/^\.SH COUNTERS/s/^\.B \(PINPOOL_[A-Z_]*\)$/\1/p' "$page")
is 'it has every row of options.def first' "$(head -n "$(wc -l <<<"$variables")" <<<"$environment")" "$variables"
is 'and then those that the tool itself reads' "$(grep -vxF "$variables" <<<"$environment" | sort)" \
    "$(grep -rohE 'getenv\("PINPOOL_[A-Z_]*' "$root/src/cli" | sed 's/.*"//' | sort -u)"
counters=$(sed -n 's/^\(TIER_\)\{0,1\}COUNTER(\([a-z_]*\), ".*/\2/p' "$root/src/base/counters.def")
is 'it has every row of counters.def' "$(sed -n 's/^\.BR \([a-z_]*\) " (.*by heap.*/\1/p' "$page")" "$counters"

is 'it has every limit' "$(sed -n '/^\.SH LIMITS/,/^\.SH SEE/p' "$page" | grep -cF '.IP \(bu')" "$(grep -c '^- ' "$root/docs/limits.md")"
sed -n 's/^| \([a-z ]*\) | .*/\1/p' "$root/docs/using.md" | sed -n '/^block$/,/^sole pinner$/p' >"$scratch/words"
is 'it has every word that a report uses' \
    "$(grep -vxF -f <(sed -n '/^\.SS Words/,/^\.SH/p' "$page") "$scratch/words")" ''
is 'of which there are some' "$(head -n 1 "$scratch/words")" block
# Records and fields in the order of dump.def.
fields=$(sed -n 's/^RECORD([a-z]*, "\([a-z]*\)", .*/\1/p; s/^\(NUMBER\|ADDRESS\|TEXT\)([a-z]*, \([a-z_]*\), .*/\2/p' \
    "$root/src/base/dump.def")
is 'it has every record and field of a dump' "$(sed -n '/^\.SH RECORDS/,/^\.SH SIGNAL/p' "$page" |
    sed -n 's/^\.BR\? \(\\ \\ \)\{0,1\}\([a-z_]*\).*/\2/p' | grep -vx type)" "$fields"
check 'of which there are some' test "$(wc -l <<<"$fields")" -gt 70

# Options that argp adds, and those that stand in the table of variables.
known=$(tr 'A-Z_' 'a-z-' <<<"$variables" | sed 's/^pinpool-//'; printf 'help\nusage\nversion\n')
while read -r command; do
    "$PINPOOL_TOOL" "$command" --help | sed -n 's/^  .. *--\([a-z-]*\).*/\1/p; s/^  -., --\([a-z-]*\).*/\1/p' >"$scratch/options"
    missing=
    while read -r option; do
        if ! grep -qxF -- "$option" <<<"$known" && ! grep -qF -- "\\-\\-${option//-/\\-}" "$page"; then
            missing+=" --$option"
        fi
    done <"$scratch/options"
    is "it has every option of $command" "$missing" ''
    check "of which there are some ($command)" test -s "$scratch/options"
done < <("$PINPOOL_TOOL" --help | sed -n 's/^  \([a-z]\{2,\}\)  .*/\1/p')

expect 'generating it with a tool that fails is an error' 1 '' '' "$root/man/generate" false 1.2.3
expect 'generating it without a tool is an error' 2 '' 'generate: wants the built tool and the version' "$root/man/generate"

# shellcheck disable=SC2016 # for the inner shell
if command -v groff >"$scratch/which"; then
    expect 'it is clean roff' 0 '*RETENTION*' '' sh -c 'groff -man -ww -Tascii "$1" | tr a-z A-Z' sh "$page"
else
    tap_skip 'it is clean roff' 'groff is not installed'
fi
finish
