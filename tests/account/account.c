/* SPDX-License-Identifier: MIT */
/*
 * account: pins a known number of blocks with known live bytes, works out by itself what a dump must
 * say, and takes the dump. The library's account is compared with this one, number by number.
 *
 *   account [--policy reuse] --pools BYTES[,BYTES]... [--threads N] --expect DIR
 *
 * Under bump, the default, it is known which slice lies in which block; under reuse only what all of them hold.
 *
 * Each dump is a SIGUSR1 to itself; what it must say is written before to DIR/1, DIR/2, ... in the
 * form that check_dump reads. Run it with PINPOOL_POOLS set to the same sizes and
 * PINPOOL_DECAY_MS=86400000, so that no block's pages go back to the kernel meanwhile.
 *
 * The model, from the design alone: a block has 64 granules. A request of n bytes goes to the
 * smallest block whose half holds it and takes ceil(n / granule) granules, strictly upwards. A block
 * retires when a request does not fit above the last slice, and another is opened: an empty one if
 * there is, else a fresh one. A current block that becomes empty starts over. An aligned request skips the
 * granules below the next multiple. A retired block with a live slice is pinned, without one it is empty.
 *
 * Nothing in here may allocate behind the model's back: memory is static, output is write(2).
 */
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/test.h"

enum {
    GRANULES = 64,
    TIERS_MAX = 4,
    THREADS_MAX = 8,
    SLICES_MAX = 1200, /* a thread */
    BLOCKS_MAX = 1200, /* a thread and tier */
    MIN_BYTES = 1025,  /* PINPOOL_MIN's default */
    OCCUPANCY_MAX = 7, /* 1, 2, 3-4, 5-8, ..., 33-64 live slices */
};

/* A block as the model sees it. */
struct model_block {
    unsigned live_slices, live_granules;
};

/* What one thread has of one tier. */
struct model_tier {
    struct model_block blocks[BLOCKS_MAX];
    unsigned block_count; /* opened fresh, so far */
    unsigned empty[BLOCKS_MAX], empty_count;
    unsigned current; /* index into blocks; valid when has_current */
    bool has_current;
    unsigned top; /* granules of the current block used from below */
    uint64_t carved_slices, carved_granules, freed_slices, freed_granules, retired, emptied, reopened;
};

struct model_slice {
    void *address; /* NULL: freed */
    unsigned tier, block, granules;
};

/* A thread that allocates, and so a heap. */
struct actor {
    struct model_tier tiers[TIERS_MAX];
    struct model_slice slices[SLICES_MAX];
    unsigned slice_count;
    unsigned index;
};

static struct actor actors[THREADS_MAX];
static size_t block_bytes[TIERS_MAX];
static unsigned tier_count, actor_count = 1, dump_count;
static const char *expect_dir;
static int expect_fd;

/* Frees by other threads than the owner of the block, over all tiers: counted where they are made. */
static uint64_t remote_slices[TIERS_MAX], remote_granules[TIERS_MAX];

static void model_open(struct model_tier *tier)
{
    if (tier->has_current)
        tier->retired++;
    if (tier->empty_count > 0) {
        tier->current = tier->empty[--tier->empty_count];
        tier->reopened++;
    } else {
        REQUIRE(tier->block_count < BLOCKS_MAX);
        tier->current = tier->block_count++;
    }
    tier->has_current = true;
    tier->top = 0;
}

/* alignment: 16 is any; else a power of two of at most half a block. */
static void actor_allocate(struct actor *actor, unsigned tier_index, size_t bytes, size_t alignment)
{
    struct model_tier *tier = &actor->tiers[tier_index];
    size_t granule_bytes = block_bytes[tier_index] / GRANULES;
    unsigned granules = (unsigned)((bytes + granule_bytes - 1) / granule_bytes);
    unsigned step = alignment > granule_bytes ? (unsigned)(alignment / granule_bytes) : 1;
    unsigned start = (tier->top + step - 1) / step * step;
    struct model_slice *slice = &actor->slices[actor->slice_count++];

    REQUIRE(actor->slice_count <= SLICES_MAX);
    if (!tier->has_current || start + granules > GRANULES) {
        model_open(tier);
        start = 0;
    }
    tier->top = start + granules;
    tier->blocks[tier->current].live_slices++;
    tier->blocks[tier->current].live_granules += granules;
    tier->carved_slices++;
    tier->carved_granules += granules;
    *slice = (struct model_slice){NULL, tier_index, tier->current, granules};
    if (alignment == 16)
        slice->address = test_hide(malloc(bytes));
    else
        REQUIRE(posix_memalign(&slice->address, alignment, bytes) == 0);
    REQUIRE(slice->address != NULL && (uintptr_t)slice->address % alignment == 0);
}

