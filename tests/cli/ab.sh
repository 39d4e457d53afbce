#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests pinpool ab on commands: arms, plan, results, resuming, and experiments whose truth is known.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build json_value -ljson-c
build noisy -lm
export PINPOOL_GNUPLOT='' # the last tests draw
noisy=$scratch/noisy
ab=("$PINPOOL_TOOL" ab --lib "$library")
each=(--metric 'm0=^m0: ([\d.]+)')

# value FILE PATH...: of a JSON file
value() {
    local file=$1
    shift
    "$scratch/json_value" "$@" <"$file" | tr '\n' ' '
}

# --- What it refuses ---------------------------------------------------------------------------------

while IFS=';' read -r arguments reason; do
    read -ra words <<<"$arguments"
    expect "ab $arguments is a usage error that says why" 2 '' "pinpool ab: $reason*" \
        "$PINPOOL_TOOL" ab --out "$scratch/none" "${words[@]}"
done <<'END'
--arm off --aa;which command?
--arm off true;there is nothing to compare with the one arm off: add --arm or --aa
--arm off --arm off true;--arm=off: there is an arm off already
--arm off --arm x= true;--arm=x=: SPEC is empty
--arm off --arm =8k true;--arm==8k: NAME is empty
--arm off --arm 9k true;--arm=9k: 9k: not a power of two
--arm off --arm 8k:best true;--arm=8k:best: best: no such policy
--arm off --arm 8k+64k true;--arm=8k+64k: pools are given twice, or together with idle
--arm off --arm idle+8k true;--arm=idle+8k: pools are given twice, or together with idle
--arm off --arm 8k+idle true;--arm=8k+idle: idle together with pools
--arm off --arm bogus true;--arm=bogus: 'bogus' is neither off, idle, POOLS?:POLICY?, lib:LIBRARY nor env:NAME=VALUE
--arm off --arm env:X true;--arm=env:X: env:X: not NAME=VALUE
--arm off --arm x=env:LD_PRELOAD=y true;--arm=x=env:LD_PRELOAD=y: env:LD_PRELOAD=y: that is for the other parts of SPEC to say
--arm off --arm x=8k+env:PINPOOL_MIN=0 true;--arm=x=8k+env:PINPOOL_MIN=0: 0: not between 1 and 2m
--rounds 1 true;--rounds=1: not a whole number from 2 to 100000
--rounds x true;--rounds=x: not a whole number from 2 to 100000
--seed -1 true;--seed=-1: not a whole number from 0 to 4294967295
--metric a true;--metric=a: not NAME=REGEX, where NAME is of letters, digits and _
--metric wall_s=(.) true;--metric=wall_s=(.): wall_s: there is one of that name
--metric a=b true;--metric=a=b: a: the expression has no group (...) around the number
--metric a=( true;--metric=a=(: a: at character 1 of the expression: missing closing parenthesis
--margin -1 true;--margin=-1: not a percentage from 0 to 100
--timeout 0 true;--timeout=0: not a number of seconds above 0
--settle x true;--settle=x: not a number of seconds
--ready x true;--ready without --load
--load x true;--load without --ready
--format pdf true;--format=pdf: neither text, md, json, csv nor html
END
check 'and leaves nothing' test ! -e "$scratch/none"
expect 'a library that is not there is an error' 1 '' 'pinpool: libnowhere.so: not found in the directories of libraries*' \
    "${ab[@]}" --out "$scratch/none" --arm off --arm x=lib:libnowhere.so true
expect 'a path of one, too' 1 '' "pinpool: $scratch/no.so: No such file or directory" \
    "${ab[@]}" --out "$scratch/none" --arm off --arm "x=lib:$scratch/no.so" true
expect 'a directory that is in use is an error' 1 '' "pinpool: --out=$scratch: it is not empty; --resume goes on*" \
    "${ab[@]}" --out "$scratch" true
expect '--resume of nothing is an error' 1 '' "pinpool: --resume: $scratch/none/plan.json: No such file or directory" \
    "$PINPOOL_TOOL" ab --resume --out "$scratch/none"

# --- Arms --------------------------------------------------------------------------------------------

# Shows in its output which arm it is in.
cat >"$scratch/arm" <<'END'
#!/bin/sh
echo "pools ${PINPOOL_POOLS-none} policy ${PINPOOL_POLICY-none} off ${PINPOOL_OFF-none} word ${WORD-none} preload ${LD_PRELOAD-none}"
sleep 0.3 # long enough to be looked at
exec "$NOISY" "$STATE"
END
chmod +x "$scratch/arm"
export NOISY=$noisy STATE=$scratch/state
next=
for name in libjemalloc.so.2 libmimalloc.so.2.0 libmimalloc.so.3 libtcmalloc_minimal.so.4; do
    if [[ -z $next ]] && compgen -G "/usr/lib/*/$name" >"$scratch/found"; then
        next=$(head -n 1 "$scratch/found")
    fi
done
arms=(--arm off --arm 8k:bump --arm 'both=8k,64k' --arm idle --arm 'word=off+env:WORD=a+b=c')
if [[ -n $next ]]; then
    arms+=(--arm "next=lib:$next" --arm "behind=64k:bump+lib:$next")
fi
out_arms=$scratch/arms
expect 'every kind of arm runs, with variables of ours in the environment' 0 '*' '*' \
    env PINPOOL_POOLS=1m PINPOOL_OFF=1 LD_PRELOAD="$library" "${ab[@]}" --out "$out_arms" --rounds 2 --warmup 0 "${arms[@]}" "${each[@]}" -- "$scratch/arm"
while IFS=';' read -r arm wanted; do
    is "arm $arm has the environment that its SPEC says" "$(head -n 1 "$out_arms"/runs/*-round0-"$arm"/output)" "$wanted"
done <<END
off;pools none policy none off none word none preload none
8k-bump;pools 8k policy bump off none word none preload $library
both;pools 8k,64k policy none off none word none preload $library
idle;pools none policy none off 1 word none preload $library
word;pools none policy none off none word a+b=c preload none
END
if [[ -n $next ]]; then
    is 'the other allocator is preloaded' "$(grep -o 'preload .*' "$out_arms"/runs/*-round0-next/output)" "preload $next"
    is 'and stands behind pinpool where both are' "$(grep -o 'preload .*' "$out_arms"/runs/*-round0-behind/output)" "preload $library:$next"
else
    tap_skip 'the other allocator is preloaded' 'none is installed'
    tap_skip 'and stands behind pinpool where both are' 'none is installed'
fi
check 'what was left out of the environment is said' grep -q 'No arm had these variables.*: .*PINPOOL_POOLS' "$out_arms/report.md"

# --- The plan ----------------------------------------------------------------------------------------

order() {
    sed -n 's/^{"run":\([0-9]*\),.*"arm":"\([^"]*\)".*/\1 \2/p' "$1/runs.jsonl"
}
same=(--arm a=off --arm b=off --arm c=off --rounds 8 --warmup 1)
"${ab[@]}" --out "$scratch/plan1" --seed 5 "${same[@]}" -- true >"$scratch/out" 2>"$scratch/err"
"${ab[@]}" --out "$scratch/plan2" --seed 5 "${same[@]}" -- true >"$scratch/out" 2>"$scratch/err"
"${ab[@]}" --out "$scratch/plan3" --seed 6 "${same[@]}" -- true >"$scratch/out" 2>"$scratch/err"
is 'the same seed gives the same order' "$(order "$scratch/plan1")" "$(order "$scratch/plan2")"
check 'another seed another' test "$(order "$scratch/plan1")" != "$(order "$scratch/plan3")"
is 'each round has every arm once' \
    "$(order "$scratch/plan1" | awk '{ seen[int($1 / 3)] = seen[int($1 / 3)] $2 } END { for (r in seen) print length(seen[r]) (seen[r] ~ /a/) (seen[r] ~ /b/) (seen[r] ~ /c/) }' | sort -u)" 3111
check 'and not always in the same order' test "$(order "$scratch/plan1" | awk '{ seen[int($1 / 3)] = seen[int($1 / 3)] $2 } END { for (r in seen) print seen[r] }' | sort -u | wc -l)" -gt 1
is 'warm-up rounds are not counted' "$(value "$scratch/plan1/result.json" arms.0.runs settings.warmup)" '8 1 '

# --- Known truths ------------------------------------------------------------------------------------

# truth NAME CHANGE...: 20 rounds against an arm that is CHANGE % better
truth() {
    local name=$1 change=$2
    shift 2
    rm -f "$STATE"
    "${ab[@]}" --out "$scratch/$name" --seed 1 --rounds 20 --arm off --arm "changed=env:CHANGE=$change" "$@" -- "$noisy" "$STATE" \
        >"$scratch/out" 2>"$scratch/err"
}
export NOISE=2 DRIFT=8
truth plus 3 "${each[@]}"
is 'a difference of 3 % under noise of 2 % and a drift of 8 % is called' "$(value "$scratch/plus/result.json" comparisons.0.metric comparisons.0.verdict)" 'm0 better '
truth minus -3 "${each[@]}"
is 'and one of -3 %' "$(value "$scratch/minus/result.json" comparisons.0.verdict)" 'worse '
truth lower 3 --metric 'm0=^m0: ([\d.]+):lower'
is 'which is the other way round where lower is better' "$(value "$scratch/lower/result.json" comparisons.0.better comparisons.0.verdict)" 'lower worse '
truth none 0 "${each[@]}"
is 'a difference of 0 % is not called' "$(value "$scratch/none/result.json" comparisons.0.verdict)" 'unresolved '
NOISE=0.3 truth same 0 "${each[@]}" --margin 2
is 'it is called the same where the noise allows it' "$(value "$scratch/same/result.json" comparisons.0.verdict)" 'same '
NOISE=0 DRIFT=0 truth exact 25 "${each[@]}"
is 'without noise the figures are exact' \
    "$(value "$scratch/exact/result.json" comparisons.0.n_arm comparisons.0.mean_arm comparisons.0.mean_baseline comparisons.0.improvement_percent comparisons.0.paired_percent comparisons.0.paired_low95_percent comparisons.0.verdict)" \
    '20 1250 1000 25 25 25 better '

# As the kernel counts: the same command with two sizes of memory.
cat >"$scratch/large.c" <<'END'
#include <stdlib.h>
#include <string.h>
int main(void) { size_t n = strtoul(getenv("BYTES"), NULL, 10); char *volatile p = malloc(n); memset(p, 1, n); return 0; }
END
"${CC:-cc}" -O0 -o "$scratch/large" "$scratch/large.c"
BYTES=4194304 "${ab[@]}" --out "$scratch/rss" --rounds 6 --warmup 0 --arm off --arm "large=env:BYTES=37748736" -- "$scratch/large" >"$scratch/out" 2>"$scratch/err"
read -r arm baseline <<<"$(awk -F, '$6 == "peak_rss_bytes" { sum[$4] += $9 } END { print sum["\"large\""] / 6, sum["\"off\""] / 6 }' "$scratch/rss/long.csv")"
check 'peak RSS is that of the command' test "$(awk -v a="$arm" -v b="$baseline" 'BEGIN { print (a - b > 31e6 && a - b < 36e6 && b < 9e6) }')" = 1

