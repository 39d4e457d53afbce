# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# lib.sh: what the scripts of tests/program share. A script here shows that one real program does
# under the preload what it does without it. It defines `session`, which runs the program and
# prints what must stay the same, and calls `program_matrix session`, which
#
#   1. runs the session without the preload: the reference;
#   2. runs it once for every arm of the table ARMS below;
#   3. asks three things of every arm: the reference's result; nothing on stderr that the reference
#      has not; and a proof that the library was active in those very processes.
#
# The proof is the last dump of a process (PINPOOL_DUMP_AT_EXIT=1): it carries the pid, the block
# sizes and the next allocator that the arm asked for, and it counts the slices that were carved.
# An arm whose library did not load therefore fails instead of looking like "no difference".
#
# Inside a session, which runs in the arm's own folder:
#   step NAME SECONDS CMD...        runs CMD in the arm, prints NAME's exit status as part of the result
#   serve NAME SECONDS CMD...       starts CMD in the arm and goes on; serve_wait NAME waits for its end
#   prove NAME [MIN]                asks for the proof of a step or server, with at least MIN slices
#   prove_exe EXE [MIN]             asks for the proof of at least one process whose executable is EXE
# Files left in the arm's folder: NAME.out, NAME.pid, stderr, result, pinpool/ (the dumps).

set -euo pipefail

# shellcheck source=tests/support/tap_lines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/tap_lines.sh"

PROGRAM_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034  # for the scripts
PROGRAM_SOURCES=$PROGRAM_ROOT/tests/program
BUILD_DIR=${BUILD_DIR:-$PROGRAM_ROOT/build}
PINPOOL_LIB=${PINPOOL_LIB:-$PROGRAM_ROOT/build/libpinpool.so}
LONG=${LONG:-0}
PATIENCE=1 # limits of time are multiplied by it
[ "$LONG" = 0 ] || PATIENCE=10

# label, PINPOOL_POOLS, PINPOOL_POLICY, the allocator preloaded behind us (empty: what the program itself uses)
ARMS=(
    '8k:bump             8k     bump  '
    '64k                 64k    reuse '
    '8k,64k              8k,64k reuse '
    '8k,64k+jemalloc     8k,64k reuse jemalloc'
    '8k,64k:bump+mimalloc 8k,64k bump mimalloc'
)

PROGRAM_NAME=
PROGRAM_WORK=
PROGRAM_ARMS=()
SESSION_PID=
CHILD_PIDS=()

# --- TAP ---------------------------------------------------------------------------------------

# Prints stdin as diagnostics, at most 40 lines of it.
tap_diagnose_some() {
    sed -n 1,40p | tap_diagnose
}

# Ends the script before anything was tested, because this environment lacks something.
tap_skip_all() {
    tap_skip "$PROGRAM_NAME does under pinpool what it does without it" "$*"
    tap_plan
    exit 0
}

# --- start and end -------------------------------------------------------------------------------

program_usage() {
    cat <<TEXT
Usage: $0 [--arm LABEL]...

$PROGRAM_SUMMARY
Runs without the preload, then under every arm, and prints TAP.

  --arm LABEL   only this arm; may be repeated
  --help        this text

Arms: $(program_arm_labels)
Environment: PINPOOL_LIB (the library), BUILD_DIR (scratch goes to BUILD_DIR/tests/program),
LONG=1 (everything in full; the default is shortened to suit a check before every commit).
TEXT
}

program_arm_labels() {
    local arm label rest
    for arm in "${ARMS[@]}"; do
        read -r label rest <<<"$arm"
        printf '%s ' "$label"
    done
}

program_usage_error() {
    printf '%s: %s\nTry --help.\n' "$0" "$*" >&2
    exit 2
}

# Ends what was started and is still running. The processes sit under `timeout`, which hands the
# signal on to the whole process group that it made for them.
program_end_children() {
    local pid
    for pid in "${CHILD_PIDS[@]}"; do
        kill -TERM "$pid" 2>/dev/null || continue
        kill -CONT "$pid" 2>/dev/null || true
    done
    wait
}

program_end_session() {
    [ -n "$SESSION_PID" ] || return 0
    kill -TERM "$SESSION_PID" 2>/dev/null || true
    wait "$SESSION_PID" 2>/dev/null || true
}

