/* SPDX-License-Identifier: MIT */
/*
 * stats_file: with PINPOOL_STATS=1 the counters of this process can be read from its file, and say
 * exactly what it did; a forked child has a file of its own, which begins with what lives in it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/test.h"
#include "evidence/statsfile.h"

enum {
    SMALL_SLICES = 1000, /* of 2000 bytes: 16 granules of 128 */
    LARGE_SLICES = 10,   /* of 20000 bytes: 20 granules of 1024 */
    FREED_HERE = 500,
    FREED_ELSEWHERE = 3,
    PASSED_ON = 7,
};

static void *small_slices[SMALL_SLICES], *large_slices[LARGE_SLICES];

struct sums {
    uint64_t of_heap[COUNTER_COUNT];
    uint64_t of_tier[COUNTERS_TIERS_MAX][TIER_COUNTER_COUNT];
};

static const struct statsfile_header *map_stats(pid_t pid)
{
    char path[512];
    struct stat status;
    void *memory;
    int fd;

    snprintf(path, sizeof path, "%s/pinpool.%d.stats", test_dump_dir(), (int)pid);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        test_fail("# no file %s", path);
    REQUIRE(fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 07777) == 0600);
    memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(memory != MAP_FAILED && close(fd) == 0);
    return memory;
}

static void check_header(const struct statsfile_header *header, pid_t pid)
{
    REQUIRE(memcmp(header->magic, STATSFILE_MAGIC, sizeof header->magic) == 0);
    REQUIRE(header->layout == STATSFILE_LAYOUT && header->header_bytes == STATSFILE_HEADER_BYTES);
    REQUIRE(header->slot_bytes == sizeof(struct counters) && header->slot_count == STATSFILE_SLOT_COUNT);
    REQUIRE(header->counter_count == COUNTER_COUNT && header->tier_counter_count == TIER_COUNTER_COUNT);
    REQUIRE(header->pid == pid && header->active == 1);
    REQUIRE(header->block_bytes[0] == 8192 && header->block_bytes[1] == 65536 && header->block_bytes[2] == 0);
    REQUIRE(header->start_unix_ns > 0 && header->version[0] != '\0' && strcmp(header->policy, "bump") == 0);
    REQUIRE(header->heaps >= 1 && header->unlisted_heaps == 0);
}

static struct sums read_sums(const struct statsfile_header *header)
{
    const char *slots = (const char *)header + header->header_bytes;
    struct sums sums = {{0}, {{0}}};

    for (uint32_t i = 0; i < header->heaps; i++) {
        const struct counters *counters = (const void *)(slots + (size_t)i * header->slot_bytes);

        for (unsigned k = 0; k < COUNTER_COUNT; k++)
            sums.of_heap[k] += counters->of_heap[k];
        for (unsigned t = 0; t < COUNTERS_TIERS_MAX; t++)
            for (unsigned k = 0; k < TIER_COUNTER_COUNT; k++)
                sums.of_tier[t][k] += counters->of_tier[t][k];
    }
    return sums;
}

static void *free_some(void *argument)
{
    for (unsigned i = 0; i < FREED_ELSEWHERE; i++)
        free(large_slices[i]);
    return argument;
}

/* The calls between the two readings of the file. Nothing here may allocate besides. */
static void do_known_work(void)
{
    pthread_t thread;

    for (unsigned i = 0; i < SMALL_SLICES; i++)
        REQUIRE((small_slices[i] = malloc(2000)) != NULL);
    for (unsigned i = 0; i < LARGE_SLICES; i++)
        REQUIRE((large_slices[i] = malloc(20000)) != NULL);
    for (unsigned i = 0; i < FREED_HERE; i++)
        free(small_slices[i]);
    for (unsigned i = 0; i < PASSED_ON; i++)
        free(test_hide(malloc(100000)));
    REQUIRE(pthread_create(&thread, NULL, free_some, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

#define GREW_BY(field) (after.field - before.field)

static void check_known_work(const struct sums before, const struct sums after)
{
    REQUIRE(GREW_BY(of_tier[0][TIER_COUNTER_carved_slices]) == SMALL_SLICES);
    REQUIRE(GREW_BY(of_tier[0][TIER_COUNTER_carved_bytes]) == SMALL_SLICES * 16 * 128);
    REQUIRE(GREW_BY(of_tier[0][TIER_COUNTER_freed_local_slices]) == FREED_HERE);
    REQUIRE(GREW_BY(of_tier[0][TIER_COUNTER_freed_local_bytes]) == FREED_HERE * 16 * 128);
    REQUIRE(GREW_BY(of_tier[0][TIER_COUNTER_freed_remote_slices]) == 0);
    REQUIRE(GREW_BY(of_tier[1][TIER_COUNTER_carved_slices]) == LARGE_SLICES);
    REQUIRE(GREW_BY(of_tier[1][TIER_COUNTER_carved_bytes]) == LARGE_SLICES * 20 * 1024);
    REQUIRE(GREW_BY(of_tier[1][TIER_COUNTER_freed_remote_slices]) == FREED_ELSEWHERE);
    REQUIRE(GREW_BY(of_tier[1][TIER_COUNTER_freed_remote_bytes]) == FREED_ELSEWHERE * 20 * 1024);
    /* four slices of 2000 bytes fill a block, three of 20000: the last block of each is current */
    REQUIRE(GREW_BY(of_tier[0][TIER_COUNTER_retired_blocks]) == SMALL_SLICES / 4 - 1);
    REQUIRE(GREW_BY(of_tier[1][TIER_COUNTER_retired_blocks]) == (LARGE_SLICES + 2) / 3 - 1);
    REQUIRE(GREW_BY(of_heap[COUNTER_passed_large]) == PASSED_ON);
}

static uint64_t live_bytes(const struct sums *sums, unsigned tier)
{
    return sums->of_tier[tier][TIER_COUNTER_carved_bytes] -
           sums->of_tier[tier][TIER_COUNTER_freed_local_bytes] -
           sums->of_tier[tier][TIER_COUNTER_freed_remote_bytes];
}

static _Noreturn void child(const struct sums *parents)
{
    const struct statsfile_header *header = map_stats(getpid());
    struct sums sums;

    check_header(header, getpid());
    sums = read_sums(header);
    REQUIRE(live_bytes(&sums, 0) == live_bytes(parents, 0) && live_bytes(&sums, 1) == live_bytes(parents, 1));
    for (unsigned i = FREED_HERE; i < SMALL_SLICES; i++)
        free(small_slices[i]);
    REQUIRE(test_hide(malloc(30000)) != NULL);
    sums = read_sums(header);
    REQUIRE(live_bytes(&sums, 0) == live_bytes(parents, 0) - (SMALL_SLICES - FREED_HERE) * 16 * 128);
    REQUIRE(live_bytes(&sums, 1) == live_bytes(parents, 1) + 30 * 1024);
    _exit(0);
}

int main(void)
{
    const struct statsfile_header *header = map_stats(getpid());
    struct sums before, after, later;
    pid_t pid;

    check_header(header, getpid());
    free(test_hide(malloc(2000))); /* this thread's heap is there, and a block of each tier */
    free(test_hide(malloc(20000)));
    before = read_sums(header);
    do_known_work();
    after = read_sums(header);
    check_known_work(before, after);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child(&after);
    REQUIRE(test_wait_child(pid, 10000) == 0);
    later = read_sums(header); /* what the child did is not the parent's */
    REQUIRE(memcmp(&after, &later, sizeof after) == 0);
    return 0;
}
