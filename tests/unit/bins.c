/* SPDX-License-Identifier: MIT */
/*
 * bins: where a block that is let go is filed, which one is taken, that no free is lost, pages given back,
 * and what a fork leaves. Threads are acted out on one thread.
 */
#include "pool/bins.h"

#include <string.h>
#include <sys/mman.h>

#include "base/libc.h"
#include "base/sys.h"
#include "unit.h"

enum { CARVER = 7 };

static struct region *region;
static struct bins *bins; /* [2] */
static struct tiers tiers;
static char mark, other_thread;

/* Of the last call. */
static enum block_source source;
static struct bins_found found;
static uint64_t now_ns;

/* Two tiers: 8 KiB blocks, and 64 KiB ones. */
static void setup_with_pages(size_t page_bytes)
{
    static struct bins both[2];
    void *address;

    tiers_init(&tiers, (const size_t[]){8 << 10, 64 << 10}, 2, 1025);
    require(sys_map(sizeof *region, &address) == 0);
    region = address;
    region_init(region, &tiers, page_bytes);
    memset(both, 0, sizeof both);
    bins = both;
    bins[0].reuses_holes = bins[1].reuses_holes = true;
    now_ns = 1;
}

static void setup(void)
{
    setup_with_pages(sys_page_bytes());
}

static void setup_upwards(void)
{
    setup();
    bins[0].reuses_holes = bins[1].reuses_holes = false;
}

static void check(void)
{
    require(bins_are_valid(&bins[0], 0) && bins_are_valid(&bins[1], 1));
}

static struct block *exchange(unsigned tier, struct block *current, unsigned count, size_t alignment)
{
    struct block *block;

    memset(&found, 0, sizeof found);
    block = bins_exchange(&bins[tier], region, tier, current, CARVER, count, alignment, now_ns, &source,
                          &found, &mark);
    check();
    return block;
}

static struct block *take(unsigned tier)
{
    struct block *block = exchange(tier, NULL, 1, 1);

    require(block != NULL);
    return block;
}

static void let_go(struct block *block)
{
    memset(&found, 0, sizeof found);
    bins_let_go(&bins[block->tier], block, now_ns, &found, &mark);
    check();
}

static void look(unsigned tier)
{
    memset(&found, 0, sizeof found);
    bins_look_again(&bins[tier], now_ns, &found, &mark);
    check();
}

/* As if all else had been carved. */
static void leave_free(struct block *block, uint64_t free)
{
    require(load_relaxed(&block->state) == BLOCK_HELD);
    store_relaxed(&block->free, free);
    block->touched = block->top = BLOCK_GRANULES;
}

/* Blocks that are filed: the i-th with a run of runs[i] granules. */
static void file_with_runs(struct block *blocks[], const unsigned runs[], unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        blocks[i] = take(0);
    for (unsigned i = 0; i < count; i++) {
        leave_free(blocks[i], runs[i] == 0 ? 0 : run_of_bits(1, runs[i]));
        let_go(blocks[i]);
    }
}

static void give(struct block *block, uint64_t granules)
{
    uint64_t free = atomic_fetch_or(&block->free, granules) | granules;

    bins_freed(&bins[block->tier], block, free);
}

static bool is_first(const struct block_list *list, const struct block *block)
{
    return list->first == block && list->count == 1;
}

/* ---- where blocks come from ------------------------------------------------------------------ */

START_TEST(blocks_are_aligned_to_their_size_and_no_two_overlap)
{
    enum { BLOCKS = 3000 };
    static char *data[2 * BLOCKS];

    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned t = 0; t < 2; t++) {
            struct block *block = take(t);

            require(source == SOURCE_FRESH && block->tier == t);
            require(load_relaxed(&block->free) == BLOCK_ALL_FREE && block->touched == 0);
            require(chunk_block_at(region_find(region, block->data), block->data) == block);
            require(block_bytes(block) == tier_block_bytes(&tiers, t));
            require(((uintptr_t)block->data & (block_bytes(block) - 1)) == 0);
            require(block->data[0] == 0 && block->data[block_bytes(block) - 1] == 0);
            memset(block->data, (int)(1 + t), block_bytes(block));
            data[2 * i + t] = block->data;
        }
    for (unsigned i = 0; i < 2 * BLOCKS; i++)
        for (size_t at = 0; at < tier_block_bytes(&tiers, i % 2); at += 1024)
            require(data[i][at] == (char)(1 + i % 2));
}
END_TEST

START_TEST(who_takes_a_block_holds_it)
{
    struct block *block;

    now_ns = 1234;
    block = take(1);
    require(load_relaxed(&block->state) == BLOCK_HELD && load_relaxed(&block->carver) == CARVER);
    require(load_relaxed(&block->since_ns) == 1234);
    require(found.looked == 0 && found.emptied == 0);
    require(take(1) != block);
    leave_free(block, bit_at(3));
    now_ns = 2345;
    let_go(block);
    require(load_relaxed(&block->state) == BLOCK_FILED && load_relaxed(&block->carver) == CARVER);
    require(load_relaxed(&block->since_ns) == 2345);
}
END_TEST

START_TEST(a_filed_block_comes_before_an_empty_one_a_released_and_a_fresh)
{
    struct block *filed = take(1), *empty = take(1), *released = take(1);

    let_go(released);
    require(bins_release(&bins[1], region->page_bytes, UINT64_MAX, &mark) == 1);
    let_go(empty);
    leave_free(filed, run_of_bits(0, 5));
    let_go(filed);
    require(exchange(1, NULL, 5, 1) == filed && source == SOURCE_FILED);
    require(exchange(1, NULL, 5, 1) == empty && source == SOURCE_EMPTY);
    require(exchange(1, NULL, 5, 1) == released && source == SOURCE_RELEASED);
    require(exchange(1, NULL, 5, 1) != NULL && source == SOURCE_FRESH);
}
END_TEST

