/* SPDX-License-Identifier: MIT */
/* options: what is accepted, what is complained of and how, and that a printed value is accepted again. */
#include "base/options.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

static const char *set_name, *set_value; /* the whole environment */
static char complaint[600];

static const char *lookup(const char *name)
{
    return set_name != NULL && strcmp(name, set_name) == 0 ? set_value : NULL;
}

static void complain(const char *line)
{
    require(complaint[0] == '\0');
    snprintf(complaint, sizeof complaint, "%s", line);
}

static struct options read_with(const char *name, const char *value)
{
    struct options options;

    set_name = name;
    set_value = value;
    complaint[0] = '\0';
    options_read(&options, lookup, complain);
    return options;
}

START_TEST(defaults_are_those_of_the_table)
{
    struct options options = read_with(NULL, NULL);

    ck_assert_uint_eq(options.pool_count, 2);
    ck_assert_uint_eq(options.block_bytes[0], 8192);
    ck_assert_uint_eq(options.block_bytes[1], 65536);
    ck_assert_uint_eq(options.min_bytes, 1025);
    ck_assert_int_eq(options.signal, SIGUSR1);
    ck_assert(options.signal_chain && !options.dump_at_exit && !options.stats && !options.off &&
              !options.verbose);
    ck_assert_uint_eq(options.decay_ms, 10000);
    ck_assert_str_eq(options.dir, "/tmp");
    ck_assert_str_eq(complaint, "");
}
END_TEST

struct bad_value {
    const char *name, *value, *line;
};

static const struct bad_value bad_values[] = {
    {"PINPOOL_POOLS", "9k", "PINPOOL_POOLS=9k: not a power of two; using 8k,64k"},
    {"PINPOOL_POOLS", "2k", "PINPOOL_POOLS=2k: not between 4k and 4m; using 8k,64k"},
    {"PINPOOL_POOLS", "8m", "PINPOOL_POOLS=8m: not between 4k and 4m; using 8k,64k"},
    {"PINPOOL_POOLS", "64k,8k", "PINPOOL_POOLS=64k,8k: not ascending; using 8k,64k"},
    {"PINPOOL_POOLS", "8k,8k", "PINPOOL_POOLS=8k,8k: not ascending; using 8k,64k"},
    {"PINPOOL_POOLS", "4k,8k,16k,32k,64k",
     "PINPOOL_POOLS=4k,8k,16k,32k,64k: more than 4 sizes; using 8k,64k"},
    {"PINPOOL_POOLS", "8k;64k", "PINPOOL_POOLS=8k;64k: not a list of sizes; using 8k,64k"},
    {"PINPOOL_POOLS", "8k,", "PINPOOL_POOLS=8k,: not a number; using 8k,64k"},
    {"PINPOOL_POOLS", "x", "PINPOOL_POOLS=x: not a number; using 8k,64k"},
    {"PINPOOL_POOLS", "99999999999999999999", "PINPOOL_POOLS=99999999999999999999: too large; using 8k,64k"},
    {"PINPOOL_POOLS", "18446744073709551615k",
     "PINPOOL_POOLS=18446744073709551615k: too large; using 8k,64k"},
    {"PINPOOL_MIN", "0", "PINPOOL_MIN=0: not between 1 and 2m; using 1025"},
    {"PINPOOL_MIN", "3m", "PINPOOL_MIN=3m: not between 1 and 2m; using 1025"},
    {"PINPOOL_MIN", "-1", "PINPOOL_MIN=-1: not a number; using 1025"},
    {"PINPOOL_MIN", "12x", "PINPOOL_MIN=12x: not a number; using 1025"},
    {"PINPOOL_POLICY", "best", "PINPOOL_POLICY=best: no such policy; using reuse"},
    {"PINPOOL_SIGNAL", "KILL", "PINPOOL_SIGNAL=KILL: no usable signal; using USR1"},
    {"PINPOOL_SIGNAL", "9", "PINPOOL_SIGNAL=9: no usable signal; using USR1"},
    {"PINPOOL_SIGNAL", "SEGV", "PINPOOL_SIGNAL=SEGV: no usable signal; using USR1"},
    {"PINPOOL_SIGNAL", "RTMIN+99", "PINPOOL_SIGNAL=RTMIN+99: no usable signal; using USR1"},
    {"PINPOOL_SIGNAL_CHAIN", "yes", "PINPOOL_SIGNAL_CHAIN=yes: neither 0 nor 1; using 1"},
    {"PINPOOL_DUMP_AT_EXIT", "10", "PINPOOL_DUMP_AT_EXIT=10: neither 0 nor 1; using 0"},
    {"PINPOOL_DECAY_MS", "86400001", "PINPOOL_DECAY_MS=86400001: more than 86400000; using 10000"},
    {"PINPOOL_DECAY_MS", "1s", "PINPOOL_DECAY_MS=1s: not a number; using 10000"},
    {"PINPOOL_DIR", "tmp", "PINPOOL_DIR=tmp: not an absolute path; using /tmp"},
    {"PINPOOL_OFF", "\x1b[31m", "PINPOOL_OFF=?[31m: neither 0 nor 1; using 0"},
};

