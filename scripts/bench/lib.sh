# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by bench and demo; sourced after ../lib.sh, never run. Both run `pinpool ab` a few times, each into a
# folder of its own below one folder of results, and print one table of them.

# shellcheck disable=SC2034,SC2154 # bench and demo use and set what this sets and uses
PINPOOL_TOOL=${PINPOOL_TOOL:-$BUILD_DIR/pinpool}
seed=$((SRANDOM % 1000000000))
is_quick=0 out=''

# parse_options ARGUMENT...: sets rounds, seconds (where the caller has them), seed, out and is_quick.
parse_options() {
    while (($# > 0)); do
        if [[ $1 == --*=* ]]; then
            set -- "${1%%=*}" "${1#*=}" "${@:2}"
        fi
        case $1 in
        --quick) is_quick=1 ;;
        -h | --help)
            usage
            exit 0
            ;;
        --rounds | --seed | --seconds | --out)
            option_value "$1" $#
            [[ $1 != --rounds ]] || number_check "$1" "$2"
            [[ $1 != --seconds || -v seconds ]] || usage_error "$1: no such option"
            [[ $1 != --seconds ]] || seconds_check "$1" "$2"
            [[ $1 != --seed || $2 =~ ^[0-9]{1,9}$ ]] || usage_error "--seed $2: not 0 to 999999999"
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        *) usage_error "$1: no such option" ;;
        esac
        shift
    done
}

# start_results FOLDER FILE...: the results go there, where --out does not say; the files have to be there.
start_results() {
    local file
    results=${out:-$1}
    for file in "$PINPOOL_LIB" "$PINPOOL_TOOL" "${@:2}"; do
        [[ -e $file ]] || die "$file is missing: run make first"
    done
    # What would choose or tune an allocator in every arm.
    unset LD_PRELOAD GLIBC_TUNABLES "${!MALLOC_@}"
    [[ -n $out ]] || rm -rf -- "$results"
    mkdir -p "$results"
}

# compare NAME OPTION... -- COMMAND...: one comparison. pinpool says on stderr how far it is, and what fails.
compare() {
    note "$1"
    "$PINPOOL_TOOL" ab --lib="$PINPOOL_LIB" --out="$results/$1" --rounds="$rounds" --warmup=0 --seed="$seed" \
        "${@:2}" >"$results/$1.txt" || exit
}

# print_table NAME AWK-OPTION...: the table that NAME.awk makes of all results.
print_table() {
    local scripts=$ROOT_DIR/scripts/bench
    awk -f "$scripts/results.awk" -f "$scripts/$1.awk" -v rounds="$rounds" -v seed="$seed" "${@:2}" \
        "$results"/*/result.json
}
