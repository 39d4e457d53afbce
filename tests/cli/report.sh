#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool report on dumps made by hand: every figure, and every way in which a file can be wrong.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build json_value -ljson-c
report=("$PINPOOL_TOOL" report)
good=$scratch/good.jsonl

# One tier of 64 KiB: 3 blocks pinned by 4 slices of 4 KiB; one of 8 KiB where nothing is pinned.
cat >"$good" <<'END'
{"type":"dump","format":1,"version":"0.1.0","pid":4321,"seq":2,"reason":"signal","time_unix_ns":1700000000123456789,"uptime_ns":65000000000,"exe":"/usr/bin/program","page_bytes":4096,"kernel":"6.1.0","thp":"madvise","next":"/lib/libc.so.6","settings":{"PINPOOL_POOLS":"8192,65536","PINPOOL_MIN":"1025","PINPOOL_DIR":"/tmp","PINPOOL_DECAY_MS":"500","PINPOOL_LATER":"new"}}
{"type":"memory","reserved_bytes":4194304,"chunks":1,"metadata_bytes":135168,"heaps":2}
{"type":"tier","block_bytes":65536,"granule_bytes":1024,"min_request_bytes":4097,"max_request_bytes":32768,"current_blocks":1,"pinned_blocks":3,"empty_blocks":2,"released_blocks":5,"live_slices":5,"live_bytes":20480,"cached_bytes":0,"pinned_live_bytes":16384,"sole_pinner_blocks":2,"stranded_bytes":180224,"stranded_resident_bytes":122880,"held_bytes":393216}
{"type":"tier","block_bytes":8192,"granule_bytes":128,"min_request_bytes":1025,"max_request_bytes":4096,"current_blocks":1,"pinned_blocks":0,"empty_blocks":0,"released_blocks":0,"live_slices":1,"live_bytes":2048,"cached_bytes":0,"pinned_live_bytes":0,"sole_pinner_blocks":0,"stranded_bytes":0,"stranded_resident_bytes":0,"held_bytes":8192}
{"type":"occupancy","block_bytes":65536,"from_slices":1,"to_slices":1,"blocks":2,"stranded_bytes":122880}
{"type":"occupancy","block_bytes":65536,"from_slices":2,"to_slices":2,"blocks":1,"stranded_bytes":57344}
{"type":"age","block_bytes":65536,"from_ms":1000,"to_ms":10000,"blocks":1,"stranded_bytes":61440}
{"type":"age","block_bytes":65536,"from_ms":60000,"blocks":2,"stranded_bytes":118784}
{"type":"block","block_bytes":65536,"address":"0x7f0000010000","heap":1,"live_slices":1,"live_bytes":4096,"stranded_bytes":61440,"stranded_resident_bytes":61440,"age_ms":61000}
{"type":"block","block_bytes":65536,"address":139637976858624,"heap":1,"live_slices":1,"live_bytes":4096,"stranded_bytes":61440,"stranded_resident_bytes":61440,"age_ms":2000}
{"type":"block","block_bytes":65536,"address":"0x7f0000030000","heap":2,"live_slices":2,"live_bytes":8192,"stranded_bytes":57344,"stranded_resident_bytes":0,"age_ms":3661000}
{"type":"thread","heap":2,"tid":4322,"state":"waiting","held_bytes":131072,"pinned_blocks":1,"live_bytes":8192,"stranded_bytes":57344}
{"type":"thread","heap":1,"tid":4321,"state":"live","held_bytes":270336,"pinned_blocks":2,"live_bytes":14336,"stranded_bytes":122880}
{"type":"counter","name":"passed_small","unit":"calls","value":77}
{"type":"counter","name":"passed_large","unit":"calls","value":0}
{"type":"counter","name":"carved_slices","unit":"slices","value":12,"block_bytes":65536}
{"type":"map","start":"0x400000","end":"0x401000","offset_bytes":0,"build_id":"","path":"/usr/bin/program"}
{"type":"site","frames":["0x1"],"note":"a kind of record that this pinpool does not know"}
{"type":"end","records":18,"duration_ns":1000}
END

# text LENGTH
text() {
    head -c "$1" /dev/zero | tr '\0' a
}

