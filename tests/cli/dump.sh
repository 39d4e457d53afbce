#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool dump against processes that look like ones with the library, or nearly do.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build fake_process -pthread
fake=$scratch/fake_process
code=$scratch/libpinpool.so
dumps=$scratch/dumps
mkdir "$dumps" "$scratch/lib"
head -c 8192 /dev/zero >"$code"
usr1=$(kill -l USR1)
usr2=$(kill -l USR2)
dump=("$PINPOOL_TOOL" dump)
page=signal=$usr1:dir=$dumps

# The process as the messages name it.
it() {
    printf '%d (fake_process)' "$child"
}

expect 'a process that is not there is an error' 1 '' 'pinpool: 2147483646: there is no such process' \
    "${dump[@]}" 2147483646

# The process id that it printed.
shown_pid() {
    sed -n 's/^ready //p' "$scratch/started"
}

# Nothing may be sent to these; a USR1 would kill the first ones.
start "$fake"
expect 'a process without the library is refused' 1 '' \
    "pinpool: $(it): libpinpool.so is not loaded into it; start it with 'pinpool run'" "${dump[@]}" "$child"
check 'and lives' is_alive "$child"
expect '--signal and --dir do not get around that' 1 '' "*not loaded into it*" \
    "${dump[@]}" --signal USR1 --dir "$dumps" "$child"
check 'and it still lives' is_alive "$child"
stop "$child"
expect 'a process that has ended is an error' 1 '' "pinpool: $child: there is no such process" "${dump[@]}" "$child"

start "$fake" data="$code" page="$page"
expect 'a process that only reads the library is refused' 1 '' "*not loaded into it*" "${dump[@]}" "$child"
check 'and lives' is_alive "$child"
stop "$child"

cp "$code" "$scratch/notlibpinpool.so"
cp "$code" "$scratch/libpinpool.sold"
start "$fake" lib="$scratch/notlibpinpool.so" lib="$scratch/libpinpool.sold" catch="$usr1"
expect 'libraries with nearly the name are others' 1 '' "*not loaded into it*" "${dump[@]}" "$child"
stop "$child"

start "$fake" lib="$code" page="$page"
expect 'a process that does not catch the signal is not sent it' 1 '' \
    "pinpool: $(it): signal USR1 has no handler and would kill it; nothing was sent" "${dump[@]}" "$child"
check 'and lives' is_alive "$child"
stop "$child"

start "$fake" lib="$code" page="$page" ignore="$usr1"
expect 'a process that ignores the signal is not sent it' 1 '' \
    "pinpool: $(it): it ignores signal USR1; nothing was sent" "${dump[@]}" "$child"
stop "$child"

start "$fake" lib="$code" page="signal=0:dir=$dumps" catch="$usr1" dir="$dumps"
expect 'a signal that is off is an error' 1 '' \
    "pinpool: $(it): its dump signal is off (PINPOOL_SIGNAL); nothing was sent" "${dump[@]}" "$child"
is 'and nothing was sent' "$(ls "$dumps")" ''
stop "$child"

# A dump that comes.
start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps"
expect 'a dump is asked for and its path printed' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
expect 'a dump that was there before is not taken for a new one' 1 '' \
    "pinpool: $(it): timeout: no new dump in $dumps; can the process write there?" "${dump[@]}" --timeout 0.3 "$child"
stop "$child"

start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps" write=twice
expect 'a dump that is half written is waited for' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
stop "$child"

start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps" write=cut
expect 'a dump that stays without its end is a timeout that says so' 1 '' \
    "pinpool: $(it): timeout: the dump $dumps/pinpool.$child.7.jsonl has no end yet" "${dump[@]}" -t 0.3 "$child"
stop "$child"

start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps" write=none
expect 'no dump is a timeout that names the directory' 1 '' \
    "pinpool: $(it): timeout: no new dump in $dumps; can the process write there?" "${dump[@]}" -t 0.3 "$child"
stop "$child"

start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps" write=exit
expect 'a process that ends instead is an error, at once' 1 '' \
    "pinpool: $(it): it ended before the dump was whole" timeout 5 "${dump[@]}" "$child"
