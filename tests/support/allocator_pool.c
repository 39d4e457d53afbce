/* SPDX-License-Identifier: MIT */
/*
 * allocator_pool: src/pool linked in directly, without any interposition, for the builds with a
 * sanitizer. Sizes that are not the pool's go to the C library, whose memory the sanitizer watches.
 * POOL_POOLS in the environment gives the block sizes, as PINPOOL_POOLS does. Heaps are checked as a
 * whole when a thread ends, blocks at every 64th free.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "base/libc.h"
#include "base/sys.h"
#include "pool/heap.h"

static struct pool pool;
static struct heap no_heap; /* of threads that have none: its frees are remote */
static pthread_key_t key;
static _Thread_local struct heap *own_heap;
static _Thread_local bool has_ended;
static _Thread_local char own_mark;

static void stop_if(bool is_wrong, const char *what)
{
    if (is_wrong) {
        fprintf(stderr, "allocator_pool: %s\n", what);
        abort();
    }
}

static void end_thread(void *heap)
{
    stop_if(!heap_is_valid(heap), "a heap contradicts itself");
    has_ended = true;
    own_heap = NULL;
    heap_release(heap);
}

static void child_starts(void)
{
    pool_after_fork(&pool, own_heap, &own_mark, sys_gettid());
}

static void start(void)
{
    const char *pools = getenv("POOL_POOLS");
    struct options options;
    struct pool_config config = {.min_bytes = 1025, .decay_ns = 1000000};

    stop_if(!libc_find(), "no C library");
    config.page_bytes = sys_page_bytes();
    stop_if(options_parse(&options, OPTION_POOLS, pools != NULL ? pools : "8k,64k") != NULL,
            "bad POOL_POOLS");
    memcpy(config.block_bytes, options.block_bytes, sizeof config.block_bytes);
    config.tier_count = options.pool_count;
    config.reuses_holes = getenv("POOL_POLICY") == NULL || strcmp(getenv("POOL_POLICY"), "bump") != 0;
    pool_init(&pool, &config);
    no_heap.pool = &pool;
    no_heap.counters = &pool.shared;
    stop_if(pthread_key_create(&key, end_thread) != 0, "no key");
    stop_if(pthread_atfork(NULL, NULL, child_starts) != 0, "no fork handler");
}

/* The calling thread's heap; NULL once it has ended. */
static struct heap *heap(void)
{
    if (own_heap == NULL && !has_ended) {
        own_heap = heap_acquire(&pool, &own_mark, sys_gettid());
        stop_if(own_heap == NULL || pthread_setspecific(key, own_heap) != 0, "no heap");
    }
    return own_heap;
}

static void *take(size_t alignment, size_t bytes, bool *is_touched)
{
    void *address;

    if (!tiers_serve(&pool.tiers, bytes) || heap() == NULL ||
        alignment > tier_block_bytes(&pool.tiers, tier_of(&pool.tiers, bytes)) / 2)
        return NULL;
    address = heap_allocate(own_heap, bytes, alignment, is_touched);
    return address != NULL ? address : heap_allocate_slow(own_heap, bytes, alignment, is_touched);
}

static void *pool_malloc(size_t bytes)
{
    bool is_touched;
    void *address = take(1, bytes, &is_touched);

    return address != NULL ? address : malloc(bytes);
}

static void *pool_calloc(size_t count, size_t bytes)
{
    bool is_touched;
    size_t total;
    void *address;

    if (__builtin_mul_overflow(count, bytes, &total))
        return calloc(count, bytes);
    address = take(1, total, &is_touched);
    if (address == NULL)
        return calloc(count, bytes);
    return !is_touched ? address : memset(address, 0, total);
}

static void check_heap_now_and_then(void)
{
    static _Thread_local unsigned frees;

    if (++frees % 256 == 0)
        stop_if(!heap_is_valid(own_heap), "a heap contradicts itself");
}

static _Atomic(uint8_t) *find_slice(const struct chunk *chunk, void *address, unsigned *count)
{
    _Atomic(uint8_t) *mark;

    stop_if(block_find(chunk_block_at(chunk, address), chunk_offset_in_block(chunk, address), &mark, count) !=
                BLOCK_LIVE,
            "a live slice is not found");
    return mark;
}

static void pool_free(void *address)
{
    struct chunk *chunk = region_find(&pool.region, address);
    struct heap *own = heap();
    struct block *block;
    enum heap_freed freed;
    unsigned count;

    if (chunk == NULL) {
        free(address);
        return;
    }
    block = chunk_block_at(chunk, address);
    freed = heap_free(own != NULL ? own : &no_heap, chunk, block, address);
    stop_if(freed == HEAP_DOUBLE_FREE || freed == HEAP_NOT_A_START, "a live slice was taken for a dead one");
    if (freed == HEAP_FREE_SLOWLY) {
        _Atomic(uint8_t) *mark = find_slice(chunk, address, &count);

        stop_if(!(own != NULL ? heap_free_slow(own, block, mark, count)
                              : heap_free_to_block(&no_heap, block, mark, count)),
                "a live slice was freed by somebody else");
    }
    if (freed == HEAP_FREED_AND_DUE)
        heap_look(own);
    if (own != NULL)
        check_heap_now_and_then();
}

static size_t pool_usable_size(void *address)
{
    struct chunk *chunk = region_find(&pool.region, address);
    unsigned count;

    if (chunk == NULL)
        return malloc_usable_size(address);
    (void)find_slice(chunk, address, &count);
    return (size_t)count << (chunk->block_shift - BLOCK_GRANULES_LOG2);
}

static void *pool_realloc(void *address, size_t bytes)
{
    struct chunk *chunk = region_find(&pool.region, address);
    _Atomic(uint8_t) *mark;
    unsigned count;
    void *moved;

    if (address == NULL)
        return pool_malloc(bytes);
    if (chunk == NULL)
        return realloc(address, bytes);
    if (bytes == 0) {
        pool_free(address);
        return NULL;
    }
    mark = find_slice(chunk, address, &count);
    if (heap() != NULL && heap_resize(own_heap, chunk_block_at(chunk, address), mark, count, bytes))
        return address;
    moved = pool_malloc(bytes);
    if (moved == NULL)
        return NULL;
    memcpy(moved, address, min_size(bytes, pool_usable_size(address)));
    pool_free(address);
    return moved;
}

static void *pool_aligned_alloc(size_t alignment, size_t bytes)
{
    bool is_touched;
    void *address = is_power_of_two(alignment) ? take(alignment, bytes, &is_touched) : NULL;

    return address != NULL ? address : aligned_alloc(alignment, bytes);
}

static int pool_posix_memalign(void **result, size_t alignment, size_t bytes)
{
    bool is_touched;
    void *address = is_power_of_two(alignment) && alignment >= sizeof(void *)
                        ? take(alignment, bytes, &is_touched)
                        : NULL;

    if (address == NULL)
        return posix_memalign(result, alignment, bytes);
    *result = address;
    return 0;
}

const struct allocator allocator = {
    .name = "the pool's",
    .start = start,
    .malloc = pool_malloc,
    .calloc = pool_calloc,
    .realloc = pool_realloc,
    .free = pool_free,
    .aligned_alloc = pool_aligned_alloc,
    .posix_memalign = pool_posix_memalign,
    .usable_size = pool_usable_size,
};
