/* SPDX-License-Identifier: MIT */
/* region: see region.h. */
#include "pool/region.h"

#include <errno.h>

#include "base/sys.h"

_Static_assert((int)OPTIONS_BLOCK_BYTES_MAX <= (int)CHUNK_BYTES,
               "a chunk holds at least one block of any size");

/* Metadata is taken from the kernel this much at a time while no growth has left any. */
enum { METADATA_BYTES = 256 << 10 };

/* At most so many blocks, and about so many bytes, go back to the kernel in one call. */
enum { RELEASE_BLOCKS_MAX = 64, RELEASE_BYTES_MAX = 4 << 20 };

_Static_assert(RELEASE_BLOCKS_MAX <= 64, "claim.kept has a bit for each");

void region_init(struct region *region, const struct tiers *sizes, size_t page_bytes)
{
    region->sizes = sizes;
    region->page_bytes = page_bytes;
}

void block_list_push(struct block_list *list, struct block *block)
{
    block->previous = NULL;
    block->next = list->first;
    if (list->first != NULL)
        list->first->previous = block;
    else
        list->last = block;
    list->first = block;
    list->count++;
}

void block_list_remove(struct block_list *list, struct block *block)
{
    if (block->previous != NULL)
        block->previous->next = block->next;
    else
        list->first = block->next;
    if (block->next != NULL)
        block->next->previous = block->previous;
    else
        list->last = block->previous;
    list->count--;
}

/*
 * Takes the first block out, for somebody. Its state says at once that no list has it: after a fork
 * the lists are rebuilt from the states, and the block may be in the hands of the surviving thread.
 */
static struct block *take_first_locked(struct block_list *list)
{
    struct block *block = list->first;

    if (block != NULL) {
        block_list_remove(list, block);
        store_relaxed(&block->state, BLOCK_CLAIMED);
    }
    return block;
}

/* ---- growth ---------------------------------------------------------------------------------- */

static void stretch_begin(struct stretch *stretch, char *start, size_t bytes)
{
    store_relaxed(&stretch->left_bytes, 0);
    atomic_thread_fence(memory_order_release); /* `end` changes while nothing is left: see struct stretch */
    stretch->end = start + bytes;
    atomic_store_explicit(&stretch->left_bytes, bytes, memory_order_release);
}

/* The next `bytes` of it, which are left. */
static char *stretch_take(struct stretch *stretch, size_t bytes)
{
    size_t left = load_relaxed(&stretch->left_bytes);

    atomic_store_explicit(&stretch->left_bytes, left - bytes, memory_order_release);
    return stretch->end - left;
}

/*
 * At the highest aligned place below `above`; NULL when that is taken. Linux maps from high to low, so below
 * its last mapping there is mostly room. A kernel before 4.17 takes the address for a hint and may answer
 * with another.
 */
static char *map_below(char *above, size_t bytes)
{
    char *wanted = above - ((uintptr_t)above & (CHUNK_BYTES - 1)) - bytes;
    void *address;

    if ((uintptr_t)above <= bytes + CHUNK_BYTES || sys_map_exactly(wanted, bytes, &address) != 0)
        return NULL;
    if (address == wanted)
        return wanted;
    (void)sys_unmap(address, bytes);
    return NULL;
}

/* Anywhere: nearly a chunk more is mapped, and the larger of the ends that are left over becomes metadata. */
static char *map_anywhere_locked(struct region *region, size_t bytes)
{
    size_t mapped_bytes = bytes + CHUNK_BYTES - region->page_bytes;
    char *low, *start, *high;
    void *address;

    if (sys_map(mapped_bytes, &address) != 0)
        return NULL;
    low = address;
    high = low + mapped_bytes;
    region->lowest = low;
    start = low + (align_up((uintptr_t)low, CHUNK_BYTES) - (uintptr_t)low);
    if (start - low < high - (start + bytes))
        low = start + bytes;
    else
        high = start;
    if ((size_t)(high - low) > load_relaxed(&region->metadata.left_bytes))
        stretch_begin(&region->metadata, low, (size_t)(high - low));
    atomic_fetch_add_explicit(&region->figures.reserved_bytes, mapped_bytes - bytes, memory_order_relaxed);
    return start;
}

/*
 * At least a chunk, at most `bytes`. The rest is added below the first chunk when new memory is not locked
 * (mlockall): locked memory is filled by mmap itself, a millisecond for each chunk, and others wait
 * meanwhile.
 */
