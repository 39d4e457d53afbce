# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by the experiments; sourced, never run. An experiment is one or several runs of
# `pinpool ab` and a table that sets their figures beside those of a source. Each has a folder of its name:
#
#   scripts/experiments/NAME/
#     run                   the script that is called
#     table.js              makes the table from the results
#     ...                   what is measured, and what loads it
#   build/experiments/NAME/
#     <one folder per ab>   result.json, report.html, report.md, runs.csv ...: see pinpool(1)
#     table.md              what is printed at the end
#
# What several of them share lies beside this file. A run defines
#
#   experiment_usage      prints its own part of --help
#   experiment_option     (may be missing) takes an option of its own: OPTION VALUE; returns 1 for one it
#                         does not know
#   experiment_defaults   sets what depends on the form (short or long) and was not said: rounds, arms
#   experiment_run        calls experiment_ab for each comparison
#
# and ends with `experiment_main "$@"`.

# shellcheck disable=SC2034,SC2120,SC2119 # the scripts use what this sets
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
EXPERIMENTS_DIR=$ROOT_DIR/scripts/experiments
EXPERIMENT_DIR=$(cd "$(dirname "$0")" && pwd)
EXPERIMENT=${EXPERIMENT_DIR##*/}
PROGRAM=$EXPERIMENT # whose messages these are: every run has the same name
PINPOOL_TOOL=${PINPOOL_TOOL:-$BUILD_DIR/pinpool}

form=short rounds='' warmup='' arms='' out='' node='' is_resumed=0 is_table_only=0
seed=$((SRANDOM % 1000000000))

experiment_usage_common() {
    cat <<END_OF_TEXT

Of every experiment:
  --short        few rounds, to see the effect in minutes (the default)
  --long         as many as the comparison takes
  --arms LIST    arms, with blanks between; the others are compared to the first. An arm is off (no
                 preload), idle (pinpool loaded and passing everything on), POOLS[:POLICY] (8k, 64k,
                 8k,64k:reuse; bump, the pool of the sources, if none is given), jemalloc, mimalloc, tcmalloc or arena2 (MALLOC_ARENA_MAX=2)
  --rounds N     measured rounds; fewer than 6 give no interval
  --warmup N     rounds before them that are dropped
  --seed N       of the order of the arms (random, printed)
  --out DIR      where the results go (build/experiments/$EXPERIMENT)
  --node PATH    this Node, instead of the versions that the experiment is about, which come from the
                 npm registry (scripts/fetch-node)
  --resume       goes on where an earlier run in DIR stopped
  --table        no runs: prints the table of the results in DIR again
  --help         this text

Environment: BUILD_DIR instead of build, PINPOOL_LIB and PINPOOL_TOOL instead of the library and the tool in it.
Exit status: 0 measured, 1 failed, 2 usage, 130 interrupted.
END_OF_TEXT
}

# --- options --------------------------------------------------------------------------------------

experiment_own_option() {
    declare -F experiment_option >/dev/null && experiment_option "$@"
}

experiment_parse() {
    while (($# > 0)); do
        if [[ $1 == --*=* ]]; then
            set -- "${1%%=*}" "${1#*=}" "${@:2}"
        fi
        case $1 in
        --short | --long) form=${1#--} ;;
        --resume) is_resumed=1 ;;
        --table) is_table_only=1 ;;
        -h | --help)
            experiment_usage
            experiment_usage_common
            exit 0
            ;;
        --*)
            option_value "$1" $#
            experiment_take "$1" "$2"
            shift
            ;;
        *) usage_error "$1: no such option" ;;
        esac
        shift
    done
}

# experiment_take OPTION VALUE
experiment_take() {
    case $1 in
    --arms) arms=$2 ;;
    --rounds) rounds=$2 && number_check "$1" "$2" ;;
    --warmup)
        [[ $2 =~ ^[0-9]{1,4}$ ]] || usage_error "--warmup $2: not a whole number"
        warmup=$2
        ;;
    --seed)
        [[ $2 =~ ^[0-9]{1,9}$ ]] || usage_error "--seed $2: not 0 to 999999999"
        seed=$2
        ;;
    --out) out=$2 ;;
    --node)
        node=$(command -v -- "$2") || usage_error "--node $2: no such program"
        ;;
    *) experiment_own_option "$1" "$2" || usage_error "$1: no such option" ;;
    esac
}