# Removes runs of spaces, so that a table's text can be matched whatever its widths are.
squeeze() {
    tr -s ' ' <"$scratch/out" | sed 's/ *$//; s/^ //' >"$scratch/squeezed"
}
# has SENTENCE LINE: the report just captured has exactly this line.
has() {
    if grep -qxF -- "$2" "$scratch/squeezed"; then
        ok 0 "$1"
    else
        ok 1 "$1"
        tap_diagnose <"$scratch/squeezed"
    fi
}
lacks() {
    if grep -qF -- "$2" "$scratch/squeezed"; then
        ok 1 "$1"
    else
        ok 0 "$1"
    fi
}

expect 'a good dump is shown' 0 '*' '' "${report[@]}" "$good"
squeeze
has 'program and pid' 'program /usr/bin/program (pid 4321)'
has 'when the dump was made' 'dump number 2 (signal), 2023-11-14 22:13:20 UTC, 1 min 05 s after the start'
has 'settings that are not the default, whatever form they have' 'settings PINPOOL_DECAY_MS=500 PINPOOL_LATER=new'
has 'the next allocator' 'next /lib/libc.so.6'
has 'the system' 'system 6.1.0; transparent huge pages: madvise; pages of 4 KiB'
has 'the smaller tier' '8 KiB 1025 B - 4 KiB 1 0 0 0 2.0 KiB 8.0 KiB 4.00 0 B 0 B -'
has 'the larger tier' '64 KiB 4097 B - 32 KiB 1 3 2 5 20.0 KiB 384.0 KiB 19.20 176.0 KiB 120.0 KiB 8.3 %'
has 'the sums' 'all 2 3 2 5 22.0 KiB 392.0 KiB 17.82 176.0 KiB 120.0 KiB 8.3 %'
has 'the verdict' '22.0 KiB live keep 392.0 KiB: 3 pinned blocks, of which 2 are held by one slice.'
has 'what is stranded' 'Stranded in them: 176.0 KiB, 120.0 KiB of it in RAM, 116.0 KiB for a minute or longer.'
has 'where it is' '100 % of that is in blocks of 64 KiB.'
has 'occupancy with the longest bar' '64 KiB 1 2 120.0 KiB ################################'
has 'occupancy with half of it' '64 KiB 2 1 56.0 KiB ################'
has 'an age with both ends' '64 KiB 1 s - 10 s 1 60.0 KiB ################'
has 'the last age, without an end' '64 KiB 1 min 00 s or longer 2 116.0 KiB ################################'
has 'a block by the older age first' '0x7f0000010000 64 KiB 1 4.0 KiB 60.0 KiB 60.0 KiB 1 min 01 s 1'
has 'an address as a number' '0x7f0000020000 64 KiB 1 4.0 KiB 60.0 KiB 60.0 KiB 2 s 1'
has 'an age of an hour' '0x7f0000030000 64 KiB 2 8.0 KiB 56.0 KiB 0 B 1 h 01 min 2'
is 'threads by stranded bytes' "$(sed -n 's/^\([12] 432[12] [a-z]*\) .*/\1/p' "$scratch/squeezed" | tr '\n' ,)" '1 4321 live,2 4322 waiting,'
has 'a counter with its sentence' 'passed_small 77 calls Requests below PINPOOL_MIN, handed to the next allocator.'
lacks 'no counter that is zero' passed_large
lacks 'no counter by tier' carved_slices
has 'own memory apart' "pinpool's own memory: 132.0 KiB for 2 heaps, beside 4.0 MiB of address space for blocks in 1 chunk"
expect '--blocks limits the list' 0 '*' '' "${report[@]}" --blocks 1 "$good"
squeeze
has 'and says of how many' 'Worst blocks (1 of 3 pinned)'
is 'and shows that many' "$(grep -c '^0x' "$scratch/squeezed")" 1
expect 'all of them' 0 '*' '' "${report[@]}" --blocks 3 "$good"
squeeze
has 'are said to be all' 'Worst blocks (all 3 pinned)'
has 'so are threads' 'Threads by stranded bytes (all 2)'
# A dump has only the worst, of however many tiers.
sed 's/"current_blocks":1,"pinned_blocks":0,"empty_blocks":0\(.*\)"held_bytes":8192/"current_blocks":1,"pinned_blocks":954,"empty_blocks":0\1"held_bytes":7823360/
    s/"heaps":2/"heaps":1500/' "$good" >"$scratch/more"