# program_begin NAME SUMMARY ARGS-OF-THE-SCRIPT...
program_begin() {
    PROGRAM_NAME=$1
    PROGRAM_SUMMARY=$2
    shift 2
    while [ $# -gt 0 ]; do
        case $1 in
        --help) program_usage; exit 0 ;;
        --arm)
            [ $# -ge 2 ] || program_usage_error "--arm needs a label"
            [[ " $(program_arm_labels) " == *" $2 "* ]] || program_usage_error "no arm is called $2"
            PROGRAM_ARMS+=("$2")
            shift ;;
        *) program_usage_error "unknown argument $1" ;;
        esac
        shift
    done
    if [ ! -f "$PINPOOL_LIB" ]; then
        tap_not_ok "$PROGRAM_NAME finds the library at $PINPOOL_LIB"
        tap_plan || exit 1
    fi
    mkdir -p "$BUILD_DIR"
    BUILD_DIR=$(cd "$BUILD_DIR" && pwd)
    PINPOOL_LIB=$(cd "$(dirname "$PINPOOL_LIB")" && pwd)/$(basename "$PINPOOL_LIB")
    PROGRAM_WORK=$BUILD_DIR/tests/program/$PROGRAM_NAME
    rm -rf "$PROGRAM_WORK"
    mkdir -p "$PROGRAM_WORK"
    program_clean_environment
    trap program_end_session EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# The caller's settings of this or another allocator must not leak into the reference or an arm.
program_clean_environment() {
    local name
    for name in $(compgen -e); do
        case $name in
        PINPOOL_LIB | PINPOOL_TOOL) ;;
        PINPOOL_* | LD_PRELOAD | MALLOC_* | GLIBC_TUNABLES | MIMALLOC_* | PYTHON* | NODE_* | GIT_*) unset "$name" ;;
        esac
    done
    export LC_ALL=C TZ=UTC
}

# Skips the whole script when one of these commands is missing.
program_needs() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || tap_skip_all "$command is not installed (scripts/install-deps check)"
    done
}

# --- arms ----------------------------------------------------------------------------------------

# Prints the path of an allocator's shared library that loads here, or nothing.
allocator_find() {
    local pattern path
    case $1 in
    jemalloc) pattern='libjemalloc\.so\.2' ;;
    mimalloc) pattern='libmimalloc\.so\.[0-9]+' ;; # 2 on Debian 12, 3 on Debian 13
    esac
    # A library of a foreign ELF class only makes ld.so complain, so silence means that it loads.
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p | sed -nE "s,^.*$pattern .* => (/.*)\$,\1,p" |
        while IFS= read -r path; do
            if [ -z "$(LD_PRELOAD=$path sh -c : 2>&1)" ]; then
                printf '%s\n' "$path"
                break
            fi
        done || true # sed may be cut off
}

