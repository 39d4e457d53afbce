/* SPDX-License-Identifier: MIT */
/* out: formatting, escaping, limits and failures of the signal-safe writer. */
#include "base/out.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static char buffer[256];

static const char *field(const char *text)
{
    struct out out;

    out_init_sigsafe(&out, -1, buffer, sizeof buffer);
    out_field_text_sigsafe(&out, "f", text);
    require(out_finish_text_sigsafe(&out));
    return buffer;
}

START_TEST(numbers_print_whole)
{
    struct out out;

    out_init_sigsafe(&out, -1, buffer, sizeof buffer);
    out_u64_sigsafe(&out, 0);
    out_text_sigsafe(&out, " ");
    out_u64_sigsafe(&out, UINT64_MAX);
    out_text_sigsafe(&out, " ");
    out_hex_sigsafe(&out, 0);
    out_text_sigsafe(&out, " ");
    out_hex_sigsafe(&out, UINT64_MAX);
    ck_assert(out_finish_text_sigsafe(&out));
    ck_assert_str_eq(buffer, "0 18446744073709551615 0x0 0xffffffffffffffff");
}
END_TEST

START_TEST(any_bytes_become_valid_json)
{
    ck_assert_str_eq(field("plain"), "\"f\":\"plain\"");
    ck_assert_str_eq(field("a\"b\\c"), "\"f\":\"a\\\"b\\\\c\"");
    ck_assert_str_eq(field("\n\x01"), "\"f\":\"\\u000a\\u0001\"");
    ck_assert_str_eq(field("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
                     "\"f\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    ck_assert_str_eq(field("\xff"), "\"f\":\"\\u00ff\"");
    ck_assert_str_eq(field("\xc3"), "\"f\":\"\\u00c3\"");                       /* cut short */
    ck_assert_str_eq(field("\xc0\x80"), "\"f\":\"\\u00c0\\u0080\"");            /* overlong */
    ck_assert_str_eq(field("\xed\xa0\x80"), "\"f\":\"\\u00ed\\u00a0\\u0080\""); /* a surrogate */
}
END_TEST

START_TEST(a_record_is_one_line_with_commas_where_they_belong)
{
    struct out out;

    out_init_sigsafe(&out, -1, buffer, sizeof buffer);
    out_record_begin_sigsafe(&out, "kind");
    out_field_u64_sigsafe(&out, "n", 7);
    out_field_open_sigsafe(&out, "inner");
    out_field_hex_sigsafe(&out, "h", 255);
    out_field_close_sigsafe(&out);
    out_field_u64_sigsafe(&out, "m", 8);
    out_record_end_sigsafe(&out);
    ck_assert(out_finish_text_sigsafe(&out));
    ck_assert_str_eq(buffer, "{\"type\":\"kind\",\"n\":7,\"inner\":{\"h\":\"0xff\"},\"m\":8}\n");
    ck_assert_uint_eq(out.records, 1);
}
END_TEST

START_TEST(what_does_not_fit_a_text_is_cut_and_told)
{
    char small[8];
    struct out out;

    out_init_sigsafe(&out, -1, small, sizeof small);
    out_text_sigsafe(&out, "12345678901234567890");
    ck_assert(!out_finish_text_sigsafe(&out));
    ck_assert_str_eq(small, "1234567");
}
END_TEST

START_TEST(a_file_gets_everything_through_a_small_buffer)
{
    char small[8], got[64] = {0};
    int ends[2];
    struct out out;

    ck_assert_int_eq(pipe(ends), 0);
    out_init_sigsafe(&out, ends[1], small, sizeof small);
    out_text_sigsafe(&out, "a text longer than its buffer");
    out_flush_sigsafe(&out);
    ck_assert_int_eq((int)read(ends[0], got, sizeof got), 29);
    ck_assert_str_eq(got, "a text longer than its buffer");
    ck_assert(!out.failed);
}
END_TEST

START_TEST(a_full_disk_and_the_limit_make_it_fail_and_swallow_the_rest)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct out out;

    ck_assert_int_ge(full, 0);
    out_init_sigsafe(&out, full, buffer, sizeof buffer);
    out_text_sigsafe(&out, "x");
    out_flush_sigsafe(&out);
    ck_assert(out.failed);
    out_init_sigsafe(&out, null, buffer, 16);
    out.limit_bytes = 64;
    for (unsigned i = 0; i < 100; i++)
        out_text_sigsafe(&out, "0123456789");
    ck_assert(out.failed);
    ck_assert_uint_le(out.written_bytes, 64 + 16);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("out");

    tcase_add_test(tests, numbers_print_whole);
    tcase_add_test(tests, any_bytes_become_valid_json);
    tcase_add_test(tests, a_record_is_one_line_with_commas_where_they_belong);
    tcase_add_test(tests, what_does_not_fit_a_text_is_cut_and_told);
    tcase_add_test(tests, a_file_gets_everything_through_a_small_buffer);
    tcase_add_test(tests, a_full_disk_and_the_limit_make_it_fail_and_swallow_the_rest);
    return run_unit_tests("out", tests);
}
