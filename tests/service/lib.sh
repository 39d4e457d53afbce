# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034 # what is set here is used by the scripts that source this
# lib.sh: what the scripts of tests/service share. A script here shows that one real service, under
# load, does not notice the dumps that `pinpool dump` takes of its processes, whatever its own handler
# for the dump's signal does, and that this handler runs when somebody else sends the signal.
#
# The service runs twice: without the library, which says what its answers are and how it ends, and
# with it. In the second run each of its processes is dumped, $dumps_each times, in the middle of
# the load. Then: the same processes are there, the answers were the same, every dump that was
# asked for is there and whole, and no file else.
#
# A script sets `about`, sources this and sets
#   service          its name
#   kind, requests   the load: see load.py
#   process_count    how many processes it is, without helpers that come and go
# and may set connections, end_signal, session_processes. It defines
#   configure        writes what it needs into $run, for $port; called before every start
#   launch           calls `serve COMMAND...` with the service in the foreground
#   own_handler      the rows about the program's own handler (optional)
#   handler_calls    prints how often that handler was called, as far as it left traces (optional)
# and may redefine answers, load_address, service_pids. Last it calls service_test.
#
# SERVICES_REQUIRED=1 makes a missing program a failure (make check-services).

# shellcheck source=tests/support/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/tap.sh"

case ${1-} in
--help)
    printf 'Usage: %s\n%s\n' "$0" "${about:?}"
    printf 'Writes TAP. Uses BUILD_DIR, PINPOOL_LIB and PINPOOL_TOOL; SERVICES_REQUIRED=1: a missing program is a failure.\n'
    exit 0 ;;
esac

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # where daemons are, for users other than root
export LC_ALL=C TZ=UTC
python=/usr/bin/python3
check_dump=$build/tests/support/check_dump
tap_need "$library" "$tool" "$check_dump"

dumps_each=2      # of every process, in the middle of the load
load_ms=1500      # the least that the load goes on once all connections are served
patience_s=60     # for whatever is waited for: machines may be busy
connections=4
end_signal=TERM
as_user=()        # a command that runs the service as another user
groups_to_end=()
port=0

# Other users must get to the library and to their folders.
chmod 755 "$scratch"
cp "$library" "$scratch/libpinpool.so"
chmod 755 "$scratch/libpinpool.so"
tap_at_end end_groups

# ---- before anything ----------------------------------------------------------------------------

# is_missing REASON: ends the script.
is_missing() {
    if [ "${SERVICES_REQUIRED:-0}" = 1 ]; then
        tap_not_ok "${service:?} can be tested here"
        tap_note "$1"
    else
        tap_skip "$service does not notice a dump" "$1"
    fi
    tap_done
    exit
}

# service_needs COMMAND...: one whose name has "|" in it is any of those.
service_needs() {
    local names name
    for names in "$python" "$@"; do
        for name in ${names//|/ }; do
            ! command -v "$name" >/dev/null || continue 2
        done
        is_missing "${names//|/ or } is not installed (make check-services installs it)"
    done
}

# first_command NAME...: prints the first that is there.
first_command() {
    local name
    for name in "$@"; do
        if command -v "$name"; then
            return
        fi
    done
}

# ---- processes ------------------------------------------------------------------------------------

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.02
    done
}

is_running() {
    [[ $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) == [!ZX]* ]]
}

has_ended() {
    ! is_running "$1"
}

# The pids of the service: $master and all that descend from it.
service_pids() {
    { grep -s '^PPid:' /proc/[0-9]*/status || true; } | awk -F '[/:\t]+' -v master="$master" '
        { parent[$3] = $NF }
        END {
            for (pid in parent) {
                for (up = pid; up != master && up in parent; up = parent[up]);
                if (up == master) print pid
            }
        }' | sort -n
}

# pid:start, a line each: a pid alone may come back as another process.
service_identities() {
    local pid
    for pid in $(service_pids); do
        # a process may end between the two looks
        sed -n "s/^\([0-9]*\) (.*) [^Z] \([-0-9]* \)\{18\}\([0-9]*\) .*/\1:\3/p" "/proc/$pid/stat" 2>/dev/null || true
    done
}