# Sets ARM_LABEL, ARM_DIR, ARM_POOLS, ARM_POLICY, ARM_BEHIND and ARM_ENV from a row of ARMS; "reference" has no preload.
# Returns 1 when the allocator to stand behind us is not installed.
arm_select() {
    local behind_path
    read -r ARM_LABEL ARM_POOLS ARM_POLICY ARM_BEHIND <<<"$1"
    ARM_DIR=$PROGRAM_WORK/${ARM_LABEL//[,:]/+}
    ARM_ENV=()
    [ "$ARM_LABEL" != reference ] || return 0
    ARM_ENV=("LD_PRELOAD=$PINPOOL_LIB" "PINPOOL_POOLS=$ARM_POOLS" "PINPOOL_POLICY=$ARM_POLICY" "PINPOOL_DIR=$ARM_DIR/pinpool" PINPOOL_DUMP_AT_EXIT=1)
    if [ -n "$ARM_BEHIND" ]; then
        behind_path=$(allocator_find "$ARM_BEHIND")
        [ -n "$behind_path" ] || return 1
        ARM_ENV[0]="LD_PRELOAD=$PINPOOL_LIB $behind_path"
    fi
}

# --- inside a session ------------------------------------------------------------------------------

# Starts a command in the arm, in the background: name, seconds (of a short run), command. Its pid, which the dump
# carries, is written before it is executed; bash and env exec, so that the pid stays the same and
# neither of the two is preloaded. A shell without job control starts background commands with
# SIGINT and SIGQUIT ignored, which a program under test must not inherit.
program_start() {
    local name=$1 seconds=$2
    shift 2
    rm -f "$ARM_DIR/$name.pid"
    # shellcheck disable=SC2016
    timeout -k 5 $((seconds * PATIENCE)) bash -c 'echo $$ >"$0"; exec env --default-signal=INT,QUIT,PIPE "$@"' \
        "$ARM_DIR/$name.pid" "${ARM_ENV[@]}" "$@" </dev/null >"$ARM_DIR/$name.out" 2>>"$ARM_DIR/stderr" &
    PROGRAM_STARTED=$!
    CHILD_PIDS+=("$PROGRAM_STARTED")
}

# Waits for a process of program_start; its exit status in PROGRAM_STATUS.
program_wait() {
    PROGRAM_STATUS=0
    wait "$1" || PROGRAM_STATUS=$?
}

step() {
    program_start "$@"
    program_wait "$PROGRAM_STARTED"
    printf '%s: exit status %d\n' "$1" "$PROGRAM_STATUS"
}

declare -A SERVER_PIDS

serve() {
    local tries
    program_start "$@"
    SERVER_PIDS[$1]=$PROGRAM_STARTED
    for ((tries = 0; tries < 100; tries++)); do
        [ ! -s "$ARM_DIR/$1.pid" ] || return 0
        sleep 0.02
    done
    printf '%s: did not start\n' "$1"
    return 1
}

serve_wait() {
    program_wait "${SERVER_PIDS[$1]}"
    printf '%s: exit status %d\n' "$1" "$PROGRAM_STATUS"
}

# Runs a command until it succeeds, at most for so many seconds; "wait_until 5 test -S sock".
wait_until() {
    local deadline=$((SECONDS + $1 * PATIENCE))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            printf 'waited in vain for: %s\n' "$*"
            return 1
        fi
        sleep 0.05
    done
}

prove() {
    printf 'pid\t%s\t%s\t%d\n' "$1" "$(cat "$ARM_DIR/$1.pid")" "${2:-1}" >>"$ARM_DIR/proofs"
}

prove_exe() {
    printf 'exe\t%s\t%s\t%d\n' "$1" "$1" "${2:-1}" >>"$ARM_DIR/proofs"
}

# What of stderr is compared: everything. A script whose program is noisy by itself, and never the
# same twice, redefines this.
stderr_filter() {
    cat
}

# What an arm's result must be: the reference's. A script whose arms do less redefines this.
result_expected() {
    cat "$PROGRAM_WORK/reference/result"
}

# --- the proof -------------------------------------------------------------------------------------

# One line a dump: pid, whether it is whole, POOLS, next allocator, slices carved, executable.
dumps_index() {
    local folder=$1
    # shellcheck disable=SC2016  # the program is awk's
    find "$folder" -name 'pinpool.*.jsonl' -size +0 -print0 | xargs -0 -r awk '
        function text(key,   found) {
            if (!match($0, "\"" key "\":\"[^\"]*\"")) return "-"
            found = substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
            return found == "" ? "-" : found
        }
        function number(key) {
            if (!match($0, "\"" key "\":[0-9]+")) return 0
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
        }
        function flush() {
            if (pid != "") print pid "\t" whole "\t" pools "\t" behind "\t" slices "\t" exe
        }
        FNR == 1 {
            flush()
            whole = slices = 0
            pid = number("pid"); pools = text("PINPOOL_POOLS"); behind = text("next"); exe = text("exe")
        }
        /"type":"counter"/ && /"name":"carved_slices"/ { slices += number("value") }
        /"type":"end"/ { whole = 1 }
        END { flush() }'
}

# Says for each proof asked for whether the dumps give it; returns 1 when one is missing.
proofs_check() {
    local kind name what least
    [ -s "$ARM_DIR/proofs" ] || { echo "the session asked for no proof"; return 1; }
    dumps_index "$ARM_DIR/pinpool" >"$ARM_DIR/dumps"
    while IFS=$'\t' read -r kind name what least; do
        awk -F '\t' -v kind="$kind" -v what="$what" -v least="$least" -v pools="$ARM_POOLS" \
            -v behind="$ARM_BEHIND" -v name="$name" '
            { exe = $6; sub(/^.*\//, "", exe) }
            kind == "pid" ? $1 == what : exe == what {
                seen = 1
                if ($2 && $3 == pools && index($4, behind) && $5 + 0 >= least + 0) good = 1
                else row = $0
            }
            END {
                if (good) exit 0
                if (!seen) print name ": no dump of " kind " " what
                else print name ": wanted a whole dump, POOLS " pools ", behind us \"" behind "\", at least " least \
                    " slices; got (pid, whole, POOLS, next, slices, exe): " row
                exit 1
            }' "$ARM_DIR/dumps" || return 1
    done <"$ARM_DIR/proofs"
}

# --- the matrix --------------------------------------------------------------------------------------

# Runs a session in the selected arm. Its stdout is the result; how it ended is part of it.
session_run() {
    local status=0 start=$SECONDS
    mkdir -p "$ARM_DIR/pinpool"
    : >"$ARM_DIR/stderr"
    (
        trap program_end_children EXIT
        trap 'exit 143' HUP INT TERM
        cd "$ARM_DIR"
        "$1"
    ) </dev/null >"$ARM_DIR/result" 2>"$ARM_DIR/harness" &
    SESSION_PID=$!
    wait "$SESSION_PID" || status=$?
    SESSION_PID=
    printf 'session: %d\n' "$status" >>"$ARM_DIR/result"
    printf '# %s, %s: %d s\n' "$PROGRAM_NAME" "$ARM_LABEL" $((SECONDS - start))
}

# The reference must itself be sound, or comparing with it proves nothing.
reference_assert() {
    if [ "$(tail -n 1 "$ARM_DIR/result")" = 'session: 0' ] && ! grep -q ': exit status [^0]' "$ARM_DIR/result"; then
        tap_ok "$PROGRAM_NAME without the preload: runs well, as the reference"
        return 0
    fi
    tap_not_ok "$PROGRAM_NAME without the preload: runs well, as the reference"
    cat "$ARM_DIR/harness" "$ARM_DIR/result" "$ARM_DIR/stderr" | tail -n 40 | tap_diagnose_some
    return 1
}

arm_assert() {
    local what="$PROGRAM_NAME under $ARM_LABEL" reference=$PROGRAM_WORK/reference difference
    if difference=$(diff <(result_expected) "$ARM_DIR/result"); then
        tap_ok "$what: the result of the reference"
        [ ! -s "$ARM_DIR/notes" ] || tap_diagnose_some <"$ARM_DIR/notes"
    else
        tap_not_ok "$what: the result of the reference"
        { printf '%s\n' "$difference"; cat "$ARM_DIR/harness" "$ARM_DIR/notes" 2>/dev/null || true; tail -n 15 "$ARM_DIR/stderr"; } | tap_diagnose_some
    fi
    difference=$(comm -13 <(stderr_filter <"$reference/stderr" | sort -u) <(stderr_filter <"$ARM_DIR/stderr" | sort -u))
    if [ -z "$difference" ]; then
        tap_ok "$what: nothing more on stderr"
    else
        tap_not_ok "$what: nothing more on stderr"
        printf '%s\n' "$difference" | tap_diagnose_some
    fi
    if difference=$(proofs_check); then
        tap_ok "$what: pinpool was active in every process asked about"
    else
        tap_not_ok "$what: pinpool was active in every process asked about"
        printf '%s\n' "$difference" | tap_diagnose_some
    fi
}

# Was this arm asked for? All of them, unless --arm was given.
arm_is_wanted() {
    [ ${#PROGRAM_ARMS[@]} -eq 0 ] || [[ " ${PROGRAM_ARMS[*]} " == *" $1 "* ]]
}

# session_run is never called as a condition: that would turn errexit off in the session.
program_matrix() {
    local arm label rest
    arm_select reference
    session_run "$1"
    if reference_assert; then
        for arm in "${ARMS[@]}"; do
            read -r label rest <<<"$arm"
            arm_is_wanted "$label" || continue
            if ! arm_select "$arm"; then
                tap_skip "$PROGRAM_NAME under $label: the result of the reference" "no $ARM_BEHIND here (scripts/install-deps check)"
                continue
            fi
            session_run "$1"
            arm_assert
        done
    fi
    tap_plan
}
