/* SPDX-License-Identifier: MIT */
/*
 * make_stats: writes a stats file as the library lays it out, with chosen figures, so that the reader is
 * tested against known answers and against files that are wrong in one way.
 *
 *   make_stats FILE [NAME=VALUE...]
 *
 * magic layout label_bytes counters_bytes counter_count active    fields of the label
 * pid heaps final                                 fields of the file
 * size                                            the file's size in bytes at the end
 * COUNTER or TIER.COUNTER                         a counter, by its name in counters.def
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/label.h"

static struct statsfile file;

static const char *const names[] = {
#define COUNTER(name, unit, sentence) #name,
#include "base/counters.def"
};

static const char *const tier_names[] = {
#define TIER_COUNTER(name, unit, sentence) #name,
#include "base/counters.def"
};

static void fail(const char *what)
{
    fprintf(stderr, "make_stats: %s\n", what);
    exit(1);
}

static void set_counter(const char *name, unsigned long long value)
{
    unsigned tier;
    char counter[64];
    if (sscanf(name, "%u.%63s", &tier, counter) == 2 && tier < TIERS_MAX) {
        for (unsigned i = 0; i < TIER_COUNTER_COUNT; i++)
            if (strcmp(tier_names[i], counter) == 0) {
                file.of_tier[tier][i] = value;
                return;
            }
    }
    for (unsigned i = 0; i < COUNTER_COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            file.of_heap[i] = value;
            return;
        }
    fail(name);
}

static void set(const char *name, const char *value, long *size)
{
    struct label *label = &file.label;
    const unsigned long long number = strtoull(value, NULL, 10);
    if (strcmp(name, "magic") == 0)
        snprintf(label->magic, sizeof label->magic, "%s", value);
    else if (strcmp(name, "layout") == 0)
        label->layout = (uint32_t)number;
    else if (strcmp(name, "label_bytes") == 0)
        label->label_bytes = (uint32_t)number;
    else if (strcmp(name, "counters_bytes") == 0)
        label->counters_bytes = (uint32_t)number;
    else if (strcmp(name, "counter_count") == 0)
        label->counter_count = (uint32_t)number;
    else if (strcmp(name, "active") == 0)
        label->active = (uint32_t)number;
    else if (strcmp(name, "pid") == 0)
        file.pid = (int32_t)number;
    else if (strcmp(name, "heaps") == 0)
        file.heaps = number;
    else if (strcmp(name, "final") == 0)
        file.is_final = (uint32_t)number;
    else if (strcmp(name, "size") == 0)
        *size = (long)number;
    else
        set_counter(name, number);
}

int main(int argc, char **argv)
{
    long size = -1;
    if (argc < 2)
        fail("which file?");
    file = (struct statsfile){.label = {.magic = LABEL_MAGIC,
                                        .layout = LABEL_LAYOUT,
                                        .label_bytes = sizeof(struct label),
                                        .counter_count = COUNTER_COUNT,
                                        .tier_counter_count = TIER_COUNTER_COUNT,
                                        .counters_bytes = sizeof(struct counters),
                                        .active = 1,
                                        .start_unix_ns = 1000000000,
                                        .block_bytes = {8192, 65536},
                                        .version = "9.8.7"},
                              .pid = 2147483646,
                              .is_final = 1,
                              .written_unix_ns = 3000000000,
                              .heaps = 1};
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals)
            fail(argv[i]);
        *equals = '\0';
        set(argv[i], equals + 1, &size);
    }
    FILE *to = fopen(argv[1], "w");
    if (!to || fwrite(&file, sizeof file, 1, to) != 1 || fclose(to) != 0)
        fail(argv[1]);
    if (size >= 0 && truncate(argv[1], size) != 0)
        fail(argv[1]);
    return 0;
}
