#!/bin/bash
# SPDX-License-Identifier: MIT
#
# nginx: two workers serve files of several sizes, plain and compressed, through a local proxy hop,
# while wrk loads them from several threads. No answer may fail, every body must be the file's. The
# master reopens its log on SIGUSR1, which is also the signal that writes a dump: both must happen.
# It reloads its configuration under load, so that workers end and new ones are forked.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin nginx 'nginx with wrk: no error, the right bodies, SIGUSR1 and SIGHUP as usual.' "$@"
PATH=$PATH:/usr/sbin:/sbin # where nginx is, for users other than root
PYTHON=/usr/bin/python3
program_needs nginx wrk "$PYTHON"

LOAD_SECONDS=1
[ "$LONG" = 0 ] || LOAD_SECONDS=10
SIZES=(100 1500 4096 9000 30000 70000 400000)

# A port of the loopback interface that nobody listens on at this moment.
free_port() {
    "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Workers keep the master's user, so that their dumps can be written where the master's are.
# The buffers are in our sizes, and the proxy hop makes nginx allocate them for every answer.
write_configuration() {
    local user=''
    [ "$(id -u)" -ne 0 ] || user='user root root;'
    cat >nginx.conf <<CONF
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
    request_pool_size 4k;
    output_buffers 2 16k;
    proxy_buffer_size 4k;
    proxy_buffers 8 8k;
    keepalive_timeout 10;
    keepalive_requests 100;
    gzip_min_length 200;
    gzip_types text/plain;
    server {
        listen 127.0.0.1:$1;
        root files;
        location /gzip/ { gzip on; alias $ARM_DIR/files/; }
        location /proxy/ { proxy_pass http://127.0.0.1:$1/; }
    }
}
CONF
}

write_files() {
    local size
    mkdir -p files
    for size in "${SIZES[@]}"; do
        seq -f "line %09.0f of a file of $size bytes" 1 20000 | head -c "$size" >"files/$size.txt" || true
    done
}

# Prints the md5 sum of a body, decompressed where it came compressed.
fetch() {
    "$PYTHON" - "$@" <<'PY'
import gzip, hashlib, sys, urllib.request
for url in sys.argv[1:]:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"} if "/gzip/" in url else {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        body = answer.read()
        if answer.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        print(answer.status, url.split("/", 3)[3], len(body), hashlib.md5(body).hexdigest())
PY
}

# Loads the server from two threads over all files, into the file named; wrk writes "Socket errors"
# and "Non-2xx" lines only if there were any.
load() {
    timeout $((LOAD_SECONDS + 30)) wrk -t 2 -c 16 -d "${LOAD_SECONDS}s" --timeout 10s -s load.lua "http://127.0.0.1:$PORT" >"$1" 2>&1
}

write_load() {
    local size
    {
        echo 'local paths = {'
        for size in "${SIZES[@]}"; do
            printf '  "/%s.txt", "/gzip/%s.txt", "/proxy/%s.txt",\n' "$size" "$size" "$size"
        done
        cat <<'LUA'
}
local n = 0
request = function()
  n = n + 1
  local headers = { ["Host"] = "localhost" }
  if n % 2 == 0 then headers["Accept-Encoding"] = "gzip" end
  return wrk.format("GET", paths[n % #paths + 1], headers)
end
LUA
    } >load.lua
}

start_server() {
    local tries port
    for tries in 1 2 3; do
        port=$(free_port)
        write_configuration "$port"
        serve nginx $((LOAD_SECONDS * 4 + 60)) nginx -p "$ARM_DIR/" -c nginx.conf -e error.log
        if wait_until 10 fetch "http://127.0.0.1:$port/100.txt" >&2; then
            PORT=$port
            return 0
        fi
        echo "try $tries: port $port" >&2
    done
    return 1
}

master() {
    cat nginx.pid
}

# A dump by signal numbers itself; there is none in the reference, where SIGUSR1 only reopens logs.
reopen_logs() {
    mv access.log access.log.old
    kill -USR1 "$(master)"
    wait_until 10 test -e access.log && echo 'SIGUSR1 reopened the log'
}

dumped_on_signal() {
    grep -q '"reason":"signal"' "pinpool/pinpool.$(master)".*.jsonl
}

session() {
    local size urls=() load
    write_files
    write_load
    start_server
    for size in "${SIZES[@]}"; do
        urls+=("http://127.0.0.1:$PORT/"{,gzip/,proxy/}"$size.txt")
    done
    fetch "${urls[@]}"
    load wrk.steady
    grep -E 'Socket errors|Non-2xx' wrk.steady || true
    reopen_logs
    if [ "$ARM_LABEL" != reference ]; then
        wait_until 10 dumped_on_signal
    fi
    load wrk.reload &
    load=$!
    sleep 0.3
    kill -HUP "$(master)"
    wait "$load"
    # Workers that end close connections that wait for a next request, which wrk takes for errors.
    grep 'Non-2xx' wrk.reload || true
    fetch "${urls[@]}"
    kill -QUIT "$(master)"
    serve_wait nginx
    printf 'workers started: %d, ended well: %d\n' "$(grep -c 'start worker process [0-9]' error.log)" \
        "$(grep -c 'worker process [0-9]* exited with code 0' error.log)"
    grep -E '\[(alert|emerg|crit|error)\]|exited on signal' error.log || true
    prove nginx 10
    # One request takes a pool of 4 KiB at least: a worker's dump shows thousands of slices.
    prove_exe nginx 1000
}

program_matrix session
