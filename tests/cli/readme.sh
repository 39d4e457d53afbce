#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# readme: README.md says of the variables what the tool says.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/tap.sh
. "$(dirname "$0")/../support/tap.sh"

tap_is "README.md has the table of variables that the tool prints" '' \
    "$(PINPOOL_TOOL=$tool "$repository/scripts/readme-tables" --check)"
tap_done
