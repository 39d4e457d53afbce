/* SPDX-License-Identifier: MIT */
/* show_text: a dump as tables that a person reads at a glance; see report.h. */
#include "cli/dumpfile/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/counters.h"
#include "base/options.h"
#include "cli/dumpfile/account.h"
#include "cli/kit/table.h"
#include "cli/kit/util.h"

/* ---- The head ---- */

/* A line of the head. Nothing for an empty text. */
static void print_fact(const char *name, const char *text)
{
    CLEANUP_FREE char *shown = text_printable(text);
    if (shown[0])
        printf("%-9s %s\n", name, shown);
}

static const char *format_time(char text[UTIL_TEXT_MAX], uint64_t unix_ns)
{
    const time_t seconds = (time_t)(unix_ns / NS_PER_S);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || strftime(text, UTIL_TEXT_MAX, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        snprintf(text, UTIL_TEXT_MAX, "?");
    return text;
}

static int option_of_name(const char *name)
{
    for (int id = 0; id < OPTION_COUNT; id++)
        if (strcmp(option_rows[id].name, name) == 0)
            return id;
    return -1;
}

/* Values are compared as parsed: 8192,64K is the default of PINPOOL_POOLS in other words. */
static bool is_default_setting(const struct dump_setting *setting)
{
    struct options options;
    char value[OPTIONS_TEXT_MAX], standard[OPTIONS_TEXT_MAX];
    const int id = option_of_name(setting->name);
    if (id < 0)
        return false;
    const bool is_worked_out = option_rows[id].default_text[0] == '\0';
    memset(&options, 0, sizeof options);
    if (options_parse(&options, (enum option_id)id, setting->value))
        return false;
    options_format_sigsafe(&options, (enum option_id)id, value);
    if (is_worked_out) /* PINPOOL_DIR: what it is where $TMPDIR is not set */
        return strcmp(value, "/tmp") == 0;
    options_parse(&options, (enum option_id)id, option_rows[id].default_text);
    options_format_sigsafe(&options, (enum option_id)id, standard);
    return strcmp(value, standard) == 0;
}

static void print_settings(const struct dump_file *file)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes); /* a dump may have any number of them */
    if (!stream)
        die("out of memory");
    for (size_t i = 0; i < file->setting_count; i++) {
        const struct dump_setting *setting = &file->settings[i];
        if (!is_default_setting(setting))
            fprintf(stream, "%s%s=%s", ftello(stream) ? " " : "", setting->name, setting->value);
    }
    if (fclose(stream) != 0)
        die("out of memory");
    print_fact("settings", bytes ? text : "all defaults");
    free(text);
}

static void print_head(const struct dump_file *file)
{
    const struct dump_header *header = &file->header;
    char when[UTIL_TEXT_MAX], uptime[UTIL_TEXT_MAX], page[UTIL_TEXT_MAX];
    CLEANUP_FREE char *program = must_format("%s (pid %" PRIu64 ")", header->exe, header->pid);
    CLEANUP_FREE char *dump = must_format("number %" PRIu64 " (%s), %s, %s after the start", header->seq,
                                          header->reason, format_time(when, header->time_unix_ns),
                                          format_ms(uptime, header->uptime_ns / NS_PER_MS));
    CLEANUP_FREE char *system = must_format("%s; transparent huge pages: %s; pages of %s", header->kernel,
                                            header->thp, format_size(page, header->page_bytes));
    print_fact("program", program);
    print_fact("dump", dump);
    print_fact("pinpool", header->version);
    print_settings(file);
    print_fact("next", header->next);
    print_fact("system", system);
}

/* ---- Blocks ---- */

static const struct table_column tier_columns[] = {
    {"block", TABLE_RIGHT},    {"requests", TABLE_RIGHT}, {"current", TABLE_RIGHT},
    {"pinned", TABLE_RIGHT},   {"empty", TABLE_RIGHT},    {"released", TABLE_RIGHT},
    {"live", TABLE_RIGHT},     {"held", TABLE_RIGHT},     {"held/live", TABLE_RIGHT},
    {"stranded", TABLE_RIGHT}, {"in RAM", TABLE_RIGHT},   {"pinned fill", TABLE_RIGHT},
};

