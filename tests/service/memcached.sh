#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# memcached: SIGUSR1 ends it in good order.
set -euo pipefail
about='Takes dumps of memcached, four threads, while clients write and read values up to 30 KB.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=memcached
kind=memcached
process_count=1
service_needs memcached

for bytes in 1 100 1500 3000 9000 30000 100000; do
    requests+=("set value-$bytes $bytes" "get value-$bytes")
done
requests+=('delete value-100' 'get value-100')

configure() {
    :
}

launch() {
    local user=()
    [ "$(id -u)" -ne 0 ] || user=(-u nobody)
    serve memcached -l 127.0.0.1 -p "$port" -U 0 -t 4 -m 64 "${user[@]}"
}

own_handler() {
    handler_ends chain 0 'ends in good order'
}

service_test