static char *map_chunks_locked(struct region *region, size_t bytes, size_t *mapped_bytes)
{
    char *start = region->lowest == NULL ? NULL : map_below(region->lowest, CHUNK_BYTES);
    char *more = NULL;

    *mapped_bytes = CHUNK_BYTES;
    if (start == NULL)
        return map_anywhere_locked(region, CHUNK_BYTES);
    if (bytes > CHUNK_BYTES && sys_discard(start, region->page_bytes) != -EINVAL)
        more = map_below(start, bytes - CHUNK_BYTES);
    if (more != NULL)
        *mapped_bytes = bytes;
    region->lowest = more != NULL ? more : start;
    return region->lowest;
}

/* By a quarter of what there is. */
static bool grow_space_locked(struct region *region)
{
    size_t wanted_bytes = align_down(region->space_bytes / 4, CHUNK_BYTES);
    size_t bytes;
    char *start =
        map_chunks_locked(region, min_size(max_size(wanted_bytes, CHUNK_BYTES), GROWTH_BYTES_MAX), &bytes);

    if (start == NULL)
        return false;
    if (((uintptr_t)start + bytes) >> (CHUNK_SHIFT + LEAF_BITS + ROOT_BITS) != 0) {
        (void)sys_unmap(start, bytes); /* beyond what the tables span */
        return false;
    }
    region->space_bytes += bytes;
    stretch_begin(&region->space, start, bytes);
    atomic_fetch_add_explicit(&region->figures.reserved_bytes, bytes, memory_order_relaxed);
    return true;
}