# All processes are there, and for a moment the same.
is_settled() {
    local first
    first=$(service_identities)
    [ "$(wc -l <<<"$first")" -eq "$process_count" ] || return 1
    sleep 0.2
    [ "$(service_identities)" = "$first" ]
}

lacks_library() {
    local pid
    for pid in "$@"; do
        grep -q '/libpinpool\.so$' "/proc/$pid/maps" || printf '%s (%s) ' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
    done
}

# ---- starting and ending ---------------------------------------------------------------------------

# serve COMMAND...: starts it in $run, in a process group of its own. Sets $master, whose pid is the
# service's, because everything before it only executes the next. A shell without job control
# starts background commands with SIGINT and SIGQUIT ignored, which a service must not inherit.
serve() {
    local preload=()
    if [ "$arm" = pinpool ]; then
        preload=("LD_PRELOAD=$scratch/libpinpool.so" "PINPOOL_DIR=$dir")
    fi
    (
        cd "$run" || exit
        exec setsid "${as_user[@]}" env --default-signal=INT,QUIT,PIPE HOME="$run" TMPDIR="$run" "${preload[@]}" "$@"
    ) </dev/null >"$run/stdout" 2>"$run/stderr" &
    master=$!
    groups_to_end+=("$master")
}

# What is left when the script is broken off.
end_groups() {
    local group
    for group in "${groups_to_end[@]}"; do
        kill -KILL -- "-$group" 2>/dev/null || true
    done
}

