/* SPDX-License-Identifier: MIT */
/*
 * locked_memory_grows_slowly: under mlockall(MCL_FUTURE) the kernel fills what is mapped at once, which takes
 * a millisecond for 4 MiB. No call maps much more than that, however much is held already.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "../support/test.h"

enum { BYTES = 30000, FIRST_MIB = 300, THEN_MIB = 150, STEP_KIB_MAX = 9 << 10 };

static void allocate(size_t mib, bool is_locked)
{
    size_t before_kib = is_locked ? test_status_kib("VmLck:") : 0;

    for (size_t i = 0; i < (mib << 20) / BYTES; i++) {
        REQUIRE(test_hide(malloc(BYTES)) != NULL);
        if (is_locked && i % 32 == 0) {
            size_t now_kib = test_status_kib("VmLck:");

            if (now_kib > before_kib + STEP_KIB_MAX)
                test_fail("# %zu MiB were locked at once", (now_kib - before_kib) >> 10);
            before_kib = now_kib;
        }
    }
}

int main(void)
{
    allocate(FIRST_MIB, false);
    if (mlockall(MCL_FUTURE) != 0)
        return 77;
    allocate(THEN_MIB, true);
    return 0;
}
