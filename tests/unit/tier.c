/* SPDX-License-Identifier: MIT */
/* tier: every request goes to the smallest block whose half holds it, and to none when there is none. */
#include "pool/tier.h"

#include "unit.h"

static unsigned naive_tier(const size_t *block_bytes, size_t request)
{
    unsigned tier = 0;

    while (request > block_bytes[tier] / 2)
        tier++;
    return tier;
}

static void check_tiers(const size_t *block_bytes, unsigned count, size_t min_bytes)
{
    struct tiers tiers;
    size_t largest = block_bytes[count - 1] / 2;

    tiers_init(&tiers, block_bytes, count, min_bytes);
    require(!tiers_serve(&tiers, 0));
    require(!tiers_serve(&tiers, min_bytes - 1));
    require(!tiers_serve(&tiers, largest + 1));
    require(!tiers_serve(&tiers, SIZE_MAX / 2));
    require(min_bytes > largest || !tiers_serve(&tiers, SIZE_MAX));
    for (size_t request = min_bytes; request <= largest; request++) {
        require(tiers_serve(&tiers, request));
        require(tier_of(&tiers, request) == naive_tier(block_bytes, request));
        require(request >= tier_smallest(&tiers, tier_of(&tiers, request)));
        require(request <= tier_largest(&tiers, tier_of(&tiers, request)));
    }
}

START_TEST(every_request_goes_to_the_smallest_block_whose_half_holds_it)
{
    check_tiers((const size_t[]){8 << 10, 64 << 10}, 2, 1025);
    check_tiers((const size_t[]){8 << 10}, 1, 1025);
    check_tiers((const size_t[]){64 << 10}, 1, 1);
    check_tiers((const size_t[]){4 << 10, 16 << 10, 256 << 10, 4 << 20}, 4, 1);
    check_tiers((const size_t[]){4 << 10, 8 << 10, 16 << 10, 32 << 10}, 4, 5000);
}
END_TEST

START_TEST(a_minimum_above_all_tiers_serves_nothing)
{
    check_tiers((const size_t[]){8 << 10}, 1, 4097);
}
END_TEST

START_TEST(four_kib_fit_the_eight_kib_block_and_one_byte_more_does_not)
{
    struct tiers tiers;

    tiers_init(&tiers, (const size_t[]){8 << 10, 64 << 10}, 2, 1025);
    require(tier_of(&tiers, 4096) == 0);
    require(tier_of(&tiers, 4097) == 1);
    require(tier_of(&tiers, 32768) == 1);
    require(!tiers_serve(&tiers, 32769));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tier");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_request_goes_to_the_smallest_block_whose_half_holds_it);
    tcase_add_test(tests, a_minimum_above_all_tiers_serves_nothing);
    tcase_add_test(tests, four_kib_fit_the_eight_kib_block_and_one_byte_more_does_not);
    return run_unit_tests("tier", tests);
}
