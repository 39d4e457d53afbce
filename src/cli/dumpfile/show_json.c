/* SPDX-License-Identifier: MIT */
/* show_json: a dump as one JSON object, with the figures that follow from it; see report.h. */
#include "cli/dumpfile/show.h"

#include "cli/dumpfile/account.h"
#include "cli/kit/json.h"
#include "cli/kit/util.h"

/* What is derived from one tier's counts, or from all of them together. */
static void add_derived(struct json_object *json, const struct account *account)
{
    json_add_ratio(json, "retention_ratio", account->held_bytes, account->live_bytes);
    json_add_ratio(json, "mean_pinned_occupancy", account->pinned_live_bytes, account->pinned_bytes);
}

static struct json_object *tier_to_json(const struct dump_tier *tier)
{
    struct account account = {0};
    account_add_tier(&account, tier);
    struct json_object *json = record_to_json(&record_tier, tier);
    add_derived(json, &account);
    return json;
}

static struct json_object *total_to_json(const struct dump_file *file)
{
    const struct account total = account_of_file(file);
    struct json_object *json = json_object_new_object();
    json_add_u64(json, "current_blocks", total.current_blocks);
    json_add_u64(json, "pinned_blocks", total.pinned_blocks);
    json_add_u64(json, "empty_blocks", total.empty_blocks);
    json_add_u64(json, "released_blocks", total.released_blocks);
    json_add_u64(json, "live_slices", total.live_slices);
    json_add_u64(json, "live_bytes", total.live_bytes);
    json_add_u64(json, "cached_bytes", total.cached_bytes);
    json_add_u64(json, "pinned_live_bytes", total.pinned_live_bytes);
    json_add_u64(json, "sole_pinner_blocks", total.sole_pinner_blocks);
    json_add_u64(json, "stranded_bytes", total.stranded_bytes);
    if (total.stranded_resident_bytes != UINT64_MAX)
        json_add_u64(json, "stranded_resident_bytes", total.stranded_resident_bytes);
    json_add_u64(json, "held_bytes", total.held_bytes);
    add_derived(json, &total);
    return json;
}

static struct json_object *settings_to_json(const struct dump_file *file)
{
    struct json_object *json = json_object_new_object();
    for (size_t i = 0; i < file->setting_count; i++)
        json_object_object_add(json, file->settings[i].name, json_object_new_string(file->settings[i].value));
    return json;
}

/* Adds an array of all records of one kind. */
static void add_records(struct json_object *json, const char *name, const struct record_kind *kind,
                        const void *records, size_t count, size_t record_bytes)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        json_object_array_add(array, record_to_json(kind, (const char *)records + i * record_bytes));
    json_object_object_add(json, name, array);
}

void report_print_json(const struct dump_file *file)
{
    struct json_object *json = json_object_new_object();
    json_object_object_add(json, "file", json_object_new_string(file->path));
    json_object_object_add(json, "whole", json_object_new_boolean(!file->damage));
    json_object_object_add(json, "dump", record_to_json(&record_header, &file->header));
    json_object_object_add(json, "settings", settings_to_json(file));
    json_object_object_add(json, "memory", record_to_json(&record_memory, &file->memory));
    json_object_object_add(json, "total", total_to_json(file));
    struct json_object *tiers = json_object_new_array();
    for (size_t i = 0; i < file->tier_count; i++)
        json_object_array_add(tiers, tier_to_json(&file->tiers[i]));
    json_object_object_add(json, "tiers", tiers);
    add_records(json, "occupancy", &record_occupancy, file->occupancies, file->occupancy_count,
                sizeof *file->occupancies);
    add_records(json, "age", &record_age, file->ages, file->age_count, sizeof *file->ages);
    add_records(json, "blocks", &record_block, file->blocks, file->block_count, sizeof *file->blocks);
    add_records(json, "threads", &record_thread, file->threads, file->thread_count, sizeof *file->threads);
    add_records(json, "counters", &record_counter, file->counters, file->counter_count,
                sizeof *file->counters);
    CLEANUP_FREE char *verdict = account_verdict(file);
    json_object_object_add(json, "verdict", json_object_new_string(verdict));
    json_print_line(json);
    json_object_put(json);
}
