#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Erlang: SIGUSR1 ends the virtual machine with a crash dump.
set -euo pipefail
about='Takes dumps of an Erlang virtual machine, and of its helper, while its processes build binaries.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=Erlang
kind=lines
process_count=2 # and erl_child_setup, which starts programs for it
service_needs erl erlc

for bytes in 10 1100 4000 9000 30000; do
    requests+=("$bytes")
done

cat >"$scratch/server.erl" <<'ERLANG'
-module(server).
-export([start/1]).

start([Port]) ->
    {ok, Listener} = gen_tcp:listen(list_to_integer(atom_to_list(Port)),
        [binary, {packet, line}, {active, false}, {ip, {127, 0, 0, 1}}, {reuseaddr, true}]),
    accept(Listener).

accept(Listener) ->
    {ok, Client} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> receive go -> serve(Client) end end),
    ok = gen_tcp:controlling_process(Client, Pid),
    Pid ! go,
    accept(Listener).

serve(Client) ->
    case gen_tcp:recv(Client, 0) of
        {ok, Line} ->
            Bytes = binary_to_integer(string:trim(Line)),
            Texts = [binary:copy(<<(I rem 26 + $a)>>, Bytes) || I <- lists:seq(1, 40)],
            Sum = erlang:crc32(Texts),
            ok = gen_tcp:send(Client, [integer_to_binary(Sum), $\s, lists:nth(7, Texts), $\n]),
            serve(Client);
        {error, _} ->
            gen_tcp:close(Client)
    end.
ERLANG
if ! HOME=$scratch erlc -o "$scratch" "$scratch/server.erl" >"$scratch/compiled" 2>&1; then
    tap_not_ok 'Erlang compiles the server'
    tap_note "$(cat "$scratch/compiled")"
    tap_done
    exit
fi

configure() {
    :
}

# +Mea min: its own allocators are off, so that what it takes comes from malloc.
launch() {
    serve env ERL_CRASH_DUMP="$run/erl_crash.dump" erl +Mea min +S 2 -noinput -pa "$scratch" -s server start "$port"
}

crash_dumped() {
    grep -q '=end' "$run/erl_crash.dump"
}

own_handler() {
    handler_ends chain 1 'ends with a crash dump'
    touch "$scratch/reference/erl_crash.dump"
    check 'has left its crash dump' crash_dumped
}

service_test
