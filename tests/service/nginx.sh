#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# nginx: SIGUSR1 to the master makes it and, through it, the workers reopen their logs. The workers are
# another user's, as they are in a Debian installation, and write their dumps as that user.
set -euo pipefail
about='Takes dumps of nginx, a master and two workers as another user, that proxies and compresses.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=nginx
kind=http
process_count=3
end_signal=QUIT
service_needs nginx

sizes=(100 1500 4000 9000 30000 200000)
for bytes in "${sizes[@]}"; do
    requests+=("/$bytes.txt" "/gzip/$bytes.txt" "/proxy/$bytes.txt")
done

configure() {
    local bytes user=''
    [ "$(id -u)" -ne 0 ] || user='user www-data;'
    mkdir -p "$run/files"
    for bytes in "${sizes[@]}"; do
        seq -f "line %09.0f of a file of $bytes bytes" 1 10000 | head -c "$bytes" >"$run/files/$bytes.txt" || true
    done
    cat >"$run/nginx.conf" <<CONF
$user
daemon off;
worker_processes 2;
pid master.pid;
error_log error.log notice;
events { worker_connections 256; }
http {
    access_log access.log;
    types { text/plain txt; }
    client_body_temp_path temp-body;
    proxy_temp_path temp-proxy;
    fastcgi_temp_path temp-fastcgi;
    uwsgi_temp_path temp-uwsgi;
    scgi_temp_path temp-scgi;
    output_buffers 2 16k;
    proxy_buffers 8 8k;
    keepalive_timeout 60;
    keepalive_requests 1000000;
    gunzip on;
    gzip_min_length 200;
    gzip_types text/plain;
    gzip_http_version 1.0;
    server {
        listen 127.0.0.1:$port;
        root files;
        location /compressed/ { gzip on; alias $run/files/; }
        location /gzip/ { proxy_set_header Accept-Encoding gzip; proxy_pass http://127.0.0.1:$port/compressed/; }
        location /proxy/ { proxy_pass http://127.0.0.1:$port/; }
    }
}
CONF
}

launch() {
    serve nginx -p "$run/" -c nginx.conf -e error.log
}

# The worker that writes the log must have it open anew, too: it counts what comes after.
log_is_reopened() {
    [ -e "$run/access.log" ] && "$python" -c 'import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=60).read()' "http://127.0.0.1:$port/100.txt?$1" && grep -q "100.txt?$1" "$run/access.log"
}

handler_calls() {
    grep -c '(SIGUSR1) received.*reopening logs' "$run/error.log" || true
}

own_handler() {
    local workers how
    workers=$(service_identities)
    for how in chain shell; do
        mv "$run/access.log" "$run/access.log.$how"
        handler_runs "$how" "$master" 'reopens its log' log_is_reopened "$how"
        touch "$run/access.log" # whatever happened, for the next round
    done
    touch "$scratch/reference/access.log."{chain,shell}
    row "$([ "$workers" = "$(service_identities)" ]; echo $?)" 'has the same workers after that'
}

service_test
