# SPDX-License-Identifier: MIT
#
# bench.awk: the tables of `bench`, in Markdown, from what results.awk read. -v rounds, seed, blocks.

function line(what, without, with, ratio, goal) {
    printf "| %-41s | %9s | %9s | %-21s | %-13s |\n", what, without, with, ratio, goal
}

# "met" or "missed", with a question mark where the interval holds the goal.
function verdict(value, from, to, goal) {
    if (goal == "") return "-"
    return goal ", " (value <= goal ? "met" : "missed") (from <= goal && goal < to ? "?" : "")
}

function time(folder, arm, metric,    s) {
    s = median[folder, arm, metric]
    return s < 1e-5 ? sprintf("%.1f ns", s * 1e9) : sprintf("%.1f us", s * 1e6)
}

# A time of `arm` as a ratio to that of `base`, which is the folder's baseline.
function ratio_line(what, folder, metric, base, arm, goal,    value, from, to) {
    value = 1 + change[folder, arm, metric] / 100
    from = 1 + low[folder, arm, metric] / 100
    to = 1 + high[folder, arm, metric] / 100
    line(what, time(folder, base, metric), time(folder, arm, metric), sprintf("%.2f (%.2f-%.2f)", value, from, to),
        verdict(value, from, to, goal))
}

# What loading adds. The baseline hardly differs from round to round, so a change in per cent is one in bytes.
function added_line(what, metric, unit, bytes, goal,    form, scale) {
    form = unit == "MiB" ? "%.2f" : "%.0f"
    scale = median["costs", "off", metric] / 100 / bytes
    line(what, "", sprintf(form " " unit, change["costs", "pinpool", metric] * scale),
        sprintf("(" form "-" form ")", low["costs", "pinpool", metric] * scale, high["costs", "pinpool", metric] * scale),
        verdict(change["costs", "pinpool", metric] * scale, 0, 0, goal))
}

function dump_line(what, arm, metric, factor,    key) {
    key = "dumps" SUBSEP arm SUBSEP metric
    line(what, "", sprintf("%.1f ms", median[key] * factor),
        sprintf("(%.1f-%.1f)", least[key] * factor, most[key] * factor),
        verdict(median[key] * factor, least[key] * factor, most[key] * factor, 50))
}

function dump_lines(what, arm) {
    if (least["dumps", arm, "pinned"] < blocks / split(arm, pools, ",")) {
        printf "bench: a dump has %d pinned blocks where the program pinned more\n", least["dumps", arm, "pinned"] > "/dev/stderr"
        exit 1
    }
    dump_line("a dump of " what, arm, "handler_ns", 1e-6)
    dump_line("- as the program sees it", arm, "seen", 1e3)
}

function print_beside(    metrics, metric, names, name, m, n) {
    metrics = split("small pair pair_company ring ring_company handover server", metric, " ")
    names = split(arms["costs"], name, " ")
    printf "\nns an operation, medians of the same rounds:\n\n| %-8s |", "arm"
    for (m = 1; m <= metrics; m++) printf " %12s |", metric[m]
    printf "\n|%s|", "----------"
    for (m = 1; m <= metrics; m++) printf "%s:|", "-------------"
    print ""
    for (n = 1; n <= names; n++) {
        printf "| %-8s |", name[n]
        for (m = 1; m <= metrics; m++) printf " %12.1f |", median["costs", name[n], metric[m]] * 1e9
        print ""
    }
}

END {
    line("what", "without", "with", "ratio (95 % interval)", "goal: at most")
    line("---", "---:", "---:", "---", "---")
    ratio_line("malloc(64) and free, which we pass on", "costs", "small", "off", "pinpool", 1.2)
    ratio_line("- with `PINPOOL_OFF=1`", "costs", "small", "off", "idle", 1.1)
    ratio_line("- the least any preload costs: one jump", "costs", "small", "off", "jump", "")
    ratio_line("malloc(4096) and free, one thread", "costs", "pair", "off", "pinpool", 0.6)
    ratio_line("- where a second thread exists", "costs", "pair_company", "off", "pinpool", 0.6)
    ratio_line("- 100 live, oldest freed first", "costs", "ring", "off", "pinpool", 0.6)
    ratio_line("- the same, a second thread exists", "costs", "ring_company", "off", "pinpool", 0.6)
    ratio_line("malloc(4096), freed by another thread", "costs", "handover", "off", "pinpool", 0.7)
    ratio_line("- against glibc told never to trim", "handover", "handover", "never_trim", "pinpool", 0.7)
    ratio_line("server: 512 B-32 KiB, threads die", "costs", "server", "off", "pinpool", "")
    ratio_line("- with `PINPOOL_OFF=1`", "costs", "server", "off", "idle", "")
    if ("dumps" in arms) {
        dump_lines(blocks " blocks of 8 KiB", "8k")
        dump_lines(blocks / 2 " each of 8 and 64 KiB", "8k,64k")
    }
    added_line("loading: virtual", "load_virtual", "MiB", 1048576, 80)
    added_line("- resident", "load_resident", "KiB", 1024, 256)
    added_line("- without pages of libc's own file", "load_own", "KiB", 1024, 256)
    added_line("- private to the process", "load_private", "KiB", 1024, "")
    printf "\n%d rounds (of dumps 5 at most), order from seed %d. Ratio: median of those within a round; of dumps the\n", rounds, seed
    print "median (least-most); of loading what it adds. met? and missed?: the interval holds the goal."
    if (rounds < 6) print "Fewer than 6 rounds give no interval of 95 %: the ranges are what was seen."
    print_beside()
    print ""
    for (folder in busy) print folder ": " busy[folder]
}
