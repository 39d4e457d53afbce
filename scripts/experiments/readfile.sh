# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by readfile, lock-waits and pool-sizes; sourced by them, never run. Their options, and
# the command that `pinpool ab` runs: read_files, with Node as the experiments of Node are to be run.

# shellcheck disable=SC2034 # the scripts use what this sets
# shellcheck source=scripts/experiments/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

seconds='' lead_in='' readers=8 file_sizes=()

readfile_usage() {
    cat <<'END'
  --seconds S    measured time of each reading process
  --lead-in S    time that it reads before that
  --readers N    how many read (8)
END
}

# readfile_option OPTION VALUE
readfile_option() {
    case $1 in
    --seconds) seconds=$2 && seconds_check "$1" "$2" ;;
    --lead-in) lead_in=$2 && seconds_check "$1" "$2" ;;
    --readers) readers=$2 && number_check "$1" "$2" ;;
    *) return 1 ;;
    esac
}

# Everything that can be missing is found before the first run. Sets node_command.
readfile_prepare() {
    [[ $(stat -f -c %T /dev/shm 2>/dev/null) == tmpfs ]] || die '/dev/shm is not a tmpfs: the files must not be on a disk'
    experiment_node 24.13.1
    experiment_node_command "$node"
}

# readfile_ab NAME KIND [OPTION...]: the comparison NAME with all arms, all sizes, and for each size the
# figures reads_BYTES and rss_kib_BYTES.
readfile_ab() {
    local name=$1 kind=$2 bytes metrics=()
    shift 2
    for bytes in "${file_sizes[@]}"; do
        metrics+=("--metric=reads_$bytes=\"bytes\":$bytes,.*\"reads_per_s\":([\\d.]+)"
            "--metric=rss_kib_$bytes=\"bytes\":$bytes,.*\"peak_rss_kib\":(\\d+):lower")
    done
    experiment_arms "$arms"
    experiment_ab "$name" "${metrics[@]}" "$@" -- \
        "$EXPERIMENTS_DIR/read_files" "$kind" "$readers" "$lead_in" "$seconds" "$(IFS=, && echo "${file_sizes[*]}")" "${node_command[@]}"
}
