#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# haproxy: SIGUSR1 makes it take no more connections and end when the last is closed. The master hands it
# on to its worker.
set -euo pipefail
about='Takes dumps of haproxy, a master and a worker of two threads, that proxies to itself.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=haproxy
kind=http
process_count=2
service_needs haproxy

sizes=(100 1500 4000 9000 15000)
for bytes in "${sizes[@]}"; do
    requests+=("/$bytes.txt" "/gzip/$bytes.txt")
done

# The front takes a request and hands it to the back, which answers from a file; a buffer is 16 KiB. The
# back is not on an abstract socket: with one haproxy 2.6 now and then crashes at the end of a soft stop,
# without us too (4 times in 24), because it forgets a descriptor after the table of them is freed.
configure() {
    local bytes back
    back=$(free_port)
    for bytes in "${sizes[@]}"; do
        seq -f "line %09.0f of a body of $bytes bytes" 1 1000 | head -c "$bytes" >"$run/$bytes.txt" || true
    done
    {
        cat <<CONF
global
    master-worker
    nbthread 2
    maxconn 100
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 60s
frontend front
    bind 127.0.0.1:$port
    http-request replace-path /gzip(/.*) \\1
    compression algo gzip
    compression type text/plain
    default_backend through
backend through
    server back 127.0.0.1:$back
frontend back
    bind 127.0.0.1:$back
CONF
        for bytes in "${sizes[@]}"; do
            printf '    http-request return status 200 content-type text/plain file %s if { path /%s.txt }\n' "$run/$bytes.txt" "$bytes"
        done
    } >"$run/haproxy.cfg"
}

launch() {
    serve haproxy -W -f haproxy.cfg
}

own_handler() {
    handler_ends shell 0 'ends when its connections have, the worker too'
}

service_test