START_TEST(what_was_emptied_last_is_taken_first)
{
    struct block *first = take(0), *second = take(0), *third = take(0);

    let_go(first);
    let_go(third);
    let_go(second);
    require(bins[0].empty.count == 3 && load_relaxed(&third->state) == BLOCK_EMPTY);
    require(exchange(1, NULL, 1, 1) != NULL && source == SOURCE_FRESH); /* the other tier has nothing of it */
    require(take(0) == second && take(0) == third && take(0) == first);
    require(bins[0].empty.count == 0);
}
END_TEST

/* ---- filing ---------------------------------------------------------------------------------- */

START_TEST(a_block_is_filed_by_its_longest_run)
{
    struct block *blocks[BLOCK_GRANULES];

    for (unsigned run = 0; run < BLOCK_GRANULES; run++)
        blocks[run] = take(0);
    for (unsigned run = 0; run < BLOCK_GRANULES; run++) {
        unsigned rest = BLOCK_GRANULES - run, shorter = rest - 1 < run ? rest - 1 : run;
        uint64_t free = run == 0 ? 0 : run_of_bits(rest, run);

        leave_free(blocks[run], shorter == 0 ? free : free | run_of_bits(0, shorter));
        let_go(blocks[run]);
        require(load_relaxed(&blocks[run]->state) == BLOCK_FILED && blocks[run]->run == run);
    }
    require(bins[0].runs[0].count == 0 && bins[0].filled == ~bit_at(0));
    for (unsigned run = 1; run < BLOCK_GRANULES; run++)
        require(is_first(&bins[0].runs[run], blocks[run]));
}
END_TEST

START_TEST(the_fullest_block_that_has_the_room_is_taken)
{
    static const unsigned runs[] = {20, 3, 0, 63, 10};
    struct block *blocks[5];

    file_with_runs(blocks, runs, 5);
    require(exchange(0, NULL, 4, 1) == blocks[4] && source == SOURCE_FILED);
    require(exchange(0, NULL, 4, 1) == blocks[0]);
    require(exchange(0, NULL, 1, 1) == blocks[1]);
    require(exchange(0, NULL, 32, 1) == blocks[3]);
    require(exchange(0, NULL, 1, 1) != NULL && source == SOURCE_FRESH);
    require(bins[0].filled == 0);
}
END_TEST

START_TEST(of_two_in_one_bin_the_latest_is_taken)
{
    static const unsigned runs[] = {5, 5, 5};
    struct block *blocks[3];

    file_with_runs(blocks, runs, 3);
    require(take(0) == blocks[2] && take(0) == blocks[1] && take(0) == blocks[0]);
}
END_TEST

START_TEST(an_aligned_slice_fits_the_block_that_is_taken_for_it)
{
    struct block *block = take(0), *short_of_it = take(0);

    for (unsigned log2 = 0; log2 <= 5; log2++)
        for (unsigned count = 1; count <= 32; count++) {
            unsigned needed = count + (1U << log2) - 1;

            if (needed == 1)
                continue;
            for (unsigned start = 0; start + needed <= BLOCK_GRANULES; start++) {
                size_t alignment = (size_t)128 << log2;
                bool is_touched;

                memset(block->marks, 0, sizeof block->marks);
                leave_free(block, run_of_bits(start, needed));
                leave_free(short_of_it, run_of_bits(start, needed - 1));
                let_go(block);
                let_go(short_of_it);
                require(exchange(0, NULL, count, alignment) == block);
                require(block_carve(block, count, alignment, &is_touched) != NULL);
                require(exchange(0, NULL, needed - 1, 1) == short_of_it);
            }
        }
}
END_TEST

START_TEST(the_current_block_is_let_go_and_not_taken_again_at_once)
{
    struct block *current = take(0), *next;

    leave_free(current, run_of_bits(10, 6)); /* room for as much, as far as the bins know */
    next = exchange(0, current, 4, 1);
    require(next != NULL && next != current && source == SOURCE_FRESH);
    require(load_relaxed(&current->state) == BLOCK_FILED && is_first(&bins[0].runs[6], current));
    leave_free(next, 0);
    require(exchange(0, next, 4, 1) == current && source == SOURCE_FILED);
    require(load_relaxed(&next->state) == BLOCK_FILED && bins[0].filled == 0);
}
END_TEST

/* ---- no free is lost ------------------------------------------------------------------------- */

START_TEST(a_block_that_is_freed_into_is_found_again)
{
    struct block *block = take(0);

    leave_free(block, 0);
    let_go(block);
    require(bins[0].filled == 0);
    give(block, run_of_bits(4, 3));
    require(load_relaxed(&bins[0].look_again) == block && load_relaxed(&block->listed) == 1);
    require(exchange(0, NULL, 3, 1) == block && source == SOURCE_FILED);
    require(found.looked == 1 && found.emptied == 0);
    require(load_relaxed(&bins[0].look_again) == NULL && load_relaxed(&block->listed) == 0);
}
END_TEST

START_TEST(a_block_that_is_freed_into_moves_to_a_higher_bin)
{
    static const unsigned runs[] = {5, 5, 9};
    struct block *blocks[3];

    file_with_runs(blocks, runs, 3);
    give(blocks[0], run_of_bits(6, 10));
    require(blocks[0]->run == 5); /* till somebody looks */
    look(0);
    require(blocks[0]->run == 15 && is_first(&bins[0].runs[5], blocks[1]) &&
            is_first(&bins[0].runs[15], blocks[0]));
    give(blocks[1], bit_at(40)); /* no longer a run */
    look(0);
    require(found.looked == 1 && is_first(&bins[0].runs[5], blocks[1]));
}
END_TEST