for arguments in '--blocks 2' '' '--all'; do
    # shellcheck disable=SC2086
    expect "of more blocks than the dump has records for: ${arguments:-by default}" 0 '*' '' "${report[@]}" $arguments "$scratch/more"
    squeeze
    [[ $arguments = *2 ]] && blocks=2 || blocks=3
    has 'the number of all that are pinned is said' "Worst blocks ($blocks of 957 pinned)"
    has 'and the number of all heaps' 'Threads by stranded bytes (2 of 1500)'
done
sed '/"type":"tier"/d; /"type":"memory"/d; /"type":"end"/d' "$good" >"$scratch/more"
expect 'of a cut file whose tiers are lost' 1 '*' '*cut after line*' "${report[@]}" --blocks 2 "$scratch/more"
squeeze
has 'no more is said than it has' 'Worst blocks (2 of 3 in the file)'
has 'of threads neither' 'Threads by stranded bytes (all 2 in the file)'
sed '/"type":"end"/d; s/"pinned_blocks":3/"pinned_blocks":2/; s/"held_bytes":393216/"held_bytes":327680/; s/"stranded_bytes":180224/"stranded_bytes":122880/' \
    "$good" >"$scratch/more"
expect 'of a file that contradicts itself' 1 '*' '*cut after line*' "${report[@]}" --blocks 2 "$scratch/more"
squeeze
has 'its records are counted' 'Worst blocks (2 of 3 in the file)'
expect '--all shows all' 0 '*' '' "${report[@]}" --all "$good"
squeeze
has 'with counters that are zero' 'passed_large 0 calls Requests above half the largest block, handed to the next allocator.'
has 'and those by tier' '64 KiB carved_slices 12 slices Slices carved.'
# shellcheck disable=SC2016
expect 'a dump is read from a pipe' 0 "$(cat "$scratch/out")" '' sh -c 'cat "$2" | "$1" report --all -' sh "$PINPOOL_TOOL" "$good"

# JSON.
"${report[@]}" --json "$good" >"$scratch/json"
is '--json is one line' "$(wc -l <"$scratch/json")" 1
is '--json has the exact figures and those derived from them' \
    "$("$scratch/json_value" file whole dump.pid settings.PINPOOL_LATER memory.metadata_bytes total.held_bytes \
        total.live_bytes total.retention_ratio total.mean_pinned_occupancy tiers.0.block_bytes tiers.0.retention_ratio \
        tiers.1.mean_pinned_occupancy occupancy age.0.to_ms blocks.1.address threads counters.2.block_bytes \
        <"$scratch/json" | tr '\n' ' ')" \
    "$good true 4321 new 135168 401408 22528 17.8182 0.0833 65536 19.2000 null 2 items 10000 0x7f0000020000 2 items 65536 "
for absent in age.1.to_ms counters.0.block_bytes; do
    if "$scratch/json_value" "$absent" <"$scratch/json" >"$scratch/out"; then
        ok 1 "what the record lacks, JSON lacks: $absent"
    else
        ok 0 "what the record lacks, JSON lacks: $absent"
    fi
done
"${report[@]}" --json "$good" "$good" >"$scratch/json"
is '--json of two files is two lines' "$(wc -l <"$scratch/json")" 2

# other EDIT...: the good dump after a sed script, as other.jsonl.
other=$scratch/other.jsonl
other() {
    sed "$@" "$good" >"$other"
}

# Verdicts.
# verdict SENTENCE WANTED: of other.jsonl
verdict() {
    capture "${report[@]}" --json "$other"
    is "$1" "$("$scratch/json_value" verdict <"$scratch/out")" "$2"
}
other '/"block_bytes":65536/d; s/"records":18/"records":8/'
verdict 'nothing pinned is said so' 'Nothing is pinned: 2.0 KiB live in 8.0 KiB.'
other 's/"PINPOOL_LATER":"new"/"PINPOOL_OFF":"1"/'
verdict 'the control arm is said so' 'PINPOOL_OFF=1: every request was passed on to the next allocator.'
other '/"type":"tier"/d; s/"records":18/"records":16/'
verdict 'no tiers are said so' 'The dump has no account of blocks.'
other '/"type":"age"/d; s/"records":18/"records":16/; s/"sole_pinner_blocks":2/"sole_pinner_blocks":3/'
verdict 'sole pinners of all blocks are said so' '22.0 KiB live keep 392.0 KiB: 3 pinned blocks, each held by one slice. Stranded in them: 176.0 KiB, 120.0 KiB of it in RAM. 100 % of that is in blocks of 64 KiB.'
other 's/"live_bytes":20480/"live_bytes":0/; s/"live_bytes":2048,/"live_bytes":0,/'
capture "${report[@]}" --json "$other"
is 'no live bytes give no ratio' "$("$scratch/json_value" total.retention_ratio <"$scratch/out")" null

