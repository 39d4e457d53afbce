/* SPDX-License-Identifier: MIT */
/* region: see region.h. */
#include "pool/region.h"

#include "base/sys.h"

_Static_assert((int)OPTIONS_BLOCK_BYTES_MAX <= (int)CHUNK_BYTES,
               "a chunk holds at least one block of any size");

/* Metadata is taken from the kernel this much at a time while no growth has left any. */
enum { METADATA_BYTES = 256 << 10 };

/* At most so many blocks, and about so many bytes, go back to the kernel in one call. */
enum { RELEASE_BLOCKS_MAX = 64, RELEASE_BYTES_MAX = 4 << 20 };

void region_init(struct region *region, const struct tiers *sizes, size_t page_bytes)
{
    region->sizes = sizes;
    region->figures = &region->own_figures;
    region->page_bytes = page_bytes;
    region->next_growth_bytes = CHUNK_BYTES;
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

/*
 * Maps `chunk_bytes` of aligned chunks. To be aligned the mapping is nearly a chunk longer; the larger
 * of its two ends becomes metadata if that is more than what is left of the old one.
 */
static bool map_space_locked(struct region *region, size_t chunk_bytes)
{
    size_t bytes = chunk_bytes + CHUNK_BYTES - region->page_bytes;
    char *low, *high, *first;
    void *address;

    if (sys_map(bytes, &address) != 0)
        return false;
    low = address;
    high = low + bytes;
    first = low + (align_up((uintptr_t)low, CHUNK_BYTES) - (uintptr_t)low);
    if ((uintptr_t)high >> (CHUNK_SHIFT + LEAF_BITS + ROOT_BITS) != 0) {
        (void)sys_unmap(address, bytes); /* beyond what the tables span */
        return false;
    }
    region->space = first;
    region->space_end = first + chunk_bytes;
    if (first - low < high - region->space_end)
        low = region->space_end;
    else
        high = first;
    if (high - low > region->metadata_end - region->metadata) {
        region->metadata = low;
        region->metadata_end = high;
    }
    atomic_fetch_add_explicit(&region->figures->reserved_bytes, bytes, memory_order_relaxed);
    return true;
}

static bool grow_space_locked(struct region *region)
{
    for (size_t bytes = region->next_growth_bytes; bytes >= CHUNK_BYTES; bytes /= 2)
        if (map_space_locked(region, bytes)) {
            region->next_growth_bytes = min_size(bytes * 2, GROWTH_BYTES_MAX);
            return true;
        }
    region->next_growth_bytes = CHUNK_BYTES; /* the next try costs one call */
    return false;
}

static void *metadata_locked(struct region *region, size_t bytes)
{
    char *taken;

    bytes = align_up(bytes, CACHE_LINE_BYTES);
    if ((size_t)(region->metadata_end - region->metadata) < bytes) {
        size_t more = max_size(align_up(bytes, region->page_bytes), METADATA_BYTES);
        void *address;

        if (sys_map(more, &address) != 0)
            return NULL;
        region->metadata = address;
        region->metadata_end = region->metadata + more;
        atomic_fetch_add_explicit(&region->figures->reserved_bytes, more, memory_order_relaxed);
    }
    taken = region->metadata;
    region->metadata += bytes;
    atomic_fetch_add_explicit(&region->figures->metadata_bytes, bytes, memory_order_relaxed);
    return taken;
}

void *region_metadata(struct region *region, size_t bytes, const void *self)
{
    void *taken;

    lock_take(&region->growth, self);
    taken = metadata_locked(region, bytes);
    lock_drop(&region->growth);
    return taken;
}

/* Makes the chunk findable. The leaf first, then the chunk in it, then the list that the dump walks. */
static bool publish_chunk_locked(struct region *region, struct chunk *chunk)
{
    uintptr_t bits = (uintptr_t)chunk->base;
    _Atomic(struct leaf *) *root = &region->root[bits >> (CHUNK_SHIFT + LEAF_BITS)];
    struct leaf *leaf = load_relaxed(root);

    if (leaf == NULL) {
        leaf = metadata_locked(region, sizeof *leaf);
        if (leaf == NULL)
            return false;
        /* release: pairs with the consume loads in region_find. */
        atomic_store_explicit(root, leaf, memory_order_release);
    }
    chunk->next = load_relaxed(&region->chunks);
    /* release: as above. */
    atomic_store_explicit(&leaf->chunks[bits >> CHUNK_SHIFT & ((1 << LEAF_BITS) - 1)], chunk,
                          memory_order_release);
    /* release: pairs with the acquire load of whoever walks the chunks. */
    atomic_store_explicit(&region->chunks, chunk, memory_order_release);
    atomic_fetch_add_explicit(&region->chunk_count, 1, memory_order_relaxed);
    return true;
}

/*
 * Cuts one more chunk for the tier. Its blocks are not written: zeroed metadata says BLOCK_FRESH. If
 * metadata runs out, the space stays for the next try.
 */
static struct chunk *cut_chunk_locked(struct region *region, unsigned tier)
{
    unsigned block_shift = region->sizes->block_shift[tier];
    uint32_t block_count = 1U << (CHUNK_SHIFT - block_shift);
    struct chunk *chunk;

    if (region->space == region->space_end && !grow_space_locked(region))
        return NULL;
    chunk = metadata_locked(region,
                            align_up(sizeof *chunk, CACHE_LINE_BYTES) + block_count * sizeof(struct block));
    if (chunk == NULL)
        return NULL;
    chunk->base = region->space;
    chunk->blocks = (struct block *)((char *)chunk + align_up(sizeof *chunk, CACHE_LINE_BYTES));
    chunk->block_count = block_count;
    chunk->block_shift = (uint8_t)block_shift;
    chunk->tier = (uint8_t)tier;
    if (!publish_chunk_locked(region, chunk))
        return NULL;
    region->space += CHUNK_BYTES;
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

/* One madvise for each stretch of neighbours. */
static void discard(const struct claim *claim)
{
    for (size_t i = 0, next; i < claim->count; i = next) {
        char *start = claim->blocks[i]->data;
        size_t bytes = block_bytes(claim->blocks[i]);

        for (next = i + 1; next < claim->count && claim->blocks[next]->data == start + bytes; next++)
            bytes += block_bytes(claim->blocks[next]);
        (void)sys_discard(start, bytes);
    }
}

/* touched is the owner's word; a claimed block has none, and the lists lock orders us with the next. */
static void put_released_locked(struct block_list *released, const struct claim *claim)
{
    for (size_t i = 0; i < claim->count; i++) {
        claim->blocks[i]->touched = 0;
        store_relaxed(&claim->blocks[i]->state, BLOCK_RELEASED);
        block_list_push(released, claim->blocks[i]);
    }
}

bool region_release(struct region *region, uint64_t cutoff_ns, uint64_t released_blocks[TIERS_MAX],
                    const void *self)
{
    bool has_more = false;

    for (unsigned t = 0; t < region->sizes->count; t++) {
        struct region_tier *tier = &region->tiers[t];
        struct claim claim = {.count = 0};

        lock_take(&region->lists, self);
        claim_old_locked(region, &tier->empty, &claim, cutoff_ns);
        lock_drop(&region->lists);
        if (claim.count == 0)
            continue;
        has_more = true;
        discard(&claim);
        lock_take(&region->lists, self);
        put_released_locked(&tier->released, &claim);
        lock_drop(&region->lists);
        released_blocks[t] += claim.count;
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
    /* Under the growth lock every step leaves the structures whole: at worst some space is forgotten. */
    if (lock_is_orphaned(&region->growth, self))
        lock_reset(&region->growth);
}
