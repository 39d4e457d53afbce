/* SPDX-License-Identifier: MIT */
/* bins: see bins.h. */
#include "pool/bins.h"

#include "base/sys.h"

/* At most so many blocks, and about so many bytes, go back to the kernel in one call. */
enum { RELEASE_BLOCKS_MAX = 64, RELEASE_BYTES_MAX = 4 << 20 };

_Static_assert(RELEASE_BLOCKS_MAX <= 64, "claim.kept has a bit for each");

void block_list_push(struct block_list *list, struct block *block)
{
    block->previous = NULL;
    block->next = list->first;
    if (list->first)
        list->first->previous = block;
    else
        list->last = block;
    list->first = block;
    list->count++;
}

void block_list_remove(struct block_list *list, struct block *block)
{
    if (block->previous)
        block->previous->next = block->next;
    else
        list->first = block->next;
    if (block->next)
        block->next->previous = block->previous;
    else
        list->last = block->previous;
    list->count--;
}

/* ---- filing ---------------------------------------------------------------------------------- */

static void set_state(struct block *block, enum block_state state)
{
    atomic_store(&block->state, (uint8_t)state); /* seq_cst: bins.h, "no free is lost" */
}

/* Out of the bin that it is in, if any. */
static void unfile_locked(struct bins *bins, struct block *block)
{
    struct block_list *list = &bins->runs[block->run];

    if (block->run == 0)
        return;
    block_list_remove(list, block);
    if (list->count == 0)
        bins->filled &= ~bit_at(block->run);
    block->run = 0;
}

/* A block that is FILED and in no bin goes where its word says. */
static void file_locked(struct bins *bins, struct block *block, uint64_t now_ns, struct bins_found *found)
{
    /* seq_cst: bins.h, "no free is lost"; and it pairs with the ORs. */
    uint64_t free = atomic_load(&block->free), since_ns = load_relaxed(&block->since_ns);

    if (free == BLOCK_ALL_FREE) {
        found->emptied++;
        found->emptied_after_ms += now_ns > since_ns ? (now_ns - since_ns) / NS_PER_MS : 0;
        store_relaxed(&block->since_ns, now_ns);
        set_state(block, BLOCK_EMPTY);
        block_list_push(&bins->empty, block);
        return;
    }
    block->run = bins->reuses_holes ? (uint8_t)block_longest_run(free) : 0;
    if (block->run == 0)
        return;
    block_list_push(&bins->runs[block->run], block);
    bins->filled |= bit_at(block->run);
}

static void look_through_taken_locked(struct bins *bins, uint64_t now_ns, struct bins_found *found)
{
    struct block *block;

    while ((block = load_relaxed(&bins->taken)) != NULL) {
        store_relaxed(&bins->taken,
                      block->look_next); /* the link is read before `listed` is cleared: bins.h */
        atomic_store(&block->listed, 0);
        if (load_relaxed(&block->state) == BLOCK_FILED) {
            unfile_locked(bins, block);
            file_locked(bins, block, now_ns, found);
        }
        found->looked++;
    }
}

static void look_again_locked(struct bins *bins, uint64_t now_ns, struct bins_found *found)
{
    /* acquire, here and below: pairs with the release of the push, for look_next. */
    struct block *first = atomic_load_explicit(&bins->look_again, memory_order_acquire);

    if (!first)
        return;
    /* In sight before it is taken: a fork in between finds it in both places. */
    do
        atomic_store_explicit(&bins->taken, first, memory_order_release);
    while (!atomic_compare_exchange_weak_explicit(&bins->look_again, &first, NULL, memory_order_acq_rel,
                                                  memory_order_acquire));
    look_through_taken_locked(bins, now_ns, found);
}

static void let_go_locked(struct bins *bins, struct block *block, uint64_t now_ns, struct bins_found *found)
{
    store_relaxed(&block->since_ns, now_ns);
    block->run = 0;
    set_state(block, BLOCK_FILED);
    file_locked(bins, block, now_ns, found);
}

void bins_let_go(struct bins *bins, struct block *block, uint64_t now_ns, struct bins_found *found,
                 const void *self)
{
    lock_take(&bins->lock, self);
    let_go_locked(bins, block, now_ns, found);
    lock_drop(&bins->lock);
}