# Damage at the end: a warning, what is there, and status 1.
head -n 5 "$good" >"$other"
expect 'a file cut between lines is shown with a warning' 1 '*64 KiB*' \
    "pinpool: $other: cut after line 5; here is what is left of it" "${report[@]}" "$other"
head -c -5 "$good" >"$other"
expect 'a file cut in its last line is shown with a warning' 1 '*64 KiB*' \
    "pinpool: $other: cut in line 19; here is what is left of it" "${report[@]}" "$other"
capture "${report[@]}" --json "$other"
is 'and JSON says that it is not whole' "$("$scratch/json_value" whole <"$scratch/out")" false
head -c -1 "$good" >"$other"
expect 'a last line without its newline is whole' 0 '*' '' "${report[@]}" "$other"
other '5d'
expect 'a lost line is shown with a warning' 1 '*64 KiB*' \
    "pinpool: $other: the end record counts 18 lines before it, but there are 17; here is what is left of it" \
    "${report[@]}" "$other"

# Files that are none.
expect 'no such file' 1 '' 'pinpool: /no/such: No such file or directory' "${report[@]}" /no/such
expect 'a directory' 1 '' "pinpool: $scratch: Is a directory" "${report[@]}" "$scratch"
: >"$other"
expect 'an empty file' 1 '' "pinpool: $other: empty" "${report[@]}" "$other"
# shellcheck disable=SC2016
expect 'a file without an end or newlines' 1 '' 'pinpool: -:1: longer than any line of a dump' \
    timeout 20 sh -c '"$@" </dev/zero' sh "${report[@]}" -
expect 'a device is refused' 1 '' 'pinpool: /dev/zero: Is a device; use - for standard input' \
    timeout 20 "${report[@]}" /dev/zero
mkfifo "$scratch/fifo"
expect 'a FIFO that nobody writes to is refused, and not waited for' 1 '' \
    "pinpool: $scratch/fifo: Is a FIFO; use - for standard input" timeout 20 "${report[@]}" "$scratch/fifo"
if truncate -s 8T "$scratch/huge" 2>"$scratch/err"; then
    expect 'a file of 8 TB is refused by its size' 1 '' "pinpool: $scratch/huge: Is larger than 64 MiB, the most that a dump has" \
        timeout 20 "${report[@]}" "$scratch/huge"
    rm "$scratch/huge"
else
    tap_skip 'a file of 8 TB is refused by its size' 'the file system here has none of that size'
fi
printf '\177ELF\n' >"$other"
expect 'a binary' 1 '' "pinpool: $other:1: not a JSON object: *" "${report[@]}" "$other"
printf '{"type":"dump","format"' >"$other"
expect 'a file cut in its first line' 1 '' "pinpool: $other:1: not a JSON object: the line ends too early" "${report[@]}" "$other"
other 's/"format":1/"format":2/'
expect 'a later format' 1 '' "pinpool: $other:1: format: not 1, the only one that this pinpool reads" "${report[@]}" "$other"
expect 'a good file beside a bad one is still shown' 1 '*(pid 4321)*' "pinpool: $other:1: *" "${report[@]}" "$other" "$good"

