/* SPDX-License-Identifier: MIT */
/*
 * jump_only: a preloaded library whose malloc and free do nothing but jump to glibc's. No interposer
 * can cost less, so scripts/bench shows it beside what we cost for requests that we pass on. Built with
 * -fno-plt, so that each function is one indirect jump.
 */
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void __libc_free(void *address);

void *malloc(size_t bytes)
{
    return __libc_malloc(bytes);
}

void free(void *address)
{
    __libc_free(address);
}
