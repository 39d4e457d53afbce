#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# gunicorn: SIGUSR1 to the master makes it reopen its logs, and send the same to its workers: the same
# Python, so that is their own business and no dump.
set -euo pipefail
about='Takes dumps of gunicorn, a master and two workers of two threads, that serves a small application.'
# shellcheck source=tests/service/lib.sh
source "$(dirname "$0")/lib.sh"

service=gunicorn
kind=http
process_count=3
service_needs "$@" # Python alone
"$python" -c 'import gunicorn' 2>/dev/null || is_missing 'gunicorn is not installed (make check-services installs it)'

for bytes in 100 1500 4000 9000 30000 200000; do
    requests+=("/$bytes")
done

configure() {
    cat >"$run/application.py" <<'PY'
import hashlib, json


def application(environ, start_response):
    size = int(environ["PATH_INFO"][1:])
    rows = [{"row": at, "text": hashlib.md5(b"%d" % at).hexdigest() * (1 + size // 320)} for at in range(10)]
    body = json.dumps(rows).encode()[:size]
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
PY
}

launch() {
    serve "$python" -B -m gunicorn --bind "127.0.0.1:$port" --workers 2 --worker-class gthread --threads 2 --timeout 300 \
        --keep-alive 60 --error-logfile "$run/error.log" --access-logfile "$run/access.log" --worker-tmp-dir "$run" --chdir "$run" \
        application:application
}

handler_calls() {
    cat "$run"/error.log* | grep -c 'Handling signal: usr1' || true
}

# A line that comes after the signal is in the new file: a worker has reopened it.
log_is_reopened() {
    [ -e "$run/access.log" ] && "$python" -c 'import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=60).read()' "http://127.0.0.1:$port/100?$1" && grep -q "/100?$1" "$run/access.log"
}

own_handler() {
    local processes how
    processes=$(service_identities)
    for how in chain shell; do
        mv "$run/access.log" "$run/access.log.$how"
        handler_runs "$how" "$master" 'reopens its log, its workers too' log_is_reopened "$how"
        touch "$run/access.log" # whatever happened, for the next round
    done
    touch "$scratch/reference/access.log."{chain,shell}
    row "$([ "$processes" = "$(service_identities)" ]; echo $?)" 'has the same workers after that'
}

service_test
