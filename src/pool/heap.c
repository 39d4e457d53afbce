/* SPDX-License-Identifier: MIT */
/* heap: the slow paths; see heap.h. */
#include "pool/heap.h"

#include <string.h>

#include "base/sys.h"

enum {
    TOUCHED_BLOCK_BYTES_MAX = 64 << 10, /* see touch_pages */
    HOLD_AFTER = 3,                     /* blocks asked for, till a thread holds one: see take_block */
    RELEASE_BYTES_MAX = 256 << 20,      /* pages given back in one call of the program's, some tens of ms */
};

struct block block_closed = {.top = BLOCK_GRANULES, .granule_shift = 63};

void pool_init(struct pool *pool, const struct pool_config *config)
{
    tiers_init(&pool->tiers, config->block_bytes, config->tier_count, config->min_bytes);
    pool->decay_ns = config->decay_ns;
    pool->reuses_holes = config->reuses_holes;
    for (unsigned t = 0; t < TIERS_MAX; t++)
        pool->bins[t].reuses_holes = config->reuses_holes;
    region_init(&pool->region, &pool->tiers, config->page_bytes);
}

/* ---- entering, leaving, counting ------------------------------------------------------------- */

/*
 * BUSY is for a fork in another thread: what it copies of us then may be half done. The fence keeps
 * the mark before whatever is done under it.
 */
static void enter(struct heap *heap)
{
    store_relaxed(&heap->state, HEAP_BUSY);
    atomic_thread_fence(memory_order_release);
}

/* release: whoever sees the mark gone sees what was done under it. Pairs with the CAS in adopt_heap. */
static void leave(struct heap *heap, enum heap_state state)
{
    atomic_store_explicit(&heap->state, state, memory_order_release);
}

static bool take_waiting(struct heap *heap, enum heap_state state)
{
    uint32_t expected = HEAP_WAITING;

    /* acquire: pairs with the release in `leave`, by whoever had the heap before. */
    return load_relaxed(&heap->state) == HEAP_WAITING &&
           atomic_compare_exchange_strong_explicit(&heap->state, &expected, state, memory_order_acquire,
                                                   memory_order_relaxed);
}

static bool is_shared(const struct heap *heap)
{
    return heap->counters == &heap->pool->shared;
}

static void count_tier(struct heap *heap, unsigned tier, enum tier_counter_id id, uint64_t amount)
{
    counter_add(&heap->counters->of_tier[tier][id], amount);
}

void heap_count_slow(struct heap *heap, enum counter_id id)
{
    if (is_shared(heap))
        counter_add_shared(&heap->counters->of_heap[id], 1);
    else
        counter_add(&heap->counters->of_heap[id], 1);
}

static void count_found(struct heap *heap, unsigned tier, const struct bins_found *found)
{
    counter_add(&heap->counters->of_heap[COUNTER_looked_blocks], found->looked);
    count_tier(heap, tier, TIER_COUNTER_emptied_blocks, found->emptied);
    count_tier(heap, tier, TIER_COUNTER_emptied_after_ms, found->emptied_after_ms);
}

static void count_freed(struct heap *heap, const struct block *block, size_t bytes)
{
    _Atomic(uint64_t) *counters = heap->counters->of_tier[block->tier];

    if (!is_shared(heap)) {
        heap_count_freed(heap, block->tier, load_relaxed(&block->carver), bytes);
        return;
    }
    counter_add_shared(&counters[TIER_COUNTER_freed_remote_slices], 1);
    counter_add_shared(&counters[TIER_COUNTER_freed_remote_bytes], bytes);
}

