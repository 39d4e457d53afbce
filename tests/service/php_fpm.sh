#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# PHP-FPM: SIGUSR1 to the master makes it reopen its log. A worker it would end: in a request PHP has a handler,
# which takes the default action back and sends the signal once more.
set -euo pipefail
about='Takes dumps of PHP-FPM, a master and three workers as another user, that runs a script.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=PHP-FPM
kind=fastcgi
process_count=4
connections=3
service_needs 'php-fpm8.2|php-fpm8.4|php-fpm'
php_fpm=$(first_command php-fpm8.2 php-fpm8.4 php-fpm)

# The script is where both runs find it, since its path is part of the requests.
script=$scratch/script.php
cat >"$script" <<'PHP'
<?php
$bytes = (int) $_GET['bytes'];
$rows = [];
for ($i = 0; $i < 50; $i++)
    $rows["row $i"] = str_repeat(md5("$bytes $i"), intdiv($bytes, 32) + 1);
ksort($rows);
echo strlen(serialize($rows)), ' ', md5(json_encode($rows)), "\n", substr(implode("\n", $rows), 0, $bytes);
PHP
chmod 644 "$script"

for bytes in 100 1500 4000 9000 30000; do
    requests+=("$script?bytes=$bytes")
done

configure() {
    local user=''
    [ "$(id -u)" -ne 0 ] || user=$'user = www-data\ngroup = www-data'
    cat >"$run/fpm.conf" <<CONF
[global]
error_log = $run/error.log
log_level = notice
daemonize = no
[www]
$user
listen = 127.0.0.1:$port
pm = static
pm.max_children = 3
CONF
    : >"$run/php.ini"
}

# With its own allocator off, PHP takes each value from malloc.
launch() {
    serve env USE_ZEND_ALLOC=0 "$php_fpm" -F -y "$run/fpm.conf" -c "$run/php.ini"
}

handler_calls() {
    cat "$run"/error.log* | grep -c 'error log file re-opened' || true
}

log_is_reopened() {
    grep -q 'error log file re-opened' "$run/error.log"
}

own_handler() {
    local processes how
    processes=$(service_identities)
    for how in chain shell; do
        mv "$run/error.log" "$run/error.log.$how"
        handler_runs "$how" "$master" 'reopens its log' log_is_reopened
        touch "$run/error.log" # whatever happened, for the next round
    done
    touch "$scratch/reference/error.log."{chain,shell}
    row "$([ "$processes" = "$(service_identities)" ]; echo $?)" 'has the same workers after that'
}

service_test
