#!/bin/bash
# SPDX-License-Identifier: MIT
#
# git: a repository generated on the spot is cloned over the pack protocol, changed, repacked by
# several threads and checked. Most of it happens in child processes that git starts itself.

# shellcheck source=tests/program/lib.sh
source "$(dirname "$0")/lib.sh"

program_begin git 'git clone, commit, gc and fsck of a repository generated on the spot.' "$@"
program_needs git

COMMITS=30
[ "$LONG" = 0 ] || COMMITS=200

export HOME=$PROGRAM_WORK GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=author GIT_AUTHOR_EMAIL=author@example.org GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=author GIT_COMMITTER_EMAIL=author@example.org GIT_COMMITTER_DATE='1700000000 +0000'

# A fast-import stream: files from 100 bytes to 80,000 that change a little from commit to commit.
write_history() {
    awk -v commits="$COMMITS" 'BEGIN {
        for (c = 1; c <= commits; c++) {
            print "commit refs/heads/main\ncommitter author <author@example.org> " 1600000000 + c * 60 " +0000"
            message = "commit " c
            print "data " length(message) "\n" message
            for (f = c % 5; f < 40; f += 5) {
                lines = 3 + f * f * 50 / 40
                body = ""
                for (l = 0; l < lines; l++)
                    body = body "line " l " of file " f ((l * 7 + c) % 50 ? "" : ", changed by commit " c) ", " l * 7919 % 10007 "\n"
                print "M 100644 inline folder" f % 7 "/file" f ".txt\ndata " length(body) "\n" body
            }
        }
    }'
}

# Pack files may differ from run to run, since threads divide the work by time: what is compared is
# what they hold.
session() {
    write_history >history
    git init -q --bare -b main origin.git
    git -C origin.git fast-import --quiet <history
    step clone 60 git clone -q --no-local "file://$ARM_DIR/origin.git" copy
    step log 60 git -C copy log --stat -p -M --format='%H %an %at %s'
    md5sum log.out
    step blame 60 git -C copy blame -s folder4/file39.txt
    md5sum blame.out
    step grep 60 git -C copy grep -c --threads 2 'line [0-9]*1 of file'
    sort grep.out | md5sum
    step branch 60 git -C copy checkout -q -b topic HEAD~20
    seq 1 9000 >copy/folder1/file1.txt
    step commit 60 git -C copy commit -q -a -m 'a change on a branch'
    step rebase 60 git -C copy -c rebase.backend=merge rebase -q main
    step archive 60 git -C copy archive --format=tar.gz HEAD
    gzip -dc archive.out | md5sum
    step gc 60 git -C copy -c pack.threads=2 -c gc.auto=0 gc --quiet --aggressive --prune=now
    step fsck 60 git -C copy fsck --full --strict --no-progress
    cat fsck.out
    step push 60 git -C copy push -q origin topic
    step verify 60 git -C origin.git fsck --full --strict --no-progress
    git -C copy rev-parse HEAD main topic
    git -C origin.git rev-list --objects --all | sort | md5sum
    git -C copy status --short
    local name
    for name in clone log blame grep rebase gc fsck push; do
        prove "$name"
    done
}

program_matrix session
