/* SPDX-License-Identifier: MIT */
/*
 * block against a naive model: an array with one entry a granule. Exhaustive over short sequences on a
 * block that is nearly full (so few granules matter), random over long ones.
 */
#include "pool/block.h"

#include <string.h>

#include "unit.h"

enum { GRANULE_SHIFT = 7, GRANULE_BYTES = 1 << GRANULE_SHIFT, SLICES_MAX = 64 };

/* The model: granule -> number of the slice in it, 0 for none; and who freed what. */
struct model {
    int slice_of[BLOCK_GRANULES];
    bool is_remote[BLOCK_GRANULES];
    bool is_touched[BLOCK_GRANULES];
    unsigned top;
    int last_slice;
};

static char data[BLOCK_GRANULES * GRANULE_BYTES];
static struct block block;
static struct model model;

static void setup(void)
{
    memset(&block, 0, sizeof block);
    memset(&model, 0, sizeof model);
    block.free = BLOCK_ALL_FREE;
    block.data = data;
    block.granule_shift = GRANULE_SHIFT;
    block.state = BLOCK_CURRENT;
}

static bool model_is_live(unsigned granule)
{
    return model.slice_of[granule] != 0 && !model.is_remote[granule];
}

static bool model_is_start(unsigned granule)
{
    return model.slice_of[granule] != 0 &&
           (granule == 0 || model.slice_of[granule - 1] != model.slice_of[granule]);
}

static unsigned model_count(unsigned start)
{
    unsigned count = 0;

    while (start + count < BLOCK_GRANULES && model.slice_of[start + count] == model.slice_of[start])
        count++;
    return count;
}

static unsigned model_live_slices(void)
{
    unsigned live = 0;

    for (unsigned i = 0; i < BLOCK_GRANULES; i++)
        live += model_is_start(i) && model_is_live(i);
    return live;
}

/* Everything that can be asked of the block is asked, for every granule. */
static void compare(void)
{
    unsigned live_granules = 0;

    require(block_is_valid(&block));
    for (unsigned i = 0; i < BLOCK_GRANULES; i++) {
        struct slice slice = {0};
        enum block_verdict verdict = block_find_slice(&block, (size_t)i * GRANULE_BYTES, &slice);

        live_granules += model_is_live(i);
        require(((block.free >> i & 1) != 0) == (model.slice_of[i] == 0));
        if (model_is_live(i) && model_is_start(i)) {
            require(verdict == BLOCK_LIVE);
            require(slice_start(&slice) == i);
            require(slice_count(&slice) == model_count(i));
            require(slice.granules == run_of_bits(i, model_count(i)));
        } else {
            require(verdict == (model_is_live(i) ? BLOCK_NOT_A_START : BLOCK_DOUBLE_FREE));
        }
        require(block_find_slice(&block, (size_t)i * GRANULE_BYTES + 16, &slice) == BLOCK_NOT_A_START);
    }
    require(count_bits(block_live_granules(&block)) == live_granules);
    require(block_live_slices(&block) == model_live_slices());
    require(block.top == model.top);
}

static bool model_is_empty(void)
{
    for (unsigned i = 0; i < BLOCK_GRANULES; i++)
        if (model.slice_of[i] != 0)
            return false;
    return true;
}

static void carve(unsigned count, size_t alignment_granules)
{
    uint64_t touched = 0, expected_touched = 0;
    unsigned start;
    void *address = block_carve(&block, count, alignment_granules * GRANULE_BYTES, &touched);

    if (model_is_empty())
        model.top = 0;
    start = (unsigned)align_up(model.top, alignment_granules);
    if (start + count > BLOCK_GRANULES) {
        require(address == NULL);
        return;
    }
    require(address == data + (size_t)start * GRANULE_BYTES);
    model.last_slice++;
    for (unsigned i = start; i < start + count; i++) {
        require(model.slice_of[i] == 0);
        expected_touched |= model.is_touched[i] ? bit_at(i) : 0;
        model.slice_of[i] = model.last_slice;
        model.is_touched[i] = true;
    }
    require(touched == expected_touched);
    model.top = start + count;
}

static void free_local(unsigned start)
{
    struct slice slice = {0};
    unsigned count = model_count(start);
    bool is_last;

    require(block_find_slice(&block, (size_t)start * GRANULE_BYTES, &slice) == BLOCK_LIVE);
    is_last = block_free_local(&block, &slice);
    for (unsigned i = start; i < start + count; i++)
        model.slice_of[i] = 0;
    require(is_last == model_is_empty());
}

static void free_remote(unsigned start)
{
    struct slice slice = {0};

    require(block_find_slice(&block, (size_t)start * GRANULE_BYTES, &slice) == BLOCK_LIVE);
    block.remote |= slice.granules;
    for (unsigned i = start, count = model_count(start); i < start + count; i++)
        model.is_remote[i] = true;
}

static void fold(void)
{
    uint64_t remote = block.remote;
    bool is_empty;

    block.remote = 0;
    is_empty = block_fold_remote(&block, remote);
    for (unsigned i = 0; i < BLOCK_GRANULES; i++)
        if (model.is_remote[i]) {
            model.is_remote[i] = false;
            model.slice_of[i] = 0;
        }
    require(is_empty == model_is_empty());
}