# experiment_sizes ARRAY OPTION LIST: 10,1k -> (10 1024)
experiment_sizes() {
    local -n sizes_into=$1
    local size bytes
    sizes_into=()
    for size in ${3//,/ }; do
        bytes=$(size_to_bytes "$size") || usage_error "$2 $3: $size is not a size such as 512, 8k or 1m"
        [[ " ${sizes_into[*]-} " != *" $bytes "* ]] || usage_error "$2 $3: $size is there twice"
        sizes_into+=("$bytes")
    done
    ((${#sizes_into[@]} > 0)) || usage_error "$2 $3: no sizes"
}

# --- arms -----------------------------------------------------------------------------------------

# experiment_library PACKAGE NAME...
experiment_library() {
    local package=$1
    shift
    library_find "$@" || die "$1 is not installed (apt-get install $package)"
}

# experiment_spec ARM: what `pinpool ab` calls it.
experiment_spec() {
    local library
    case $1 in
    arena2) echo 'env:MALLOC_ARENA_MAX=2' ;;
    jemalloc) library=$(experiment_library libjemalloc2 libjemalloc.so.2) && echo "lib:$library" ;;
    mimalloc)
        library=$(experiment_library libmimalloc2.0 libmimalloc.so.2 libmimalloc.so.2.0 libmimalloc.so.3) &&
            echo "lib:$library"
        ;;
    tcmalloc) library=$(experiment_library libtcmalloc-minimal4 libtcmalloc_minimal.so.4) && echo "lib:$library" ;;
    # The pool of the sources, whose holes are not used again, unless it is said otherwise.
    [0-9]*) [[ $1 == *:* ]] && echo "$1" || echo "$1:bump" ;;
    *) echo "$1" ;;
    esac
}

# experiment_arms LIST: sets arm_options for `pinpool ab`.
experiment_arms() {
    local arm spec
    arm_options=()
    for arm in $1; do
        spec=$(experiment_spec "$arm")
        arm_options+=("--arm=$arm=$spec")
    done
}

# --- running --------------------------------------------------------------------------------------

# experiment_ab NAME OPTION... -- COMMAND...: one comparison, in $out/NAME. Whoever calls it sets
# arm_options first. One that is complete is not run again when resuming.
experiment_ab() {
    local dir=$out/$1 status=0
    shift
    if ((is_resumed)) && [[ -e $dir/result.json ]] && [[ $(head -c 300 "$dir/result.json") =~ \"complete\":\ *true ]]; then
        return 0
    fi
    if ((is_resumed)) && [[ -e $dir/plan.json ]]; then
        "$PINPOOL_TOOL" ab --resume --out="$dir" >/dev/null || status=$?
    else
        note "$(basename "$dir"): $rounds rounds, in $dir"
        "$PINPOOL_TOOL" ab --lib="$PINPOOL_LIB" --out="$dir" --rounds="$rounds" --warmup="$warmup" --seed="$seed" \
            "${arm_options[@]}" "$@" >/dev/null || status=$?
    fi
    ((status == 0)) || experiment_stop "$dir" "$status"
}

# experiment_stop DIR STATUS: pinpool has said on stderr why.
experiment_stop() {
    note "$1 is not complete; '$0 --out=$out --resume' and the same options go on with it"
    exit "$2"
}

# Sets node: what --node said, or this version, from the npm registry when it is not in build yet.
experiment_node() {
    [[ -n $node ]] || node=$("$ROOT_DIR/scripts/fetch-node" "${1:-24.13.1}")
}

# experiment_node_command NODE: sets node_command, NODE as it is to be measured.
#
# When V8 collects young buffers decides how many there are. The default of this flag went from 8 to 32
# between Node 23 and 24 (nodejs/node#61967); it is pinned so that versions compare.
experiment_node_command() {
    local options
    options=$("$1" --v8-options) || die "$1 --v8-options failed: that is no Node"
    node_command=("$1")
    if [[ $options == *--scavenger-max-new-space-capacity-mb* ]]; then
        node_command+=(--scavenger-max-new-space-capacity-mb=32)
    fi
}

# The table is made by the same Node that the experiments fetch: no other tool reads JSON everywhere.
experiment_table() {
    experiment_node
    "$node" "$EXPERIMENT_DIR/table.js" "$out" | tee "$out/table.md.new"
    mv -- "$out/table.md.new" "$out/table.md"
}

experiment_main() {
    local variable
    experiment_parse "$@"
    # What would choose or tune an allocator, or Node, in every arm.
    while read -r variable; do
        case $variable in
        PINPOOL_LIB | PINPOOL_TOOL | PINPOOL_GNUPLOT | PINPOOL_MMAP_LOCK) ;;
        PINPOOL_* | MALLOC_* | LD_PRELOAD | GLIBC_TUNABLES | NODE_OPTIONS) unset "$variable" ;;
        esac
    done < <(compgen -e)
    : "${out:=$BUILD_DIR/experiments/$EXPERIMENT}"
    out=$(realpath -m -- "$out")
    experiment_defaults
    : "${warmup:=1}"
    if ((is_table_only)); then
        [[ -d $out ]] || die "$out: no results there"
    else
        [[ -r $PINPOOL_LIB && -x $PINPOOL_TOOL ]] || die "$PINPOOL_LIB or $PINPOOL_TOOL is not there: run 'make' first"
        if ((!is_resumed)) && [[ -n $(ls -A "$out" 2>/dev/null) ]]; then
            die "$out has results: --resume goes on with them, --out=DIR puts new ones elsewhere"
        fi
        mkdir -p "$out"
        EXPERIMENT_TOOL=$(realpath -- "$PINPOOL_TOOL")
        export EXPERIMENT_TOOL # for dump.js; what begins with PINPOOL_ is kept from measured programs
        experiment_run
    fi
    experiment_table
}
