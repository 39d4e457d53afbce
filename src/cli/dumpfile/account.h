/* SPDX-License-Identifier: MIT */
/* account: figures that follow from a dump's tiers, for whoever shows or compares them. */
#ifndef PINPOOL_CLI_DUMPFILE_ACCOUNT_H
#define PINPOOL_CLI_DUMPFILE_ACCOUNT_H

#include "cli/dumpfile/reader.h"

/* Of one tier, or summed over tiers. */
struct account {
    uint64_t current_blocks, pinned_blocks, empty_blocks, released_blocks;
    uint64_t live_slices, sole_pinner_blocks;
    uint64_t live_bytes, cached_bytes, held_bytes;
    uint64_t pinned_bytes;      /* the pinned blocks' sizes */
    uint64_t pinned_live_bytes; /* what is live in them */
    uint64_t stranded_bytes;
    uint64_t stranded_resident_bytes; /* UINT64_MAX: not known */
};

void account_add_tier(struct account *account, const struct dump_tier *tier);
struct account account_of_file(const struct dump_file *file);

/* Stranded bytes in blocks that have been pinned for `age_ms` or longer, as far as the histogram can say. */
uint64_t account_stranded_since(const struct dump_file *file, uint64_t age_ms);

/*
 * What a person should know first, in one to three sentences, without a newline; to be freed.
 * "3.1 MiB live keep 52.4 MiB: 812 pinned blocks, of which 640 are held by one slice."
 */
char *account_verdict(const struct dump_file *file);

#endif
