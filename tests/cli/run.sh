#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool run: what it sets, which library it takes, which commands it refuses. A library made here stands in.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

# Two libraries that do nothing, and programs of each kind.
mkdir "$scratch/here" "$scratch/a b" "$scratch/prefix" "$scratch/prefix/bin" "$scratch/prefix/lib"
printf 'int pinpool_stand_in;\n' >"$scratch/empty.c"
stand_in=$scratch/here/libpinpool.so
other=$scratch/here/libother.so
"${CC:-cc}" -shared -fPIC -o "$stand_in" "$scratch/empty.c"
cp "$stand_in" "$other"
printf 'int main(void) { return 0; }\n' >"$scratch/main.c"
"${CC:-cc}" -o "$scratch/dynamic" "$scratch/main.c"
"${CC:-cc}" -static -o "$scratch/static" "$scratch/main.c"
run=("$PINPOOL_TOOL" run --lib "$stand_in")

expect 'the library is put into LD_PRELOAD' 0 "$stand_in" '' "${run[@]}" -- printenv LD_PRELOAD
expect 'the command needs no --' 0 "$stand_in" '' "${run[@]}" printenv LD_PRELOAD
expect 'options of the command stay its own' 0 '--stats --help' '' "${run[@]}" sh -c 'echo "$@"' sh --stats --help
expect 'an LD_PRELOAD that was there stays, behind ours' 0 "$stand_in:$other" '' \
    env LD_PRELOAD="$other" "${run[@]}" printenv LD_PRELOAD
expect 'an LD_PRELOAD parted by spaces stays too' 0 "$stand_in:$other $other" '' \
    env LD_PRELOAD="$other $other" "${run[@]}" printenv LD_PRELOAD
expect '--next stands between ours and what was there' 0 "$stand_in:$other:libm.so.6" '' \
    env LD_PRELOAD=libm.so.6 "${run[@]}" --next "$other" printenv LD_PRELOAD
expect '--next finds a bare name where the libraries are' 0 "$stand_in:/*/libm.so.6" '' \
    "${run[@]}" --next libm.so.6 printenv LD_PRELOAD
expect '--next finds a bare name in LD_LIBRARY_PATH' 0 "$stand_in:$other" '' \
    env LD_LIBRARY_PATH="$scratch/here" "${run[@]}" --next libother.so printenv LD_PRELOAD
expect '--next that is nowhere is an error' 1 '' \
    'pinpool: libnowhere.so: not found in the directories of libraries; give its path' \
    "${run[@]}" --next libnowhere.so true

# Variables.
capture "${run[@]}" --pools 4k,1m --min=2000 --policy bump --signal RTMIN+3 --signal-chain=0 --dir "$scratch" \
    --dump-at-exit --stats --decay-ms 0 --off=1 --verbose env
is 'every option sets its variable' "$(grep '^PINPOOL_' "$scratch/out" | grep -v '^PINPOOL_\(TOOL\|LIB\)=' | sort)" "PINPOOL_DECAY_MS=0
PINPOOL_DIR=$scratch
PINPOOL_DUMP_AT_EXIT=1
PINPOOL_MIN=2000
PINPOOL_OFF=1
PINPOOL_POLICY=bump
PINPOOL_POOLS=4k,1m
PINPOOL_SIGNAL=RTMIN+3
PINPOOL_SIGNAL_CHAIN=0
PINPOOL_STATS=1
PINPOOL_VERBOSE=1"
expect 'variables that are not given stay as they are' 0 64k '' env PINPOOL_POOLS=64k "${run[@]}" printenv PINPOOL_POOLS
expect 'an option wins over the variable' 0 8k '' env PINPOOL_POOLS=64k "${run[@]}" --pools=8k printenv PINPOOL_POOLS
while read -r option reason; do
    expect "$option is a usage error that says why" 2 '' "pinpool run: $option: $reason
Try *" "${run[@]}" "$option" true
done <<'END'
--pools=9k not a power of two
--pools=2k not between 4k and 4m
--min=0 not between 1 and 2m
--policy=best no such policy
--signal=KILL no usable signal
--dir=tmp not an absolute path
--stats=2 none of 0, 1 and keep
--decay-ms=-1 not a number
END
expect 'a --dir that is not there is an error' 1 '' 'pinpool: --dir=/no/such: No such file or directory' \
    "${run[@]}" --dir /no/such true
