/* SPDX-License-Identifier: MIT */
/*
 * stats_file: the counters of this process can be read by the addresses in its sealed page, and say exactly
 * what it did; a forked child's are its own, and begin with what lives in it. With PINPOOL_STATS=1 there is a
 * file while a program runs; with PINPOOL_STATS=keep it stays and says what was done, a forked child's too.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/test.h"
#include "base/label.h"

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
    uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT];
};

/* Where the sealed page is mapped: what a reader from outside finds in /proc/PID/maps. */
static const struct label *find_label(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start = 0;
    char line[512];

    REQUIRE(maps != NULL);
    while (start == 0 && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "/memfd:" LABEL_NAME) != NULL)
            REQUIRE(sscanf(line, "%lx-", &start) == 1 && strstr(line, " r--p ") != NULL);
    REQUIRE(fclose(maps) == 0);
    if (start == 0)
        test_fail("# no sealed page");
    return (const struct label *)start;
}

static void check_label(const struct label *label)
{
    REQUIRE(memcmp(label->magic, LABEL_MAGIC, sizeof label->magic) == 0);
    REQUIRE(label->layout == LABEL_LAYOUT && label->label_bytes == sizeof *label);
    REQUIRE(label->counters_bytes == sizeof(struct counters));
    REQUIRE(label->counter_count == COUNTER_COUNT && label->tier_counter_count == TIER_COUNTER_COUNT);
    REQUIRE(label->active == 1);
    REQUIRE(label->block_bytes[0] == 8192 && label->block_bytes[1] == 65536 && label->block_bytes[2] == 0);
    REQUIRE(label->start_unix_ns > 0 && label->version[0] != '\0' && strcmp(label->policy, "bump") == 0);
}

/* False when there is none. */
static bool read_file(pid_t pid, struct statsfile *file)
{
    char path[512];
    struct stat status;
    int fd;

    snprintf(path, sizeof path, "%s/pinpool.%d.stats", test_dump_dir(), (int)pid);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    REQUIRE(fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 07777) == 0600);
    REQUIRE(read(fd, file, sizeof *file) == sizeof *file && close(fd) == 0);
    check_label(&file->label);
    REQUIRE(file->pid == pid);
    return true;
}

static void add_counters(struct sums *sums, uint64_t address)
{
    const struct counters *counters = (const void *)address;

    for (unsigned k = 0; k < COUNTER_COUNT; k++)
        sums->of_heap[k] += counters->of_heap[k];
    for (unsigned t = 0; t < TIERS_MAX; t++)
        for (unsigned k = 0; k < TIER_COUNTER_COUNT; k++)
            sums->of_tier[t][k] += counters->of_tier[t][k];
}

static uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)address;
}

/* As a reader from outside walks them, by the addresses in the label alone. */
static struct sums read_sums(const struct label *label)
{
    struct sums sums = {{0}, {{0}}};

    add_counters(&sums, label->shared_at);
    for (uint64_t heap = word_at(label->heaps_at); heap != 0; heap = word_at(heap + label->heap_next))
        add_counters(&sums, word_at(heap + label->heap_counters));
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

/* What it does is in its own counters, which begin as its parent's: live slices are inherited, too. */
static _Noreturn void child(const struct label *label, const struct sums *parents)
{
    struct sums sums = read_sums(label);
    struct statsfile file;

    REQUIRE(!read_file(getpid(), &file));
    REQUIRE(live_bytes(&sums, 0) == live_bytes(parents, 0) && live_bytes(&sums, 1) == live_bytes(parents, 1));
    for (unsigned i = FREED_HERE; i < SMALL_SLICES; i++)
        free(small_slices[i]);
    REQUIRE(test_hide(malloc(30000)) != NULL);
    sums = read_sums(label);
    REQUIRE(live_bytes(&sums, 0) == live_bytes(parents, 0) - (SMALL_SLICES - FREED_HERE) * 16 * 128);
    REQUIRE(live_bytes(&sums, 1) == live_bytes(parents, 1) + 30 * 1024);
    exit(0);
}

/* A program that counts and ends: run by the first one, to see what it leaves. */
static int be_the_second(void)
{
    for (unsigned i = 0; i < SMALL_SLICES; i++)
        REQUIRE((small_slices[i] = malloc(2000)) != NULL);
    return 0;
}

static void run_the_second(bool is_kept)
{
    struct statsfile file;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "stats_file", "second", (char *)NULL);
        _exit(127);
    }
    REQUIRE(test_wait_child(pid, 10000) == 0);
    REQUIRE(read_file(pid, &file) == is_kept);
    if (!is_kept)
        return;
    REQUIRE(file.is_final == 1 && file.written_unix_ns >= file.label.start_unix_ns && file.heaps == 1);
    REQUIRE(file.of_tier[0][TIER_COUNTER_carved_slices] >= SMALL_SLICES);
}

int main(int argc, char **argv)
{
    const char *setting = getenv("PINPOOL_STATS");
    bool is_kept = setting != NULL && strcmp(setting, "keep") == 0;
    const struct label *label = find_label();
    struct sums before, after, later;
    struct statsfile file;
    pid_t pid;

    (void)argv;
    if (argc > 1)
        return be_the_second();
    check_label(label);
    REQUIRE(read_file(getpid(), &file) == (setting != NULL));
    REQUIRE(setting == NULL || file.is_final == 0);
    free(test_hide(malloc(2000))); /* this thread's heap is there, and a block of each tier */
    free(test_hide(malloc(20000)));
    before = read_sums(label);
    do_known_work();
    after = read_sums(label);
    check_known_work(before, after);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child(label, &after);
    REQUIRE(test_wait_child(pid, 10000) == 0);
    later = read_sums(label); /* what the child did is not the parent's */
    REQUIRE(memcmp(&after, &later, sizeof after) == 0);
    REQUIRE(read_file(pid, &file) == is_kept);
    run_the_second(is_kept);
    return 0;
}
