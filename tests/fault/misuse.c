/* SPDX-License-Identifier: MIT */
/*
 * misuse WHAT: commits one fault with a pointer, after printing on stdout exactly what the library
 * must say about it on stderr before it aborts.
 */
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../support/test.h"

enum { SLICES = 100, BYTES = 2000 };

static void *slices[SLICES];

static void expect_double_free(const char *function, const void *address)
{
    test_print("pinpool: %s(): double free of 0x%" PRIxPTR, function, (uintptr_t)address);
}

static void expect_no_start(const char *function, const void *address)
{
    test_print("pinpool: %s(): 0x%" PRIxPTR " is not the start of a slice", function, (uintptr_t)address);
}

static void *free_it(void *address)
{
    free(address);
    return NULL;
}

static void free_elsewhere(void *address)
{
    pthread_t thread;

    REQUIRE(pthread_create(&thread, NULL, free_it, address) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static void double_free(void)
{
    expect_double_free("free", slices[0]);
    free(slices[0]);
    free(test_hide(slices[0]));
}

static void double_free_much_later(void)
{
    expect_double_free("free", slices[50]);
    free(slices[50]);
    for (unsigned i = 0; i < 1000; i++)
        free(test_hide(malloc(1 + i)));
    free(test_hide(slices[50]));
}

static void double_free_of_an_emptied_block(void)
{
    expect_double_free("free", slices[0]);
    for (unsigned i = 0; i < SLICES; i++)
        free(slices[i]);
    free(test_hide(slices[0]));
}

static void double_free_in_the_current_block(void)
{
    expect_double_free("free", slices[SLICES - 1]);
    free(slices[SLICES - 1]);
    free(test_hide(slices[SLICES - 1]));
}

static void free_here_and_elsewhere(void)
{
    expect_double_free("free", slices[0]);
    free(slices[0]);
    free_elsewhere(test_hide(slices[0]));
}

static void free_elsewhere_and_here(void)
{
    expect_double_free("free", slices[0]);
    free_elsewhere(slices[0]);
    free(test_hide(slices[0]));
}

static void free_elsewhere_twice(void)
{
    expect_double_free("free", slices[0]);
    free_elsewhere(slices[0]);
    free_elsewhere(test_hide(slices[0]));
}

static void free_after_the_thread_ended(void)
{
    expect_double_free("free", slices[SLICES - 2]);
    for (unsigned i = 0; i < SLICES; i++)
        free_elsewhere(slices[i]);
    free_elsewhere(test_hide(slices[SLICES - 2]));
}

static void free_of_the_middle(void)
{
    expect_no_start("free", (char *)slices[0] + 16);
    free((char *)test_hide(slices[0]) + 16);
}

/* A granule of the 8 KiB block has 128 bytes, one of the 64 KiB block 1 KiB: 1024 begins one in both. */
static void free_of_a_granule_inside(void)
{
    expect_no_start("free", (char *)slices[0] + 1024);
    free((char *)test_hide(slices[0]) + 1024);
}

static void free_of_the_middle_elsewhere(void)
{
    expect_no_start("free", (char *)slices[0] + 1024);
    free_elsewhere((char *)test_hide(slices[0]) + 1024);
}

static void realloc_of_freed(void)
{
    expect_double_free("realloc", slices[0]);
    free(slices[0]);
    slices[0] = realloc(test_hide(slices[0]), 3000);
}

static void realloc_of_freed_elsewhere(void)
{
    expect_double_free("realloc", slices[0]);
    free_elsewhere(slices[0]);
    slices[0] = realloc(test_hide(slices[0]), 3000);
}

static void realloc_of_the_middle(void)
{
    expect_no_start("realloc", (char *)slices[0] + 1024);
    slices[0] = realloc((char *)test_hide(slices[0]) + 1024, 3000);
}

static void free_after_realloc_moved(void)
{
    expect_double_free("free", slices[0]);
    slices[1] = realloc(slices[0], 20000);
    free(test_hide(slices[0]));
}

static void usable_size_of_the_middle(void)
{
    expect_no_start("malloc_usable_size", (char *)slices[0] + 1024);
    test_print("%zu", malloc_usable_size((char *)test_hide(slices[0]) + 1024));
}

static const struct {
    const char *name;
    void (*commit)(void);
} faults[] = {
    {"double-free", double_free},
    {"double-free-much-later", double_free_much_later},
    {"double-free-of-an-emptied-block", double_free_of_an_emptied_block},
    {"double-free-in-the-current-block", double_free_in_the_current_block},
    {"free-here-and-elsewhere", free_here_and_elsewhere},
    {"free-elsewhere-and-here", free_elsewhere_and_here},
    {"free-elsewhere-twice", free_elsewhere_twice},
    {"free-after-the-thread-ended", free_after_the_thread_ended},
    {"free-of-the-middle", free_of_the_middle},
    {"free-of-a-granule-inside", free_of_a_granule_inside},
    {"free-of-the-middle-elsewhere", free_of_the_middle_elsewhere},
    {"realloc-of-freed", realloc_of_freed},
    {"realloc-of-freed-elsewhere", realloc_of_freed_elsewhere},
    {"realloc-of-the-middle", realloc_of_the_middle},
    {"free-after-realloc-moved", free_after_realloc_moved},
    {"usable-size-of-the-middle", usable_size_of_the_middle},
};

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    for (unsigned i = 0; i < SLICES; i++)
        REQUIRE((slices[i] = malloc(BYTES)) != NULL);
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (strcmp(argv[1], faults[i].name) == 0) {
            faults[i].commit();
            test_fail("# the fault was not noticed");
        }
    test_fail("# no such fault: %s", argv[1]);
}
