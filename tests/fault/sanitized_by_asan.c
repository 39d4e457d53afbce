/* SPDX-License-Identifier: MIT */
/*
 * sanitized_by_asan [fault]: built with AddressSanitizer, which must go on seeing every allocation. With
 * `fault` it reads memory of a medium size that it has freed: the sanitizer must report that.
 */
#include <stdlib.h>
#include <string.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    volatile char *slice = NULL;

    for (unsigned i = 0; i < 1000; i++)
        free(test_hide(malloc(1000 + 40 * i)));
    if (argc == 2 && strcmp(argv[1], "fault") == 0) {
        REQUIRE((slice = test_hide(malloc(3000))) != NULL);
        slice[100] = 'x';
        free((void *)(uintptr_t)slice);
        return slice[100];
    }
    return 0;
}
