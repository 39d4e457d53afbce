# SPDX-License-Identifier: MIT
#
# results.awk: reads the result.json of any number of folders of `pinpool ab`, which has a field a line, for a
# table that another file, behind this one, prints at END. FOLDER is the last part of the folder's name.
#
#   median, least, most [FOLDER, ARM, METRIC]     of an arm by itself
#   change, low, high [FOLDER, ARM, METRIC]       against the baseline, in per cent; no low and high: too few
#                                                 rounds for an interval
#   arms[FOLDER]                                  their names, with blanks between
#   busy[FOLDER]                                  that other programs used the machine, where they did
BEGIN { FS = "\"" }

FNR == 1 {
    count = split(FILENAME, part, "/")
    folder = part[count - 1]
}

/^  "/ { section = $2 }

/^      "/ {
    field[$2] = NF > 3 ? $4 : substr($3, 2) + 0
    if ($3 ~ /null/) delete field[$2]
}

/^    \}/ && section == "arms" { arms[folder] = arms[folder] (folder in arms ? " " : "") field["name"] }

/^    \}/ && section == "summaries" {
    key = folder SUBSEP field["arm"] SUBSEP field["metric"]
    median[key] = field["median"]
    least[key] = field["min"]
    most[key] = field["max"]
}

/^    \}/ && section == "comparisons" && "paired_percent" in field {
    key = folder SUBSEP field["arm"] SUBSEP field["metric"]
    change[key] = field["paired_percent"]
    if ("paired_low95_percent" in field) {
        low[key] = field["paired_low95_percent"]
        high[key] = field["paired_high95_percent"]
    }
}

section == "warnings" && /Other programs/ { busy[folder] = $2 } # how many cores they used

/^    \{/ { split("", field) }