stop "$child"

start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps" block="$usr1"
expect 'a signal that every thread blocks is a timeout that says so' 1 '' \
    "pinpool: $(it): timeout: signal USR1 is blocked in every thread (2); the dump is written when one unblocks it" \
    "${dump[@]}" -t 0.3 "$child"
thread=$(find "/proc/$child/task" -mindepth 1 -maxdepth 1 ! -name "$child" -printf '%f')
expect 'a thread that is not the first is refused' 1 '' "pinpool: $thread (fake_process): it is a thread of process $child" \
    "${dump[@]}" "$thread"
stop "$child"

start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps"
kill -STOP "$child"
expect 'a stopped process is a timeout that says so' 1 '' \
    "pinpool: $(it): timeout: it is stopped; the dump is written when it continues" "${dump[@]}" -t 0.3 "$child"
stop "$child"

start "$fake" zombie=1
expect 'a process that has ended and is not waited for is an error' 1 '' \
    "pinpool: $(shown_pid) (fake_process): it has ended" "${dump[@]}" "$(shown_pid)"
stop "$child"

# Where the signal and the directory come from.
cp "$code" "$code.1"
start "$fake" lib="$code.1" page="version=2:signal=$usr2:colour:dir=$dumps" catch="$usr2" dir="$dumps"
expect 'a versioned library and more fields than known are fine' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
stop "$child"

cp "$code" "$scratch/lib/libpinpool.so"
start "$fake" lib="$scratch/lib/libpinpool.so" page="$page" catch="$usr1" dir="$dumps"
rm "$scratch/lib/libpinpool.so"
expect 'a library that was replaced since is fine' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
stop "$child"

for name in 'two words' 'colon:signal=9' 'x (deleted)' $'new\nline' 'ä\012' '[a]*'; do
    mkdir "$dumps/$name"
    start "$fake" lib="$code" page="signal=$usr1:dir=$dumps/$name" catch="$usr1" dir="$dumps/$name"
    # The kernel writes a newline as \012 and a backslash as itself, so that name alone cannot be told.
    if [[ $name == *'\012' ]]; then
        expect 'a directory named like an escaped newline is an error, not a wrong place' 1 '' \
            '*cannot open the directory of its dumps*No such file or directory' "${dump[@]}" "$child"
    else
        capture "${dump[@]}" "$child"
        is "a directory named $(printf '%q' "$name") is found" "$out" "$dumps/$name/pinpool.$child.7.jsonl"
    fi
    stop "$child"
done

start "$fake" lib="$code" page="signal=$usr1:dir=/no/such" catch="$usr1" dir="$dumps"
expect 'a directory that is not there is an error, and nothing was sent' 1 '' \
    "pinpool: $(it): cannot open the directory of its dumps, /no/such: No such file or directory" "${dump[@]}" "$child"
check 'nothing was written' test ! -e "$dumps/pinpool.$child.7.jsonl"
expect '--dir says where to look instead' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" --dir "$dumps" "$child"
expect 'a --dir that is not there is an error' 1 '' \
    "pinpool: $(it): cannot open the directory of its dumps, /no/such: No such file or directory" \
    "${dump[@]}" --dir /no/such "$child"
stop "$child"

start "$fake" lib="$code" page="signal=$usr1:dir=$dumps" catch="$usr2" dir="$dumps"
expect '--signal says what to send instead' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" --signal SIGUSR2 "$child"
stop "$child"

# Without the page: the environment, read as the library reads it.
start env PINPOOL_SIGNAL=USR2 PINPOOL_DIR="$dumps" "$fake" lib="$code" catch="$usr2" dir="$dumps"
expect 'without the settings page, the environment is read' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
stop "$child"
start env PINPOOL_SIGNAL=bogus PINPOOL_DIR=relative TMPDIR="$dumps" "$fake" lib="$code" catch="$usr1" dir="$dumps"
expect 'bad values there are defaults, and TMPDIR counts' 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
stop "$child"
start env PINPOOL_SIGNAL=off "$fake" lib="$code" catch="$usr1"
expect 'off in the environment is off' 1 '' '*its dump signal is off*' "${dump[@]}" "$child"
stop "$child"
start env PINPOOL_SIGNAL=USR2 "$fake" lib="$code" catch="$usr1"
expect 'the environment'\''s signal is sent only if it is caught' 1 '' \
    "pinpool: $(it): signal USR2 has no handler and would kill it; nothing was sent" "${dump[@]}" "$child"