START_TEST(a_block_is_pushed_once_until_it_is_looked_at)
{
    static const unsigned runs[] = {0, 0, 0};
    struct block *blocks[3];

    file_with_runs(blocks, runs, 3);
    for (unsigned i = 0; i < 10; i++)
        for (unsigned j = 0; j < 3; j++)
            give(blocks[j], bit_at(2 * i));
    look(0);
    require(found.looked == 3 && bins[0].runs[1].count == 3);
    look(0);
    require(found.looked == 0);
    give(blocks[1], bit_at(1));
    look(0);
    require(found.looked == 1 && blocks[1]->run == 3);
}
END_TEST

START_TEST(a_free_into_a_held_block_is_its_holders_to_find)
{
    struct block *block = take(0);

    leave_free(block, 0);
    give(block, run_of_bits(0, 7));
    require(load_relaxed(&bins[0].look_again) == NULL && load_relaxed(&block->listed) == 0);
    let_go(block);
    require(is_first(&bins[0].runs[7], block));
}
END_TEST

START_TEST(a_block_on_the_stack_that_is_held_meanwhile_is_left_to_its_holder)
{
    static const unsigned runs[] = {5};
    struct block *block;

    file_with_runs(&block, runs, 1);
    store_relaxed(&block->listed, 1); /* its free is between the exchange and the push */
    require(take(0) == block);
    give(block, bit_at(20)); /* another sees it listed */
    block->look_next = NULL;
    store_relaxed(&bins[0].look_again, block);
    look(0);
    require(found.looked == 1 && load_relaxed(&block->state) == BLOCK_HELD &&
            load_relaxed(&block->listed) == 0);
    require(bins[0].filled == 0);
    leave_free(block, run_of_bits(0, 2));
    let_go(block);
    require(is_first(&bins[0].runs[2], block));
}
END_TEST

START_TEST(a_block_that_is_let_go_while_on_the_stack_is_in_one_bin)
{
    static const unsigned runs[] = {5};
    struct block *block;

    file_with_runs(&block, runs, 1);
    give(block, bit_at(6));
    store_relaxed(&block->listed, 1);
    require(exchange(0, NULL, 6, 1) == block); /* looked at, filed and taken */
    give(block, bit_at(20));
    require(load_relaxed(&bins[0].look_again) == NULL);
    let_go(block);
    give(block, bit_at(7));
    look(0);
    require(is_first(&bins[0].runs[7], block) && bins[0].filled == bit_at(7));
}
END_TEST

/* The thread that makes a block empty may be slow: others have found it so, and given its pages back. */
START_TEST(a_late_push_leaves_a_block_without_slices_where_it_is)
{
    struct block *empty = take(1), *released = take(1), *claimed = take(1);

    let_go(released);
    require(bins_release(&bins[1], region->page_bytes, UINT64_MAX, &mark) == 1);
    let_go(empty);
    store_relaxed(&claimed->state, BLOCK_CLAIMED);
    bins_freed(&bins[1], empty, BLOCK_ALL_FREE);
    bins_freed(&bins[1], released, BLOCK_ALL_FREE);
    bins_freed(&bins[1], claimed, BLOCK_ALL_FREE);
    look(1);
    require(found.looked == 3 && found.emptied == 0);
    require(is_first(&bins[1].empty, empty) && is_first(&bins[1].released, released));
    require(load_relaxed(&claimed->state) == BLOCK_CLAIMED && load_relaxed(&claimed->listed) == 0);
}
END_TEST

START_TEST(a_block_that_turns_out_to_be_without_slices_is_empty_and_counted)
{
    struct block *block = take(0), *other = take(0);

    leave_free(block, run_of_bits(0, 60));
    leave_free(other, 0);
    now_ns = 5 * NS_PER_MS;
    let_go(block);
    let_go(other);
    give(block, run_of_bits(60, 4));
    give(other, BLOCK_ALL_FREE);
    now_ns = 12 * NS_PER_MS;
    look(0);
    require(found.looked == 2 && found.emptied == 2 && found.emptied_after_ms == 14);
    require(load_relaxed(&block->state) == BLOCK_EMPTY && load_relaxed(&block->since_ns) == now_ns);
    require(bins[0].empty.count == 2 && bins[0].filled == 0);
    (void)take(0);
    let_go(bins[0].empty.first == block ? other : block);
    require(found.emptied == 1 && found.emptied_after_ms == 0);
}
END_TEST

START_TEST(a_clock_that_goes_back_gives_no_age)
{
    struct block *block = take(0);

    leave_free(block, 0);
    now_ns = 12 * NS_PER_MS;
    let_go(block);
    give(block, BLOCK_ALL_FREE);
    now_ns = 5 * NS_PER_MS;
    look(0);
    require(found.emptied == 1 && found.emptied_after_ms == 0);
}
END_TEST

/* ---- the policy bump ------------------------------------------------------------------------- */

START_TEST(upwards_a_block_with_slices_is_in_no_bin)
{
    struct block *block = take(0);

    leave_free(block, run_of_bits(0, 63));
    let_go(block);
    require(bins[0].filled == 0 && load_relaxed(&block->state) == BLOCK_FILED && block->run == 0);
    require(take(0) != block && source == SOURCE_FRESH);
}
END_TEST

START_TEST(upwards_a_block_is_pushed_by_the_free_that_makes_it_empty)
{
    struct block *block = take(0);

    leave_free(block, 0);
    let_go(block);
    give(block, run_of_bits(0, 63));
    require(load_relaxed(&bins[0].look_again) == NULL && load_relaxed(&block->listed) == 0);
    give(block, bit_at(63));
    require(load_relaxed(&bins[0].look_again) == block);
    require(take(0) == block && source == SOURCE_EMPTY && found.emptied == 1 && found.looked == 1);
}
END_TEST

START_TEST(upwards_a_block_that_is_let_go_without_slices_is_empty)
{
    struct block *block = take(0);

    leave_free(block, 0);
    give(block, BLOCK_ALL_FREE);
    require(load_relaxed(&bins[0].look_again) == NULL); /* it is held */
    let_go(block);
    require(load_relaxed(&block->state) == BLOCK_EMPTY && is_first(&bins[0].empty, block) &&
            found.emptied == 1);
}
END_TEST