# wrong LINE REASON SED-SCRIPT: the good dump, edited, is refused with that line and reason, and nothing shown.
wrong() {
    other "$3"
    expect "line $1 is refused: $2" 1 '' "pinpool: $other:$1: $2" "${report[@]}" "$other"
}
wrong 1 'not a pinpool dump: it begins with another record' 1d
wrong 2 'a second dump begins here' '1{p}'
wrong 3 'not a JSON object: *' '3s/,/;/'
wrong 3 'not a JSON object: *' '3s/$/ 1/'
wrong 3 'not a JSON object: the line ends too early' '3s/}$//'
wrong 3 'not a JSON object: *' '3s/^/x/'
wrong 3 'block_bytes: not a whole number' "3s/:65536/:'a'/"
wrong 3 'not a JSON object: the line ends too early' '3s/.*//'
wrong 1 'not a JSON object: *' '1s/6\.1\.0/6\xff0/'
wrong 3 'not a JSON object: another kind of value' '3s/.*/[1]/;'
wrong 3 'type: missing' '3s/"type":"tier",//'
wrong 3 'type: missing' '3s/"type":"tier"/"type":1/'
# shellcheck disable=SC2016 # a sed script
wrong 20 'something follows the end record' '$a{"type":"other"}'
wrong 3 'pinned_blocks: missing' '3s/"pinned_blocks":3,//'
wrong 3 'pinned_blocks: negative' '3s/"pinned_blocks":3/"pinned_blocks":-3/'
wrong 3 'pinned_blocks: not a whole number' '3s/"pinned_blocks":3/"pinned_blocks":3.0/'
wrong 3 'pinned_blocks: not a whole number' '3s/"pinned_blocks":3/"pinned_blocks":"3"/'
wrong 3 'pinned_blocks: not a whole number' '3s/"pinned_blocks":3/"pinned_blocks":null/'
wrong 3 'pinned_blocks: too large' '3s/"pinned_blocks":3/"pinned_blocks":1152921504606846976/'
wrong 3 'pinned_blocks: too large' '3s/"pinned_blocks":3/"pinned_blocks":18446744073709551616/'
wrong 3 'block_bytes: not a power of two' '3s/"block_bytes":65536/"block_bytes":65537/'
wrong 3 'block_bytes: not a power of two' '3s/"block_bytes":65536/"block_bytes":0/'
wrong 4 'block_bytes: this tier was here before' '4s/"block_bytes":8192/"block_bytes":65536/'
wrong 3 'held_bytes: not the size of the current, pinned and empty blocks' '3s/"held_bytes":393216/"held_bytes":393217/'
wrong 3 'held_bytes: not the size of the current, pinned and empty blocks' '3s/"pinned_blocks":3/"pinned_blocks":144115188075855872/'
wrong 3 'stranded_bytes: more than the pinned blocks have' '3s/"stranded_bytes":180224/"stranded_bytes":196609/'
wrong 3 'stranded_resident_bytes: more than stranded_bytes' '3s/"stranded_resident_bytes":122880/"stranded_resident_bytes":180225/'
wrong 3 'pinned_live_bytes: more than the pinned blocks have' '3s/"pinned_live_bytes":16384/"pinned_live_bytes":196609/'
wrong 3 'sole_pinner_blocks: more than pinned_blocks' '3s/"sole_pinner_blocks":2/"sole_pinner_blocks":4/'
wrong 5 'to_slices: less than from_slices' '5s/"from_slices":1/"from_slices":2/'
wrong 7 'to_ms: not more than from_ms' '7s/"to_ms":10000/"to_ms":1000/'
wrong 9 'address: not an address' '9s/0x7f0000010000/0x/'
wrong 9 'address: not an address' '9s/0x7f0000010000/0x1g/'
wrong 9 'address: not an address' '9s/0x7f0000010000/0x10000000000000000/'
wrong 9 'live_bytes: more than block_bytes' '9s/"live_bytes":4096/"live_bytes":65537/'
wrong 9 'stranded_bytes: more than block_bytes' '9s/"stranded_bytes":61440/"stranded_bytes":65537/'
wrong 13 'state: not a text' '13s/"live",/1,/'
wrong 14 'name: missing' '14s/"name":"passed_small",//'
wrong 16 'block_bytes: not a power of two' '16s/"block_bytes":65536/"block_bytes":3/'
wrong 17 'end: not above start' '17s/0x401000/0x400000/'
wrong 19 'records: 0' '19s/"records":18/"records":0/'
wrong 1 'settings: not an object' '1s/"settings":{/"settings":"x","rest":{/'
wrong 1 'settings: PINPOOL_MIN: not a text' '1s/"1025"/1025/'
wrong 1 'pid: too large' '1s/4321/4294967296/'
wrong 1 'exe: has a NUL character' '1s|/usr/bin/program|a\\u0000b|'
wrong 1 'settings: PINPOOL_MIN: has a NUL character' '1s/"1025"/"10\\u000025"/'
wrong 3 'type: missing' '3s/"tier"/"tier\\u0000"/'
wrong 3 'pinned_blocks: not a whole number' '3s/"pinned_blocks":3/"pinned_blocks":1e3/'
wrong 3 'pinned_blocks: not a whole number' '3s/"pinned_blocks":3/"pinned_blocks":NaN/'
wrong 3 'pinned_blocks: not a whole number' '3s/"pinned_blocks":3/"pinned_blocks":[3]/'
wrong 1 "settings: $(text 64): not a text" "1s/PINPOOL_MIN\":/$(text 5000)\":1,\"b\":/"
{
    sed 1q "$good"
    printf '{"type":"x","a":'
    head -c 100000 /dev/zero | tr '\0' '['
    printf '\n'
} >"$other"
expect 'deep nesting is refused' 1 '' "pinpool: $other:2: not a JSON object: *" "${report[@]}" "$other"

