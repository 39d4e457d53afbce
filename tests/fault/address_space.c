/* SPDX-License-Identifier: MIT */
/*
 * address_space: prints how many KiB of address space and of private writable memory the process
 * has before it allocated anything of medium size. The script compares two such runs.
 */
#include <stdlib.h>

#include "../support/test.h"

int main(void)
{
    free(test_hide(malloc(10)));
    test_print("%zu %zu", test_status_kib("VmSize:"), test_status_kib("VmData:"));
    return 0;
}