expect 'a --dir that is a file is an error' 1 '' "pinpool: --dir=$stand_in: *" "${run[@]}" --dir "$stand_in" true

# Exit status.
expect 'the exit status is the command'\''s' 7 '' '' "${run[@]}" sh -c 'exit 7'
expect 'a command that is not there ends with 127' 127 '' 'pinpool: no-such-command: No such file or directory' \
    "${run[@]}" no-such-command
expect 'a path that is not there ends with 127' 127 '' "pinpool: $scratch/no: No such file or directory" \
    "${run[@]}" "$scratch/no"
if [[ $(id -u) == 0 ]]; then
    tap_skip 'a folder of PATH that may not be searched does not change that' 'root may search it'
else
    mkdir -m 0 "$scratch/closed"
    expect 'a folder of PATH that may not be searched does not change that' 127 '' \
        'pinpool: no-such-command: No such file or directory' \
        env PATH="$PATH:$scratch/closed" "${run[@]}" no-such-command
fi
printf 'x\n' >"$scratch/text"
expect 'a file without execute permission ends with 126' 126 '' "pinpool: $scratch/text: Permission denied" \
    "${run[@]}" "$scratch/text"
expect 'a directory ends with 126' 126 '' "pinpool: $scratch: Permission denied" "${run[@]}" "$scratch"
expect 'an empty command ends with 127' 127 '' 'pinpool: : No such file or directory' "${run[@]}" ''

# Which library.
cp "$PINPOOL_TOOL" "$scratch/prefix/bin/pinpool"
installed=$scratch/prefix/bin/pinpool
expect 'without a library it says where it looked' 1 '' \
    "pinpool: libpinpool.so is neither beside $installed nor in ../lib; say where with --lib or PINPOOL_LIB" \
    "$installed" run true
mkdir "$scratch/prefix/lib/mips-linux-gnu" "$scratch/prefix/lib/some-linux-gnu"
cp "$stand_in" "$scratch/prefix/lib/some-linux-gnu/"
# The same library, said to be for a machine that this one is not: e_machine is at byte 18.
cp "$stand_in" "$scratch/prefix/lib/mips-linux-gnu/"
printf '\010\000' | dd of="$scratch/prefix/lib/mips-linux-gnu/libpinpool.so" bs=1 seek=18 conv=notrunc status=none
foreign=$scratch/prefix/lib/mips-linux-gnu/libpinpool.so
expect 'of several machines'\'' folders it takes this machine'\''s' 0 "$scratch/prefix/lib/some-linux-gnu/libpinpool.so" '' \
    "$installed" run printenv LD_PRELOAD
cp "$stand_in" "$scratch/prefix/lib/"
expect '../lib comes before them' 0 "$scratch/prefix/lib/libpinpool.so" '' "$installed" run printenv LD_PRELOAD
cp "$stand_in" "$scratch/prefix/bin/"
expect 'beside the tool comes before ../lib' 0 "$scratch/prefix/bin/libpinpool.so" '' "$installed" run printenv LD_PRELOAD
expect 'PINPOOL_LIB comes before those' 0 "$other" '' env PINPOOL_LIB="$other" "$installed" run printenv LD_PRELOAD
expect '--lib comes before PINPOOL_LIB' 0 "$stand_in" '' env PINPOOL_LIB="$other" "${run[@]}" printenv LD_PRELOAD
# shellcheck disable=SC2016 # for the inner shell
expect 'a relative --lib becomes absolute' 0 "$stand_in" '' \
    sh -c 'cd "$1" && exec "$2" run --lib libpinpool.so printenv LD_PRELOAD' sh "$scratch/here" "$PINPOOL_TOOL"
expect 'a --lib that is not there is an error' 1 '' 'pinpool: /no/lib.so: No such file or directory' \
    "$PINPOOL_TOOL" run --lib /no/lib.so true