# Ten equal figures in forty experiments.
export NOISE=4 DRIFT=8
ten=()
for i in 0 1 2 3 4 5 6 7 8 9; do
    ten+=(--metric "m$i=^m$i: ([\\d.]+)")
done
rm -f "$STATE"
: >"$scratch/tally"
for ((repetition = 1; repetition <= 40; repetition++)); do
    "${ab[@]}" --out "$scratch/aa" --seed "$repetition" --rounds 20 --warmup 0 --arm off --aa "${ten[@]}" -- "$noisy" "$STATE" >"$scratch/out" 2>"$scratch/err"
    awk -F'[:,]' '
        /"metric":"m[0-9]"/ { is_ours = 1 } /"metric":"[^m]/ { is_ours = 0 }
        is_ours && /"confidence"/ { starred = $2 ~ /\*/ }
        is_ours && /"paired_low95_percent"/ { low = $2 }
        is_ours && /"paired_high95_percent"/ { high = $2 }
        is_ours && /"verdict"/ { print starred, (low <= 0 && high >= 0), ($2 ~ /better|worse/); is_ours = 0 }
    ' "$scratch/aa/result.json" >>"$scratch/tally"
    rm -rf "$scratch/aa"
done
read -r all starred covered called <<<"$(awk '{ starred += $1; covered += $2; called += $3 } END { print NR, starred, covered, called }' "$scratch/tally")"
printf '# 40 experiments of 20 rounds with two equal arms, 10 figures each: %d of %d starred, %d intervals hold 0, %d called\n' \
    "$starred" "$all" "$covered" "$called"
