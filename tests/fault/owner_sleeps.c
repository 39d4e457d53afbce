/* SPDX-License-Identifier: MIT */
/*
 * owner_sleeps again|trim|trim-only|decay: a thread allocates 64 MiB and sleeps; another frees all of it.
 * That memory is not lost until the first one wakes up. The other thread can allocate as much again without
 * growth (again). It goes back to the kernel with malloc_trim (trim; trim-only: by a thread that never
 * allocated), or after the decay time as the other thread goes on allocating (decay; run with a short
 * PINPOOL_DECAY_MS).
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../support/test.h"

enum {
    SLICES = 16384,
    BYTES = 4096,
    SLACK_KIB = 12 << 10,
    PATIENCE_MS = 5000,
};

static void *slices[SLICES];
static const char *way;
static size_t before_kib, peak_kib;

static void take_all(void)
{
    for (unsigned i = 0; i < SLICES; i++) {
        REQUIRE((slices[i] = malloc(BYTES)) != NULL);
        test_fill(slices[i], BYTES, i);
    }
}

static void free_all(void)
{
    for (unsigned i = 0; i < SLICES; i++) {
        REQUIRE(test_is_filled(slices[i], BYTES, i));
        free(slices[i]);
    }
}

static void require_resident_kib_at_most(size_t limit_kib)
{
    size_t now_kib = test_status_kib("VmRSS:");

    if (now_kib > limit_kib)
        test_fail("# %zu KiB before, %zu with all slices, now %zu", before_kib, peak_kib, now_kib);
}

/* Enough to use up the current block: a slow path is where pages are given back. */
static void allocate_a_little(void)
{
    void *few[32];

    for (unsigned i = 0; i < 32; i++)
        REQUIRE((few[i] = malloc(BYTES)) != NULL);
    for (unsigned i = 0; i < 32; i++)
        free(few[i]);
}

static void wait_for_decay(void)
{
    uint64_t end_ms = test_now_ms() + PATIENCE_MS;

    while (test_status_kib("VmRSS:") > before_kib + SLACK_KIB && test_now_ms() < end_ms) {
        test_sleep_ms(5);
        allocate_a_little();
    }
    require_resident_kib_at_most(before_kib + SLACK_KIB);
}

static void *free_elsewhere(void *argument)
{
    (void)argument;
    free_all();
    if (strcmp(way, "trim") == 0)
        free(test_hide(malloc(BYTES)));
    if (strncmp(way, "trim", strlen("trim")) == 0) {
        (void)malloc_trim(0);
        require_resident_kib_at_most(before_kib + SLACK_KIB);
    } else if (strcmp(way, "decay") == 0) {
        wait_for_decay();
    }
    take_all();
    require_resident_kib_at_most(peak_kib + SLACK_KIB);
    free_all();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    REQUIRE(argc == 2);
    way = argv[1];
    before_kib = test_status_kib("VmRSS:");
    take_all();
    peak_kib = test_status_kib("VmRSS:");
    REQUIRE(peak_kib - before_kib >= (size_t)SLICES * BYTES / 1024);
    REQUIRE(pthread_create(&thread, NULL, free_elsewhere, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0); /* asleep */
    return 0;
}