/* ---- random work ----------------------------------------------------------------------------- */

enum { MODEL_BLOCKS_MAX = 1000, MODEL_HELD = 6 };

static struct block *known[MODEL_BLOCKS_MAX], *held[MODEL_HELD];
static unsigned known_count;

/* What the next exchange has to find, by the words of all blocks. *run: of the block, if it is filed. */
static enum block_source expected_source(unsigned granules, unsigned *run)
{
    unsigned state_count[BLOCK_RELEASED + 1] = {0};

    *run = BLOCK_GRANULES;
    for (unsigned i = 0; i < known_count; i++) {
        unsigned state = load_relaxed(&known[i]->state),
                 longest = block_longest_run(load_relaxed(&known[i]->free));

        if (state == BLOCK_FILED && longest == BLOCK_GRANULES)
            state = BLOCK_EMPTY; /* whoever looks sees it */
        else if (state == BLOCK_FILED && bins[1].reuses_holes && longest >= granules && longest < *run)
            *run = longest;
        state_count[state]++;
    }
    return *run < BLOCK_GRANULES             ? SOURCE_FILED
           : state_count[BLOCK_EMPTY] > 0    ? SOURCE_EMPTY
           : state_count[BLOCK_RELEASED] > 0 ? SOURCE_RELEASED
                                             : SOURCE_FRESH;
}

static void exchange_as_expected(unsigned at, unsigned count, unsigned alignment_granules)
{
    unsigned run;
    enum block_source expected = expected_source(count + alignment_granules - 1, &run);
    struct block *block = exchange(1, held[at], count, (size_t)alignment_granules * 1024);

    require(block != NULL && source == expected);
    require(source != SOURCE_FILED || block_longest_run(load_relaxed(&block->free)) == run);
    require(source == SOURCE_FILED || load_relaxed(&block->free) == BLOCK_ALL_FREE);
    held[at] = block;
    if (source == SOURCE_FRESH) {
        require(known_count < MODEL_BLOCKS_MAX);
        known[known_count++] = block;
    }
}

static void carve_or_exchange(unsigned at, unsigned count, unsigned alignment_granules)
{
    for (unsigned i = 0; i < 2; i++) {
        bool is_touched;

        if (held[at] != NULL && (bins[1].reuses_holes ? block_carve : block_carve_upwards)(
                                    held[at], count, (size_t)alignment_granules * 1024, &is_touched) != NULL)
            return;
        require(i == 0);
        exchange_as_expected(at, count, alignment_granules);
    }
}

/* Slices of a block from `start` on, as many as begin in so many granules. */
static void free_some(struct block *block, unsigned start, unsigned granules)
{
    for (unsigned i = start; i < start + granules && i < BLOCK_GRANULES; i++) {
        unsigned count = load_relaxed(&block->marks[i]);

        if (count == 0)
            continue;
        require(block_end_life(&block->marks[i], count, 0));
        bins_freed(&bins[1], block, block_give(block, i, count));
    }
}

/* A filed block is in the bin that its word says, or on the stack. */
static void check_that_no_free_is_lost(void)
{
    size_t listed = 0, stacked = 0;

    for (unsigned i = 0; i < known_count; i++) {
        uint64_t free = load_relaxed(&known[i]->free);

        require(block_is_valid(known[i]));
        listed += load_relaxed(&known[i]->listed);
        if (load_relaxed(&known[i]->listed) != 0 || load_relaxed(&known[i]->state) != BLOCK_FILED)
            continue;
        require(free != BLOCK_ALL_FREE);
        require(known[i]->run == (bins[1].reuses_holes ? block_longest_run(free) : 0));
    }
    for (const struct block *block = load_relaxed(&bins[1].look_again); block != NULL;
         block = block->look_next)
        stacked++;
    require(listed == stacked);
}

static void random_step(uint64_t *random)
{
    unsigned at = random_below(random, MODEL_HELD), choice = random_below(random, 64);

    now_ns++;
    if (choice < 40) {
        carve_or_exchange(at, 1 + random_below(random, 12), 1U << random_below(random, 8) / 4);
    } else if (choice < 56 && known_count > 0) {
        free_some(known[random_below(random, known_count)], random_below(random, BLOCK_GRANULES),
                  1 + random_below(random, 24));
    } else if (choice < 61 && known_count > 0) {
        free_some(known[random_below(random, known_count)], 0, BLOCK_GRANULES);
    } else if (choice == 61 && held[at] != NULL) {
        let_go(held[at]);
        held[at] = NULL;
    } else if (choice == 62) {
        look(1);
    } else if (choice == 63) {
        (void)bins_release(&bins[1], region->page_bytes, now_ns - random_below(random, 50), &mark);
    }
    check_that_no_free_is_lost();
}

START_TEST(random_work_takes_the_block_that_fits_best_and_loses_no_free)
{
    uint64_t random = 99;

    bins[1].reuses_holes = _i == 0;
    known_count = 0;
    memset(held, 0, sizeof held);
    for (unsigned i = 0; i < 30000; i++)
        random_step(&random);
    for (unsigned i = 0; i < MODEL_HELD; i++)
        if (held[i] != NULL)
            let_go(held[i]);
    for (unsigned i = 0; i < known_count; i++)
        free_some(known[i], 0, BLOCK_GRANULES);
    look(1);
    require(bins[1].empty.count + bins[1].released.count == known_count && bins[1].filled == 0);
}
END_TEST

/* ---- pages back to the kernel ---------------------------------------------------------------- */

/*
 * By the block's end: at the beginning of what was discarded the page of zeros is mapped, see
 * discard_is_done.
 */
static bool is_resident(const struct block *block)
{
    char *end = block->data + block_bytes(block);
    unsigned char page;

    require(sys_mincore(end - sys_page_bytes(), 1, &page) == 0);
    return (page & 1) != 0;
}

