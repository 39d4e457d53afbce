/* SPDX-License-Identifier: MIT */
/* mallinfo_answers: both forms of mallinfo() count what the pool holds, and agree. */
#include <malloc.h>
#include <stdlib.h>

#include "../support/test.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* the old form is what is tried */

enum { SLICES = 1000, BYTES = 4096 };

int main(void)
{
    static void *slices[SLICES];
    struct mallinfo2 before = mallinfo2(), after;
    struct mallinfo old_before = mallinfo(), old_after;

    for (unsigned i = 0; i < SLICES; i++)
        REQUIRE((slices[i] = malloc(BYTES)) != NULL);
    after = mallinfo2();
    old_after = mallinfo();
    REQUIRE(after.uordblks - before.uordblks >= (size_t)SLICES * BYTES);
    REQUIRE(old_after.uordblks - old_before.uordblks >= SLICES * BYTES);
    REQUIRE((size_t)old_after.uordblks == after.uordblks && (size_t)old_after.arena == after.arena);
    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    REQUIRE(mallinfo2().uordblks < after.uordblks && mallinfo().uordblks < old_after.uordblks);
    return 0;
}