free_port() {
    "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

answers() {
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
}

answers_or_has_ended() {
    answers || has_ended "$master"
}

# Somebody may take the port before the service does, so it is tried again.
start_service() {
    local tries
    for tries in 1 2 3; do
        port=$(free_port)
        configure
        launch
        wait_for "$patience_s" answers_or_has_ended || break
        if is_running "$master"; then
            return 0
        fi
        wait "$master" || true
    done
    return 1
}

# Waits for the end; the service's exit status in $ended_status, "none" when it had to be killed.
await_end() {
    if wait_for "$patience_s" has_ended "$master"; then
        ended_status=0
        wait "$master" || ended_status=$?
    else
        ended_status=none
        kill -KILL -- "-$master" 2>/dev/null || true
        wait "$master" || true
    fi
}

end_service() {
    kill -s "$end_signal" "$master" 2>/dev/null || true
    await_end
}

# A run's folder, for any user to write to, and its folder for dumps.
enter_arm() {
    arm=$1
    run=$scratch/$arm
    dir=$scratch/$arm-dumps
    mkdir -p "$run" "$dir" "$scratch/$arm-load"
    chmod 1777 "$run" "$dir"
}

# ---- load ---------------------------------------------------------------------------------------

load_address() {
    printf '127.0.0.1:%s' "$port"
}

begin_load() {
    load_folder=$scratch/$arm-load
    rm -f "$load_folder"/*
    # shellcheck disable=SC2154 # the script's
    "$python" "$(dirname "${BASH_SOURCE[0]}")/load.py" "$kind" "$(load_address)" "$load_folder" "$connections" \
        $((patience_s * 2)) "${requests[@]}" >"$load_folder/answers" 2>"$load_folder/said" &
    load=$!
    wait_for "$patience_s" test -e "$load_folder/begun" || true
    load_begun_ms=$(now_ms)
}

now_ms() {
    local now=${EPOCHREALTIME/./}
    printf '%s' "${now%???}"
}

# Everybody is served for a while after the last dump, and once more whole.
end_load() {
    local left_ms=$((load_begun_ms + load_ms - $(now_ms)))
    if [ "$arm" = pinpool ] && [ "$left_ms" -gt 0 ]; then
        sleep "$((left_ms / 1000)).$(printf '%03d' $((left_ms % 1000)))"
    fi
    touch "$load_folder/stop"
    load_status=0
    wait "$load" || load_status=$?
}

# ---- dumps ----------------------------------------------------------------------------------------

# dump [OPTION]... PID: one dump is asked for; its path goes to $scratch/asked.
dump() {
    "$tool" dump --timeout "$patience_s" "$@" >>"$scratch/asked" 2>>"$scratch/dump-errors"
}

# kill_from_shell PID: what an operator types. A dump is asked for, too: the next that this process has.
kill_from_shell() {
    local pid=$1 before
    before=$(dumps_of "$pid")
    kill -USR1 "$pid"
    if wait_for "$patience_s" has_more_dumps "$pid" "$before"; then
        comm -13 <(echo "$before") <(dumps_of "$pid") | head -n 1 >>"$scratch/asked"
    else
        return 1
    fi
}

dumps_of() {
    find "$dir" -name "pinpool.$1.*.jsonl" | sort
}

# The dump is whole when its last line is there.
has_more_dumps() {
    local new
    new=$(comm -13 <(echo "$2") <(dumps_of "$1") | head -n 1)
    [ -n "$new" ] && tail -n 1 "$new" | grep -q '"type":"end"'
}

dump_all() {
    local pid round failed=0
    for ((round = 0; round < dumps_each; round++)); do
        for pid in "$@"; do
            dump "$pid" || failed=1
        done
    done
    return "$failed"
}

# ---- the rows ----------------------------------------------------------------------------------------

# row STATUS SENTENCE [FILE-THAT-SAYS-WHY]...
row() {
    local sentence="$service $2" file status=$1
    row_status=$status
    shift 2
    if [ "$status" -eq 0 ]; then
        tap_ok "$sentence"
        return
    fi
    tap_not_ok "$sentence"
    for file in "$@"; do
        [ ! -s "$file" ] || tap_note "$(tail -n 15 "$file")"
    done
}

# check SENTENCE COMMAND...: the command succeeds.
check() {
    local sentence=$1 status=0
    shift
    : >"$scratch/dump-errors"
    "$@" || status=1
    row "$status" "$sentence" "$scratch/dump-errors" "$run/stderr"
}

# The service without the library, as the reference. Whatever is wrong here is not ours.
run_reference() {
    local status=0
    enter_arm reference
    if ! start_service; then
        status=1
    elif ! wait_for "$patience_s" is_settled; then
        tap_note "not $process_count processes, but: $(service_identities | tr '\n' ' ')"
        status=1
    else
        begin_load
        end_load
        status=$load_status
    fi
    end_service
    end_status=$ended_status
    [[ $end_status == [0-9] || $end_status == 143 ]] || status=1
    row "$status" 'runs without the library, as the reference' "$scratch/reference-load/answers" "$run/stderr" "$run/stdout"
    [ "$status" -eq 0 ]
}

# Load, and in the middle of it the dumps.
run_under_load() {
    local before after status=0 pids calls
    begin_load
    calls=$(handler_calls)
    wait_for "$patience_s" is_settled_under_load || tap_note "the processes come and go: $(service_identities | tr '\n' ' ')"
    before=$(service_identities)
    pids=$(cut -d : -f 1 <<<"$before")
    # shellcheck disable=SC2086 # pids
    lacks_library $pids >"$scratch/lacking"
    row "$([ -s "$scratch/lacking" ]; echo $((!$?)))" "has the library in each of its processes" "$scratch/lacking"
    # shellcheck disable=SC2086
    dump_all $pids || status=1
    row "$status" "has a dump taken $dumps_each times of each of its $(wc -w <<<"$pids") processes, under load" "$scratch/dump-errors"
    sleep 0.2 # what a dump's signal set off must have had time to show
    after=$(service_identities)
    printf 'before: %s\nafter: %s\n' "${before//$'\n'/ }" "${after//$'\n'/ }" >"$scratch/identities"
    row "$([ "$before" = "$after" ]; echo $?)" 'is still the same processes' "$scratch/identities" "$run/stderr"
    [ -z "$calls" ] || tap_is "$service has not had its own handler called" "$calls" "$(handler_calls)"
    end_load
    { diff "$scratch/reference-load/answers" "$load_folder/answers" || true; } >"$scratch/difference"
    row "$((load_status != 0 || $(wc -c <"$scratch/difference") != 0))" 'answers every request as without the library' "$scratch/difference"
    tap_note "$(cat "$load_folder/said")"
}

# The load's own sessions may be processes too, as PostgreSQL's are.
session_processes=0
is_settled_under_load() {
    local process_count=$((process_count + session_processes))
    is_settled
}

# The library worked there: what it carved, in all dumps together.
check_dumps() {
    local slices status=0
    sort "$scratch/asked" >"$scratch/asked-sorted"
    find "$dir" -mindepth 1 | sort >"$scratch/found"
    { diff "$scratch/asked-sorted" "$scratch/found" || true; } >"$scratch/difference"
    row "$([ -s "$scratch/difference" ]; echo $((!$?)))" \
        "leaves the dumps that were asked for and no other file ($(wc -l <"$scratch/asked"))" "$scratch/difference"
    xargs -r "$check_dump" <"$scratch/found" >"$scratch/judged" 2>&1 || status=1
    [ -s "$scratch/found" ] || status=1
    row "$status" 'has whole dumps that add up' "$scratch/judged"
    slices=$(xargs -r cat <"$scratch/found" | awk -F '"value":' '/"name":"carved_slices"/ { sum += $2 } END { print sum + 0 }')
    row "$((slices == 0))" "had memory from the library ($slices slices in all dumps)"
}

# What it leaves in its own folder: the names, without numbers that differ from run to run.
left_files() {
    find "$scratch/$1" -maxdepth 1 -mindepth 1 -printf '%f\n' | sed 's/[0-9][0-9]*/N/g' | sort -u
}

# The processes that were started with the library and are there, whoever their parent is now.
processes_left() {
    grep -lsz "^PINPOOL_DIR=$dir\$" /proc/[0-9]*/environ | cut -d / -f 3
}

none_is_left() {
    [ -z "$(processes_left)" ]
}

own_handler() {
    :
}

handler_calls() {
    :
}

# ask HOW PID: has a dump written, by the tool (chain) or by kill in a shell (shell), and the program's own
# handler called in either case.
ask() {
    case $1 in
    chain) dump --chain "$2" ;;
    shell) kill_from_shell "$2" ;;
    esac
}

