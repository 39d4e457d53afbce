/* SPDX-License-Identifier: MIT */
/*
 * empty_blocks_go_back: after a peak the memory of empty blocks returns to the kernel, when the
 * decay time is over and the program goes on allocating. Run with a short PINPOOL_DECAY_MS.
 */
#include <stdlib.h>

#include "../support/test.h"

enum { SLICES = 32768, BYTES = 4096, LEFT_KIB_MAX = 24 << 10, PATIENCE_MS = 5000 };

/* Enough to use up the current block: a slow path is where pages are given back. */
static void allocate_a_little(void)
{
    void *slices[32];

    for (unsigned i = 0; i < 32; i++)
        REQUIRE((slices[i] = malloc(BYTES)) != NULL);
    for (unsigned i = 0; i < 32; i++)
        free(slices[i]);
}

int main(void)
{
    static void *slices[SLICES];
    size_t before_kib = test_status_kib("VmRSS:"), peak_kib;
    uint64_t end_ms;

    for (unsigned i = 0; i < SLICES; i++) {
        REQUIRE((slices[i] = malloc(BYTES)) != NULL);
        test_fill(slices[i], BYTES, i);
    }
    peak_kib = test_status_kib("VmRSS:");
    REQUIRE(peak_kib - before_kib >= (size_t)SLICES * BYTES / 1024);
    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    end_ms = test_now_ms() + PATIENCE_MS;
    while (test_status_kib("VmRSS:") > before_kib + LEFT_KIB_MAX) {
        if (test_now_ms() > end_ms)
            test_fail("# %zu KiB before, %zu at the peak, %zu long after it", before_kib, peak_kib,
                      test_status_kib("VmRSS:"));
        test_sleep_ms(5);
        allocate_a_little();
    }
    return 0;
}