/* The model's half of a free; `is_remote` when another thread than the block's owner makes it. */
static void model_free(struct actor *owner, struct model_slice *slice, bool is_remote)
{
    struct model_tier *tier = &owner->tiers[slice->tier];
    struct model_block *block = &tier->blocks[slice->block];

    block->live_slices--;
    block->live_granules -= slice->granules;
    if (is_remote) {
        remote_slices[slice->tier]++;
        remote_granules[slice->tier] += slice->granules;
    } else {
        tier->freed_slices++;
        tier->freed_granules += slice->granules;
    }
    if (block->live_slices == 0 && slice->block != tier->current) {
        tier->empty[tier->empty_count++] = slice->block;
        tier->emptied++;
    } else if (block->live_slices == 0) {
        tier->top = 0;
    }
    slice->address = NULL;
}

static size_t tier_smallest(unsigned tier)
{
    size_t below = tier == 0 ? 0 : block_bytes[tier - 1] / 2;

    return below + 1 > MIN_BYTES ? below + 1 : MIN_BYTES;
}

/* Slices of random sizes of every tier, the tiers mixed; both ends of each tier's range are among them. */
static void actor_fill(struct actor *actor, unsigned rounds, uint64_t *random)
{
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned tier = 0; tier < tier_count; tier++) {
            size_t low = tier_smallest(tier), high = block_bytes[tier] / 2;
            size_t bytes = round == 0 ? low : round == 1 ? high : test_random_size(random, low, high);

            /* Large blocks are costly and the same for the model: a few of them will do. */
            if (block_bytes[tier] > 65536 && round >= 40)
                continue;
            actor_allocate(actor, tier, bytes,
                           round % 8 == 7 ? (size_t)32 << test_random_below(random, 7) : 16); /* to 2 KiB */
        }
}

/* The last slice of each tier stays, so that the current block never becomes empty. */
static bool is_last_of_tier(const struct actor *actor, unsigned index)
{
    for (unsigned i = index + 1; i < actor->slice_count; i++)
        if (actor->slices[i].tier == actor->slices[index].tier && actor->slices[i].address != NULL)
            return false;
    return true;
}

/*
 * Frees about `percent` of an actor's slices: some runs of neighbours, so that blocks become empty,
 * and for the rest here and there one. `collected`: the addresses, to be freed by somebody else.
 */
static unsigned actor_choose(struct actor *actor, unsigned percent, uint64_t *random, bool is_remote,
                             void **collected)
{
    unsigned count = 0;
    bool in_run = false;

    for (unsigned i = 0; i < actor->slice_count; i++) {
        struct model_slice *slice = &actor->slices[i];

        if (i % 40 == 0)
            in_run = test_random_below(random, 100) < percent;
        if (slice->address == NULL || (!in_run && test_random_below(random, 100) >= percent) ||
            is_last_of_tier(actor, i))
            continue;
        collected[count++] = slice->address;
        model_free(actor, slice, is_remote);
    }
    return count;
}

static void free_all(void *const *addresses, unsigned count, uint64_t *random)
{
    static void *shuffled[SLICES_MAX]; /* of whoever frees: one thread at a time */

    memcpy(shuffled, addresses, count * sizeof *addresses);
    for (unsigned i = count; i > 0; i--) {
        unsigned pick = (unsigned)test_random_below(random, i);
        void *address = shuffled[pick];

        shuffled[pick] = shuffled[i - 1];
        free(address);
    }
}