static void let_go_empty(struct block *block, uint64_t emptied_ns)
{
    now_ns = emptied_ns;
    let_go(block);
    require(load_relaxed(&block->state) == BLOCK_EMPTY);
}

static size_t release(unsigned tier, uint64_t cutoff_ns)
{
    size_t released = bins_release(&bins[tier], region->page_bytes, cutoff_ns, &mark);

    check();
    return released;
}

START_TEST(only_old_blocks_lose_their_pages)
{
    struct block *old = take(1), *young = take(1), *used = take(1);

    memset(old->data, 1, block_bytes(old));
    memset(young->data, 1, block_bytes(young));
    memset(used->data, 1, block_bytes(used));
    old->touched = young->touched = BLOCK_GRANULES;
    let_go_empty(old, 100);
    let_go_empty(young, 300);
    require(release(1, 200) == 1 && release(0, 200) == 0);
    require(!is_resident(old) && is_resident(young) && is_resident(used));
    require(load_relaxed(&old->state) == BLOCK_RELEASED && old->touched == 0 && young->touched != 0);
    require(release(1, 200) == 0);
    require(take(1) == young && source == SOURCE_EMPTY);
    require(take(1) == old && source == SOURCE_RELEASED);
    require(old->data[0] == 0);
}
END_TEST

START_TEST(blocks_whose_pages_the_kernel_keeps_are_not_taken_for_fresh_ones)
{
    struct block *block = take(1);

    memset(block->data, 1, block_bytes(block));
    block->touched = BLOCK_GRANULES;
    require(mlock(block->data, 4096) == 0); /* 4 KiB may be locked by anybody */
    let_go_empty(block, 1);
    require(release(1, 100) == 0);
    require(load_relaxed(&block->state) == BLOCK_EMPTY);
    require(take(1) == block && source == SOURCE_EMPTY && block->touched == BLOCK_GRANULES);
}
END_TEST

START_TEST(a_block_that_keeps_its_pages_is_not_in_the_way_of_the_next)
{
    struct block *blocks[5]; /* of which every second is held: neighbours go back in one call */

    for (unsigned i = 0; i < 5; i++)
        blocks[i] = take(1);
    require(mlock(blocks[0]->data, 4096) == 0);
    let_go_empty(blocks[0], 1);
    let_go_empty(blocks[2], 2);
    require(release(1, 100) == 1);
    require(load_relaxed(&blocks[0]->state) == BLOCK_EMPTY &&
            load_relaxed(&blocks[2]->state) == BLOCK_RELEASED);
    let_go_empty(blocks[4], 3);
    require(release(1, 100) == 1);
    require(load_relaxed(&blocks[0]->state) == BLOCK_EMPTY &&
            load_relaxed(&blocks[4]->state) == BLOCK_RELEASED);
}
END_TEST

/*
 * Caches of registered memory rewrite libc's madvise to hear of it: a system call of ours they would not
 * hear.
 */
static unsigned heard;
static size_t heard_bytes;

static int hear(void *address, size_t bytes, int advice)
{
    (void)address;
    heard++;
    heard_bytes += advice == MADV_DONTNEED ? bytes : 0;
    return madvise(address, bytes, advice);
}

static void hear_release(size_t expected)
{
    int (*before)(void *, size_t, int) = libc.madvise;

    heard = 0;
    heard_bytes = 0;
    libc.madvise = hear;
    require(release(1, 1000) == expected);
    libc.madvise = before;
}

START_TEST(pages_go_back_through_the_c_librarys_own_function)
{
    struct block *block = take(1);

    block->data[0] = 1;
    let_go_empty(block, 1);
    hear_release(1);
    require(heard == 1 && heard_bytes == block_bytes(block));
}
END_TEST

START_TEST(neighbours_give_their_pages_back_in_one_call)
{
    static const unsigned order[] = {4, 0, 2, 1, 6, 5};
    struct block *blocks[7];

    for (unsigned i = 0; i < 7; i++)
        blocks[i] = take(1);
    for (unsigned i = 0; i < 6; i++) /* all but the fourth */
        let_go_empty(blocks[order[i]], 1 + i);
    hear_release(6);
    require(heard == 2 && heard_bytes == 6 * block_bytes(blocks[0]));
    require(load_relaxed(&blocks[3]->state) == BLOCK_HELD);
}
END_TEST

static int lie(void *address, size_t bytes, int advice)
{
    (void)address;
    (void)bytes;
    (void)advice;
    return 0;
}

START_TEST(a_kernel_that_only_says_that_it_took_pages_is_not_believed)
{
    int (*before)(void *, size_t, int) = libc.madvise;
    struct block *block = take(1);

    block->touched = 3;
    block->data[0] = 7;
    let_go_empty(block, 1);
    libc.madvise = lie;
    require(release(1, 10) == 0);
    libc.madvise = before;
    require(take(1) == block && source == SOURCE_EMPTY);
    require(block->touched == 3 && block->data[0] == 7);
}
END_TEST

/* A block that is claimed is in nobody's way, and in nobody's hands. */
static int take_meanwhile(void *address, size_t bytes, int advice)
{
    struct block *block = chunk_block_at(region_find(region, address), address);

    require(load_relaxed(&block->state) == BLOCK_CLAIMED);
    require(bins[1].empty.count == 0 && take(1) != block && source == SOURCE_FRESH);
    return madvise(address, bytes, advice);
}

START_TEST(while_pages_go_back_the_lock_is_free_and_the_block_nobodys)
{
    int (*before)(void *, size_t, int) = libc.madvise;
    struct block *block = take(1);

    let_go_empty(block, 1);
    libc.madvise = take_meanwhile;
    require(release(1, 10) == 1);
    libc.madvise = before;
    require(load_relaxed(&block->state) == BLOCK_RELEASED);
}
END_TEST

