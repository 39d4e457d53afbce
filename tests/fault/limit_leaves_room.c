/* SPDX-License-Identifier: MIT */
/*
 * limit_leaves_room PIECES_MIB LARGE_MIB: memory taken in pieces of 4 KiB uses up about as much address space
 * as the pieces have bytes: one large request still finds what must be left of a limit the script has set.
 */
#include <stdlib.h>

#include "../support/test.h"

enum { PIECE_BYTES = 4096, PIECES_MAX = 1 << 16 };

int main(int argc, char **argv)
{
    static void *pieces[PIECES_MAX];
    size_t count = (test_argument(argc, argv, 1, 70) << 20) / PIECE_BYTES;
    size_t large_bytes = test_argument(argc, argv, 2, 80) << 20;
    void *large;

    REQUIRE(count <= PIECES_MAX);
    for (size_t i = 0; i < count; i++) {
        REQUIRE((pieces[i] = malloc(PIECE_BYTES)) != NULL);
        test_fill(pieces[i], 64, i);
    }
    large = malloc(large_bytes);
    if (large == NULL)
        test_fail("# no %zu KiB left: VmSize is %zu KiB", large_bytes >> 10, test_status_kib("VmSize:"));
    test_fill(large, 1 << 20, 1);
    free(large);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(test_is_filled(pieces[i], 64, i));
        free(pieces[i]);
    }
    return 0;
}
