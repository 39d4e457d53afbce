/* SPDX-License-Identifier: MIT */
/*
 * block against a naive model: an array with one entry a granule. For both ways to carve: exhaustive over
 * short sequences on a block that is nearly full (so few granules matter), random over long ones. Then what
 * two threads may do to one slice, and what a fork leaves, step by step.
 */
#include "pool/block.h"

#include <signal.h>
#include <string.h>

#include "unit.h"

enum {
    GRANULE_SHIFT = 7,
    GRANULE_BYTES = 1 << GRANULE_SHIFT,
    CACHED = BLOCK_CACHED | 5,
    CACHED_ELSEWHERE = BLOCK_CACHED | 6,
};

/* The model: granule -> number of the slice in it, 0 for none; and whether some thread keeps that slice. */
struct model {
    int slice_of[BLOCK_GRANULES];
    bool is_cached[BLOCK_GRANULES];
    unsigned top, touched;
    int last_slice;
};

static char data[BLOCK_GRANULES * GRANULE_BYTES];
static struct block block;
static struct model model;
static bool is_upwards; /* the way to carve */

static void setup(void)
{
    memset(&block, 0, sizeof block);
    memset(&model, 0, sizeof model);
    block.free = BLOCK_ALL_FREE;
    block.data = data;
    block.granule_shift = GRANULE_SHIFT;
    block.state = BLOCK_HELD;
    is_upwards = false;
}

/* Both ways to carve, for the tests that are run for each. */
static void setup_for(int way)
{
    setup();
    is_upwards = way != 0;
}

/* ---- the model ------------------------------------------------------------------------------- */

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

static bool model_is_free(unsigned start, unsigned count)
{
    if (start + count > BLOCK_GRANULES)
        return false;
    for (unsigned i = start; i < start + count; i++)
        if (model.slice_of[i] != 0)
            return false;
    return true;
}

/* Where the next slice has to be; BLOCK_GRANULES: nowhere. */
static unsigned model_place(unsigned count, unsigned alignment_granules)
{
    unsigned start = 0;

    if (is_upwards) {
        if (model_is_free(0, BLOCK_GRANULES))
            model.top = 0;
        start = (unsigned)align_up(model.top, alignment_granules);
        return start + count <= BLOCK_GRANULES ? start : BLOCK_GRANULES;
    }
    while (start < BLOCK_GRANULES && !model_is_free(start, count))
        start += alignment_granules;
    return start;
}

static void model_fill(unsigned start, unsigned count, int slice)
{
    for (unsigned i = start; i < start + count; i++) {
        model.slice_of[i] = slice;
        model.is_cached[i] = false;
    }
    if (slice != 0)
        model.touched = (unsigned)max_size(model.touched, start + count);
}

/* The n-th live slice's start, or the n-th cached one's, counted round; -1 without one. */
static int nth_slice(unsigned n, bool is_cached)
{
    int starts[BLOCK_GRANULES];
    unsigned count = 0;

    for (unsigned i = 0; i < BLOCK_GRANULES; i++)
        if (model_is_start(i) && model.is_cached[i] == is_cached)
            starts[count++] = (int)i;
    return count == 0 ? -1 : starts[n % count];
}

static enum block_verdict model_verdict(unsigned granule)
{
    if (model.slice_of[granule] == 0)
        return BLOCK_DOUBLE_FREE;
    if (!model_is_start(granule))
        return BLOCK_NOT_A_START;
    return model.is_cached[granule] ? BLOCK_DOUBLE_FREE : BLOCK_LIVE;
}