is 'forty A/A experiments were judged' "$all" 400
check 'at most 5 % of equal arms are starred' test $((starred * 100)) -le $((5 * all))
check 'at least 93 % of the intervals hold 0' test $((covered * 100)) -ge $((93 * all))
check 'at most 5 % are called better or worse' test $((called * 100)) -le $((5 * all))

# --- Files -------------------------------------------------------------------------------------------

is 'runs.csv has the header of Node'\''s' "$(head -n 1 "$scratch/plus/runs.csv")" '"binary","filename","configuration","rate","time"'
is 'and a row old and new for each round' "$(grep -c "metric='m0'" "$scratch/plus/runs.csv")" 40
is 'with the arm against the baseline' "$(awk -F'","' "/metric='m0'/ { print \$1 }" "$scratch/plus/runs.csv" | sort | uniq -c | tr -s ' \n"' ' ')" ' 20 new 20 old '
is 'long.csv has the warm-up round too, marked' "$(awk -F, '$6 == "m0" { print $3 }' "$scratch/plus/long.csv" | sort | uniq -c | tr -s ' \n' ' ')" ' 40 0 2 1 '
is 'result.json has what a comparison has to have' "$(value "$scratch/plus/result.json" format kind complete comparisons.0.arm comparisons.0.baseline comparisons.0.n_baseline)" \
    '1 command true changed off 20 '
