/* SPDX-License-Identifier: MIT */
/* unit: what every unit test program shares: Check, and a main that reports as TAP. */
#ifndef PINPOOL_TESTS_UNIT_H
#define PINPOOL_TESTS_UNIT_H

#include <check.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/random.h"

/*
 * ck_assert for inner loops: Check's own sends a message to its parent process for every assertion, passed
 * or not.
 */
#define require(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            ck_abort_msg("not so: %s", #condition);                                                          \
    } while (0)

/* What is next ends the program, as tcase_add_test_raise_signal expects it: no word of it, and no core. */
static inline void die_quietly(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    require(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
    require(nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
}

/* A test that asks of the machine what an emulator may not have; CK_EXCLUDE_TAGS=tag leaves it out. */
static inline void add_tagged_test(Suite *suite, const char *tag, const TTest *test, void (*setup)(void))
{
    TCase *tests = tcase_create(tag);

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_set_tags(tests, tag);
    tcase_add_test(tests, test);
    suite_add_tcase(suite, tests);
}

/* Runs the test cases of a suite; exit status 0 when all passed. */
static inline int run_unit_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Runs one test case under the module's name. */
static inline int run_unit_tests(const char *module, TCase *tests)
{
    Suite *suite = suite_create(module);

    suite_add_tcase(suite, tests);
    return run_unit_suite(suite);
}

#endif
