# SPDX-License-Identifier: MIT
"""Reads the JUnit files of `python3 -m test --junit-xml` and prints one line a test: its id, what
became of it (ok, skipped, failed or crashed), and how many seconds it took, separated by tabs.

A failure whose text speaks of a death by signal or of the allocator is called crashed: such a one
must never be waved through by trying again, as a failure of timing may be.

Usage: junit_results.py FILE...        (files that do not exist are passed over)
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

CRASH = re.compile(r"SIG(SEGV|ABRT|BUS|ILL)|Segmentation fault|Fatal Python error|Aborted|"
                   r"(returncode|exitcode|code|status) *(is|=|==)? *-(6|7|11)\b|-(6|7|11) != 0|"
                   r"pinpool:|ld\.so|free\(\)|malloc\(\)|corrupted|double free")
WORSE = ["skipped", "ok", "failed", "crashed"]


def outcome(case):
    """What one testcase element says."""
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        text = " ".join(" ".join(child.itertext()) + " ".join(child.attrib.values()) for child in case)
        return "crashed" if CRASH.search(text) else "failed"
    return "skipped" if "skipped" in kinds else "ok"


def main():
    became, seconds = {}, {}
    for path in sys.argv[1:]:
        if not os.path.exists(path):
            continue
        for case in ElementTree.parse(path).iter("testcase"):
            name = case.get("name")
            became[name] = max(became.get(name, "skipped"), outcome(case), key=WORSE.index)
            seconds[name] = seconds.get(name, 0.0) + float(case.get("time", 0))
    for name in sorted(became):
        print(f"{name}\t{became[name]}\t{seconds[name]:.3f}")


main()