START_TEST(one_call_gives_back_about_four_mib)
{
    struct block *blocks[200];
    size_t released, all = 64;

    for (unsigned i = 0; i < 200; i++)
        blocks[i] = take(1);
    for (unsigned i = 0; i < 200; i++)
        let_go_empty(blocks[i], i);
    require(release(1, 1000) == 64);
    require(load_relaxed(&blocks[63]->state) == BLOCK_RELEASED); /* the oldest went first */
    require(load_relaxed(&blocks[64]->state) == BLOCK_EMPTY);
    while ((released = release(1, 1000)) > 0)
        all += released;
    require(all == 200);
}
END_TEST

/* As on a machine with 64 KiB pages; here the kernel's own pages are smaller, which does no harm. */
START_TEST(a_page_larger_than_a_block_goes_back_when_all_its_blocks_are_empty)
{
    struct block *blocks[16];
    size_t released, all = 0;

    setup_with_pages(64 << 10);
    for (unsigned i = 0; i < 16; i++) {
        blocks[i] = take(0);
        memset(blocks[i]->data, 1, block_bytes(blocks[i]));
    }
    for (unsigned i = 0; i < 15; i++) /* the first page's eight, and seven of the second's */
        let_go_empty(blocks[i], i);
    while ((released = release(0, 1000)) > 0)
        all += released;
    require(all == 8);
    for (unsigned i = 0; i < 16; i++)
        require(is_resident(blocks[i]) == (i >= 8));
    require(blocks[15]->data[0] == 1 && blocks[8]->data[0] == 1);
}
END_TEST

START_TEST(a_page_that_a_block_has_brought_back_goes_again_with_its_released_neighbours)
{
    struct block *blocks[16];

    setup_with_pages(64 << 10);
    for (unsigned i = 0; i < 16; i++)
        blocks[i] = take(0);
    for (unsigned i = 0; i < 16; i++)
        let_go_empty(blocks[i], i);
    while (release(0, 1000) > 0)
        ;
    require(bins[0].released.count == 16);
    require(exchange(0, NULL, 1, 1) != NULL && source == SOURCE_RELEASED);
    for (unsigned i = 0; i < 16; i++)
        if (load_relaxed(&blocks[i]->state) == BLOCK_HELD) {
            memset(blocks[i]->data, 1, block_bytes(blocks[i]));
            blocks[i]->touched = BLOCK_GRANULES;
            let_go_empty(blocks[i], 50);
            require(release(0, 1000) == 8);
            require(!is_resident(blocks[i]) && blocks[i]->touched == 0);
        }
    require(bins[0].released.count == 16 && bins[0].empty.count == 0);
}
END_TEST

START_TEST(a_page_with_a_held_neighbour_stays)
{
    struct block *blocks[8];

    setup_with_pages(64 << 10);
    for (unsigned i = 0; i < 8; i++)
        blocks[i] = take(0);
    for (unsigned i = 0; i < 8; i++)
        if (i != (unsigned)_i)
            let_go_empty(blocks[i], i);
    require(release(0, 1000) == 0 && bins[0].empty.count == 7);
    let_go_empty(blocks[_i], 9);
    require(release(0, 1000) == 8);
}
END_TEST

/* ---- no memory, and fork --------------------------------------------------------------------- */

START_TEST(without_address_space_the_current_block_is_still_held)
{
    struct rlimit none = {.rlim_cur = 1 << 20}, before;
    struct block *current = take(1), *last = current;

    leave_free(current, run_of_bits(0, 3));
    require(getrlimit(RLIMIT_AS, &before) == 0);
    none.rlim_max = before.rlim_max;
    require(setrlimit(RLIMIT_AS, &none) == 0);
    while (last != NULL) /* what was mapped already is still given */
        last = exchange(1, NULL, 4, 1);
    require(exchange(1, current, 4, 1) == NULL);
    require(load_relaxed(&current->state) == BLOCK_HELD && load_relaxed(&current->carver) == CARVER);
    require(setrlimit(RLIMIT_AS, &before) == 0);
    require(exchange(1, current, 4, 1) != NULL && source == SOURCE_FRESH);
    require(load_relaxed(&current->state) == BLOCK_FILED);
}
END_TEST

/* Of 64 KiB, which are whole pages on every machine. */
START_TEST(a_child_rebuilds_lists_that_a_vanished_thread_was_changing)
{
    struct block *empty = take(1), *released = take(1), *in_hand = take(1), *claimed = take(1);
    struct block *low = take(1), *high = take(1), *full = take(1);

    let_go_empty(released, 1);
    require(release(1, 10) == 1);
    let_go_empty(empty, 20);
    leave_free(low, run_of_bits(5, 3));
    leave_free(high, run_of_bits(5, 30));
    leave_free(full, 0);
    let_go(low);
    let_go(high);
    let_go(full);
    store_relaxed(&claimed->state, BLOCK_CLAIMED);
    lock_take(&bins[1].lock, &other_thread); /* and vanished, with the lists in some state */
    bins[1].empty.first = NULL;
    bins[1].released.last = empty;
    bins[1].runs[3].first = high;
    bins[1].runs[30].count = 5;
    bins[1].filled = BLOCK_ALL_FREE;
    bins[1].fresh = NULL;
    high->run = empty->run = 63;
    bins_after_fork(&bins[1], region, 1, &mark);
    check();
    require(load_relaxed(&bins[1].lock.word) == 0);
    require(exchange(1, NULL, 4, 1) == high && source == SOURCE_FILED);
    require(exchange(1, NULL, 1, 1) == low && source == SOURCE_FILED);
    require(exchange(1, NULL, 1, 1) == empty && source == SOURCE_EMPTY);
    require(exchange(1, NULL, 1, 1) == released && source == SOURCE_RELEASED);
    require(load_relaxed(&region->chunk_count) == 1);
    require(exchange(1, NULL, 1, 1) == full + 1 && source == SOURCE_FRESH);
    require(load_relaxed(&region->chunk_count) == 1);
    require(load_relaxed(&in_hand->state) == BLOCK_HELD && load_relaxed(&claimed->state) == BLOCK_CLAIMED);
    let_go(in_hand); /* as the thread that forked may */
    require(load_relaxed(&in_hand->state) == BLOCK_EMPTY);
}
END_TEST

