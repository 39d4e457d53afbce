# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by mixed-lifetimes and proxy; sourced by them, never run. Their arms, which are about the pool that
# Node itself carves small buffers from, and the two versions of Node that they compare it in.

# shellcheck disable=SC2034 # the scripts use what this sets
# shellcheck source=scripts/experiments/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

OLD_VERSION=24.13.1 # its pool has 8 KiB
NEW_VERSION=24.21.0 # its pool has 64 KiB
js_arms=() new_node='' # node_pool_prepare sets them

node_pool_usage() {
    cat <<END

Arms of its own, without preload: js8k and js64k set Buffer.poolSize to 8192 and 65536. In all the other arms
Buffer.poolSize is 0, so every buffer is an allocation of its own: off (glibc), 8k, 64k ... (pinpool does what
the pool inside Node did), jemalloc and so on. Node $NEW_VERSION runs those of the arms that are named js.

END
}

# node_pool_spec ARM: node_pool.js in the measured program sets Buffer.poolSize to BUFFER_POOL_SIZE. js8k is
# that size without preload; every other arm has no pool in Node, so that each buffer reaches malloc.
node_pool_spec() {
    local spec
    case $1 in
    js*)
        spec=$(size_to_bytes "${1#js}") || usage_error "--arms: $1 is not js and a size, such as js8k"
        echo "off+env:BUFFER_POOL_SIZE=$spec"
        ;;
    *)
        spec=$(experiment_spec "$1") || exit $?
        echo "$spec+env:BUFFER_POOL_SIZE=0"
        ;;
    esac
}

# node_pool_arms ARM...: sets arm_options for `pinpool ab`.
node_pool_arms() {
    local arm spec
    arm_options=()
    for arm; do
        spec=$(node_pool_spec "$arm")
        arm_options+=("--arm=$arm=$spec")
    done
}

# node_pool_prepare [new]: all that can be missing or wrong is found before the first run. Sets node, js_arms,
# and with `new` new_node; that stays empty where --node said which Node, or where there are not two arms to
# compare in it.
node_pool_prepare() {
    local arm given=$node
    # shellcheck disable=SC2086 # a list with blanks
    node_pool_arms $arms
    for arm in $arms; do
        [[ $arm != js* ]] || js_arms+=("$arm")
    done
    experiment_node "$OLD_VERSION"
    if [[ ${1-} == new && -z $given ]] && ((${#js_arms[@]} > 1)); then
        new_node=$("$ROOT_DIR/scripts/fetch-node" "$NEW_VERSION")
    fi
}
