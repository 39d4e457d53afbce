/* SPDX-License-Identifier: MIT */
/*
 * first_and_last_calls: whatever a thread's first call of the family is, and whatever it calls when
 * it has all but ended, is answered as at any other time: sizes 0, of every owner, and such as nobody
 * has; each as the first call of a thread of its own.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "../support/test.h"

static const size_t sizes[] = {0,
                               1,
                               1024,
                               1025,
                               4096,
                               4097,
                               32768,
                               32769,
                               65536,
                               1 << 20,
                               (1 << 21) + 1,
                               PTRDIFF_MAX,
                               ((size_t)1 << 32) - 1,
                               ((size_t)1 << 32) - 63,
                               SIZE_MAX - 4096,
                               SIZE_MAX - 1,
                               SIZE_MAX};

enum { SIZES = sizeof sizes / sizeof sizes[0], FUNCTIONS = 6 };

/* More than a machine may have, and not more than PTRDIFF_MAX: NULL or memory. */
static bool is_modest(size_t bytes)
{
    return bytes <= 4 << 20;
}

static void call(unsigned function, size_t bytes)
{
    void *slice = NULL;

    errno = 0;
    switch (function) {
    case 0:
        slice = malloc(bytes);
        break;
    case 1:
        slice = calloc(1, bytes);
        break;
    case 2:
        slice = realloc(NULL, bytes);
        break;
    case 3:
        slice = aligned_alloc(64, bytes);
        break;
    case 4:
        errno = posix_memalign(&slice, 256, bytes);
        break;
    default:
        slice = reallocarray(NULL, bytes, 1);
        break;
    }
    if (slice == NULL) {
        REQUIRE(!is_modest(bytes) && errno == ENOMEM);
        return;
    }
    REQUIRE(bytes <= PTRDIFF_MAX && malloc_usable_size(slice) >= bytes);
    if (is_modest(bytes)) {
        REQUIRE(function != 1 || test_is_zero(slice, bytes));
        test_fill(slice, bytes, bytes);
        REQUIRE(test_is_filled(slice, bytes, bytes));
    }
    free(slice);
}

static pthread_key_t key;

/* Runs after the destructors of keys that were made before, the library's among them. */
static void last_calls(void *argument)
{
    (void)argument;
    for (unsigned function = 0; function < FUNCTIONS; function++)
        for (unsigned i = 0; i < SIZES; i++)
            call(function, sizes[i]);
}

static void *first_call(void *argument)
{
    unsigned number = *(const unsigned *)argument;

    call(number / SIZES, sizes[number % SIZES]);
    if (number % 8 == 0)
        REQUIRE(pthread_setspecific(key, argument) == 0);
    return NULL;
}

int main(void)
{
    REQUIRE(pthread_key_create(&key, last_calls) == 0);
    for (unsigned number = 0; number < FUNCTIONS * SIZES; number++) {
        pthread_t thread;

        REQUIRE(pthread_create(&thread, NULL, first_call, &number) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    return 0;
}
