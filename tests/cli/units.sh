#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
set -euo pipefail
about='Tests the small functions of the tool; see support/units.c.'
# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "$0")/support/tap.sh"

build units "$root/src/cli/kit/util.c" "$root/src/cli/system/procfs.c"
"$scratch/units"