static void expect(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void expect(const char *format, ...)
{
    char line[256];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    REQUIRE(length > 0 && (size_t)length < sizeof line);
    REQUIRE(write(expect_fd, line, (size_t)length) == length);
}

/* The sums over all actors for one tier. */
struct expected_tier {
    uint64_t current, pinned, empty, live_slices, live_granules, pinned_granules, sole;
    uint64_t occupancy[OCCUPANCY_MAX];
    uint64_t carved_slices, carved_granules, freed_slices, freed_granules, retired, emptied, reopened, opened;
};

static unsigned occupancy_of(unsigned live_slices)
{
    unsigned index = 0;

    while (1u << index < live_slices)
        index++;
    return index;
}

static void add_blocks(struct expected_tier *sum, const struct model_tier *tier)
{
    for (unsigned i = 0; i < tier->block_count; i++) {
        const struct model_block *block = &tier->blocks[i];

        sum->live_slices += block->live_slices;
        sum->live_granules += block->live_granules;
        if (tier->has_current && i == tier->current) {
            sum->current++;
        } else if (block->live_slices == 0) {
            sum->empty++;
        } else {
            sum->pinned++;
            sum->pinned_granules += block->live_granules;
            sum->occupancy[occupancy_of(block->live_slices)]++;
            sum->sole += block->live_slices == 1;
        }
    }
}

static struct expected_tier expected_of(unsigned tier_index)
{
    struct expected_tier sum = {0};

    for (unsigned i = 0; i < actor_count; i++) {
        const struct model_tier *tier = &actors[i].tiers[tier_index];

        add_blocks(&sum, tier);
        sum.carved_slices += tier->carved_slices;
        sum.carved_granules += tier->carved_granules;
        sum.freed_slices += tier->freed_slices;
        sum.freed_granules += tier->freed_granules;
        sum.retired += tier->retired;
        sum.emptied += tier->emptied;
        sum.opened += tier->block_count;
        sum.reopened += tier->reopened;
    }
    return sum;
}

static void expect_counter(const char *name, size_t size, uint64_t value)
{
    expect("counter block_bytes=%zu name=%s value = %llu\n", size, name, (unsigned long long)value);
}

static void expect_number(size_t size, const char *field, uint64_t value)
{
    expect("tier block_bytes=%zu %s = %llu\n", size, field, (unsigned long long)value);
}

static void expect_occupancy(size_t size, const struct expected_tier *tier)
{
    for (unsigned i = 0; i < OCCUPANCY_MAX; i++) {
        unsigned from = i == 0 ? 1 : (1u << (i - 1)) + 1;

        expect("occupancy block_bytes=%zu from_slices=%u blocks = %llu\n", size, from,
               (unsigned long long)tier->occupancy[i]);
    }
}

/* What belongs to the blocks' states: known as long as no thread ended. */
static void expect_states(size_t size, const struct expected_tier *tier)
{
    uint64_t granule_bytes = size / GRANULES;

    expect_number(size, "granule_bytes", granule_bytes);
    expect_number(size, "cached_bytes", 0);
    expect_number(size, "held_bytes", (tier->current + tier->pinned + tier->empty) * size);
    expect_number(size, "current_blocks", tier->current);
    expect_number(size, "pinned_blocks", tier->pinned);
    expect_number(size, "empty_blocks", tier->empty);
    expect_number(size, "released_blocks", 0);
    expect_number(size, "sole_pinner_blocks", tier->sole);
    expect_number(size, "pinned_live_bytes", tier->pinned_granules * granule_bytes);
    expect_number(size, "stranded_bytes", tier->pinned * size - tier->pinned_granules * granule_bytes);
    expect_occupancy(size, tier);
    expect_counter("opened_fresh_blocks", size, tier->opened);
    expect_counter("opened_empty_blocks", size, tier->reopened);
    expect_counter("opened_released_blocks", size, 0);
    expect_counter("retired_blocks", size, tier->retired);
}

static bool is_place_known = true; /* of every slice */

/* What is known always. */
static void expect_sums(unsigned tier_index, const struct expected_tier *tier)
{
    size_t size = block_bytes[tier_index], granule_bytes = size / GRANULES;

    expect_number(size, "live_slices", tier->live_slices);
    expect_number(size, "live_bytes", tier->live_granules * granule_bytes);
    expect_number(size, "min_request_bytes", tier_smallest(tier_index));
    expect_number(size, "max_request_bytes", size / 2);
    expect_counter("carved_slices", size, tier->carved_slices);
    expect_counter("carved_bytes", size, tier->carved_granules * granule_bytes);
    if (!is_place_known && actor_count > 1)
        return; /* a thread frees what another has carved, where a block has had both */
    expect_counter("freed_local_slices", size, tier->freed_slices);
    expect_counter("freed_local_bytes", size, tier->freed_granules * granule_bytes);
    expect_counter("freed_remote_slices", size, remote_slices[tier_index]);
    expect_counter("freed_remote_bytes", size, remote_granules[tier_index] * granule_bytes);
}

/* One dump and what it must say. When blocks are found to be empty is not known: that counter is left out. */
static void take_dump(bool are_states_known)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%u", expect_dir, ++dump_count);
    expect_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(expect_fd >= 0);
    for (unsigned i = 0; i < tier_count; i++) {
        struct expected_tier tier = expected_of(i);

        expect_sums(i, &tier);
        if (are_states_known && is_place_known)
            expect_states(block_bytes[i], &tier);
    }
    REQUIRE(close(expect_fd) == 0);
    test_dump(SIGUSR1);
}

static void *chosen[THREADS_MAX][SLICES_MAX];
static unsigned chosen_count[THREADS_MAX];