declare -A asking=([chain]='pinpool dump --chain' [shell]='kill -USR1 in a shell')

# handler_runs HOW PID SENTENCE COMMAND...: after the dump the command succeeds.
handler_runs() {
    local how=$1 pid=$2 sentence=$3
    shift 3
    check "writes a dump on ${asking[$how]}" ask "$how" "$pid"
    if [ "$row_status" -eq 0 ]; then
        check "$sentence after that" wait_for "$patience_s" "$@"
    else
        row 1 "$sentence after that"
    fi
}

# handler_ends HOW STATUS SENTENCE: after the dump the service ends.
handler_ends() {
    check "writes a dump on ${asking[$1]}" ask "$1" "$master"
    if [ "$row_status" -eq 0 ]; then
        await_end
        is_over=1
        printf 'exit status %s\n' "$ended_status" >"$scratch/ended"
        row "$([ "$ended_status" = "$2" ]; echo $?)" "$3 after that" "$scratch/ended" "$run/stderr"
    else
        row 1 "$3 after that"
    fi
}

service_test() {
    is_over=0
    : >"$scratch/asked"
    : >"$scratch/dump-errors"
    if ! run_reference; then
        tap_done
        exit 1
    fi
    enter_arm pinpool
    if ! start_service || ! wait_for "$patience_s" is_settled; then
        row 1 'starts with the library' "$run/stderr" "$run/stdout"
        end_service
        tap_done
        exit 1
    fi
    run_under_load
    if is_running "$master"; then
        own_handler
    else
        row 1 'is there for its own handler to be called'
    fi
    if [ "$is_over" -eq 0 ]; then
        end_service
        printf 'exit status %s, and %s without the library\n' "$ended_status" "$end_status" >"$scratch/ended"
        row "$([ "$ended_status" = "$end_status" ]; echo $?)" 'ends as without the library' "$scratch/ended" "$run/stderr"
    fi
    check 'leaves no process behind' wait_for "$patience_s" none_is_left
    none_is_left || { processes_left | xargs kill -KILL; }
    check_dumps
    { diff <(left_files reference) <(left_files pinpool) || true; } >"$scratch/difference"
    row "$([ -s "$scratch/difference" ]; echo $((!$?)))" 'leaves the files that it leaves without the library' "$scratch/difference"
    tap_done
}