# Files without a bound: they are refused before they take much memory, whatever is in them.
memory_kib=400000
# bounded COMMAND...: with so much address space, and within a minute.
bounded() {
    (ulimit -v "$memory_kib" && exec timeout 60 "$@")
}
# repeated COUNT LINE
repeated() {
    { yes "$2" || true; } | head -n "$1" # it ends by SIGPIPE
}
# with_head: the first line of a dump, and then standard input
with_head() {
    sed 1q "$good"
    cat
}
counter() {
    printf '{"type":"counter","name":"%s","unit":"","value":1}' "$1"
}
repeated 3000000 '{"type":"x"}' | with_head >"$other"
expect 'a file of millions of records is refused' 1 '' "pinpool: $other:65537: more lines than a dump has (65536)" \
    bounded "${report[@]}" "$other"
repeated 3000000 "$(counter a)" | with_head >"$other"
# shellcheck disable=SC2016
expect 'one on standard input, too' 1 '' "pinpool: -:65537: more lines than a dump has (65536)" \
    bounded sh -c 'cat "$2" | exec "$1" report -' sh "$PINPOOL_TOOL" "$other"
# shellcheck disable=SC2016
expect 'and so is more than 64 MiB of it' 1 '' "pinpool: -:*: Is larger than 64 MiB, the most that a dump has" \
    bounded sh -c '{ echo "$2"; yes "$3"; } | exec "$1" report -' sh "$PINPOOL_TOOL" "$(sed 1q "$good")" \
    "{\"type\":\"x\",\"text\":\"$(text 10000)\"}"
# size_of_report OPTION: the number of bytes, 200 MB at most; the exit status is in the file `status`.
size_of_report() {
    { bounded "${report[@]}" "$1" "$other" 2>"$scratch/err" || echo $? >"$scratch/status"; } |
        head -c 200000000 | wc -c
}
repeated 65000 "$(counter "$(text 900)")" | with_head >"$other"
for option in --blocks=1 --all --json; do
    size=$(size_of_report "$option")
    is "the largest dump that is not refused is shown in bounded memory: $option" "$(cat "$scratch/status")" 1
    check 'all of it' test "$size" -gt 58500000 -a "$size" -lt 100000000
done
{
    counter "$(text 1000000)"
    printf '\n'
    repeated 60000 "$(counter a)"
} | with_head >"$other"
size=$(size_of_report --all)
check 'one long text does not make every row long' test "$size" -lt 20000000
{
    printf '{"type":"dump","format":1,"pid":1,"seq":1,"time_unix_ns":1,"settings":{'
    seq 90000 | sed 's/.*/"&":"",/' | tr -d '\n' | sed 's/,$//'
    printf '}}\n'
} >"$other"
# shellcheck disable=SC2016
expect 'ninety thousand settings take no time' 1 '*settings  1= 2= *' '*cut after line 1;*' \
    sh -c 'ulimit -t 2 && exec "$@"' sh "${report[@]}" "$other"

# Text of the dump is not obeyed by the terminal.
other 's|/usr/bin/program|/usr/bin/\\u001b[31mred\\n\\u009b5mä|'
expect 'control characters of a name are shown, not sent' 0 '*' '' "${report[@]}" "$other"
squeeze
has 'as numbers' 'program /usr/bin/\x1b[31mred\x0a\xc2\x9b5mä (pid 4321)'
harmless 'no control character is in the report' "$scratch/out"