for field in arm baseline metric unit better n_arm n_baseline mean_arm mean_baseline median_arm median_baseline \
    improvement_percent welch_p accuracy95_percent accuracy99_percent accuracy999_percent paired_percent \
    paired_low95_percent paired_high95_percent holm_p verdict; do
    grep -q "\"$field\":" "$scratch/plus/result.json" || printf '%s\n' "$field"
done >"$scratch/missing"
is 'under the names that are agreed on' "$(cat "$scratch/missing")" ''
for fact in kernel cpu cores_online memory_bytes thp_enabled mthp_enabled overcommit_memory glibc load_average_max environment libraries sha256 words; do
    grep -q "\"$fact\":" "$out_arms/result.json" || printf '%s\n' "$fact"
done >"$scratch/missing"
is 'and says where it comes from' "$(cat "$scratch/missing")" ''
check 'the hash is that of the library' grep -q "$(sha256sum "$library" | cut -d' ' -f1)" "$out_arms/result.json"
for format in md json csv html; do
    case $format in
    md) file=report.md ;;
    json) file=result.json ;;
    csv) file=runs.csv ;;
    html) file=report.html ;;
    esac
    capture "$PINPOOL_TOOL" ab --resume --out "$scratch/plus" --format "$format"
    is "--format $format prints $file" "$out" "$(cat "$scratch/plus/$file")"
done
expect 'a full disk under stdout is a failure' 1 '' '*pinpool: standard output: No space left on device' \
    sh -c '"$@" >/dev/full' sh "$PINPOOL_TOOL" ab --resume --out "$scratch/plus"

# Few rounds, many rounds.
capture "${ab[@]}" --out "$scratch/few" --rounds 4 --warmup 0 --arm off --aa -- true
check 'too few rounds are said before' grep -q '4 rounds will not resolve 5 %' "$scratch/err"
check 'and after' grep -q 'no interval for a median reaches 95 % with fewer than 6' "$scratch/out"
capture "${ab[@]}" --out "$scratch/enough" --rounds 20 --warmup 0 --arm off --aa -- true
check 'twenty rounds are not' test "$(grep -c 'rounds' "$scratch/err")" = 0

is 'plots that are not wanted are not missed' "$(cat "$scratch/enough/report.html" "$scratch/err" | grep -c 'no plots')" 0
PINPOOL_GNUPLOT=$scratch/none capture "$PINPOOL_TOOL" ab --resume --out "$scratch/enough"
check 'those that are and cannot be drawn are' grep -q 'There are no plots' "$scratch/err" "$scratch/enough/report.html"

# --- Plots -------------------------------------------------------------------------------------------

if command -v gnuplot >"$scratch/found"; then
    unset PINPOOL_GNUPLOT
    capture "$PINPOOL_TOOL" ab --resume --out "$scratch/plus"
    plots=$scratch/plus/plots
    for name in distribution-m0 distribution-wall_s frontier; do
        check "plot $name stands alone as SVG" grep -q '</svg>' "$plots/$name.svg"
        is "and as PNG" "$(head -c 4 "$plots/$name.png" | tail -c 3)" PNG
    done
    is 'report.html holds the plots' "$(grep -c 'src="data:image/svg+xml;base64,' "$scratch/plus/report.html")" \
        "$(find "$plots" -name '*.svg' | wc -l)"
    expect 'a plot can be drawn again from its script' 0 '*' '*' gnuplot -e "set terminal svg; set output '$scratch/again.svg'" "$plots/frontier.gp"
else
    tap_skip 'plots are drawn' 'gnuplot is not installed'
fi
finish