void bins_look_again(struct bins *bins, uint64_t now_ns, struct bins_found *found, const void *self)
{
    lock_take(&bins->lock, self);
    look_again_locked(bins, now_ns, found);
    lock_drop(&bins->lock);
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* For the heap that will carve from it. */
static struct block *hold_locked(struct block *block, uint32_t carver, uint64_t now_ns)
{
    store_relaxed(&block->carver, carver);
    store_relaxed(&block->since_ns, now_ns);
    set_state(block, BLOCK_HELD);
    return block;
}

/* The fullest block that has the room. `granules` in a row hold the slice wherever they begin. */
static struct block *take_filed_locked(struct bins *bins, unsigned granules)
{
    uint64_t fitting = granules < BLOCK_GRANULES ? bins->filled & -bit_at(granules) : 0;
    struct block *block;

    if (fitting == 0)
        return NULL;
    block = bins->runs[__builtin_ctzll(fitting)].first;
    unfile_locked(bins, block);
    return block;
}

static struct block *take_first_locked(struct block_list *list)
{
    struct block *block = list->first;

    if (block)
        block_list_remove(list, block);
    return block;
}

static struct block *take_fresh_locked(struct bins *bins)
{
    struct chunk *chunk = bins->fresh;
    struct block *block;
    uint32_t used;

    if (!chunk)
        return NULL;
    used = load_relaxed(&chunk->used_blocks);
    block = &chunk->blocks[used];
    if (used + 1 == chunk->block_count)
        bins->fresh = NULL;
    block->data = chunk->base + ((size_t)used << chunk->block_shift);
    block->granule_shift = (uint8_t)(chunk->block_shift - BLOCK_GRANULES_LOG2);
    block->tier = chunk->tier;
    store_relaxed(&block->free, BLOCK_ALL_FREE);
    /* release: pairs with the acquire of whoever walks the blocks. */
    atomic_store_explicit(&chunk->used_blocks, used + 1, memory_order_release);
    return block;
}

/* The fullest that fits; else one with pages, one without, one never used. */
static struct block *take_locked(struct bins *bins, unsigned granules, enum block_source *source)
{
    struct block *block = take_filed_locked(bins, granules);

    *source = SOURCE_FILED;
    if (!block) {
        block = take_first_locked(&bins->empty);
        *source = SOURCE_EMPTY;
    }
    if (!block) {
        block = take_first_locked(&bins->released);
        *source = SOURCE_RELEASED;
    }
    if (!block) {
        block = take_fresh_locked(bins);
        *source = SOURCE_FRESH;
    }
    return block;
}

/*
 * The growth lock is held over the second look, so of several threads that find nothing one cuts a chunk and the
 * others take from it. The lock of the bins is held when it returns.
 */
static struct block *grow_and_lock(struct bins *bins, struct region *region, unsigned tier, unsigned granules,
                                   enum block_source *source, const void *self)
{
    struct block *block;
    struct chunk *chunk;

    lock_take(&region->growth, self);
    lock_take(&bins->lock, self);
    block = take_locked(bins, granules, source);
    if (!block) {
        lock_drop(&bins->lock);
        chunk = region_cut_chunk_locked(region, tier);
        lock_take(&bins->lock, self);
        if (chunk)
            bins->fresh = chunk;
        block = take_locked(bins, granules, source);
    }
    lock_drop(&region->growth);
    return block;
}

struct block *bins_exchange(struct bins *bins, struct region *region, unsigned tier, struct block *current,
                            uint32_t carver, unsigned count, size_t alignment, uint64_t now_ns,
                            enum block_source *source, struct bins_found *found, const void *self)
{
    size_t more = alignment >> (region->sizes->block_shift[tier] - BLOCK_GRANULES_LOG2);
    unsigned granules = count + (more > 1 ? (unsigned)more - 1 : 0);
    struct block *block;

    lock_take(&bins->lock, self);
    look_again_locked(bins, now_ns, found);
    block = take_locked(bins, granules, source);
    if (!block) {
        lock_drop(&bins->lock);
        block = grow_and_lock(bins, region, tier, granules, source, self);
    }
    if (block) {
        hold_locked(block, carver, now_ns);
        if (current)
            let_go_locked(bins, current, now_ns, found);
    }
    lock_drop(&bins->lock);
    return block;
}

/* ---- pages back to the kernel ---------------------------------------------------------------- */

/* Blocks claimed in one call, in order of address. */
struct claim {
    size_t count;
    size_t bytes;
    uint64_t kept; /* bit i: the kernel did not take the pages of blocks[i] (locked memory, a filter) */
    struct block *blocks[RELEASE_BLOCKS_MAX];
};

static void claim_locked(struct bins *bins, struct claim *claim, struct block *block)
{
    size_t at = claim->count++;

    block_list_remove(load_relaxed(&block->state) == BLOCK_EMPTY ? &bins->empty : &bins->released, block);
    set_state(block, BLOCK_CLAIMED);
    claim->bytes += block_bytes(block);
    for (; at > 0 && claim->blocks[at - 1]->data > block->data; at--)
        claim->blocks[at] = claim->blocks[at - 1];
    claim->blocks[at] = block;
}

/*
 * Where pages are larger than blocks, a page goes back only as a whole: the block's neighbours in its page must be
 * empty too, or be released, whose page a neighbour has brought back. Blocks of a chunk lie in order, so the group is
 * a range of its array.
 */
static bool claim_group_locked(struct bins *bins, struct claim *claim, struct block *block, size_t page_bytes)
{
    size_t group = max_size(page_bytes / block_bytes(block), 1);
    struct block *first = block - ((uintptr_t)block->data & (page_bytes - 1)) / block_bytes(block);

    if (group > 1) {
        for (size_t i = 0; i < group; i++)
            if (load_relaxed(&first[i].state) != BLOCK_EMPTY &&
                load_relaxed(&first[i].state) != BLOCK_RELEASED)
                return false;
        block = first;
    }
    if (claim->count + group > RELEASE_BLOCKS_MAX)
        return false;
    for (size_t i = 0; i < group; i++)
        claim_locked(bins, claim, &block[i]);
    return true;
}

/* From the oldest on. A block that cannot go yet goes to the front, out of the way of the next look. */
static void claim_old_locked(struct bins *bins, struct claim *claim, size_t page_bytes, uint64_t cutoff_ns)
{
    struct block_list *empty = &bins->empty;
    size_t looks = min_size(empty->count, RELEASE_BLOCKS_MAX);

    while (looks-- > 0 && empty->last && claim->bytes < RELEASE_BYTES_MAX) {
        struct block *oldest = empty->last;

        if (load_relaxed(&oldest->since_ns) > cutoff_ns)
            break;
        if (!claim_group_locked(bins, claim, oldest, page_bytes)) {
            block_list_remove(empty, oldest);
            block_list_push(empty, oldest);
        }
    }
}

/*
 * There are kernels, emulators and filters that answer 0 to madvise and do nothing. Then calloc would hand
 * out what was there, so the answer is not believed: a mark is left in the pages and looked for afterwards.
 * The look costs one fault, which maps the page of zeros that all processes share.
 */
static bool discard_is_done(char *start, size_t bytes)
{
    volatile char *mark = start;
    char before = *mark;

    *mark = 1;
    if (sys_discard(start, bytes) == 0 && *mark == 0)
        return true;
    *mark = before;
    return false;
}

/* One madvise for each row of neighbours. */
static void discard(struct claim *claim)
{
    for (size_t i = 0, next; i < claim->count; i = next) {
        char *start = claim->blocks[i]->data;
        size_t bytes = block_bytes(claim->blocks[i]);

        for (next = i + 1; next < claim->count && claim->blocks[next]->data == start + bytes; next++)
            bytes += block_bytes(claim->blocks[next]);
        if (!discard_is_done(start, bytes))
            claim->kept |= run_of_bits((unsigned)i, (unsigned)(next - i));
    }
}

/*
 * `touched` is the holder's; a claimed block has none, and the lock orders us with the next. A block
 * that kept its pages goes to the front, out of the way of the next look. Returns how many did not.
 */
static size_t put_back_locked(struct bins *bins, const struct claim *claim)
{
    for (size_t i = 0; i < claim->count; i++) {
        struct block *block = claim->blocks[i];
        bool is_kept = (claim->kept >> i & 1) != 0;

        if (!is_kept)
            block->touched = 0;
        set_state(block, is_kept ? BLOCK_EMPTY : BLOCK_RELEASED);
        block_list_push(is_kept ? &bins->empty : &bins->released, block);
    }
    return claim->count - count_bits(claim->kept);
}

size_t bins_release(struct bins *bins, size_t page_bytes, uint64_t cutoff_ns, const void *self)
{
    struct claim claim = {.count = 0};
    size_t released;

    lock_take(&bins->lock, self);
    claim_old_locked(bins, &claim, page_bytes, cutoff_ns);
    lock_drop(&bins->lock);
    if (claim.count == 0)
        return 0;
    discard(&claim);
    lock_take(&bins->lock, self);
    released = put_back_locked(bins, &claim);
    lock_drop(&bins->lock);
    return released;
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Is it on the look-again stack, from below its first? Pushes only put blocks before it. */
static bool is_on_stack(struct bins *bins, const struct block *wanted)
{
    for (const struct block *block = atomic_load_explicit(&bins->look_again, memory_order_acquire); block;
         block = block->look_next)
        if (block == wanted)
            return true;
    return false;
}

/*
 * Blocks that a vanished thread had in its hands on the way from one list to another, or was giving the pages of,
 * are in a state that no list wants: they stay out. Nothing is lost by filing a block once more. What is on the
 * look-again stack, to which threads of the child may be pushing, is left there; a stack that the vanished thread
 * had taken is looked through to its end.
 */
static void rebuild_lists(struct bins *bins, struct region *region, unsigned tier)
{
    struct bins_found ignored = {0};

    for (unsigned run = 0; run < BLOCK_GRANULES; run++)
        bins->runs[run] = (struct block_list){.count = 0};
    bins->empty = bins->released = (struct block_list){.count = 0};
    bins->filled = 0;
    bins->fresh = NULL;
    for (struct chunk *chunk = load_relaxed(&region->chunks); chunk; chunk = chunk->next) {
        uint32_t used = load_relaxed(&chunk->used_blocks);

        if (chunk->tier != tier)
            continue;
        for (uint32_t i = 0; i < used; i++) {
            struct block *block = &chunk->blocks[i];
            uint8_t state = load_relaxed(&block->state);

            if (state == BLOCK_EMPTY)
                block_list_push(&bins->empty, block);
            else if (state == BLOCK_RELEASED)
                block_list_push(&bins->released, block);
            block->run = 0;
            if (state == BLOCK_FILED)
                file_locked(bins, block, load_relaxed(&block->since_ns), &ignored);
        }
        if (used < chunk->block_count)
            bins->fresh = chunk;
    }
    if (is_on_stack(bins, load_relaxed(&bins->taken)))
        store_relaxed(&bins->taken, NULL); /* it was not taken yet */
    look_through_taken_locked(bins, sys_now_coarse_ns(), &ignored);
}

void bins_after_fork(struct bins *bins, struct region *region, unsigned tier, const void *self)
{
    if (!lock_is_orphaned(&bins->lock, self))
        return;
    rebuild_lists(bins, region, tier);
    lock_reset(&bins->lock);
}

/* ---- for tests ------------------------------------------------------------------------------- */

static bool list_is_valid(const struct block_list *list, unsigned tier, enum block_state state, unsigned run)
{
    const struct block *previous = NULL;
    size_t count = 0;

    for (const struct block *block = list->first; block; previous = block, block = block->next, count++)
        if (block->previous != previous || block->tier != tier || load_relaxed(&block->state) != state ||
            block->run != run || (state != BLOCK_FILED && load_relaxed(&block->free) != BLOCK_ALL_FREE))
            return false;
    return count == list->count && list->last == previous;
}

bool bins_are_valid(const struct bins *bins, unsigned tier)
{
    for (unsigned run = 0; run < BLOCK_GRANULES; run++)
        if (!list_is_valid(&bins->runs[run], tier, BLOCK_FILED, run) ||
            (bins->filled >> run & 1) != (bins->runs[run].count > 0))
            return false;
    return list_is_valid(&bins->empty, tier, BLOCK_EMPTY, 0) &&
           list_is_valid(&bins->released, tier, BLOCK_RELEASED, 0);
}