static void add_resident(struct table *table, uint64_t bytes)
{
    if (bytes == UINT64_MAX)
        table_add(table, "-");
    else
        table_add_bytes(table, bytes);
}

static void add_account_row(struct table *table, const char *block, const char *requests,
                            const struct account *account)
{
    table_add(table, "%s", block);
    table_add(table, "%s", requests);
    table_add_count(table, account->current_blocks);
    table_add_count(table, account->pinned_blocks);
    table_add_count(table, account->empty_blocks);
    table_add_count(table, account->released_blocks);
    table_add_bytes(table, account->live_bytes);
    table_add_bytes(table, account->held_bytes);
    table_add_ratio(table, account->held_bytes, account->live_bytes);
    table_add_bytes(table, account->stranded_bytes);
    add_resident(table, account->stranded_resident_bytes);
    if (account->pinned_bytes)
        table_add(table, "%.1f %%", 100 * (double)account->pinned_live_bytes / (double)account->pinned_bytes);
    else
        table_add(table, "-");
}

static void print_tiers(const struct dump_file *file)
{
    struct table table = TABLE_OF(tier_columns);
    for (size_t i = 0; i < file->tier_count; i++) {
        const struct dump_tier *tier = &file->tiers[i];
        char block[UTIL_TEXT_MAX], min[UTIL_TEXT_MAX], max[UTIL_TEXT_MAX];
        CLEANUP_FREE char *requests = must_format("%s - %s", format_size(min, tier->min_request_bytes),
                                                  format_size(max, tier->max_request_bytes));
        struct account account = {0};
        account_add_tier(&account, tier);
        add_account_row(&table, format_size(block, tier->block_bytes), requests, &account);
    }
    const struct account total = account_of_file(file);
    if (file->tier_count > 1)
        add_account_row(&table, "all", "", &total);
    if (file->tier_count == 0)
        return;
    printf("\nBlocks\n");
    table_print(&table, stdout);
}

static void print_verdict(const struct dump_file *file)
{
    CLEANUP_FREE char *verdict = account_verdict(file);
    for (char *end = verdict; (end = strstr(end, ". ")) != NULL; end++)
        end[1] = '\n'; /* a sentence a line */
    printf("\n%s\n", verdict);
}

/* ---- Histograms ---- */

static void print_occupancies(const struct dump_file *file)
{
    static const struct table_column columns[] = {{"block", TABLE_RIGHT},
                                                  {"live slices", TABLE_RIGHT},
                                                  {"blocks", TABLE_RIGHT},
                                                  {"stranded", TABLE_RIGHT},
                                                  {"", TABLE_LEFT}};
    struct table table = TABLE_OF(columns);
    uint64_t largest = 0;
    for (size_t i = 0; i < file->occupancy_count; i++)
        if (file->occupancies[i].blocks > largest)
            largest = file->occupancies[i].blocks;
    if (largest == 0)
        return;
    for (size_t i = 0; i < file->occupancy_count; i++) {
        const struct dump_occupancy *occupancy = &file->occupancies[i];
        char block[UTIL_TEXT_MAX];
        if (occupancy->blocks == 0)
            continue;
        table_add(&table, "%s", format_size(block, occupancy->block_bytes));
        if (occupancy->from_slices == occupancy->to_slices)
            table_add_count(&table, occupancy->from_slices);
        else
            table_add(&table, "%" PRIu64 " - %" PRIu64, occupancy->from_slices, occupancy->to_slices);
        table_add_count(&table, occupancy->blocks);
        table_add_bytes(&table, occupancy->stranded_bytes);
        table_add_bar(&table, occupancy->blocks, largest);
    }
    printf("\nPinned blocks by what is live in them\n");
    table_print(&table, stdout);
}

static void add_age_range(struct table *table, const struct dump_age *age)
{
    char from[UTIL_TEXT_MAX], to[UTIL_TEXT_MAX];
    format_ms(from, age->from_ms);
    if (age->to_ms == UINT64_MAX)
        table_add(table, "%s or longer", from);
    else if (age->from_ms == 0)
        table_add(table, "under %s", format_ms(to, age->to_ms));
    else
        table_add(table, "%s - %s", from, format_ms(to, age->to_ms));
}

