#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ruby: a server of threads, with a handler of its own for SIGUSR1, as puma has one that restarts its workers.
set -euo pipefail
about='Takes dumps of a Ruby server of threads that builds strings.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=Ruby
kind=lines
process_count=1
service_needs ruby

for bytes in 10 1100 4000 9000 30000; do
    requests+=("$bytes")
done

configure() {
    cat >"$run/server.rb" <<'RUBY'
require 'socket'

$stdout.sync = true
trap('USR1') { $stdout.write("handled USR1\n") }
trap('TERM') { exit!(0) }
server = TCPServer.new('127.0.0.1', Integer(ARGV[0]))
loop do
  Thread.new(server.accept) do |client|
    while (line = client.gets)
      size = Integer(line)
      texts = (1..40).map { |i| (('%05d ' % (i * size)) * (size / 6 + 1))[0, size] }
      client.write("#{texts.map(&:sum).sum} #{texts.join.crypt('pp')} #{texts[7]}\n")
    end
    client.close
  end
end
RUBY
}

launch() {
    serve ruby server.rb "$port"
}

handler_calls() {
    grep -c 'handled USR1' "$run/stdout" || true
}

has_handled() {
    [ "$(handler_calls)" -ge "$1" ]
}

own_handler() {
    local how
    for how in chain shell; do
        handler_runs "$how" "$master" 'runs its own handler' has_handled $(($(handler_calls) + 1))
    done
}

service_test
