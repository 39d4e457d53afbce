/* SPDX-License-Identifier: MIT */
/*
 * make_stats: writes a stats file as the library lays it out, with chosen figures, so that the reader is
 * tested against known answers and against files that are wrong in one way.
 *
 *   make_stats FILE [NAME=VALUE...]
 *
 * magic layout slot_bytes slot_count counter_count pid heaps unlisted active   header fields
 * size                                            the file's size in bytes at the end
 * flap                                            1: prints "ready", then cuts and fills it again and again
 * SLOT.COUNTER or SLOT.TIER.COUNTER               a counter of a slot, by its name in counters.def
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "evidence/statsfile.h"

enum { SLOTS = 8 };

static struct {
    union {
        struct statsfile_header header;
        char page[STATSFILE_HEADER_BYTES];
    } top;
    struct counters slots[SLOTS];
} file;

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
    unsigned slot, tier;
    char counter[64];
    if (sscanf(name, "%u.%u.%63s", &slot, &tier, counter) == 3 && slot < SLOTS &&
        tier < STATSFILE_TIERS_MAX) {
        for (unsigned i = 0; i < TIER_COUNTER_COUNT; i++)
            if (strcmp(tier_names[i], counter) == 0) {
                file.slots[slot].of_tier[tier][i] = value;
                return;
            }
    } else if (sscanf(name, "%u.%63s", &slot, counter) == 2 && slot < SLOTS) {
        for (unsigned i = 0; i < COUNTER_COUNT; i++)
            if (strcmp(names[i], counter) == 0) {
                file.slots[slot].of_heap[i] = value;
                return;
            }
    }
    fail(name);
}

/* Till somebody ends it, or the alarm does. */
static void flap(const char *path)
{
    alarm(60);
    const int fd = open(path, O_RDWR);
    puts("ready");
    fflush(stdout);
    for (;;)
        if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, &file, sizeof file, 0) != (ssize_t)sizeof file)
            fail(path);
}

static void set(const char *name, const char *value, long *size)
{
    struct statsfile_header *header = &file.top.header;
    const unsigned long long number = strtoull(value, NULL, 10);
    if (strcmp(name, "magic") == 0)
        snprintf(header->magic, sizeof header->magic, "%s", value);
    else if (strcmp(name, "layout") == 0)
        header->layout = (uint32_t)number;
    else if (strcmp(name, "slot_bytes") == 0)
        header->slot_bytes = (uint32_t)number;
    else if (strcmp(name, "slot_count") == 0)
        header->slot_count = (uint32_t)number;
    else if (strcmp(name, "counter_count") == 0)
        header->counter_count = (uint32_t)number;
    else if (strcmp(name, "pid") == 0)
        header->pid = (int32_t)number;
    else if (strcmp(name, "heaps") == 0)
        header->heaps = (uint32_t)number;
    else if (strcmp(name, "unlisted") == 0)
        header->unlisted_heaps = (uint32_t)number;
    else if (strcmp(name, "active") == 0)
        header->active = (uint32_t)number;
    else if (strcmp(name, "size") == 0)
        *size = (long)number;
    else
        set_counter(name, number);
}

int main(int argc, char **argv)
{
    struct statsfile_header *header = &file.top.header;
    long size = -1;
    int flaps = 0;
    if (argc < 2)
        fail("which file?");
    memcpy(header->magic, STATSFILE_MAGIC, sizeof header->magic);
    header->layout = STATSFILE_LAYOUT;
    header->header_bytes = STATSFILE_HEADER_BYTES;
    header->slot_bytes = sizeof(struct counters);
    header->slot_count = SLOTS;
    header->counter_count = COUNTER_COUNT;
    header->tier_counter_count = TIER_COUNTER_COUNT;
    header->active = 1;
    header->start_unix_ns = 1000000000;
    header->block_bytes[0] = 8192;
    header->block_bytes[1] = 65536;
    header->heaps = 1;
    strcpy(header->version, "9.8.7");
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals)
            fail(argv[i]);
        *equals = '\0';
        if (strcmp(argv[i], "flap") == 0)
            flaps = 1;
        else
            set(argv[i], equals + 1, &size);
    }
    FILE *to = fopen(argv[1], "w");
    if (!to || fwrite(&file, sizeof file, 1, to) != 1 || fclose(to) != 0)
        fail(argv[1]);
    if (size >= 0 && truncate(argv[1], size) != 0)
        fail(argv[1]);
    if (flaps)
        flap(argv[1]);
    return 0;
}