stop "$child"
start env PINPOOL_SIGNAL=USR2 PINPOOL_DIR=/no/such "$fake" lib="$code" rename=1 page="$page" catch="$usr1" dir="$dumps"
expect 'an environment that was written over does not matter with the page' 0 "$dumps/pinpool.$child.7.jsonl" '' \
    "${dump[@]}" "$child"
stop "$child"
for bad in "signal=9:dir=$dumps" "signal=$usr1" "dir=$dumps" "signal=$usr1:dir=relative" ''; do
    start env PINPOOL_SIGNAL=USR2 PINPOOL_DIR="$dumps" "$fake" lib="$code" page="$bad" catch="$usr2" dir="$dumps"
    expect "a settings page named '${bad%%/*}' is not believed" 0 "$dumps/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
    stop "$child"
done

# Other users, namespaces, roots.
jail=$scratch/jail
mkdir -p "$jail/tmp" "$dumps/mount"
cp "$code" "$jail/libpinpool.so"
ln -s /tmp "$jail/link"
build_static() {
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -I"$root/src" -static -pthread -o "$jail/fake" \
        "$root/tests/cli/support/fake_process.c" 2>"$scratch/static.err"
}
if [[ $(id -u) != 0 ]]; then
    for what in 'a process of another user' 'a pid namespace' 'a mount namespace' 'a chroot'; do
        tap_skip "$what" 'this needs root'
    done
else
    start "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps"
    nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    cp "$PINPOOL_TOOL" "$scratch/tool"
    chmod 755 "$scratch" "$scratch/tool"
    if "${nobody[@]}" "$scratch/tool" --version >"$scratch/out" 2>&1; then
        expect 'a process of another user is an error' 1 '' \
            "pinpool: $(it): cannot read its memory map: Permission denied" "${nobody[@]}" "$scratch/tool" dump "$child"
        check 'and it lives' is_alive "$child"
    else
        tap_skip 'a process of another user is an error' 'the build folder is closed to other users'
    fi
    stop "$child"

    if unshare --pid --fork true 2>"$scratch/err"; then
        start unshare --pid --fork --kill-child "$fake" lib="$code" page="$page" catch="$usr1" dir="$dumps"
        expect 'in a pid namespace the file has the inner process id' 0 "$dumps/pinpool.1.7.jsonl" '' "${dump[@]}" "$(shown_pid)"
        stop "$child"
    else
        tap_skip 'in a pid namespace the file has the inner process id' 'no pid namespaces here'
    fi

    # shellcheck disable=SC2016 # for the inner shell
    in_mount=(unshare --mount sh -c 'mount -t tmpfs none "$1" && shift && exec "$@"' sh "$dumps/mount")
    if "${in_mount[@]}" true 2>"$scratch/err"; then
        start "${in_mount[@]}" "$fake" lib="$code" page="signal=$usr1:dir=$dumps/mount" catch="$usr1" dir="$dumps/mount"
        path=/proc/$child/root$dumps/mount/pinpool.$child.7.jsonl
        expect 'in a mount namespace the path leads through the process' 0 "$path" '' "${dump[@]}" "$child"
        check 'and it leads there' test -s "$path"
        stop "$child"
    else
        tap_skip 'in a mount namespace the path leads through the process' 'no mount namespaces here'
    fi

    if build_static; then
        for dir in /tmp /link; do
            start chroot "$jail" /fake lib=/libpinpool.so page="signal=$usr1:dir=$dir" catch="$usr1" dir="$dir"
            expect "below a chroot, $dir is its own" 0 "$jail/tmp/pinpool.$child.7.jsonl" '' "${dump[@]}" "$child"
            stop "$child"
        done
    else
        tap_skip 'below a chroot, /tmp is its own' 'no static libc here'
    fi
fi
finish