/* Everything that can be asked of the block is asked, for every granule. */
static void compare(void)
{
    struct block_slices expected = {0}, found;

    require(block_is_valid(&block));
    for (unsigned i = 0; i < BLOCK_GRANULES; i++) {
        _Atomic(uint8_t) *mark = NULL;
        unsigned count = 0;
        bool is_live = model.slice_of[i] != 0 && !model.is_cached[i];

        require(((block.free >> i & 1) != 0) == (model.slice_of[i] == 0));
        require(block_find(&block, (size_t)i * GRANULE_BYTES, &mark, &count) == model_verdict(i));
        if (model_verdict(i) == BLOCK_LIVE) {
            require(mark == &block.marks[i] && count == model_count(i));
            expected.live_slices++;
        }
        require(block_find(&block, (size_t)i * GRANULE_BYTES + 16, &mark, &count) == BLOCK_NOT_A_START);
        expected.live_granules += is_live;
        expected.live |= is_live ? bit_at(i) : 0;
        expected.cached_granules += model.is_cached[i];
    }
    block_count(&block, &found);
    require(found.live_slices == expected.live_slices && found.live_granules == expected.live_granules);
    require(found.live == expected.live && found.cached_granules == expected.cached_granules);
    require(block.touched == model.touched);
    require(!is_upwards || block.top == model.top);
}

/* ---- steps, in the block and in the model ---------------------------------------------------- */

static void *carve_of_block(unsigned count, size_t alignment, bool *is_touched)
{
    return is_upwards ? block_carve_upwards(&block, count, alignment, is_touched)
                      : block_carve(&block, count, alignment, is_touched);
}

static void carve(unsigned count, unsigned alignment_granules)
{
    bool is_touched = false;
    unsigned start = model_place(count, alignment_granules);
    void *address = carve_of_block(count, (size_t)alignment_granules * GRANULE_BYTES, &is_touched);

    if (start == BLOCK_GRANULES) {
        require(address == NULL);
        return;
    }
    require(address == data + (size_t)start * GRANULE_BYTES);
    require(model_is_free(start, count));
    require(is_touched == (start < model.touched));
    model_fill(start, count, ++model.last_slice);
    model.top = start + count;
}

static _Atomic(uint8_t) *find(unsigned start)
{
    _Atomic(uint8_t) *mark = NULL;
    unsigned count = 0;

    require(block_find(&block, (size_t)start * GRANULE_BYTES, &mark, &count) == BLOCK_LIVE);
    require(count == model_count(start));
    require(block_of_mark(mark) == &block && block_index_of_mark(mark) == start);
    return mark;
}

static void give(unsigned start, unsigned count)
{
    uint64_t free = block_give(&block, start, count);

    model_fill(start, count, 0);
    require(free == block.free);
    require((free == BLOCK_ALL_FREE) == model_is_free(0, BLOCK_GRANULES));
}

static void free_to_block(unsigned start)
{
    unsigned count = model_count(start);

    require(block_end_life(find(start), count, 0));
    give(start, count);
}

static void free_into_cache(unsigned start)
{
    unsigned count = model_count(start);

    require(block_end_life(find(start), count, CACHED));
    for (unsigned i = start; i < start + count; i++)
        model.is_cached[i] = true;
}

static void hand_out_of_cache(unsigned start)
{
    require(block.marks[start] == CACHED);
    block.marks[start] = (uint8_t)model_count(start);
    model_fill(start, model_count(start), model.slice_of[start]);
}

static void flush(unsigned start)
{
    require(block.marks[start] == CACHED);
    block.marks[start] = 0;
    give(start, model_count(start));
}

static void shrink(unsigned start, unsigned count)
{
    unsigned old_count = model_count(start);

    require(block_end_life(find(start), old_count, (uint8_t)count));
    give(start + count, old_count - count);
}

static void grow(unsigned start, unsigned count)
{
    unsigned old_count = model_count(start);
    bool fits = model_is_free(start + old_count, count - old_count);

    require(block_grow(&block, find(start), old_count, count) == fits);
    if (!fits)
        return;
    model_fill(start, count, model.slice_of[start]);
    model.top = (unsigned)max_size(model.top, start + count);
}

static void resize(unsigned start, unsigned count)
{
    if (count > model_count(start))
        grow(start, count);
    else if (count < model_count(start))
        shrink(start, count);
}

