# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# measure.sh: what the measuring scripts share. Sourced, not run. Needs bash and any awk.

# Prints its arguments in random order, one a line. Seed it by assigning to RANDOM. Call it in this
# shell and not in $(...): a subshell would draw the same order every time. The result is in `shuffled`.
measure_shuffle() {
    shuffled=("$@")
    local i j swapped
    for ((i = ${#shuffled[@]} - 1; i > 0; i--)); do
        j=$((RANDOM % (i + 1)))
        swapped=${shuffled[i]}
        shuffled[i]=${shuffled[j]}
        shuffled[j]=$swapped
    done
}

# One step of a long measurement, on stderr: a line that overwrites itself on a terminal, else a line each.
measure_progress() {
    if [[ -t 2 ]]; then
        printf '\r\033[K%s' "$*" >&2
    else
        printf '%s\n' "$*" >&2
    fi
}

measure_progress_end() {
    if [[ -t 2 ]]; then
        printf '\r\033[K' >&2
    fi
}

# json_number LINE FIELD: the number of a field in one line of JSON; empty when it is not there.
json_number() {
    if [[ $1 =~ \"$2\":\ ?(-?[0-9.]+) ]]; then
        printf '%s' "${BASH_REMATCH[1]}"
    fi
}

# dump_sum FILE TYPE FIELD [NAME]: the sum of a field over a dump's records of one type, and, for
# counters, of one name.
dump_sum() {
    awk -v kind="\"type\":\"$2\"" -v field="\"$3\":" -v name="${4:+\"name\":\"${4:-}\"}" '
        index($0, kind) && (name == "" || index($0, name)) && (at = index($0, field)) {
            sum += substr($0, at + length(field)) + 0
        }
        END { printf "%.0f", sum }' "$1"
}

# True when the dump is whole: its last line is the `end` record.
dump_is_whole() {
    [[ -s $1 && $(tail -n 1 "$1") == *'"type":"end"'* ]]
}

# Reads numbers, one a line; prints "median low high": low and high bound the median with at least 95 %
# confidence whatever the distribution (order statistics of the binomial distribution). Fewer than six
# values cannot bound it so tightly; then low and high are the least and the largest.
measure_summary() {
    sort -g | awk '
        { value[NR] = $1 }
        END {
            if (NR == 0) exit 1
            median = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
            rank = 0
            tail = term = 0.5 ^ NR
            while (2 * tail <= 0.05) {
                rank++
                term *= (NR - rank + 1) / rank
                tail += term
            }
            if (rank < 1) rank = 1
            print median, value[rank], value[NR + 1 - rank]
        }'
}

# The path of a shared library that a Debian package installed, by file name; empty when it is not there.
library_path() {
    local directory
    for directory in /usr/lib/"$(uname -m)"-linux-gnu /usr/lib64 /usr/lib /usr/local/lib; do
        if [[ -e $directory/$1 ]]; then
            printf '%s' "$directory/$1"
            return
        fi
    done
}