START_TEST(a_child_finds_a_block_empty_that_was_filed_with_a_run)
{
    static const unsigned runs[] = {5};
    struct block *block;

    file_with_runs(&block, runs, 1);
    store_relaxed(&block->free, BLOCK_ALL_FREE); /* freed, and not pushed yet: its thread vanished, too */
    lock_take(&bins[0].lock, &other_thread);
    bins_after_fork(&bins[0], region, 0, &mark);
    check();
    require(is_first(&bins[0].empty, block) && block->run == 0);
}
END_TEST

START_TEST(a_child_finds_frees_that_were_on_the_stack)
{
    struct block *block = take(0), *other = take(0);

    leave_free(block, bit_at(0));
    leave_free(other, 0);
    let_go(block);
    let_go(other);
    give(block, run_of_bits(1, 6));
    give(other, run_of_bits(1, 4));
    if (_i != 0)
        lock_take(&bins[0].lock, &other_thread);
    bins_after_fork(&bins[0], region, 0, &mark);
    check();
    look(0);
    require(found.looked == 2 && is_first(&bins[0].runs[7], block) && is_first(&bins[0].runs[4], other));
}
END_TEST

/* A stack of blocks, with nothing of it in the bins. */
static struct block *chain(struct block *blocks[], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        store_relaxed(&blocks[i]->listed, 1);
        blocks[i]->look_next = i + 1 < count ? blocks[i + 1] : NULL;
    }
    return blocks[0];
}

/*
 * The thread vanished when it had taken the stack and looked at none, one, ... of it; and when the stack was
 * in sight and not taken yet, while others pushed on top of it.
 */
START_TEST(a_child_looks_through_a_stack_that_a_vanished_thread_had_taken)
{
    static const unsigned runs[] = {0, 0, 0, 0};
    struct block *blocks[4];
    unsigned looked = (unsigned)_i < 4 ? (unsigned)_i : 0;

    file_with_runs(blocks, runs, 4);
    for (unsigned i = 0; i < 4; i++)
        blocks[i]->free = run_of_bits(0, 10 + i);
    (void)chain(blocks, 4);
    for (unsigned i = 0; i < looked; i++)
        store_relaxed(&blocks[i]->listed, 0);
    if (_i < 4)
        store_relaxed(&bins[0].taken, blocks[looked]);
    else
        store_relaxed(&bins[0].taken, blocks[_i - 4]);
    store_relaxed(&bins[0].look_again, _i < 4 ? NULL : blocks[0]);
    lock_take(&bins[0].lock, &other_thread);
    bins_after_fork(&bins[0], region, 0, &mark);
    check();
    require(load_relaxed(&bins[0].taken) == NULL);
    look(0);
    require(found.looked == (_i < 4 ? 0 : 4)); /* each once */
    for (unsigned i = 0; i < 4; i++) {
        require(is_first(&bins[0].runs[10 + i], blocks[i]) && load_relaxed(&blocks[i]->listed) == 0);
        give(blocks[i], run_of_bits(20, 20)); /* and it is pushed again */
        require(load_relaxed(&bins[0].look_again) == blocks[i]);
    }
    look(0);
    require(found.looked == 4 && bins[0].runs[20].count == 4);
}
END_TEST

START_TEST(blocks_that_are_pushed_during_a_look_stay_for_the_next)
{
    static const unsigned runs[] = {0, 0};
    struct block *blocks[2];

    file_with_runs(blocks, runs, 2);
    give(blocks[0], run_of_bits(0, 3));
    look(0);
    require(load_relaxed(&bins[0].taken) == NULL && load_relaxed(&bins[0].look_again) == NULL);
    give(blocks[1], run_of_bits(0, 4));
    give(blocks[0], run_of_bits(3, 3));
    look(0);
    require(found.looked == 2 && is_first(&bins[0].runs[6], blocks[0]) &&
            is_first(&bins[0].runs[4], blocks[1]));
}
END_TEST

START_TEST(a_child_finds_a_fresh_block_that_was_being_taken)
{
    struct block *first = take(0), *second;
    struct chunk *chunk = region_find(region, first->data);

    lock_take(&bins[0].lock, &other_thread);
    second = &first[1]; /* written in part, and not handed out */
    second->data = first->data + block_bytes(first);
    bins_after_fork(&bins[0], region, 0, &mark);
    require(bins[0].fresh == chunk && take(0) == second && load_relaxed(&second->free) == BLOCK_ALL_FREE);
    while (load_relaxed(&chunk->used_blocks) < chunk->block_count)
        (void)take(0);
    lock_take(&bins[0].lock, &other_thread);
    bins_after_fork(&bins[0], region, 0, &mark);
    require(bins[0].fresh == NULL);
    require(region_find(region, take(0)->data) != chunk);
}
END_TEST

START_TEST(a_child_whose_own_thread_holds_a_lock_leaves_it_held)
{
    static const unsigned runs[] = {5, 0};
    struct block *blocks[2];

    file_with_runs(blocks, runs, 2);
    lock_take(&bins[0].lock, &mark);
    bins_after_fork(&bins[0], region, 0, &mark);
    require(load_relaxed(&bins[0].lock.word) == 1);
    lock_drop(&bins[0].lock);
    check();
    require(exchange(0, NULL, 5, 1) == blocks[0]);
}
END_TEST

