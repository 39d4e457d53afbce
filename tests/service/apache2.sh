#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# apache2: SIGUSR1 to the master is the graceful restart, which ends every worker for a new one.
set -euo pipefail
about='Takes dumps of apache2, four workers as another user, that serves files plain and compressed.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=apache2
kind=http
process_count=5
connections=3 # a worker each, and one to spare
service_needs apache2
modules=/usr/lib/apache2/modules
[ -e "$modules/mod_mpm_prefork.so" ] || is_missing "apache2's modules are not in $modules"

sizes=(100 1500 4000 9000 30000 200000)
for bytes in "${sizes[@]}"; do
    requests+=("/$bytes.txt" "/gzip/$bytes.txt")
done

configure() {
    local bytes user=''
    [ "$(id -u)" -ne 0 ] || user=$'User www-data\nGroup www-data'
    mkdir -p "$run/files"
    for bytes in "${sizes[@]}"; do
        seq -f "line %09.0f of a file of $bytes bytes" 1 10000 | head -c "$bytes" >"$run/files/$bytes.txt" || true
    done
    cat >"$run/apache2.conf" <<CONF
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule alias_module $modules/mod_alias.so
LoadModule mime_module $modules/mod_mime.so
LoadModule headers_module $modules/mod_headers.so
LoadModule filter_module $modules/mod_filter.so
LoadModule deflate_module $modules/mod_deflate.so
ServerRoot $run
ServerName localhost
DefaultRuntimeDir $run
PidFile $run/master.pid
ErrorLog $run/error.log
Listen 127.0.0.1:$port
$user
StartServers 4
ServerLimit 4
MinSpareServers 1
MaxSpareServers 4
MaxRequestWorkers 4
MaxKeepAliveRequests 0
KeepAliveTimeout 60
EnableMMAP Off
EnableSendfile Off
TypesConfig /dev/null
AddType text/plain .txt
DocumentRoot $run/files
Alias /gzip $run/files
<Location /gzip>
    RequestHeader set Accept-Encoding gzip
    SetOutputFilter DEFLATE
</Location>
CONF
}

launch() {
    serve apache2 -f "$run/apache2.conf" -DFOREGROUND
}

handler_calls() {
    grep -c 'Graceful restart requested' "$run/error.log" || true
}

# A worker of before that sleeps in accept is woken by a connection of the master's, which another worker may get
# instead. The next one does it: here it is ours.
has_restarted() {
    [ "$(handler_calls)" -ge "$1" ] || return 1
    : 2>/dev/null <"/dev/tcp/127.0.0.1/$port" || true
    is_settled
}

# Only the master is asked: the signals that it then sends its workers are its own business.
own_handler() {
    local workers
    workers=$(service_pids | tail -n +2)
    handler_runs chain "$master" 'restarts gracefully' has_restarted $(($(handler_calls) + 1))
    handler_runs shell "$master" 'restarts gracefully' has_restarted $(($(handler_calls) + 1))
    row "$([ "$workers" != "$(service_pids | tail -n +2)" ]; echo $?)" 'has other workers then'
    begin_load
    end_load
    row "$load_status" 'answers as before' "$load_folder/answers"
}

service_test
