#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# small: the part of the models' searches that is done in seconds; tests/model/run does all.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../support/tap.sh
. "$(dirname "$0")/../support/tap.sh"
# shellcheck source-path=SCRIPTDIR source=search.sh
. "$(dirname "$0")/search.sh"

small='no interleaving of two frees and one allocation loses a free or hands a slice out twice'
twice='two frees of one slice at the same time do not hand it out twice'
mistakes=(STATE_BEFORE_OR FREE_BEFORE_LISTED LINK_AFTER_LISTED)

if ! command -v spin >/dev/null; then
    for sentence in "$small" "$twice"; do
        tap_skip "$sentence" 'needs spin'
    done
    tap_done
    exit
fi

model_options='-O1 -DMEMLIM=400' model_limits='-w20 -m200000'
model_holds "$small" free_and_look -DWORKERS=1 -DSMALL
model_options='-O0 -DMEMLIM=400'
model_holds "$twice" double_free
for mistake in "${mistakes[@]}"; do
    model_fails "the search finds the mistake $mistake" free_and_look -DWORKERS=1 -DSMALL "-D$mistake"
done
tap_done