START_TEST(lists_that_contradict_their_blocks_are_told)
{
    static const unsigned runs[] = {5, 5, 0};
    struct block *blocks[3];

    file_with_runs(blocks, runs, 2);
    blocks[2] = take(1);
    let_go(blocks[2]);
    require(!bins_are_valid(&bins[0], 1) && !bins_are_valid(&bins[1], 0));
    bins[0].filled |= bit_at(6);
    require(!bins_are_valid(&bins[0], 0));
    bins[0].filled = bit_at(5);
    bins[0].runs[5].count++;
    require(!bins_are_valid(&bins[0], 0));
    bins[0].runs[5].count--;
    blocks[0]->run = 4;
    require(!bins_are_valid(&bins[0], 0));
    blocks[0]->run = 5;
    store_relaxed(&blocks[1]->state, BLOCK_HELD);
    require(!bins_are_valid(&bins[0], 0));
    store_relaxed(&blocks[1]->state, BLOCK_FILED);
    blocks[0]->previous = NULL;
    require(!bins_are_valid(&bins[0], 0));
    blocks[0]->previous = blocks[1];
    bins[0].runs[5].last = blocks[1];
    require(!bins_are_valid(&bins[0], 0));
    bins[0].runs[5].last = blocks[0];
    store_relaxed(&blocks[2]->free, 1);
    require(!bins_are_valid(&bins[1], 1));
    store_relaxed(&blocks[2]->free, BLOCK_ALL_FREE);
    check();
}
END_TEST

static void add_tests_of_filing(Suite *suite)
{
    TCase *tests = tcase_create("filing");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, blocks_are_aligned_to_their_size_and_no_two_overlap);
    tcase_add_test(tests, who_takes_a_block_holds_it);
    tcase_add_test(tests, a_filed_block_comes_before_an_empty_one_a_released_and_a_fresh);
    tcase_add_test(tests, what_was_emptied_last_is_taken_first);
    tcase_add_test(tests, a_block_is_filed_by_its_longest_run);
    tcase_add_test(tests, the_fullest_block_that_has_the_room_is_taken);
    tcase_add_test(tests, of_two_in_one_bin_the_latest_is_taken);
    tcase_add_test(tests, an_aligned_slice_fits_the_block_that_is_taken_for_it);
    tcase_add_test(tests, the_current_block_is_let_go_and_not_taken_again_at_once);
    tcase_add_test(tests, a_block_that_is_freed_into_is_found_again);
    tcase_add_test(tests, a_block_that_is_freed_into_moves_to_a_higher_bin);
    tcase_add_test(tests, a_block_is_pushed_once_until_it_is_looked_at);
    tcase_add_test(tests, a_free_into_a_held_block_is_its_holders_to_find);
    tcase_add_test(tests, a_block_on_the_stack_that_is_held_meanwhile_is_left_to_its_holder);
    tcase_add_test(tests, a_block_that_is_let_go_while_on_the_stack_is_in_one_bin);
    tcase_add_test(tests, a_late_push_leaves_a_block_without_slices_where_it_is);
    tcase_add_test(tests, a_block_that_turns_out_to_be_without_slices_is_empty_and_counted);
    tcase_add_test(tests, a_clock_that_goes_back_gives_no_age);
    tcase_add_loop_test(tests, random_work_takes_the_block_that_fits_best_and_loses_no_free, 0, 2);
    tcase_add_test(tests, lists_that_contradict_their_blocks_are_told);
    suite_add_tcase(suite, tests);
}

static void add_tests_upwards(Suite *suite)
{
    TCase *tests = tcase_create("upwards");

    tcase_add_checked_fixture(tests, setup_upwards, NULL);
    tcase_add_test(tests, upwards_a_block_with_slices_is_in_no_bin);
    tcase_add_test(tests, upwards_a_block_is_pushed_by_the_free_that_makes_it_empty);
    tcase_add_test(tests, upwards_a_block_that_is_let_go_without_slices_is_empty);
    suite_add_tcase(suite, tests);
}

static void add_tests_of_pages_and_fork(Suite *suite)
{
    TCase *tests = tcase_create("pages");

    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, only_old_blocks_lose_their_pages);
    tcase_add_test(tests, blocks_whose_pages_the_kernel_keeps_are_not_taken_for_fresh_ones);
    tcase_add_test(tests, a_block_that_keeps_its_pages_is_not_in_the_way_of_the_next);
    tcase_add_test(tests, pages_go_back_through_the_c_librarys_own_function);
    tcase_add_test(tests, neighbours_give_their_pages_back_in_one_call);
    tcase_add_test(tests, a_kernel_that_only_says_that_it_took_pages_is_not_believed);
    tcase_add_test(tests, while_pages_go_back_the_lock_is_free_and_the_block_nobodys);
    tcase_add_test(tests, one_call_gives_back_about_four_mib);
    tcase_add_test(tests, a_page_larger_than_a_block_goes_back_when_all_its_blocks_are_empty);
    tcase_add_test(tests, a_page_that_a_block_has_brought_back_goes_again_with_its_released_neighbours);
    tcase_add_loop_test(tests, a_page_with_a_held_neighbour_stays, 0, 8);
    tcase_add_test(tests, a_child_rebuilds_lists_that_a_vanished_thread_was_changing);
    tcase_add_test(tests, a_child_finds_a_block_empty_that_was_filed_with_a_run);
    tcase_add_loop_test(tests, a_child_finds_frees_that_were_on_the_stack, 0, 2);
    tcase_add_loop_test(tests, a_child_looks_through_a_stack_that_a_vanished_thread_had_taken, 0, 8);
    tcase_add_test(tests, blocks_that_are_pushed_during_a_look_stay_for_the_next);
    tcase_add_test(tests, a_child_finds_a_fresh_block_that_was_being_taken);
    tcase_add_test(tests, a_child_whose_own_thread_holds_a_lock_leaves_it_held);
    suite_add_tcase(suite, tests);
}

int main(void)
{
    Suite *suite = suite_create("bins");

    if (!libc_find())
        return EXIT_FAILURE;
    add_tests_of_filing(suite);
    add_tests_upwards(suite);
    add_tests_of_pages_and_fork(suite);
    add_tagged_test(suite, "address_space", without_address_space_the_current_block_is_still_held, setup);
    return run_unit_suite(suite);
}
