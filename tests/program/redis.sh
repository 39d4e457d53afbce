#!/bin/bash
# SPDX-License-Identifier: MIT
#
# redis-server: data loaded, benchmarked by many clients, saved by a forked child while it changes,
# saved again, the server stopped and started on what it saved. DEBUG DIGEST, a hash over all keys
# and values, must be the reference's before and after.
#
# Which allocator: Debian's redis-server is built for jemalloc, but against the shared
# libjemalloc.so.2, whose functions carry the plain names malloc, free, realloc, calloc and
# malloc_usable_size. A preloaded library is found before it, so every allocation of the server
# reaches us without a build of our own, and jemalloc is the next allocator even in the arms that
# put none behind us. (A build from source uses a jemalloc of its own with prefixed names, linked
# in, which no preload can reach: build that one with MALLOC=libc.)
#
# From version 8 on the server also calls jemalloc's own mallocx, rallocx and dallocx, for what its Lua
# needs. Those go past us to jemalloc, and what they gave comes back to them, never to free or realloc.
# Only malloc_usable_size is asked about it, which we pass on: jemalloc knows, and mimalloc says 0 for
# memory that is not its own. glibc reads whatever lies before it and tcmalloc aborts, so neither of the
# two can take jemalloc's place, with or without us.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin redis 'redis-server with redis-benchmark, BGSAVE, restart and DEBUG DIGEST.' "$@"
program_needs redis-server redis-cli redis-benchmark

KEYS=3000
REQUESTS=6000
IO_THREADS=1 # more of them spin while they wait, which costs minutes on a busy machine
if [ "$LONG" != 0 ]; then
    KEYS=30000
    REQUESTS=60000
    IO_THREADS=2
fi

# Inline commands, which a server takes as it takes its binary protocol: strings from 1 byte to 30,000 (some appended to and cut),
# lists, hashes, sets, sorted sets, streams, and keys deleted again with and without a thread.
write_commands() {
    awk -v keys="$KEYS" '
        function filler(bytes, n,   text) {
            text = "value " n " "
            while (length(text) < bytes) text = text text
            return substr(text, 1, bytes)
        }
        function quoted(text) { return "\"" text "\"" }
        BEGIN {
            for (i = 1; i <= keys; i++) {
                bytes = 1 + i * 7919 % (i % 4 ? 3000 : 30000)
                print "SET string:" i " " quoted(filler(bytes, i))
                if (i % 3 == 0) print "APPEND string:" i " " quoted(filler(bytes % 2000 + 1, i + 1))
                if (i % 10 == 0) print "SETRANGE string:" i " " bytes + 500 " tail"
                print "RPUSH list:" i % 60 " " quoted(filler(bytes % 5000 + 1, i))
                print "HSET hash:" i % 80 " field:" i " " quoted(filler(bytes % 2500 + 1, i))
                print "SADD set:" i % 30 " member:" i
                print "ZADD zset:" i % 30 " " i * 31 % 997 " member:" i
                print "XADD stream:" i % 20 " " i "-1 name entry:" i " body " quoted(filler(bytes % 1500 + 1, i))
                if (i % 7 == 0) print "DEL string:" i - 3
                if (i % 11 == 0) print "UNLINK string:" i - 5
                if (i % 13 == 0) print "LTRIM list:" i % 60 " 2 -1"
            }
            for (i = 0; i < 80; i += 7) print "UNLINK hash:" i
        }'
}

# The socket's path is relative to the arm's folder: an absolute one may be too long for a socket.
client() {
    timeout $((240 * PATIENCE)) redis-cli -s redis.sock "$@"
}

start_server() {
    serve "$1" 120 redis-server --port 0 --unixsocket redis.sock --dir . --dbfilename dump.rdb --save '' \
        --appendonly no --logfile "" --io-threads $IO_THREADS --lazyfree-lazy-user-del yes --lazyfree-lazy-user-flush yes \
        --enable-debug-command local
    wait_until 20 server_answers
}

server_answers() {
    [ "$(client ping 2>/dev/null)" = PONG ]
}

save_is_done() {
    client info persistence | tr -d '\r' | grep -qx 'rdb_bgsave_in_progress:0'
}

save_and_report() {
    client bgsave >/dev/null
    wait_until 30 save_is_done
    client info persistence | tr -d '\r' | grep '^rdb_last_bgsave_status:'
}

# How the server stopped, and whether its log holds anything that a healthy server does not write.
stop_server() {
    client shutdown nosave
    serve_wait "$1"
    grep -aE 'BUG|crash|assert|Out Of Memory|STACK TRACE' "$1.out" || true
}

benchmark() {
    timeout $((240 * PATIENCE)) redis-benchmark -s redis.sock --dbnum 1 -n "$REQUESTS" -c 24 -P 8 -r 2000 -d "$1" \
        -t set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_100 -q >"benchmark-$1" 2>&1
    grep -aiE 'error|reset|refused' "benchmark-$1" || true
}

# Lua has an allocator of its own in the server.
run_scripts() {
    client eval 'local t = {} for i = 1, 20000 do t[i] = string.rep("x", i % 3000) .. i end return #table.concat(t)' 0
    client eval 'return redis.call("strlen", KEYS[1])' 1 string:9
    client script flush sync
    client info memory | tr -d '\r' | grep '^number_of_cached_scripts:'
}

session() {
    local load
    start_server first
    write_commands >commands
    client --pipe <commands | tail -n 1
    benchmark 3000 &
    load=$!
    sleep 0.3 # let it write for a while, so that the child shares pages that then change
    save_and_report
    wait "$load"
    benchmark 200
    redis-check-rdb dump.rdb | grep -c 'Checksum OK'
    run_scripts
    client -n 1 flushdb async
    client debug digest
    client dbsize
    save_and_report
    stop_server first
    start_server second
    client debug digest
    client dbsize
    client --raw getrange string:9 0 40
    client flushall sync
    client memory purge
    client dbsize
    stop_server second
    prove first "$REQUESTS"
    prove second "$((KEYS / 4))"
}

program_matrix session