expect 'a --lib that is no library is an error' 1 '' "pinpool: $scratch/text: not a shared library of this machine" \
    "$PINPOOL_TOOL" run --lib "$scratch/text" true
cp "$stand_in" "$scratch/a b/"
expect 'a --lib that LD_PRELOAD cannot hold is an error' 1 '' \
    "pinpool: $scratch/a b/libpinpool.so: a path with a colon or a space cannot stand in LD_PRELOAD" \
    "$PINPOOL_TOOL" run --lib "$scratch/a b/libpinpool.so" true

# Commands that the library would not be loaded into.
force='(--force starts it all the same)'
expect 'a dynamic program is started' 0 '' '' "${run[@]}" "$scratch/dynamic"
expect 'a static program is refused' 1 '' \
    "pinpool: $scratch/static is statically linked: nothing can be preloaded into it $force" "${run[@]}" "$scratch/static"
expect '--force starts it' 0 '' '' "${run[@]}" --force "$scratch/static"
printf '#!%s/static\n' "$scratch" >"$scratch/script"
printf '#! %s/script\n' "$scratch" >"$scratch/script-of-script"
printf '#!/bin/sh\nexit 5\n' >"$scratch/sh-script"
printf 'exit 6\n' >"$scratch/bare-script"
chmod +x "$scratch"/*script*
expect 'a script is judged by its interpreter' 1 '' "pinpool: $scratch/static is statically linked: *" \
    "${run[@]}" "$scratch/script-of-script"
expect 'a shell script is started' 5 '' '' "${run[@]}" "$scratch/sh-script"
expect 'a script without a first line is started by the shell' 6 '' '' "${run[@]}" "$scratch/bare-script"
expect 'a command is looked for in PATH' 1 '' "pinpool: $scratch/static is statically linked: *" \
    env PATH="$scratch:$PATH" "${run[@]}" static
expect 'a program for another machine is refused' 1 '' \
    "pinpool: $scratch/dynamic and $foreign are for different machines (ELF machines * and 8) $force" \
    "$PINPOOL_TOOL" run --lib "$foreign" "$scratch/dynamic"
# Another class: byte 4. What follows it is then not read as a 32-bit header would be, so a whole one is made.
printf '\177ELF\001\001\001\000\000\000\000\000\000\000\000\000\003\000\003\000\001\000\000\000' >"$scratch/here/lib32.so"
printf '\000\000\000\000\064\000\000\000\000\000\000\000\000\000\000\000\064\000\040\000\000\000\050\000\000\000\000\000' \
    >>"$scratch/here/lib32.so"
if [[ $(od -An -tx1 -j4 -N2 "$scratch/dynamic" | tr -d ' ') == 0201 ]]; then
    expect 'a program of another class is refused' 1 '' \
        "pinpool: $scratch/dynamic is a 64-bit program, $scratch/here/lib32.so a 32-bit library $force" \
        "$PINPOOL_TOOL" run --lib "$scratch/here/lib32.so" "$scratch/dynamic"
else
    tap_skip 'a program of another class is refused' 'this machine is not 64-bit little-endian'
fi
if [[ $(id -u) == 0 ]]; then
    cp "$scratch/dynamic" "$scratch/setuid"
    chown 65534 "$scratch/setuid"
    chmod 4755 "$scratch/setuid"
    cp "$scratch/dynamic" "$scratch/setgid"
    chgrp 65534 "$scratch/setgid"
    chmod 2755 "$scratch/setgid"
    for kind in setuid setgid; do
        expect "a $kind program of somebody else is refused" 1 '' \
            "pinpool: $scratch/$kind changes its user, group or capabilities *: the dynamic linker then ignores LD_PRELOAD $force" \
            "${run[@]}" "$scratch/$kind"
    done
    cp "$scratch/dynamic" "$scratch/own-setuid"
    chmod 4755 "$scratch/own-setuid"
    expect 'a setuid program of our own is started: it changes nothing' 0 '' '' "${run[@]}" "$scratch/own-setuid"
elif [[ -u /usr/bin/su || -u /bin/su ]]; then
    expect 'a setuid program of somebody else is refused' 1 '' '*changes its user, group or capabilities*' \
        "${run[@]}" su --version
fi
finish
