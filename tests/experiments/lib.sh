# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# lib.sh: sourced by the tests of the experiments, after they set `about`. What tests/cli/support/tap.sh gives,
# and an environment in which the experiments find what was built.

# shellcheck source=tests/cli/support/tap.sh
source "$(dirname "${BASH_SOURCE[0]}")/../cli/support/tap.sh"

# shellcheck disable=SC2034 # for the tests that source this
experiments=$root/scripts/experiments
export PINPOOL_GNUPLOT='' PINPOOL_LIB=$library PINPOOL_TOOL BUILD_DIR

# need_node WHAT: sets node; without one, skips WHAT and ends the test.
need_node() {
    if ! node=$(command -v node) || ! "$node" -e 'process.exit(parseInt(process.versions.node, 10) < 18 ? 1 : 0)'; then
        tap_skip "$1" 'there is no Node of version 18 or later (apt-get install nodejs)'
        finish
    fi
}

# node_with SCRIPT NAME: a Node that loads SCRIPT before everything but the table.
node_with() {
    cat >"$scratch/$2" <<END
#!/bin/sh
case \$1 in
--v8-options | */table.js) exec "$node" "\$@" ;;
esac
exec "$node" --require "$1" "\$@"
END
    chmod +x "$scratch/$2"
}