static void print_ages(const struct dump_file *file)
{
    static const struct table_column columns[] = {{"block", TABLE_RIGHT},
                                                  {"pinned for", TABLE_RIGHT},
                                                  {"blocks", TABLE_RIGHT},
                                                  {"stranded", TABLE_RIGHT},
                                                  {"", TABLE_LEFT}};
    struct table table = TABLE_OF(columns);
    uint64_t largest = 0;
    for (size_t i = 0; i < file->age_count; i++)
        if (file->ages[i].blocks > largest)
            largest = file->ages[i].blocks;
    if (largest == 0)
        return;
    for (size_t i = 0; i < file->age_count; i++) {
        const struct dump_age *age = &file->ages[i];
        char block[UTIL_TEXT_MAX];
        if (age->blocks == 0)
            continue;
        table_add(&table, "%s", format_size(block, age->block_bytes));
        add_age_range(&table, age);
        table_add_count(&table, age->blocks);
        table_add_bytes(&table, age->stranded_bytes);
        table_add_bar(&table, age->blocks, largest);
    }
    printf("\nPinned blocks by how long they have been\n");
    table_print(&table, stdout);
}

/* ---- The worst ---- */

static int more_first(uint64_t left, uint64_t right)
{
    return (left < right) - (left > right);
}

static int compare_blocks(const void *left, const void *right)
{
    const struct dump_block *a = left, *b = right;
    const int by_stranded = more_first(a->stranded_bytes, b->stranded_bytes);
    return by_stranded ? by_stranded : more_first(a->age_ms, b->age_ms);
}

static int compare_threads(const void *left, const void *right)
{
    const struct dump_thread *a = left, *b = right;
    const int by_stranded = more_first(a->stranded_bytes, b->stranded_bytes);
    return by_stranded ? by_stranded : more_first(a->held_bytes, b->held_bytes);
}

/*
 * "Worst blocks (10 of 957 pinned)". `all` is how many there were by the dump's own account. It has records
 * for the worst only; where it has no account, because it is cut, or a wrong one, what is in the file is
 * counted.
 */
static void print_list_heading(const char *heading, uint64_t shown, uint64_t in_file, uint64_t all,
                               const char *adjective)
{
    if (all < in_file) {
        all = in_file;
        adjective = " in the file";
    }
    if (shown < all)
        printf("\n%s (%" PRIu64 " of %" PRIu64 "%s)\n", heading, shown, all, adjective);
    else
        printf("\n%s (all %" PRIu64 "%s)\n", heading, shown, adjective);
}

static void print_blocks(struct dump_file *file, size_t limit)
{
    static const struct table_column columns[] = {{"address", TABLE_LEFT},     {"block", TABLE_RIGHT},
                                                  {"slices", TABLE_RIGHT},     {"live", TABLE_RIGHT},
                                                  {"stranded", TABLE_RIGHT},   {"in RAM", TABLE_RIGHT},
                                                  {"pinned for", TABLE_RIGHT}, {"heap", TABLE_RIGHT}};
    struct table table = TABLE_OF(columns);
    const size_t shown = file->block_count < limit ? file->block_count : limit;
    if (shown == 0)
        return;
    qsort(file->blocks, file->block_count, sizeof *file->blocks, compare_blocks);
    for (size_t i = 0; i < shown; i++) {
        const struct dump_block *block = &file->blocks[i];
        char text[UTIL_TEXT_MAX];
        table_add(&table, "0x%" PRIx64, block->address);
        table_add(&table, "%s", format_size(text, block->block_bytes));
        table_add_count(&table, block->live_slices);
        table_add_bytes(&table, block->live_bytes);
        table_add_bytes(&table, block->stranded_bytes);
        add_resident(&table, block->stranded_resident_bytes);
        table_add(&table, "%s", format_ms(text, block->age_ms));
        table_add_count(&table, block->heap);
    }
    print_list_heading("Worst blocks", shown, file->block_count, account_of_file(file).pinned_blocks,
                       " pinned");
    table_print(&table, stdout);
}