/* One of 14 steps; with a nearly full block these are all that can happen. */
static void step(unsigned choice)
{
    int live = nth_slice(choice % 3, false), cached = nth_slice(choice % 2, true);

    if (choice < 4)
        carve(1 + choice, 1);
    else if (choice < 6)
        carve(1, choice == 4 ? 2 : 4);
    else if (choice < 8 && cached >= 0)
        (choice == 6 ? hand_out_of_cache : flush)((unsigned)cached);
    else if (choice < 8 || live < 0)
        return;
    else if (choice < 10)
        free_to_block((unsigned)live);
    else if (choice < 12)
        free_into_cache((unsigned)live);
    else
        resize((unsigned)live, choice == 12 ? model_count((unsigned)live) + 1 : 1);
}

START_TEST(every_short_sequence_agrees_with_the_model)
{
    enum { STEPS = 14, LENGTH = 5 };
    unsigned sequences = 1;

    for (unsigned i = 0; i < LENGTH; i++)
        sequences *= STEPS;
    for (unsigned sequence = 0; sequence < sequences; sequence++) {
        setup_for(_i);
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
        setup_for(_i);
        for (unsigned i = 0; i < 200; i++) {
            uint64_t r = random_next(&random);
            int live = nth_slice((unsigned)(r >> 32), false), cached = nth_slice((unsigned)(r >> 32), true);

            if (r % 8 < 3)
                carve(1 + (unsigned)(r >> 8) % 12, 1U << ((r >> 16) % 6));
            else if (r % 8 == 3 && cached >= 0)
                (r >> 24) % 2 == 0 ? hand_out_of_cache((unsigned)cached) : flush((unsigned)cached);
            else if (live >= 0 && r % 8 < 6)
                free_to_block((unsigned)live);
            else if (live >= 0 && r % 8 == 6)
                free_into_cache((unsigned)live);
            else if (live >= 0)
                resize((unsigned)live, 1 + (unsigned)(r >> 8) % 16);
            compare();
        }
    }
}
END_TEST

START_TEST(sixteen_quarter_kib_slices_of_four_granules_fill_a_block)
{
    bool is_touched;

    setup_for(_i);
    for (unsigned i = 0; i < 16; i++)
        require(carve_of_block(4, 1, &is_touched) == data + (size_t)i * 4 * GRANULE_BYTES && !is_touched);
    require(carve_of_block(1, 1, &is_touched) == NULL);
    require(block.free == 0);
}
END_TEST

START_TEST(a_slice_may_be_the_whole_block)
{
    setup_for(_i);
    carve(BLOCK_GRANULES, 1);
    compare();
    free_to_block(0);
    compare();
    carve(BLOCK_GRANULES, 1);
    compare();
}
END_TEST

START_TEST(carved_upwards_a_hole_is_not_used_again_until_the_block_is_empty)
{
    bool is_touched;

    is_upwards = true;
    carve(4, 1);
    carve(4, 1);
    free_to_block(0);
    carve(4, 1);
    compare(); /* at granule 8, not 0 */
    free_to_block(4);
    free_to_block(8);
    require(carve_of_block(1, 1, &is_touched) == data && is_touched);
}
END_TEST

START_TEST(otherwise_the_lowest_hole_that_fits_is_used_again_at_once)
{
    bool is_touched;

    for (unsigned i = 0; i < 16; i++)
        carve(4, 1);
    free_to_block(0);
    free_to_block(20);
    free_to_block(24);
    require(carve_of_block(5, 1, &is_touched) == data + (size_t)20 * GRANULE_BYTES && is_touched);
    require(carve_of_block(4, 1, &is_touched) == data);
    require(carve_of_block(4, 1, &is_touched) == NULL);
}
END_TEST

