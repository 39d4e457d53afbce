/* SPDX-License-Identifier: MIT */
/*
 * region: address space. It takes chunks from the kernel and tells which block an address lies in.
 *
 *   low                                                            high
 *   +----------------+----------------+-- ... --+----------------+
 *   | chunk, 4 MiB   | chunk, 4 MiB   |         | chunk, 4 MiB   |      aligned to 4 MiB; each is cut into
 *   +----------------+----------------+-- ... --+----------------+      the blocks of one tier
 *
 * Growth is a quarter of what there is, from 4 up to 64 MiB at a time, and one chunk when the kernel refuses:
 * so a program with a limit on its address space loses little of it to chunks not cut yet. It is placed below
 * the last one; where that place is taken, nearly a chunk more is mapped to find an aligned one, and what is
 * left over serves as metadata, which is mapped apart otherwise. Nothing is unmapped later, and no call
 * changes the protection of a part, so the number of mappings does not grow with the blocks.
 *
 * Address to chunk: two tables, for the 48 bits in which every mapping without a hint lies today. A
 * chunk from beyond would be refused, not lost. Pointers from anywhere may be asked about.
 *
 *   bits 63..48      47..34             33..22             21..0
 *   must be 0        root, 16384        leaf, 4096         in the chunk
 *
 * Any thread may call everything here. What is published is never changed or taken back: chunks and
 * leaves are written whole and then stored with release; a reader that got a pointer from malloc
 * has its chunk in sight through the program's own synchronisation.
 */
#ifndef PINPOOL_POOL_REGION_H
#define PINPOOL_POOL_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/counters.h"
#include "base/lock.h"
#include "pool/block.h"
#include "pool/tier.h"

enum {
    CHUNK_SHIFT = 22,
    CHUNK_BYTES = 1 << CHUNK_SHIFT,
    LEAF_BITS = 12,
    ROOT_BITS = 14,
    GROWTH_BYTES_MAX = 64 << 20,
};

/* Everything but `used_blocks` is fixed before the chunk is published. */
struct chunk {
    struct chunk *next; /* older; NULL in the first */
    char *base;
    struct block *blocks;
    uint32_t block_count;
    uint8_t block_shift;
    uint8_t tier;
    _Atomic(uint32_t) used_blocks; /* blocks handed out at least once, the first ones; under the bins' lock */
};

struct leaf {
    _Atomic(struct chunk *) chunks[1 << LEAF_BITS];
};

/*
 * Memory that is handed out from low to high. What is left is one word, stored last when a stretch begins
 * and first when a part is taken: a fork between two stores leaves a child less of it, never too much.
 */
struct stretch {
    char *end;
    _Atomic(size_t) left_bytes; /* the ones below `end` */
};

struct region {
    struct lock growth;   /* address space and metadata; held across mmap, for nothing a block needs twice */
    struct stretch space; /* chunks taken from the kernel and not cut yet */
    struct stretch metadata; /* not handed out yet */
    size_t space_bytes;      /* of all chunks, cut or not */
    char *lowest;            /* where the last of our mappings begins that may have room below it; or NULL */

    struct tiers const *sizes;
    size_t page_bytes;
    _Atomic(struct chunk *) chunks; /* all, newest first */
    _Atomic(uint64_t) chunk_count;
    struct pool_figures figures;
    _Atomic(struct leaf *) root[1 << ROOT_BITS];
};

/* `region` is zeroed memory; `sizes` outlives it. page_bytes is a power of two. */
void region_init(struct region *region, const struct tiers *sizes, size_t page_bytes);

/* The chunk that holds `address`, or NULL: two loads at most. Any address. */
INLINE struct chunk *region_find(struct region *region, const void *address)
{
    uintptr_t bits = (uintptr_t)address;
    struct leaf *leaf;

    if (unlikely(bits >> (CHUNK_SHIFT + LEAF_BITS + ROOT_BITS) != 0))
        return NULL;
    /*
     * consume: pairs with the release stores in publish_chunk; the loads depend on each other. Compilers
     * treat consume as acquire, which costs nothing on x86_64 and little on aarch64.
     */
    leaf = atomic_load_explicit(&region->root[bits >> (CHUNK_SHIFT + LEAF_BITS)], memory_order_consume);
    if (!leaf)
        return NULL;
    return atomic_load_explicit(&leaf->chunks[bits >> CHUNK_SHIFT & ((1 << LEAF_BITS) - 1)],
                                memory_order_consume);
}

/* Chunks and blocks are aligned to their size, so offsets are the address's low bits. */
INLINE struct block *chunk_block_at(const struct chunk *chunk, const void *address)
{
    return &chunk->blocks[((uintptr_t)address & (CHUNK_BYTES - 1)) >> chunk->block_shift];
}

INLINE size_t chunk_offset_in_block(const struct chunk *chunk, const void *address)
{
    return (uintptr_t)address & (((size_t)1 << chunk->block_shift) - 1);
}

/* Zeroed memory, aligned as blocks' words are, for our own structures, for ever; NULL when the kernel has none. */
void *region_metadata(struct region *region, size_t bytes, const void *self);

/*
 * Cuts one more chunk for the tier. Its blocks are not written: zeroed metadata says BLOCK_FRESH. The caller holds
 * `growth`. NULL when the kernel gives no address space.
 */
struct chunk *region_cut_chunk_locked(struct region *region, unsigned tier);

/* In a forked child, before anything else is called: a lock that a vanished thread held is reset. */
void region_after_fork(struct region *region, const void *self);

#endif