static void print_threads(struct dump_file *file, size_t limit)
{
    static const struct table_column columns[] = {{"heap", TABLE_RIGHT},    {"thread", TABLE_RIGHT},
                                                  {"state", TABLE_LEFT},    {"held", TABLE_RIGHT},
                                                  {"live", TABLE_RIGHT},    {"pinned blocks", TABLE_RIGHT},
                                                  {"stranded", TABLE_RIGHT}};
    struct table table = TABLE_OF(columns);
    const size_t shown = file->thread_count < limit ? file->thread_count : limit;
    if (shown == 0)
        return;
    qsort(file->threads, file->thread_count, sizeof *file->threads, compare_threads);
    for (size_t i = 0; i < shown; i++) {
        const struct dump_thread *thread = &file->threads[i];
        table_add_count(&table, thread->heap);
        table_add_count(&table, thread->tid);
        table_add(&table, "%s", thread->state);
        table_add_bytes(&table, thread->held_bytes);
        table_add_bytes(&table, thread->live_bytes);
        table_add_count(&table, thread->pinned_blocks);
        table_add_bytes(&table, thread->stranded_bytes);
    }
    print_list_heading("Threads by stranded bytes", shown, file->thread_count, file->memory.heaps, "");
    table_print(&table, stdout);
}

/* ---- The rest ---- */

static const char *sentence_of_counter(const struct dump_counter *counter)
{
    const struct counter_row *rows = counter->block_bytes ? tier_counter_rows : counter_rows;
    const size_t count = counter->block_bytes ? (size_t)TIER_COUNTER_COUNT : (size_t)COUNTER_COUNT;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, counter->name) == 0)
            return rows[i].sentence;
    return "";
}

static void print_counters(const struct dump_file *file, bool all)
{
    static const struct table_column columns[] = {{"block", TABLE_RIGHT},
                                                  {"counter", TABLE_LEFT},
                                                  {"value", TABLE_RIGHT},
                                                  {"unit", TABLE_LEFT},
                                                  {"", TABLE_LEFT}};
    struct table table = TABLE_OF(columns);
    for (size_t i = 0; i < file->counter_count; i++) {
        const struct dump_counter *counter = &file->counters[i];
        char block[UTIL_TEXT_MAX];
        if (!all && (counter->value == 0 || counter->block_bytes))
            continue;
        table_add(&table, "%s", counter->block_bytes ? format_size(block, counter->block_bytes) : "");
        table_add(&table, "%s", counter->name);
        table_add_count(&table, counter->value);
        table_add(&table, "%s", counter->unit);
        table_add(&table, "%s", sentence_of_counter(counter));
    }
    if (table.cell_count == 0)
        return;
    printf("\nSince the start\n");
    table_print(&table, stdout);
}

static void print_own_memory(const struct dump_memory *memory)
{
    char reserved[UTIL_TEXT_MAX], metadata[UTIL_TEXT_MAX];
    printf("\npinpool's own memory: %s for %" PRIu64
           " heap%s, beside %s of address space for blocks in %" PRIu64 " chunk%s\n",
           format_bytes(metadata, memory->metadata_bytes), memory->heaps, memory->heaps == 1 ? "" : "s",
           format_bytes(reserved, memory->reserved_bytes), memory->chunks, memory->chunks == 1 ? "" : "s");
}

static int compare_tiers(const void *left, const void *right)
{
    const struct dump_tier *a = left, *b = right;
    return more_first(b->block_bytes, a->block_bytes);
}

void report_print_text(struct dump_file *file, const struct report_limits *limits)
{
    if (file->tier_count)
        qsort(file->tiers, file->tier_count, sizeof *file->tiers, compare_tiers);
    print_head(file);
    print_tiers(file);
    print_verdict(file);
    print_occupancies(file);
    print_ages(file);
    print_blocks(file, limits->blocks);
    print_threads(file, limits->threads);
    print_counters(file, limits->all_counters);
    print_own_memory(&file->memory);
}