static void *metadata_locked(struct region *region, size_t bytes)
{
    bytes = align_up(bytes, CACHE_LINE_BYTES);
    if (load_relaxed(&region->metadata.left_bytes) < bytes) {
        size_t more = max_size(align_up(bytes, region->page_bytes), METADATA_BYTES);
        void *address;

        if (sys_map(more, &address) != 0)
            return NULL;
        stretch_begin(&region->metadata, address, more);
        if (region->lowest == NULL)
            region->lowest = address;
        atomic_fetch_add_explicit(&region->figures.reserved_bytes, more, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&region->figures.metadata_bytes, bytes, memory_order_relaxed);
    return stretch_take(&region->metadata, bytes);
}

void *region_metadata(struct region *region, size_t bytes, const void *self)
{
    void *taken;

    lock_take(&region->growth, self);
    taken = metadata_locked(region, bytes);
    lock_drop(&region->growth);
    return taken;
}

/* The leaf that an address belongs to, made if there is none; NULL when there is no memory for it. */
static struct leaf *leaf_locked(struct region *region, const char *address)
{
    _Atomic(struct leaf *) *root = &region->root[(uintptr_t)address >> (CHUNK_SHIFT + LEAF_BITS)];
    struct leaf *leaf = load_relaxed(root);

    if (leaf == NULL) {
        leaf = metadata_locked(region, sizeof *leaf);
        /* release: pairs with the consume loads in region_find. */
        atomic_store_explicit(root, leaf, memory_order_release);
    }
    return leaf;
}

/* Makes the chunk findable, and then the dump's to walk. */
static void publish_chunk_locked(struct region *region, struct leaf *leaf, struct chunk *chunk)
{
    chunk->next = load_relaxed(&region->chunks);
    /* release: pairs with the consume loads in region_find. */
    atomic_store_explicit(&leaf->chunks[(uintptr_t)chunk->base >> CHUNK_SHIFT & ((1 << LEAF_BITS) - 1)],
                          chunk, memory_order_release);
    /* release: pairs with the acquire load of whoever walks the chunks. */
    atomic_store_explicit(&region->chunks, chunk, memory_order_release);
    atomic_fetch_add_explicit(&region->chunk_count, 1, memory_order_relaxed);
}

/*
 * Cuts one more chunk for the tier. Its blocks are not written: zeroed metadata says BLOCK_FRESH. Space is
 * taken when all the rest is at hand, so it is not lost when metadata runs out.
 */
static struct chunk *cut_chunk_locked(struct region *region, unsigned tier)
{
    unsigned block_shift = region->sizes->block_shift[tier];
    uint32_t block_count = 1U << (CHUNK_SHIFT - block_shift);
    size_t head_bytes = align_up(sizeof(struct chunk), CACHE_LINE_BYTES);
    struct chunk *chunk;
    struct leaf *leaf;

    if (load_relaxed(&region->space.left_bytes) == 0 && !grow_space_locked(region))
        return NULL;
    leaf = leaf_locked(region, region->space.end - load_relaxed(&region->space.left_bytes));
    if (leaf == NULL)
        return NULL;
    chunk = metadata_locked(region, head_bytes + block_count * sizeof(struct block));
    if (chunk == NULL)
        return NULL;
    chunk->base = stretch_take(&region->space, CHUNK_BYTES);
    chunk->blocks = (struct block *)((char *)chunk + head_bytes);
    chunk->block_count = block_count;
    chunk->block_shift = (uint8_t)block_shift;
    chunk->tier = (uint8_t)tier;
    publish_chunk_locked(region, leaf, chunk);
    return chunk;
}

/* ---- the lists ------------------------------------------------------------------------------- */

struct block *region_take_empty(struct region *region, unsigned tier, const void *self)
{
    struct block *block;

    lock_take(&region->lists, self);
    block = take_first_locked(&region->tiers[tier].empty);
    lock_drop(&region->lists);
    return block;
}

static struct block *take_fresh_locked(struct region_tier *tier)
{
    struct chunk *chunk = tier->fresh;
    struct block *block;
    uint32_t used;

    if (chunk == NULL)
        return NULL;
    used = load_relaxed(&chunk->used_blocks);
    block = &chunk->blocks[used];
    if (used + 1 == chunk->block_count)
        tier->fresh = NULL;
    block->data = chunk->base + ((size_t)used << chunk->block_shift);
    block->granule_shift = (uint8_t)(chunk->block_shift - BLOCK_GRANULES_LOG2);
    block->tier = chunk->tier;
    store_relaxed(&block->free, BLOCK_ALL_FREE);
    /* release: pairs with the acquire of whoever walks the blocks. */
    atomic_store_explicit(&chunk->used_blocks, used + 1, memory_order_release);
    return block;
}

static struct block *take_unbacked_locked(struct region_tier *tier, enum block_source *source)
{
    struct block *block = take_first_locked(&tier->released);

    *source = SOURCE_RELEASED;
    if (block == NULL) {
        block = take_fresh_locked(tier);
        *source = SOURCE_FRESH;
    }
    return block;
}

/*
 * The growth lock is held over the second look, so of several threads that find nothing one cuts a
 * chunk and the others take from it.
 */
static struct block *take_unbacked_slow(struct region *region, unsigned tier, enum block_source *source,
                                        const void *self)
{
    struct region_tier *of = &region->tiers[tier];
    struct block *block;
    struct chunk *chunk;

    lock_take(&region->growth, self);
    lock_take(&region->lists, self);
    block = take_unbacked_locked(of, source);
    lock_drop(&region->lists);
    if (block == NULL && (chunk = cut_chunk_locked(region, tier)) != NULL) {
        lock_take(&region->lists, self);
        of->fresh = chunk;
        block = take_fresh_locked(of);
        *source = SOURCE_FRESH;
        lock_drop(&region->lists);
    }
    lock_drop(&region->growth);
    return block;
}

struct block *region_take_unbacked(struct region *region, unsigned tier, enum block_source *source,
                                   const void *self)
{
    struct block *block;

    lock_take(&region->lists, self);
    block = take_unbacked_locked(&region->tiers[tier], source);
    lock_drop(&region->lists);
    return block != NULL ? block : take_unbacked_slow(region, tier, source, self);
}

void region_give(struct region *region, unsigned tier, struct block_list *blocks, const void *self)
{
    struct block_list *empty = &region->tiers[tier].empty;

    lock_take(&region->lists, self);
    while (blocks->last != NULL) { /* the oldest first, so that the list stays in order of age */
        struct block *block = blocks->last;

        block_list_remove(blocks, block);
        store_relaxed(&block->state, BLOCK_EMPTY);
        block_list_push(empty, block);
    }
    lock_drop(&region->lists);
}

/* ---- pages back to the kernel ---------------------------------------------------------------- */

/* Blocks claimed in one call, in order of address. */
struct claim {
    size_t count;
    size_t bytes;
    uint64_t kept; /* bit i: the kernel did not take the pages of blocks[i] (locked memory, a filter) */
    struct block *blocks[RELEASE_BLOCKS_MAX];
};

static void claim_locked(struct block_list *empty, struct claim *claim, struct block *block)
{
    size_t at = claim->count++;

    block_list_remove(empty, block);
    store_relaxed(&block->state, BLOCK_CLAIMED);
    claim->bytes += block_bytes(block);
    for (; at > 0 && claim->blocks[at - 1]->data > block->data; at--)
        claim->blocks[at] = claim->blocks[at - 1];
    claim->blocks[at] = block;
}

/*
 * Where pages are larger than blocks, a page goes back only as a whole: the block's neighbours in its
 * page must be empty too. Blocks of a chunk lie in order, so the group is a range of its array.
 */
static bool claim_group_locked(struct region *region, struct block_list *empty, struct claim *claim,
                               struct block *block)
{
    size_t group = max_size(region->page_bytes / block_bytes(block), 1);
    struct block *first = block - ((uintptr_t)block->data & (region->page_bytes - 1)) / block_bytes(block);

    if (group > 1) {
        for (size_t i = 0; i < group; i++)
            if (load_relaxed(&first[i].state) != BLOCK_EMPTY)
                return false;
        block = first;
    }
    if (claim->count + group > RELEASE_BLOCKS_MAX)
        return false;
    for (size_t i = 0; i < group; i++)
        claim_locked(empty, claim, &block[i]);
    return true;
}

/* From the oldest on. A block that cannot go yet goes to the front, out of the way of the next look. */
static void claim_old_locked(struct region *region, struct block_list *empty, struct claim *claim,
                             uint64_t cutoff_ns)
{
    size_t looks = min_size(empty->count, RELEASE_BLOCKS_MAX);

    while (looks-- > 0 && empty->last != NULL && claim->bytes < RELEASE_BYTES_MAX) {
        struct block *oldest = empty->last;

        if (oldest->emptied_ns > cutoff_ns)
            break;
        if (!claim_group_locked(region, empty, claim, oldest)) {
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
 * touched is the owner's word; a claimed block has none, and the lists' lock orders us with the next. A block
 * that kept its pages goes to the front, out of the way of the next look. Returns how many did not.
 */
static size_t put_back_locked(struct region_tier *tier, const struct claim *claim)
{
    for (size_t i = 0; i < claim->count; i++) {
        struct block *block = claim->blocks[i];
        bool is_kept = (claim->kept >> i & 1) != 0;

        if (!is_kept)
            block->touched = 0;
        store_relaxed(&block->state, is_kept ? BLOCK_EMPTY : BLOCK_RELEASED);
        block_list_push(is_kept ? &tier->empty : &tier->released, block);
    }
    return claim->count - count_bits(claim->kept);
}

bool region_release(struct region *region, uint64_t cutoff_ns, uint64_t released_blocks[TIERS_MAX],
                    const void *self)
{
    bool has_more = false;

    for (unsigned t = 0; t < region->sizes->count; t++) {
        struct region_tier *tier = &region->tiers[t];
        struct claim claim = {.count = 0};
        size_t released;

        lock_take(&region->lists, self);
        claim_old_locked(region, &tier->empty, &claim, cutoff_ns);
        lock_drop(&region->lists);
        if (claim.count == 0)
            continue;
        discard(&claim);
        lock_take(&region->lists, self);
        released = put_back_locked(tier, &claim);
        lock_drop(&region->lists);
        released_blocks[t] += released;
        has_more = has_more || released > 0;
    }
    return has_more;
}

/* ---- fork ------------------------------------------------------------------------------------ */

/*
 * A block in the hands of a vanished thread (popped and not opened yet, or claimed) is in a state
 * that no list wants; it stays out: address space, no memory.
 */
static void rebuild_lists(struct region *region)
{
    for (unsigned t = 0; t < TIERS_MAX; t++)
        region->tiers[t] = (struct region_tier){.fresh = NULL};
    for (struct chunk *chunk = load_relaxed(&region->chunks); chunk != NULL; chunk = chunk->next) {
        struct region_tier *tier = &region->tiers[chunk->tier];
        uint32_t used = load_relaxed(&chunk->used_blocks);

        for (uint32_t i = 0; i < used; i++) {
            struct block *block = &chunk->blocks[i];

            if (load_relaxed(&block->state) == BLOCK_EMPTY)
                block_list_push(&tier->empty, block);
            else if (load_relaxed(&block->state) == BLOCK_RELEASED)
                block_list_push(&tier->released, block);
        }
        if (used < chunk->block_count)
            tier->fresh = chunk;
    }
}

void region_after_fork(struct region *region, const void *self)
{
    if (lock_is_orphaned(&region->lists, self)) {
        rebuild_lists(region);
        lock_reset(&region->lists);
    }
    /*
     * Under the growth lock every step leaves the structures whole (struct stretch): at worst space is lost.
     */
    if (lock_is_orphaned(&region->growth, self))
        lock_reset(&region->growth);
}
