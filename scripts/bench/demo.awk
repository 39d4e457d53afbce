# SPDX-License-Identifier: MIT
#
# demo.awk: the table of `demo` from what results.awk read. -v rounds, seconds, seed.

# How many times as fast as without preload, within a round.
function speedup(group, arm) { return 1 + change[group, arm, "pairs_per_s"] / 100 }

function mb(group, arm, metric) { return median[group, arm, metric] / 1e6 }

function retention(group, arm) { return mb(group, arm, "held_load_bytes") / mb(group, arm, "live_load_bytes") }

function print_row(group, arm) {
    printf "%-11s%6.2f %-13s %6.2f %8.1f %7.1f %8.2f", arm == "off" ? "no preload" : arm, mb(group, arm, "pairs_per_s"),
        sprintf("(%.2f-%.2f)", least[group, arm, "pairs_per_s"] / 1e6, most[group, arm, "pairs_per_s"] / 1e6),
        speedup(group, arm), mb(group, arm, "rss_load_bytes"), mb(group, arm, "live_bytes"),
        mb(group, arm, "rss_load_bytes") / mb(group, arm, "live_bytes")
    if (arm == "off") printf "%8s %7s %7s %8s\n", "-", "-", "-", "-"
    else
        printf "%8.1f %7.1f %7.2f %8.1f\n", mb(group, arm, "live_load_bytes"), mb(group, arm, "held_load_bytes"),
            retention(group, arm), mb(group, arm, "stranded_load_bytes")
}

function print_group(group, title,    names, name, i) {
    print title
    names = split(arms[group], name, " ")
    for (i = 1; i <= names; i++) print_row(group, name[i])
}

# Two sentences from the medians.
function print_conclusion(    r8, r64, r) {
    printf "\nAgainst no preload, buffers of 1.1-4 KiB went through at %.2f times the rate with 8k and ", speedup("small", "8k")
    printf "%.2f times\nwith 64k; buffers that another thread frees at %.2f times with 64k.\n", speedup("small", "64k"),
        speedup("foreign", "64k")
    r8 = retention("small", "8k")
    r64 = retention("small", "64k")
    printf "To keep %.0f MB of live 1.1-4 KiB buffers, 64k held %.0f MB (%.1f times), ",
        mb("small", "64k", "live_load_bytes"), mb("small", "64k", "held_load_bytes"), r64
    if (r64 > r8)
        printf "%.1f times the retention\nratio of 8k (%.1f): larger blocks are pinned by few live slices.\n", r64 / r8, r8
    else
        printf "no more than 8k in proportion (%.1f):\nthis run does not show that larger blocks retain more.\n", r8
    r = retention("small", "reuse")
    printf "reuse held %.0f MB (%.2f times), at %.2f times the rate of no preload.\n",
        mb("small", "reuse", "held_load_bytes"), r, speedup("small", "reuse")
}

END {
    print "\nBuffers of mixed lifetimes: 4 threads, 98 % live 20-30 ticks, 2 % live 5000-6000. " rounds " rounds of " seconds " s,"
    print "order of the runs from seed " seed ". Mpair/s: million pairs of malloc and free a second, median"
    print "(least-most). MB: 10^6 bytes, medians. live: requested by the workload. served, held, held/live,"
    print "stranded: the library's account of what it serves (8k: up to 4 KiB, others: up to 32 KiB). In 8k and 64k"
    print "a hole is not used again until its block is empty (PINPOOL_POLICY=bump); reuse is the default."
    printf "\n%-10s%7s %-13s %6s %8s %7s %8s%8s %7s %7s %8s\n", "", "Mpair/s", "", "x none", "RSS MB", "live MB", "RSS/live",
        "served", "held MB", "held/", "stranded"
    printf "%-64s%8s %7s %7s %8s\n", "", "MB", "", "live", "MB"
    print_group("own", "1.1-32 KiB, freed by the thread that allocated")
    print_group("small", "1.1-4 KiB, freed by the thread that allocated")
    print_group("foreign", "1.1-32 KiB, freed by another thread")
    print_conclusion()
}