# Every text of a dump, with whatever a terminal might obey.
evil='\\u001b[31m\\u0007\\u009b5m\\r\\n\\t\\u007f\\u202e\\u2066\\u200f\\u2028\\u001b]0;x\\u0007'
shown='\x1b[31m\x07\xc2\x9b5m\x0d\x0a\x09\x7f????\x1b]0;x\x07'
other "s|/usr/bin/program|A$evil|; s|0\\.1\\.0|B$evil|; s|6\\.1\\.0|C$evil|; s|madvise|D$evil|; s|/lib/libc.so.6|E$evil|
    s|\"signal\"|\"F$evil\"|; s|PINPOOL_LATER|G$evil|; s|\"new\"|\"H$evil\"|; s|\"waiting\"|\"I$evil\"|
    s|passed_small|J$evil|; s|\"calls\"|\"K$evil\"|; s|/tmp|L$evil|"
expect 'every text of a dump is shown' 0 '*' '' "${report[@]}" --all "$other"
harmless 'and none is sent' "$scratch/out"
for letter in A B C D E F G H I J K L; do
    grep -qF "$letter$shown" "$scratch/out" || printf '%s ' "$letter"
done >"$scratch/missing"
is 'each of them as numbers' "$(cat "$scratch/missing")" ''
capture "${report[@]}" --json "$other"
harmless 'JSON has none either' "$scratch/out"
evil_bytes='\033[31m\007\302\2335m\r\n\t\177\342\200\256\342\201\246\342\200\217\342\200\250\033]0;x\007'
is 'where they are what they were' \
    "$("$scratch/json_value" dump.exe dump.kernel threads.0.state counters.0.name <"$scratch/out" | od -c)" \
    "$(for letter in A C I J; do printf "%s$evil_bytes\\n" "$letter"; done | od -c)"
other "1s|\"PINPOOL_MIN\":\"1025\"|\"A$evil\":1|"
capture "${report[@]}" "$other"
is 'a message that quotes the dump shows it' "$err" "pinpool: $other:1: settings: A$shown: not a text"
harmless 'and does not send it' "$scratch/err"
evil=$(printf '\033[31m\302\2335m\033]0;x\007\n\342\200\256\233\377')
expect 'so does one that quotes the name of a file' 1 '' \
    'pinpool: \\x1b\[31m\\xc2\\x9b5m\\x1b]0;x\\x07\\x0a\?\\x9b\\xff: No such file or directory' "${report[@]}" "$evil"
harmless 'which may be no text at all' "$scratch/err"
cp "$good" "$scratch/$evil"
capture "${report[@]}" --json "$scratch/$evil"
harmless 'JSON is UTF-8 whatever the name of the file is' "$scratch/out"
is 'and shows its other bytes as numbers' "$("$scratch/json_value" file <"$scratch/out" | od -c)" \
    "$(printf '%s/\033[31m\302\2335m\033]0;x\007\n\342\200\256\\x9b\\xff\n' "$scratch" | od -c)"
# A dump of a process under a system call filter.
cat >"$scratch/filtered.jsonl" <<'DUMP'
{"type":"dump","format":1,"pid":7,"seq":1,"time_unix_ns":1,"filtered":1}
{"type":"tier","block_bytes":65536,"granule_bytes":1024,"min_request_bytes":1025,"max_request_bytes":32768,"current_blocks":1,"pinned_blocks":2,"empty_blocks":0,"released_blocks":0,"live_slices":2,"live_bytes":8192,"cached_bytes":0,"pinned_live_bytes":8192,"sole_pinner_blocks":2,"stranded_bytes":122880,"held_bytes":196608}
{"type":"end","records":2}
DUMP
expect 'what a filtered process left out is said, not shown as 0' 0 \
    '*122880*what of it is in RAM was left out: the process runs under a system call filter*' '' \
    sh -c '"$1" report "$2" | sed "s/120.0 KiB/122880/g" && "$1" report --json "$2" | grep -vq stranded_resident' sh \
    "$PINPOOL_TOOL" "$scratch/filtered.jsonl"
finish
