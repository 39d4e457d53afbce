/* SPDX-License-Identifier: MIT */
/* region: see region.h. */
#include "pool/region.h"

#include <errno.h>

#include "base/sys.h"

_Static_assert((int)OPTIONS_BLOCK_BYTES_MAX <= (int)CHUNK_BYTES,
               "a chunk holds at least one block of any size");

/* Metadata is taken from the kernel this much at a time while no growth has left any. */
enum { METADATA_BYTES = 256 << 10, METADATA_ALIGNMENT = sizeof(struct block) };

void region_init(struct region *region, const struct tiers *sizes, size_t page_bytes)
{
    region->sizes = sizes;
    region->page_bytes = page_bytes;
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
    char *start = !region->lowest ? NULL : map_below(region->lowest, CHUNK_BYTES);
    char *more = NULL;

    *mapped_bytes = CHUNK_BYTES;
    if (!start)
        return map_anywhere_locked(region, CHUNK_BYTES);
    if (bytes > CHUNK_BYTES && sys_discard(start, region->page_bytes) != -EINVAL)
        more = map_below(start, bytes - CHUNK_BYTES);
    if (more)
        *mapped_bytes = bytes;
    region->lowest = more ? more : start;
    return region->lowest;
}

/* By a quarter of what there is. */
static bool grow_space_locked(struct region *region)
{
    size_t wanted_bytes = align_down(region->space_bytes / 4, CHUNK_BYTES);
    size_t bytes;
    char *start =
        map_chunks_locked(region, min_size(max_size(wanted_bytes, CHUNK_BYTES), GROWTH_BYTES_MAX), &bytes);

    if (!start)
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
    bytes = align_up(bytes, METADATA_ALIGNMENT);
    if (load_relaxed(&region->metadata.left_bytes) < bytes) {
        size_t more = max_size(align_up(bytes, region->page_bytes), METADATA_BYTES);
        void *address;

        if (sys_map(more, &address) != 0)
            return NULL;
        stretch_begin(&region->metadata, address, more);
        if (!region->lowest)
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

    if (!leaf) {
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
struct chunk *region_cut_chunk_locked(struct region *region, unsigned tier)
{
    unsigned block_shift = region->sizes->block_shift[tier];
    uint32_t block_count = 1U << (CHUNK_SHIFT - block_shift);
    size_t head_bytes = align_up(sizeof(struct chunk), METADATA_ALIGNMENT);
    struct chunk *chunk;
    struct leaf *leaf;

    if (load_relaxed(&region->space.left_bytes) == 0 && !grow_space_locked(region))
        return NULL;
    leaf = leaf_locked(region, region->space.end - load_relaxed(&region->space.left_bytes));
    if (!leaf)
        return NULL;
    chunk = metadata_locked(region, head_bytes + block_count * sizeof(struct block));
    if (!chunk)
        return NULL;
    chunk->base = stretch_take(&region->space, CHUNK_BYTES);
    chunk->blocks = (struct block *)((char *)chunk + head_bytes);
    chunk->block_count = block_count;
    chunk->block_shift = (uint8_t)block_shift;
    chunk->tier = (uint8_t)tier;
    publish_chunk_locked(region, leaf, chunk);
    return chunk;
}

void region_after_fork(struct region *region, const void *self)
{
    /* Under the growth lock every step leaves the structures whole (struct stretch): at worst space is lost. */
    if (lock_is_orphaned(&region->growth, self))
        lock_reset(&region->growth);
}