/* One slice at a time, many times: one block of each tier is enough. */
static void allocate_and_free_each(struct actor *actor, unsigned rounds, uint64_t *random)
{
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned tier = 0; tier < tier_count; tier++) {
            void *address;

            actor_allocate(actor, tier, test_random_size(random, tier_smallest(tier), block_bytes[tier] / 2),
                           16);
            address = actor->slices[--actor->slice_count].address;
            model_free(actor, &actor->slices[actor->slice_count], false);
            free(address);
        }
}

/* One thread: one at a time, fill, free some, fill again over what became empty, free all but the last of
 * each tier. */
static void run_alone(void)
{
    struct actor *actor = &actors[0];
    uint64_t random = 1;

    take_dump(true); /* nothing was allocated: all zero */
    allocate_and_free_each(actor, 500, &random);
    take_dump(true);
    actor_fill(actor, 200, &random);
    take_dump(true);
    chosen_count[0] = actor_choose(actor, 40, &random, false, chosen[0]);
    free_all(chosen[0], chosen_count[0], &random);
    take_dump(true);
    actor_fill(actor, 80, &random);
    take_dump(true);
    chosen_count[0] = actor_choose(actor, 100, &random, false, chosen[0]);
    free_all(chosen[0], chosen_count[0], &random);
    take_dump(true);
}

static pthread_barrier_t barrier;

static void meet(void)
{
    int status = pthread_barrier_wait(&barrier);

    REQUIRE(status == 0 || status == PTHREAD_BARRIER_SERIAL_THREAD);
}

/* The actors take turns where they free, so that the model needs no lock. */
static void take_turns(const struct actor *actor, void *const *addresses, unsigned count, uint64_t *random)
{
    for (unsigned turn = 0; turn < actor_count; turn++) {
        if (turn == actor->index)
            free_all(addresses, count, random);
        meet();
    }
}

/* Fill; free half of the neighbour's; free half of one's own. The main thread dumps in between. */
static void *act(void *argument)
{
    struct actor *actor = argument;
    uint64_t random = actor->index + 100;
    unsigned neighbour = (actor->index + 1) % actor_count;

    actor_fill(actor, 100, &random);
    meet();
    meet(); /* the dump; the main thread chooses what goes */
    take_turns(actor, chosen[neighbour], chosen_count[neighbour], &random);
    meet(); /* the dump, the next choice */
    take_turns(actor, chosen[actor->index], chosen_count[actor->index], &random);
    meet(); /* the dump */
    return NULL;
}

static void choose_of_all(unsigned percent, bool is_remote, uint64_t *random)
{
    for (unsigned i = 0; i < actor_count; i++)
        chosen_count[i] = actor_choose(&actors[i], percent, random, is_remote, chosen[i]);
}

static void meet_turns(void)
{
    for (unsigned turn = 0; turn < actor_count; turn++)
        meet();
}

static void run_together(void)
{
    static pthread_t threads[THREADS_MAX];
    uint64_t random = 2;

    REQUIRE(pthread_barrier_init(&barrier, NULL, actor_count + 1) == 0);
    for (unsigned i = 0; i < actor_count; i++) {
        actors[i].index = i;
        REQUIRE(pthread_create(&threads[i], NULL, act, &actors[i]) == 0);
    }
    meet(); /* all have filled */
    take_dump(true);
    choose_of_all(40, true, &random);
    meet();
    meet_turns(); /* all have freed what the others had */
    take_dump(true);
    choose_of_all(30, false, &random);
    meet();
    meet_turns(); /* all have freed of their own */
    take_dump(true);
    meet();
    for (unsigned i = 0; i < actor_count; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    take_dump(false); /* the threads are gone, what they hold is not */
}

static void parse_pools(const char *text)
{
    char *end;

    do {
        REQUIRE(tier_count < TIERS_MAX);
        block_bytes[tier_count++] = strtoul(text, &end, 10);
        text = end + 1;
    } while (*end == ',');
    REQUIRE(*end == '\0');
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"policy", required_argument, NULL, 'r'},
                                            {"pools", required_argument, NULL, 'p'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"expect", required_argument, NULL, 'e'},
                                            {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'r')
            is_place_known = strcmp(optarg, "bump") == 0;
        else if (option == 'p')
            parse_pools(optarg);
        else if (option == 't')
            actor_count = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'e')
            expect_dir = optarg;
        else
            test_fail("usage: account [--policy POLICY] --pools BYTES[,BYTES]... [--threads N] --expect DIR");
    }
    REQUIRE(tier_count > 0 && expect_dir != NULL && actor_count >= 1 && actor_count <= THREADS_MAX);
    if (actor_count == 1)
        run_alone();
    else
        run_together();
    return 0;
}
