#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# redis: the server has no handler for SIGUSR1. It sends it to its own child, which saves the data, to have it
# end: that is its own business and no dump.
set -euo pipefail
about='Takes dumps of redis-server while clients change values, and of the child that saves them.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=redis
kind=redis
process_count=1
service_needs redis-server redis-cli

for bytes in 10 200 1500 3000 9000 30000; do
    requests+=("SET value-$bytes-% @$bytes" "GET value-$bytes-%" "APPEND value-$bytes-% @1234" "STRLEN value-$bytes-%")
    requests+=("RPUSH list-% @$bytes @1100 @$bytes" "LRANGE list-% 0 -1" "HSET hash-% one @$bytes" "HGETALL hash-%" "DEL list-% hash-%")
done

configure() {
    :
}

launch() {
    serve redis-server --bind 127.0.0.1 --port "$port" --dir "$run" --save '' --appendonly no --logfile ''
}

client() {
    timeout "$patience_s" redis-cli -h 127.0.0.1 -p "$port" "$@" || echo 'redis-cli has failed'
}

child() {
    service_pids | tail -n +2
}

child_is_there() {
    [ -n "$(child)" ]
}

saves_nothing() {
    client info persistence | tr -d '\r' | grep -qx 'rdb_bgsave_in_progress:0'
}

own_handler() {
    local saver
    check 'writes a dump on kill -USR1 in a shell, without a handler of its own' kill_from_shell "$master"
    client config set rdb-key-save-delay 1000000 >"$scratch/said" # microseconds: the child is slow
    client bgsave >"$scratch/said"
    wait_for "$patience_s" child_is_there || true
    saver=$(child)
    check 'writes a dump of the child that saves' dump "${saver:-none}"
    row "$([ "$(child)" = "$saver" ]; echo $?)" 'still has that child' "$run/stdout"
    client flushall >"$scratch/said" # ends the child by SIGUSR1
    check 'has its child end by the signal that it sends it itself' wait_for "$patience_s" saves_nothing
    row "$(is_running "${saver:-0}"; echo $((!$?)))" 'has no child then'
    begin_load
    end_load
    row "$load_status" 'answers as before' "$load_folder/answers"
}

service_test
