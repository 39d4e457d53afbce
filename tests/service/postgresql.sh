#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# PostgreSQL: its processes send one another SIGUSR1 all the time; thousands of them for a few parallel
# queries, some by parallel workers that end at once. That is their own business: no dump. Whoever wants the log
# rotated leaves a file and sends the postmaster the signal: a dump, and the log is rotated.
set -euo pipefail
about='Takes dumps of PostgreSQL, its postmaster, helpers and sessions, during parallel queries.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=PostgreSQL
kind=sql
process_count=6 # the postmaster, logger, checkpointer, background writer, walwriter, logical replication launcher
connections=2
session_processes=2
end_signal=INT # "fast": sessions are not waited for
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
service_needs "${bin:-/usr/lib/postgresql}/postgres" "${bin:-/usr/lib/postgresql}/initdb" setpriv
export PSQL=$bin/psql

requests=(
    "SELECT count(*), sum(number), max(text) FROM numbers"
    "SELECT number % 100, max(text) FROM numbers GROUP BY 1 ORDER BY 1"
    "SELECT md5(string_agg(text, '' ORDER BY text)) FROM numbers WHERE number % 70 = 3"
    "SELECT repeat(text, 300) FROM numbers WHERE number % 10007 = 0 ORDER BY number"
)

# PostgreSQL refuses to run as root.
if [ "$(id -u)" -eq 0 ]; then
    user=nobody
    ! id postgres >/dev/null 2>&1 || user=postgres
    as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi

# Both runs are of one cluster, which a run without load makes.
cluster=$scratch/cluster
sockets=$scratch/sockets
mkdir "$cluster" "$sockets"
[ "$(id -u)" -ne 0 ] || chown "$user" "$cluster" "$sockets"

configuration() {
    cat <<CONF
listen_addresses = ''
unix_socket_directories = '$sockets'
fsync = off
autovacuum = off
max_worker_processes = 8
max_parallel_workers = 8
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
jit = off
logging_collector = on
log_directory = '$scratch/logs'
log_filename = 'server.log'
CONF
}

make_cluster() {
    "${as_user[@]}" env HOME="$cluster" "$bin/initdb" --no-sync --auth trust --username postgres --locale C --encoding UTF8 "$cluster/data" &&
        configuration | "${as_user[@]}" tee -a "$cluster/data/postgresql.conf" &&
        "${as_user[@]}" "$bin/postgres" --single -D "$cluster/data" postgres <<<"
            CREATE TABLE numbers AS SELECT number, md5(number::text) AS text FROM generate_series(1, 200000) number" &&
        "${as_user[@]}" "$bin/postgres" --single -D "$cluster/data" postgres <<<'ANALYZE numbers'
}

mkdir "$scratch/logs"
chmod 1777 "$scratch/logs"
if ! (cd "$cluster" && make_cluster) >"$scratch/made" 2>&1; then
    tap_not_ok 'PostgreSQL has a cluster to run on'
    tap_note "$(tail -n 20 "$scratch/made")"
    tap_done
    exit
fi

configure() {
    :
}

launch() {
    serve "$bin/postgres" -D "$cluster/data"
}

query() {
    "$PSQL" -X -q -A -t -h "$sockets" -U postgres -d postgres -c "$1"
}

answers() {
    query 'SELECT 1'
}

load_address() {
    printf '%s' "$sockets"
}

# Those that stay: a parallel worker comes and goes with its query, and until it has said so it looks
# like a postmaster.
eval "all_$(declare -f service_pids)"
service_pids() {
    local pid stays='^postgres: (logger|checkpointer|background writer|walwriter|logical replication launcher|postgres )'
    for pid in $(all_service_pids); do
        if [ "$pid" = "$master" ] || grep -sqzE "$stays" "/proc/$pid/cmdline"; then
            echo "$pid"
        fi
    done
}

is_parallel() {
    [ "$(query "EXPLAIN ${requests[0]}" | grep -c 'Workers Planned')" -ge 1 ]
}

log_is_rotated() {
    [ -e "$scratch/logs/server.log" ]
}

own_handler() {
    local processes how
    check 'plans its queries for parallel workers' is_parallel
    wait_for "$patience_s" is_settled || true
    processes=$(service_identities)
    for how in chain shell; do
        mv "$scratch/logs/server.log" "$scratch/logs/server.log.$how"
        "${as_user[@]}" touch "$cluster/data/logrotate" # as pg_ctl logrotate does
        handler_runs "$how" "$master" 'rotates its log' log_is_rotated
        touch "$scratch/logs/server.log" # whatever happened, for the next round
    done
    wait_for "$patience_s" is_settled || true
    row "$([ "$processes" = "$(service_identities)" ]; echo $?)" 'has the same processes after that'
}

service_test