static void count_flushed(struct heap *heap, uint64_t slices)
{
    counter_add(&heap->counters->of_heap[COUNTER_flushed_slices], slices);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/*
 * Writes to each page of a block without pages. Most memory is first touched by the kernel when read(2)
 * copies into it; such a fault takes the process-wide mmap_lock, while one from user mode takes the
 * lock of the mapping alone (Linux 6.4 and later). In larger blocks too much would be touched for nothing.
 */
static void touch_pages(const struct pool *pool, struct block *block)
{
    size_t bytes = block_bytes(block);

    if (bytes > TOUCHED_BLOCK_BYTES_MAX)
        return;
    for (size_t at = 0; at < bytes; at += pool->region.page_bytes)
        *(volatile char *)(block->data + at) = 0;
}

static void count_opened(struct heap *heap, unsigned tier, enum block_source source)
{
    count_tier(heap, tier,
               source == SOURCE_FRESH      ? TIER_COUNTER_opened_fresh_blocks
               : source == SOURCE_RELEASED ? TIER_COUNTER_opened_released_blocks
               : source == SOURCE_EMPTY    ? TIER_COUNTER_opened_empty_blocks
                                           : TIER_COUNTER_opened_filed_blocks,
               1);
}

static void let_go(struct heap *heap, unsigned tier, struct block *block, uint64_t now_ns)
{
    struct bins_found found = {0};

    bins_let_go(&heap->pool->bins[tier], block, now_ns, &found, heap->thread);
    count_tier(heap, tier, TIER_COUNTER_retired_blocks, 1);
    count_found(heap, tier, &found);
}

/* Replaces the current block. NULL: none is to be had, and the old one stays, for smaller requests. */
static struct block *exchange(struct heap *heap, unsigned tier, unsigned count, size_t alignment,
                              uint64_t now_ns)
{
    struct pool *pool = heap->pool;
    struct block *current = heap->current[tier] == &block_closed ? NULL : heap->current[tier];
    struct bins_found found = {0};
    enum block_source source;
    struct block *block = bins_exchange(&pool->bins[tier], &pool->region, tier, current, heap->id, count,
                                        alignment, now_ns, &source, &found, heap->thread);

    count_found(heap, tier, &found);
    if (!block)
        return NULL;
    if (current)
        count_tier(heap, tier, TIER_COUNTER_retired_blocks, 1);
    heap->current[tier] = block;
    count_opened(heap, tier, source);
    if (source == SOURCE_RELEASED || source == SOURCE_FRESH)
        touch_pages(pool, block);
    return block;
}

/*
 * A thread that has asked for few blocks yet holds none: its slices are cut from one that goes straight back, and
 * serves the next thread, too. So thousands of threads with a buffer or two do not cost a block each.
 */
static bool may_hold(struct heap *heap, unsigned tier)
{
    if (!heap->pool->reuses_holes || heap->exchanges[tier] == HOLD_AFTER)
        return true;
    heap->exchanges[tier]++;
    return false;
}

/* ---- pages back to the kernel ---------------------------------------------------------------- */

/* Some of the pages that are due, of each tier. Returns their bytes. */
static size_t release_pages(struct heap *heap, uint64_t cutoff_ns)
{
    size_t all = 0;

    for (unsigned t = 0; t < heap->tiers.count; t++) {
        size_t released =
            bins_release(&heap->pool->bins[t], heap->pool->region.page_bytes, cutoff_ns, heap->thread);

        count_tier(heap, t, TIER_COUNTER_released_blocks, released);
        all += released * tier_block_bytes(&heap->tiers, t);
    }
    return all;
}

/* Blocks that were freed into since somebody last came by may be empty. */
static void look_at_all(struct heap *heap, uint64_t now_ns)
{
    for (unsigned t = 0; t < heap->tiers.count; t++) {
        struct bins_found found = {0};

        bins_look_again(&heap->pool->bins[t], now_ns, &found, heap->thread);
        count_found(heap, t, &found);
    }
}

/* All that a heap has goes back, but its counters. */
static void give_up(struct heap *heap, uint64_t now_ns)
{
    count_flushed(heap, cache_flush_all(&heap->cache));
    for (unsigned t = 0; t < heap->tiers.count; t++) {
        struct block *block = heap->current[t];

        heap->exchanges[t] = 0;
        if (block == &block_closed)
            continue;
        heap->current[t] = &block_closed;
        let_go(heap, t, block, now_ns);
    }
}

/* In a forked child: what threads that it does not have held and cached is everybody's. A heap at each look. */
static void give_up_left_heap(struct heap *heap, uint64_t now_ns)
{
    struct pool *pool = heap->pool;
    struct heap *left = load_relaxed(&pool->left_heaps);

    if (!left ||
        !atomic_compare_exchange_strong_explicit(&pool->left_heaps, &left, left->next, memory_order_relaxed,
                                                 memory_order_relaxed) ||
        !take_waiting(left, HEAP_BUSY))
        return;
    left->thread = heap->thread;
    give_up(left, now_ns);
    leave(left, HEAP_WAITING);
}

/*
 * Gives pages back when it is time for a look. More than one thread may do so at once. The heap is not BUSY for it:
 * nothing of it is half done, and a fork in another thread is the more likely to fall into it the longer it takes.
 */
static void decay(struct heap *heap, uint64_t now_ns)
{
    struct pool *pool = heap->pool;

    if (likely(now_ns < load_relaxed(&pool->next_release_ns)) || now_ns < pool->decay_ns)
        return;
    /* Moved on before the work, so that others pass by meanwhile. */
    store_relaxed(&pool->next_release_ns, now_ns + pool->decay_ns / 8);
    give_up_left_heap(heap, now_ns);
    look_at_all(heap, now_ns);
    for (size_t bytes = 0; bytes < RELEASE_BYTES_MAX;) {
        size_t released = release_pages(heap, now_ns - pool->decay_ns);

        if (released == 0)
            return;
        bytes += released;
    }
    store_relaxed(&pool->next_release_ns, now_ns); /* there is more to do */
}

/* ---- allocation ----------------------------------------------------------------------------- */

void *heap_allocate_slow(struct heap *heap, size_t bytes, size_t alignment, bool *is_touched)
{
    unsigned tier = tier_of(&heap->tiers, bytes);
    unsigned count = (unsigned)((bytes - 1) >> (heap->tiers.block_shift[tier] - BLOCK_GRANULES_LOG2)) + 1;
    uint64_t now_ns = sys_now_coarse_ns();
    struct block *block;
    void *address = NULL;

    enter(heap);
    block = exchange(heap, tier, count, alignment, now_ns);
    if (block) {
        address = heap_carve(heap, bytes, alignment, is_touched);
        if (!may_hold(heap, tier)) {
            heap->current[tier] = &block_closed;
            let_go(heap, tier, block, now_ns);
        }
    }
    count_flushed(heap, cache_look(&heap->cache, now_ns));
    leave(heap, HEAP_LIVE);
    decay(heap, now_ns);
    return address;
}

/* ---- frees and resizing ---------------------------------------------------------------------- */

bool heap_free_to_block(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned count)
{
    unsigned tier = block->tier;

    if (unlikely(!block_end_life(mark, count, 0)))
        return false;
    count_freed(heap, block, (size_t)count << block->granule_shift);
    bins_freed(&heap->pool->bins[tier], block, block_give(block, block_index_of_mark(mark), count));
    return true;
}

static bool raise_limit(struct heap *heap, struct cache_class *class, size_t slice_bytes)
{
    return cache_raise_limit(&heap->cache, class, slice_bytes, &heap->pool->region, heap->thread);
}

/* Into the cache, whose class has room, or gets some. */
static bool free_into_cache(struct heap *heap, struct block *block, struct cache_class *class,
                            _Atomic(uint8_t) *mark, unsigned count)
{
    size_t slice_bytes = (size_t)count << block->granule_shift;

    if (class->count == class->limit && !raise_limit(heap, class, slice_bytes))
        count_flushed(heap, cache_flush(&heap->cache, block->tier, count, (class->limit + 1U) / 2));
    if (!block_end_life(mark, count, heap->cache.mark))
        return false;
    heap_count_freed(heap, block->tier, load_relaxed(&block->carver), slice_bytes);
    cache_push(class, block->data + ((size_t)block_index_of_mark(mark) << block->granule_shift), mark);
    return true;
}

bool heap_free_slow(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned count)
{
    uint64_t now_ns = sys_now_coarse_ns();
    bool is_freed;

    enter(heap);
    if (heap->pool->reuses_holes && count <= CACHE_GRANULES_MAX &&
        cache_limit_for((size_t)count << block->granule_shift) > 0) {
        struct cache_class *class = &heap->cache.classes[block->tier][count - 1];

        if (class->limit > 0 || raise_limit(heap, class, (size_t)count << block->granule_shift))
            is_freed = free_into_cache(heap, block, class, mark, count);
        else
            is_freed = heap_free_to_block(heap, block, mark, count);
    } else {
        is_freed = heap_free_to_block(heap, block, mark, count);
    }
    count_flushed(heap, cache_look(&heap->cache, now_ns));
    leave(heap, HEAP_LIVE);
    decay(heap, now_ns);
    return is_freed;
}

void heap_look(struct heap *heap)
{
    uint64_t now_ns = sys_now_coarse_ns();

    enter(heap);
    count_flushed(heap, cache_look(&heap->cache, now_ns));
    leave(heap, HEAP_LIVE);
    decay(heap, now_ns);
}

static bool shrink(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned old_count,
                   unsigned count)
{
    if (!block_end_life(mark, old_count, (uint8_t)count)) /* its tail's life */
        return false;
    bins_freed(&heap->pool->bins[block->tier], block,
               block_give(block, block_index_of_mark(mark) + count, old_count - count));
    return true;
}

bool heap_resize(struct heap *heap, struct block *block, _Atomic(uint8_t) *mark, unsigned old_count,
                 size_t bytes)
{
    unsigned count;

    if (!tiers_serve(&heap->pool->tiers, bytes) || tier_of(&heap->pool->tiers, bytes) != block->tier)
        return false;
    count = (unsigned)((bytes - 1) >> block->granule_shift) + 1;
    if (count == old_count)
        return true;
    if (is_shared(heap))
        return count < old_count;
    if (count < old_count) {
        if (!shrink(heap, block, mark, old_count, count))
            return false;
        count_tier(heap, block->tier,
                   load_relaxed(&block->carver) == heap->id ? TIER_COUNTER_freed_local_bytes
                                                            : TIER_COUNTER_freed_remote_bytes,
                   (uint64_t)(old_count - count) << block->granule_shift);
        return true;
    }
    /* Under bump a free tail below the top is a hole. */
    if (heap->current[block->tier] != block ||
        (!heap->pool->reuses_holes && block_index_of_mark(mark) + old_count < block->top) ||
        !block_grow(block, mark, old_count, count))
        return false;
    count_tier(heap, block->tier, TIER_COUNTER_carved_bytes,
               (uint64_t)(count - old_count) << block->granule_shift);
    return true;
}

/* Blocks that the thread holds and has nothing in. */
static void let_go_empty(struct heap *heap, uint64_t now_ns)
{
    for (unsigned t = 0; t < heap->tiers.count; t++) {
        struct block *block = heap->current[t];

        if (block != &block_closed && load_relaxed(&block->free) == BLOCK_ALL_FREE) {
            heap->current[t] = &block_closed;
            let_go(heap, t, block, now_ns);
        }
    }
}

bool heap_trim(struct heap *heap)
{
    uint64_t now_ns = sys_now_coarse_ns();
    bool has_released = false;

    enter(heap);
    count_flushed(heap, cache_flush_all(&heap->cache));
    let_go_empty(heap, now_ns);
    look_at_all(heap, now_ns);
    while (release_pages(heap, UINT64_MAX) > 0)
        has_released = true;
    leave(heap, HEAP_LIVE);
    return has_released;
}

/* ---- heaps and their threads ----------------------------------------------------------------- */

static struct heap *new_heap(struct pool *pool, const void *thread)
{
    struct heap *heap = region_metadata(&pool->region, sizeof *heap, thread);

    if (!heap)
        return NULL;
    heap->tiers = pool->tiers;
    heap->pool = pool;
    for (unsigned t = 0; t < TIERS_MAX; t++)
        heap->current[t] = &block_closed;
    heap->id = atomic_fetch_add_explicit(&pool->heap_count, 1, memory_order_relaxed) + 1;
    cache_init(&heap->cache, heap->id, &pool->tiers, pool->bins, &pool->cache_room_bytes);
    heap->counters = region_metadata(&pool->region, sizeof *heap->counters, thread);
    if (!heap->counters)
        return NULL;
    heap->next = load_relaxed(&pool->heaps);
    /* release: pairs with the acquire of whoever walks the heaps. */
    while (!atomic_compare_exchange_weak_explicit(&pool->heaps, &heap->next, heap, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return heap;
}

static struct heap *adopt_heap(struct pool *pool)
{
    if (load_relaxed(&pool->waiting_heaps) == 0)
        return NULL;
    /* acquire: pairs with the release push in new_heap. */
    for (struct heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire); heap;
         heap = heap->next)
        if (take_waiting(heap, HEAP_LIVE)) {
            atomic_fetch_sub_explicit(&pool->waiting_heaps, 1, memory_order_relaxed);
            counter_add(&heap->counters->of_heap[COUNTER_heap_adoptions], 1);
            return heap;
        }
    return NULL;
}

struct heap *heap_acquire(struct pool *pool, const void *thread, int32_t tid)
{
    struct heap *heap = adopt_heap(pool);

    if (!heap)
        heap = new_heap(pool, thread);
    if (heap) {
        heap->thread = thread;
        store_relaxed(&heap->tid, tid);
    }
    return heap;
}

void heap_release(struct heap *heap)
{
    uint64_t now_ns = sys_now_coarse_ns();

    decay(heap, now_ns);
    enter(heap);
    give_up(heap, now_ns);
    store_relaxed(&heap->tid, 0);
    atomic_fetch_add_explicit(&heap->pool->waiting_heaps, 1, memory_order_relaxed);
    leave(heap, HEAP_WAITING);
}

void pool_after_fork(struct pool *pool, struct heap *own, const void *thread, int32_t tid)
{
    uint32_t waiting = 0;
    size_t room_bytes = 0;

    for (unsigned t = 0; t < pool->tiers.count; t++)
        bins_after_fork(&pool->bins[t], &pool->region, t, thread);
    region_after_fork(&pool->region, thread);
    for (struct heap *heap = load_relaxed(&pool->heaps); heap; heap = heap->next) {
        uint32_t state = load_relaxed(&heap->state);

        if (heap == own || state != HEAP_BUSY)
            room_bytes += heap->cache.room_bytes;
        if (heap == own) {
            store_relaxed(&heap->tid, tid);
            continue;
        }
        store_relaxed(&heap->tid, 0);
        if (state == HEAP_LIVE)
            store_relaxed(&heap->state, HEAP_WAITING);
        else if (state == HEAP_BUSY)
            store_relaxed(&heap->state, HEAP_LOST);
        waiting += load_relaxed(&heap->state) == HEAP_WAITING;
    }
    store_relaxed(&pool->waiting_heaps, waiting);
    store_relaxed(&pool->cache_room_bytes, room_bytes);
    store_relaxed(&pool->left_heaps, load_relaxed(&pool->heaps));
}

void pool_sum_counters_sigsafe(struct pool *pool, uint64_t of_heap[COUNTER_COUNT],
                               uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT])
{
    counters_sum_sigsafe(of_heap, of_tier, &pool->shared);
    /* acquire: pairs with the release push in new_heap. */
    for (struct heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire); heap;
         heap = heap->next)
        if (!is_shared(heap))
            counters_sum_sigsafe(of_heap, of_tier, heap->counters);
}

static bool class_is_valid(const struct cache *cache, const struct cache_class *class, unsigned tier)
{
    if (class->count > class->limit || class->limit > class->room || class->low > class->count)
        return false;
    for (unsigned i = 0; i < class->count; i++)
        if (load_relaxed(class->entries[i].mark) != cache->mark ||
            block_of_mark(class->entries[i].mark)->tier != tier)
            return false;
    return true;
}

bool heap_is_valid(const struct heap *heap)
{
    for (unsigned t = 0; t < heap->tiers.count; t++) {
        const struct block *current = heap->current[t];

        if (current != &block_closed && (load_relaxed(&current->state) != BLOCK_HELD ||
                                         load_relaxed(&current->carver) != heap->id || current->tier != t))
            return false;
        for (unsigned i = 0; i < CACHE_GRANULES_MAX; i++)
            if (!class_is_valid(&heap->cache, &heap->cache.classes[t][i], t))
                return false;
    }
    return true;
}
