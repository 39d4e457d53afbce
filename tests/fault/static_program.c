/* SPDX-License-Identifier: MIT */
/* static_program: linked statically, so that nothing can be preloaded into it. It does not notice. */
#include <stdlib.h>

#include "../support/test.h"

int main(void)
{
    void *slices[200];

    for (unsigned i = 0; i < 200; i++) {
        REQUIRE((slices[i] = malloc(100 + 200 * i)) != NULL);
        test_fill(slices[i], 100 + 200 * i, i);
    }
    for (unsigned i = 0; i < 200; i++) {
        REQUIRE(test_is_filled(slices[i], 100 + 200 * i, i));
        free(slices[i]);
    }
    return 0;
}