static void resize(unsigned start, unsigned count, bool may_grow)
{
    unsigned old_count = model_count(start);
    bool fits = start + count <= BLOCK_GRANULES;
    struct slice slice = {0};

    for (unsigned i = start + old_count; fits && i < start + count; i++)
        fits = model.slice_of[i] == 0;
    require(block_find_slice(&block, (size_t)start * GRANULE_BYTES, &slice) == BLOCK_LIVE);
    if (count > old_count && !may_grow)
        fits = false;
    require(block_resize(&block, &slice, count, may_grow) == fits);
    if (!fits)
        return;
    for (unsigned i = start; i < start + count; i++) {
        model.slice_of[i] = model.slice_of[start];
        model.is_touched[i] = true;
    }
    for (unsigned i = start + count; i < start + old_count; i++)
        model.slice_of[i] = 0;
    model.top = start + count > model.top ? start + count : model.top;
}

/* The n-th live slice's start, counted round; -1 without one. */
static int nth_live(unsigned n)
{
    unsigned live = model_live_slices();

    if (live == 0)
        return -1;
    n %= live;
    for (unsigned i = 0;; i++)
        if (model_is_start(i) && model_is_live(i) && n-- == 0)
            return (int)i;
}

/* One of 13 steps; with a nearly full block these are all that can happen. */
static void step(unsigned choice)
{
    int slice = nth_live(choice % 3);

    if (choice < 4)
        carve(1 + choice, 1);
    else if (choice < 6)
        carve(1, choice == 4 ? 2 : 4);
    else if (choice == 6)
        fold();
    else if (slice < 0)
        return;
    else if (choice < 9)
        free_local((unsigned)slice);
    else if (choice < 11)
        free_remote((unsigned)slice);
    else
        resize((unsigned)slice, choice == 11 ? model_count((unsigned)slice) + 1 : 1, true);
}

START_TEST(every_short_sequence_agrees_with_the_model)
{
    enum { STEPS = 13, LENGTH = 5 };
    unsigned sequences = 1;

    for (unsigned i = 0; i < LENGTH; i++)
        sequences *= STEPS;
    for (unsigned sequence = 0; sequence < sequences; sequence++) {
        setup();
        carve(56, 1); /* eight granules are left */
        for (unsigned i = 0, rest = sequence; i < LENGTH; i++, rest /= STEPS)
            step(rest % STEPS);
        compare();
    }
}
END_TEST

START_TEST(long_random_sequences_agree_with_the_model)
{
    uint64_t random = 42;

    for (unsigned round = 0; round < 2000; round++) {
        setup();
        for (unsigned i = 0; i < 200; i++) {
            uint64_t r = random_next(&random);
            int slice = nth_live((unsigned)(r >> 32));

            if (r % 8 < 3)
                carve(1 + (unsigned)(r >> 8) % 12, (size_t)1 << ((r >> 16) % 4));
            else if (r % 8 == 3)
                fold();
            else if (slice >= 0 && r % 8 < 6)
                free_local((unsigned)slice);
            else if (slice >= 0 && r % 8 == 6)
                free_remote((unsigned)slice);
            else if (slice >= 0)
                resize((unsigned)slice, 1 + (unsigned)(r >> 8) % 16, (r >> 20) % 2 == 0);
            compare();
        }
    }
}
END_TEST

START_TEST(sixteen_quarter_kib_slices_of_four_granules_fill_a_block)
{
    uint64_t touched;

    setup();
    for (unsigned i = 0; i < 16; i++)
        require(block_carve(&block, 4, 1, &touched) == data + (size_t)i * 4 * GRANULE_BYTES);
    require(block_carve(&block, 1, 1, &touched) == NULL);
    require(block.free == 0);
}
END_TEST

START_TEST(a_slice_may_be_the_whole_block)
{
    struct slice slice = {0};
    uint64_t touched;

    setup();
    require(block_carve(&block, BLOCK_GRANULES, 1, &touched) != NULL);
    require(block_find_slice(&block, 0, &slice) == BLOCK_LIVE);
    require(slice_count(&slice) == BLOCK_GRANULES);
    require(block_free_local(&block, &slice));
}
END_TEST

START_TEST(a_hole_is_not_carved_again_until_the_block_is_empty)
{
    uint64_t touched;

    setup();
    carve(4, 1);
    carve(4, 1);
    free_local(0);
    carve(4, 1);
    compare(); /* at granule 8, not 0 */
    free_local(4);
    free_local(8);
    require(block_carve(&block, 1, 1, &touched) == data);
}
END_TEST

START_TEST(bits_left_by_a_fork_in_a_free_run_go_when_it_is_carved)
{
    setup();
    block.ends = bit_at(2) | bit_at(5);
    block.starts = bit_at(1);
    carve(8, 1);
    compare();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("block");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_short_sequence_agrees_with_the_model);
    tcase_add_test(tests, long_random_sequences_agree_with_the_model);
    tcase_add_test(tests, sixteen_quarter_kib_slices_of_four_granules_fill_a_block);
    tcase_add_test(tests, a_slice_may_be_the_whole_block);
    tcase_add_test(tests, a_hole_is_not_carved_again_until_the_block_is_empty);
    tcase_add_test(tests, bits_left_by_a_fork_in_a_free_run_go_when_it_is_carved);
    return run_unit_tests("block", tests);
}
