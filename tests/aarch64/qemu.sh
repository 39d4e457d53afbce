# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# qemu.sh: what the others here share about qemu; to be sourced.

# 702 for qemu 7.2.
qemu_release() {
    "${TEST_QEMU:-qemu-aarch64}" --version | sed -n 's/.* version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' |
        awk '{print $1 * 100 + $2}'
}