START_TEST(a_slice_that_lies_in_touched_granules_in_part_may_not_be_zero)
{
    bool is_touched;

    carve(8, 1);
    free_to_block(0);
    require(carve_of_block(12, 1, &is_touched) == data && is_touched);
    require(carve_of_block(1, 1, &is_touched) == data + (size_t)12 * GRANULE_BYTES && !is_touched);
}
END_TEST

/* ---- words ----------------------------------------------------------------------------------- */

static unsigned naive_longest_run(uint64_t x)
{
    unsigned longest = 0, run = 0;

    for (unsigned i = 0; i < 64; i++) {
        run = (x >> i & 1) != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static uint64_t naive_run_starts(uint64_t x, unsigned count)
{
    uint64_t starts = 0;

    for (unsigned i = 0; i + count <= 64; i++)
        if ((x & run_of_bits(i, count)) == run_of_bits(i, count))
            starts |= bit_at(i);
    return starts;
}

static void check_runs_of(uint64_t x)
{
    require(block_longest_run(x) == naive_longest_run(x));
    for (unsigned count = 1; count <= 64; count++)
        require(block_run_starts(x, count) == naive_run_starts(x, count));
}

START_TEST(runs_are_found_in_every_kind_of_word)
{
    uint64_t random = 7;

    check_runs_of(0);
    for (unsigned start = 0; start < 64; start++)
        for (unsigned count = 1; start + count <= 64; count++) {
            check_runs_of(run_of_bits(start, count));
            check_runs_of(~run_of_bits(start, count));
        }
    for (unsigned i = 0; i < 20000; i++) { /* with runs of all lengths: ones are more and more frequent */
        uint64_t x = random_next(&random);

        for (unsigned j = 0; j < i % 6; j++)
            x |= random_next(&random);
        check_runs_of(x);
    }
}
END_TEST

START_TEST(aligned_starts_are_those_whose_address_is)
{
    for (size_t alignment = 1; alignment <= sizeof data / 2; alignment *= 2)
        for (unsigned i = 0; i < BLOCK_GRANULES; i++)
            require((block_aligned_starts(&block, alignment) >> i & 1) ==
                    ((size_t)i * GRANULE_BYTES % alignment == 0));
}
END_TEST

START_TEST(the_mark_of_a_cached_slice_is_no_count_and_not_nothing)
{
    for (uint32_t id = 0; id < 1000; id++)
        require(block_cached_mark(id) >= BLOCK_CACHED);
    require(block_cached_mark(1) != block_cached_mark(2));
}
END_TEST

/* ---- two threads and one slice --------------------------------------------------------------- */

START_TEST(of_two_frees_at_the_same_time_one_is_told)
{
    static const uint8_t ways[] = {0, CACHED, CACHED_ELSEWHERE};

    for (unsigned first = 0; first < 3; first++)
        for (unsigned second = 0; second < 3; second++) {
            _Atomic(uint8_t) *mark;

            setup();
            carve(3, 1);
            mark = find(0); /* both have looked */
            require(block_end_life(mark, 3, ways[first]));
            require(!block_end_life(mark, 3, ways[second]) && *mark == ways[first]);
        }
}
END_TEST

START_TEST(a_free_that_began_before_the_slice_was_shrunk_is_told)
{
    _Atomic(uint8_t) *mark;

    carve(8, 1);
    mark = find(0);
    shrink(0, 3);
    require(!block_end_life(mark, 8, 0));
    compare();
}
END_TEST

/* Where a slice's first granule is free, and its mark says that a thread has it: it was freed twice. */
START_TEST(granules_that_some_thread_keeps_are_not_carved)
{
    bool is_touched;

    is_upwards = _i != 0;
    carve(4, 1);
    block.marks[4] = CACHED;
    require(!block_is_valid(&block));
    die_quietly();
    (void)carve_of_block(1, 1, &is_touched);
}
END_TEST

START_TEST(nor_are_they_in_the_middle_of_a_new_slice)
{
    bool is_touched;

    is_upwards = _i != 0;
    block.marks[20] = CACHED;
    die_quietly();
    (void)carve_of_block(32, 1, &is_touched);
}
END_TEST

/* ---- what is left when a thread is caught between two stores ---------------------------------- */

START_TEST(a_child_lacks_a_slice_that_was_being_carved_or_freed)
{
    _Atomic(uint8_t) *mark;
    struct block_slices slices;
    bool is_touched;
    unsigned count;

    carve(4, 1);
    block.free &= ~run_of_bits(4, 4); /* without a mark, yet or any more */
    for (unsigned i = 4; i < 8; i++)
        require(block_find(&block, (size_t)i * GRANULE_BYTES, &mark, &count) == BLOCK_NOT_A_START);
    require(carve_of_block(4, 1, &is_touched) == data + (size_t)8 * GRANULE_BYTES);
    block_count(&block, &slices);
    require(slices.live_slices == 2 && slices.live_granules == 8 && slices.cached_granules == 4);
}
END_TEST

START_TEST(marks_that_do_not_fit_are_left_out_of_the_count)
{
    struct block_slices slices;

    carve(60, 1);
    carve(2, 1);
    block.marks[60] = 5; /* as if it were being changed: there are four granules */
    block_count(&block, &slices);
    require(slices.live_slices == 1 && slices.live_granules == 60 && slices.live == run_of_bits(0, 60));
}
END_TEST

START_TEST(words_that_contradict_each_other_are_told)
{
    carve(4, 1);
    carve(4, 1);
    require(block_is_valid(&block));
    block.marks[2] = 1; /* in the middle of a slice */
    require(!block_is_valid(&block));
    block.marks[2] = 0;
    block.marks[4] = 5; /* longer than what is taken */
    require(!block_is_valid(&block));
    block.marks[4] = 3;
    require(!block_is_valid(&block));
    block.marks[4] = 0;
    require(!block_is_valid(&block));
    block.marks[4] = 4;
    block.touched = 7;
    require(!block_is_valid(&block));
    block.touched = 8;
    block.free |= bit_at(4);
    require(!block_is_valid(&block));
    block.free &= ~bit_at(4);
    require(block_is_valid(&block));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("block");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_short_sequence_agrees_with_the_model, 0, 2);
    tcase_add_loop_test(tests, long_random_sequences_agree_with_the_model, 0, 2);
    tcase_add_loop_test(tests, sixteen_quarter_kib_slices_of_four_granules_fill_a_block, 0, 2);
    tcase_add_loop_test(tests, a_slice_may_be_the_whole_block, 0, 2);
    tcase_add_test(tests, carved_upwards_a_hole_is_not_used_again_until_the_block_is_empty);
    tcase_add_test(tests, otherwise_the_lowest_hole_that_fits_is_used_again_at_once);
    tcase_add_test(tests, a_slice_that_lies_in_touched_granules_in_part_may_not_be_zero);
    tcase_add_test(tests, runs_are_found_in_every_kind_of_word);
    tcase_add_test(tests, aligned_starts_are_those_whose_address_is);
    tcase_add_test(tests, the_mark_of_a_cached_slice_is_no_count_and_not_nothing);
    tcase_add_test(tests, of_two_frees_at_the_same_time_one_is_told);
    tcase_add_test(tests, a_free_that_began_before_the_slice_was_shrunk_is_told);
    tcase_add_loop_test_raise_signal(tests, granules_that_some_thread_keeps_are_not_carved, SIGABRT, 0, 2);
    tcase_add_loop_test_raise_signal(tests, nor_are_they_in_the_middle_of_a_new_slice, SIGABRT, 0, 2);
    tcase_add_test(tests, a_child_lacks_a_slice_that_was_being_carved_or_freed);
    tcase_add_test(tests, marks_that_do_not_fit_are_left_out_of_the_count);
    tcase_add_test(tests, words_that_contradict_each_other_are_told);
    return run_unit_tests("block", tests);
}