START_TEST(a_bad_value_is_one_line_and_the_default)
{
    struct options defaults = read_with(NULL, NULL);

    for (size_t i = 0; i < sizeof bad_values / sizeof bad_values[0]; i++) {
        struct options options = read_with(bad_values[i].name, bad_values[i].value);

        ck_assert_str_eq(complaint, bad_values[i].line);
        ck_assert_mem_eq(&options, &defaults, sizeof options);
    }
}
END_TEST

START_TEST(long_values_are_cut_in_the_complaint)
{
    char value[400];
    struct options options;

    memset(value, 'a', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    options = read_with("PINPOOL_DIR", value);
    ck_assert_str_eq(options.dir, "/tmp");
    ck_assert_uint_lt(strlen(complaint), 200);
    value[0] = '/';
    options = read_with("PINPOOL_DIR", value);
    ck_assert_ptr_nonnull(strstr(complaint, "longer than 200 bytes"));
}
END_TEST

struct good_value {
    enum option_id id;
    const char *value, *printed;
};

static const struct good_value good_values[] = {
    {OPTION_POOLS, "4096", "4k"},        {OPTION_POOLS, "8K,64k,1M,4m", "8k,64k,1m,4m"},
    {OPTION_MIN, "2k", "2048"},          {OPTION_MIN, "1", "1"},
    {OPTION_SIGNAL, "SIGUSR2", "USR2"},  {OPTION_SIGNAL, "12", "USR2"},
    {OPTION_SIGNAL, "RTMIN", "RTMIN+0"}, {OPTION_SIGNAL, "RTMIN+3", "RTMIN+3"},
    {OPTION_SIGNAL, "off", "off"},       {OPTION_DIR, "/var/tmp", "/var/tmp"},
    {OPTION_DECAY_MS, "0", "0"},         {OPTION_OFF, "1", "1"},
    {OPTION_POLICY, "bump", "bump"},
};

START_TEST(good_values_are_taken_and_print_in_a_form_that_is_taken_again)
{
    for (size_t i = 0; i < sizeof good_values / sizeof good_values[0]; i++) {
        const struct good_value *good = &good_values[i];
        char text[OPTIONS_TEXT_MAX], again[OPTIONS_TEXT_MAX];
        struct options options = read_with(option_rows[good->id].name, good->value);

        ck_assert_str_eq(complaint, "");
        options_format_sigsafe(&options, good->id, text);
        ck_assert_str_eq(text, good->printed);
        options = read_with(option_rows[good->id].name, text);
        ck_assert_str_eq(complaint, "");
        options_format_sigsafe(&options, good->id, again);
        ck_assert_str_eq(again, text);
    }
}
END_TEST

START_TEST(every_default_of_the_table_is_accepted_by_its_own_parser)
{
    for (enum option_id id = 0; id < OPTION_COUNT; id++) {
        struct options options = {0};

        if (option_rows[id].default_text[0] != '\0')
            ck_assert_ptr_null(options_parse(&options, id, option_rows[id].default_text));
    }
}
END_TEST

START_TEST(tmpdir_counts_when_it_is_usable)
{
    ck_assert_str_eq(read_with("TMPDIR", "/var/tmp").dir, "/var/tmp");
    ck_assert_str_eq(read_with("TMPDIR", "relative").dir, "/tmp");
    ck_assert_str_eq(complaint, "");
}
END_TEST

START_TEST(a_variable_set_to_nothing_is_as_good_as_unset)
{
    struct options options = read_with("PINPOOL_POOLS", "");

    ck_assert_str_eq(complaint, "");
    ck_assert_uint_eq(options.pool_count, 2);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("options");

    tcase_add_test(tests, defaults_are_those_of_the_table);
    tcase_add_test(tests, a_bad_value_is_one_line_and_the_default);
    tcase_add_test(tests, long_values_are_cut_in_the_complaint);
    tcase_add_test(tests, good_values_are_taken_and_print_in_a_form_that_is_taken_again);
    tcase_add_test(tests, every_default_of_the_table_is_accepted_by_its_own_parser);
    tcase_add_test(tests, tmpdir_counts_when_it_is_usable);
    tcase_add_test(tests, a_variable_set_to_nothing_is_as_good_as_unset);
    return run_unit_tests("options", tests);
}
