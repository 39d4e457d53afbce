/* SPDX-License-Identifier: MIT */
/* allocator_libc: the C library's family, or whatever is preloaded over it. See allocator.h. */
#include <malloc.h>
#include <stdlib.h>

#include "allocator.h"

const struct allocator allocator = {
    .name = "the C library's",
    .malloc = malloc,
    .calloc = calloc,
    .realloc = realloc,
    .free = free,
    .aligned_alloc = aligned_alloc,
    .posix_memalign = posix_memalign,
    .usable_size = malloc_usable_size,
};
