#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# readme: README.md is short; it and what it leads to say of the tool what the tool says, lead to files that are
# there, and stand under the machine that they were measured on.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/tap.sh
. "$(dirname "$0")/../support/tap.sh"

cd "$repository"
pages=(README.md CONTRIBUTING.md CHANGELOG.md docs/*.md)

tap_is "README.md has at most 9 KB" '' "$(find README.md -size +9216c -printf '%s bytes')"
tap_is "docs/using.md has the tables of variables and counters that the tool prints" '' \
    "$(PINPOOL_TOOL=$tool scripts/readme-tables --check)"

# ---- links -------------------------------------------------------------------------------------------

# The anchors of a page, as GitHub makes them of its headings.
anchors() {
    sed -n 's/^#\{1,6\} //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# "PAGE: TARGET" of each link that leads into the repository and not to something there.
lost_links() {
    local page target path
    for page in "${pages[@]}"; do
        while read -r target; do
            path=${target%%#*}
            path=${path:+$(dirname "$page")/$path}
            path=${path:-$page}
            if [ ! -e "$path" ] || { [[ $target == *'#'* ]] && ! anchors "$path" | grep -qxF "${target#*#}"; }; then
                printf '%s: %s\n' "$page" "$target"
            fi
        done < <(grep -oE '\]\([^)]*\)' "$page" | sed 's/^](//; s/)$//' | grep -v '^https\?:')
    done
}

tap_is "links lead to files and headings that are there" '' "$(lost_links)"
# What stands in backticks and begins like a path, but for NAMEs to be filled in.
# shellcheck disable=SC2016 # backticks of Markdown
tap_is "files and folders that the pages name are there" '' \
    "$(grep -ohE '`(src|preload|tests|scripts|docs|man|\.ci)/[^` ]*`' "${pages[@]}" | tr -d '`' | grep -v '[A-Z]' | sort -u |
        while read -r path; do [ -e "$path" ] || echo "$path"; done)"
tap_is "README.md leads to each page" '' \
    "$(for page in CONTRIBUTING.md CHANGELOG.md docs/*.md; do grep -qF "]($page" README.md || echo "$page"; done)"

# ---- what the pages say of the tool --------------------------------------------------------------------

# "PAGE: COMMAND --OPTION" of each option that a line shows and the command does not have. What stands behind -- is
# another program's.
unknown_options() {
    local page line command option
    for page in "${pages[@]}"; do
        while read -r line; do
            command=${line#*pinpool }
            command=${command%% *}
            line=" ${line%% -- *}"
            for option in $(grep -oE ' --[a-z][a-z-]*' <<<"$line" || true); do
                grep -qE -- "(^| )$option($|[^a-z-])" <"$scratch/$command" || printf '%s: %s %s\n' "$page" "$command" "$option"
            done
        done < <(grep -oE '\bpinpool (run|dump|report|log|ab)( [^#|"]*|$)' "$page" | cut -d '`' -f 1)
    done
}

for command in run dump report log ab; do
    "$tool" "$command" --help >"$scratch/$command"
done
tap_is "the options that the pages show are the tool's" '' "$(unknown_options)"
tap_is "there are some" yes "$(grep -cE 'pinpool (run|dump|log|ab).* --' "${pages[@]}" | grep -q ':[1-9]' && echo yes)"

# What the tool reads besides stands in the manual page alone.
tap_is "the PINPOOL_ variables that the pages name are there" '' \
    "$(grep -ohE 'PINPOOL_[A-Z_]*[A-Z]' "${pages[@]}" | sort -u |
        grep -vxF -f <("$tool" help variables | sed -n 's/^\(PINPOOL_[A-Z_]*\) .*/\1/p'))"

# A name in a table of CONTRIBUTING.md may be another's still to come; what a newcomer is told to type is there.
tap_is "the targets of make that README.md and docs/results.md name are there" '' \
    "$(grep -ohE '(`|^ +)make [a-z-]+' README.md docs/results.md | grep -oE '[a-z-]+$' | grep -vx experiment- | sort -u |
        while read -r target; do
            if [[ $target == experiment-?* ]]; then
                [ -x "scripts/experiments/${target#experiment-}/run" ] || echo "$target"
            else
                grep -qE "^\.PHONY:.* $target( |\$)" Makefile || echo "$target"
            fi
        done)"

# ---- figures -------------------------------------------------------------------------------------------

# Figures are what a table sets to the right. A heading names the processor with its number of cores.
tap_is "each table of figures stands under the machine that it was measured on" '' "$(awk '
    /^#/ { heading = $0 }
    /^\|[ :|-]+\|$/ && /:/ && heading !~ /(Xeon|EPYC|Ryzen|Core|Graviton|Ampere|Neoverse).*cores/ { print NR ": " heading }
    ' docs/results.md)"
tap_is "and each of the machines' headings has the command that prints it" '' \
    "$(grep -E '^### ' docs/results.md | grep -vF '`make ' || true)"
tap_is "every experiment has its results" '' \
    "$(for run in scripts/experiments/*/run; do
        name=$(basename "$(dirname "$run")")
        grep -qE "^### .*experiment-${name}[\` ]" docs/results.md || echo "$name"
    done)"
tap_done
