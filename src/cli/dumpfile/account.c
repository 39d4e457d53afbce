/* SPDX-License-Identifier: MIT */
/* account: see account.h. */
#include "cli/dumpfile/account.h"

#include <inttypes.h>
#include <string.h>

#include "cli/kit/util.h"

enum { LONG_PINNED_MS = 60000 };

void account_add_tier(struct account *account, const struct dump_tier *tier)
{
    account->current_blocks += tier->current_blocks;
    account->pinned_blocks += tier->pinned_blocks;
    account->empty_blocks += tier->empty_blocks;
    account->released_blocks += tier->released_blocks;
    account->live_slices += tier->live_slices;
    account->sole_pinner_blocks += tier->sole_pinner_blocks;
    account->live_bytes += tier->live_bytes;
    account->cached_bytes += tier->cached_bytes;
    account->held_bytes += tier->held_bytes;
    account->pinned_bytes += tier->pinned_blocks * tier->block_bytes;
    account->pinned_live_bytes += tier->pinned_live_bytes;
    account->stranded_bytes += tier->stranded_bytes;
    if (tier->stranded_resident_bytes == UINT64_MAX || account->stranded_resident_bytes == UINT64_MAX)
        account->stranded_resident_bytes = UINT64_MAX;
    else
        account->stranded_resident_bytes += tier->stranded_resident_bytes;
}

struct account account_of_file(const struct dump_file *file)
{
    struct account account = {0};
    for (size_t i = 0; i < file->tier_count; i++)
        account_add_tier(&account, &file->tiers[i]);
    return account;
}

uint64_t account_stranded_since(const struct dump_file *file, uint64_t age_ms)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < file->age_count; i++)
        if (file->ages[i].from_ms >= age_ms)
            bytes += file->ages[i].stranded_bytes;
    return bytes;
}

static bool is_off(const struct dump_file *file)
{
    for (size_t i = 0; i < file->setting_count; i++)
        if (strcmp(file->settings[i].name, "PINPOOL_OFF") == 0)
            return strcmp(file->settings[i].value, "1") == 0;
    return false;
}

/* "of which 640 are held by one slice" */
static char *say_sole_pinners(const struct account *total)
{
    if (total->sole_pinner_blocks == 0)
        return must_copy_text("each held by several slices");
    if (total->pinned_blocks == 1)
        return must_copy_text("held by one slice");
    if (total->sole_pinner_blocks == total->pinned_blocks)
        return must_copy_text("each held by one slice");
    return must_format("of which %" PRIu64 " %s held by one slice", total->sole_pinner_blocks,
                       total->sole_pinner_blocks == 1 ? "is" : "are");
}

/* " Stranded in them: 49.0 MiB, 41.2 MiB of it in RAM, 30.0 MiB for a minute or longer." */
static char *say_stranded(const struct dump_file *file, const struct account *total)
{
    char stranded[UTIL_TEXT_MAX], resident[UTIL_TEXT_MAX], old[UTIL_TEXT_MAX];
    if (total->stranded_bytes == 0)
        return must_copy_text("");
    const uint64_t old_bytes = account_stranded_since(file, LONG_PINNED_MS);
    CLEANUP_FREE char *age = old_bytes
                                 ? must_format(", %s for a minute or longer", format_bytes(old, old_bytes))
                                 : must_copy_text("");
    format_bytes(stranded, total->stranded_bytes);
    if (total->stranded_resident_bytes == UINT64_MAX)
        return must_format(
            " Stranded in them: %s%s (what of it is in RAM was left out: the process runs under a "
            "system call filter).",
            stranded, age);
    return must_format(" Stranded in them: %s, %s of it in RAM%s.", stranded,
                       format_bytes(resident, total->stranded_resident_bytes), age);
}

/* Where there are several tiers and one of them is most of it. */
static char *say_worst_tier(const struct dump_file *file, const struct account *total)
{
    char block[UTIL_TEXT_MAX];
    for (size_t i = 0; i < file->tier_count && file->tier_count > 1; i++) {
        const struct dump_tier *tier = &file->tiers[i];
        const double part = (double)tier->stranded_bytes / (double)total->stranded_bytes;
        if (total->stranded_bytes && part >= 0.75)
            return must_format(" %.0f %% of that is in blocks of %s.", 100 * part,
                               format_size(block, tier->block_bytes));
    }
    return must_copy_text("");
}

char *account_verdict(const struct dump_file *file)
{
    char live[UTIL_TEXT_MAX], held[UTIL_TEXT_MAX];
    const struct account total = account_of_file(file);
    format_bytes(live, total.live_bytes);
    format_bytes(held, total.held_bytes);
    if (file->tier_count == 0 && !is_off(file))
        return must_copy_text("The dump has no account of blocks.");
    if (is_off(file))
        return must_copy_text("PINPOOL_OFF=1: every request was passed on to the next allocator.");
    if (total.pinned_blocks == 0)
        return must_format("Nothing is pinned: %s live in %s.", live, held);
    CLEANUP_FREE char *sole = say_sole_pinners(&total);
    CLEANUP_FREE char *stranded = say_stranded(file, &total);
    CLEANUP_FREE char *worst = say_worst_tier(file, &total);
    return must_format("%s live keep %s: %" PRIu64 " pinned block%s, %s.%s%s", live, held,
                       total.pinned_blocks, total.pinned_blocks == 1 ? "" : "s", sole, stranded, worst);
}
