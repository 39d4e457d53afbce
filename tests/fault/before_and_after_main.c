/* SPDX-License-Identifier: MIT */
/*
 * before_and_after_main: the family is used before any constructor ran, in constructors, in exit
 * handlers and in destructors. Each stage frees what another one allocated.
 */
#include <stdlib.h>
#include <unistd.h>

#include "../support/test.h"

enum { STAGES = 6, BYTES = 5000 };

static void *slices[STAGES];
static unsigned stage_count;

/* A slice of each kind; checks and frees that of the stage before. */
static void stage(void)
{
    void *grown = realloc(calloc(3, 1000), 20000);

    REQUIRE(grown != NULL && stage_count < STAGES);
    free(grown);
    slices[stage_count] = malloc(BYTES);
    REQUIRE(slices[stage_count] != NULL);
    test_fill(slices[stage_count], BYTES, stage_count);
    if (stage_count > 0) {
        REQUIRE(test_is_filled(slices[stage_count - 1], BYTES, stage_count - 1));
        free(slices[stage_count - 1]);
    }
    stage_count++;
}

/* The executable's preinit functions run before the constructors of all its libraries. */
static void before_constructors(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    stage();
}

__attribute__((used, section(".preinit_array"))) static void (*const preinit)(int, char **,
                                                                              char **) = before_constructors;

__attribute__((constructor)) static void construct(void)
{
    stage();
}

__attribute__((destructor)) static void destroy(void)
{
    stage();
    REQUIRE(stage_count == STAGES);
    free(slices[STAGES - 1]);
    if (write(STDOUT_FILENO, "destroyed\n", 10) != 10)
        _exit(2);
}

static void at_exit_first(void)
{
    stage();
}

static void at_exit_last(int status, void *argument)
{
    (void)status;
    (void)argument;
    stage();
}

int main(void)
{
    REQUIRE(stage_count == 2);
    stage();
    REQUIRE(atexit(at_exit_first) == 0);
    REQUIRE(on_exit(at_exit_last, NULL) == 0);
    return 0;
}
