/* SPDX-License-Identifier: MIT */
/* heap: the slow paths; see heap.h for the protocol. */
#include "pool/heap.h"

#include "base/sys.h"

enum {
    KEEP_BYTES = 128 << 10, /* empty blocks a heap keeps of a tier; they need no lock and are warm */
    TOUCHED_BLOCK_BYTES_MAX = 64 << 10, /* see touch_pages */
    VISITS_MAX = 8, /* heaps whose inboxes are looked through before taking a block without pages */
    VISIT_INTERVAL_NS = 10000000, /* and not more often than this */
};

struct block block_closed = {.top = BLOCK_GRANULES, .granule_shift = 63};

void pool_init(struct pool *pool, const struct pool_config *config)
{
    tiers_init(&pool->tiers, config->block_bytes, config->tier_count, config->min_bytes);
    pool->decay_ns = config->decay_ns;
    region_init(&pool->region, &pool->tiers, config->page_bytes);
}

/* ---- entering and leaving -------------------------------------------------------------------- */

/*
 * BUSY is for a fork in another thread: what it copies of us then may be half done. The fence keeps
 * the mark before whatever is done under it.
 */
static void enter(struct heap *heap)
{
    store_relaxed(&heap->state, HEAP_BUSY);
    atomic_thread_fence(memory_order_release);
}

/* release: whoever sees the mark gone sees what was done under it. Pairs with the CAS in heap_acquire. */
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

/* ---- empty blocks ---------------------------------------------------------------------------- */

static void count_tier(struct heap *heap, unsigned tier, enum tier_counter_id id, uint64_t amount)
{
    counter_add(&heap->counters->of_tier[tier][id], amount);
}

/* Hands the oldest blocks of a keep to the region until `left` remain. */
static void flush_keep(struct heap *heap, unsigned tier, size_t left)
{
    struct block_list *keep = &heap->keep[tier];
    struct block_list oldest = {.count = 0};

    while (keep->count > left) {
        struct block *block = keep->last;

        block_list_remove(keep, block);
        block_list_push(&oldest, block);
    }
    if (oldest.count > 0)
        region_give(&heap->pool->region, tier, &oldest, heap->thread);
}

/* A block has lost its last slice: unless it is current it goes to the keep. */
static void put_empty(struct heap *heap, struct block *block, uint64_t now_ns)
{
    unsigned tier = block->tier;
    size_t limit = KEEP_BYTES >> heap->tiers.block_shift[tier];
    uint64_t retired_ns = load_relaxed(&block->retired_ns);

    if (load_relaxed(&block->state) == BLOCK_CURRENT)
        return; /* the next carving starts over at its bottom */
    count_tier(heap, tier, TIER_COUNTER_emptied_blocks, 1);
    count_tier(heap, tier, TIER_COUNTER_emptied_after_ms,
               now_ns > retired_ns ? (now_ns - retired_ns) / NS_PER_MS : 0);
    block->emptied_ns = now_ns;
    store_relaxed(&block->state, BLOCK_KEPT);
    block_list_push(&heap->keep[tier], block);
    if (heap->keep[tier].count > limit)
        flush_keep(heap, tier, limit / 2);
}

static void drain_inbox(struct heap *heap, uint64_t now_ns)
{
    struct block *block;
    uint64_t blocks = 0;

    if (load_relaxed(&heap->inbox) == NULL)
        return;
    /* acquire: pairs with the release of the push, for inbox_next. */
    block = atomic_exchange_explicit(&heap->inbox, NULL, memory_order_acquire);
    while (block != NULL) {
        struct block *next = block->inbox_next; /* before the exchange: I4 */
        /* acquire: pairs with the ORs, for the last uses of the memory. release: orders inbox_next's read. */
        uint64_t remote = atomic_exchange_explicit(&block->remote, 0, memory_order_acq_rel);

        if (block_fold_remote(block, remote))
            put_empty(heap, block, now_ns);
        block = next;
        blocks++;
    }
    counter_add(&heap->counters->of_heap[COUNTER_inbox_drains], 1);
    counter_add(&heap->counters->of_heap[COUNTER_inbox_blocks], blocks);
}

static void push_to_inbox(struct block *block)
{
    struct heap *owner = load_relaxed(&block->owner); /* stable: I3 */
    struct block *first = load_relaxed(&owner->inbox);

    do
        block->inbox_next = first;
    /* release: pairs with the acquire exchange in drain_inbox. */
    while (!atomic_compare_exchange_weak_explicit(&owner->inbox, &first, block, memory_order_release,
                                                  memory_order_relaxed));
}

/*
 * A block is dead when it is retired and each granule is free or freed by others: no thread has a pointer
 * into it, its owner does not carve from it, and only a drain would change it, which has to find it in the
 * inbox first. The state is read before the words: while a block is current, granules that were free may be
 * carved and the block retired between two looks.
 */
static bool is_dead(const struct block *block)
{
    uint64_t free;

    /* acquire: pairs with the release in retire_current, for the last carving. */
    if (atomic_load_explicit(&block->state, memory_order_acquire) != BLOCK_RETIRED)
        return false;
    /* acquire: pairs with the release in block_free_local, for the owner's last writes to the block. */
    free = atomic_load_explicit(&block->free, memory_order_acquire);
    return (free | load_relaxed(&block->remote)) == BLOCK_ALL_FREE;
}

/*
 * Takes dead blocks out of the inbox of a heap whose thread is alive, but perhaps asleep. Anybody may take a
 * whole inbox (I5), if each block in it is emptied or pushed again.
 */
static void take_dead_blocks(struct heap *taker, struct heap *from, uint64_t now_ns)
{
    /* acquire: as in drain_inbox. */
    struct block *block = atomic_exchange_explicit(&from->inbox, NULL, memory_order_acquire);

    while (block != NULL) {
        struct block *next = block->inbox_next; /* before it is pushed again */

        if (is_dead(block)) {
            /* acquire: pairs with the ORs, as in drain_inbox. */
            (void)block_fold_remote(block, atomic_exchange_explicit(&block->remote, 0, memory_order_acq_rel));
            put_empty(taker, block, now_ns);
        } else {
            push_to_inbox(block);
        }
        block = next;
    }
}

/* Nobody has the heap: everything in its inbox is folded, and all that it keeps goes to the region. */
static void drain_waiting(struct heap *heap, const void *thread, uint64_t now_ns)
{
    heap->thread = thread;
    drain_inbox(heap, now_ns);
    for (unsigned t = 0; t < heap->tiers.count; t++)
        flush_keep(heap, t, 0);
    leave(heap, HEAP_WAITING);
}

/*
 * Frees into a heap wait in its inbox until its thread comes by. Before memory is asked from the kernel, and
 * when pages are given back, the inboxes of some others are looked through: of heaps without a thread whole,
 * of the others for blocks that hold nothing any more.
 */
static void visit_inboxes(struct heap *visitor, unsigned visits, uint64_t now_ns)
{
    struct pool *pool = visitor->pool;
    /* acquire: pairs with the release below and with the push in new_heap; also for the list's head. */
    struct heap *heap = atomic_load_explicit(&pool->next_visit, memory_order_acquire);

    for (; visits > 0; visits--) {
        if (heap == NULL)
            heap = atomic_load_explicit(&pool->heaps, memory_order_acquire);
        if (heap != visitor && load_relaxed(&heap->inbox) != NULL) {
            if (take_waiting(heap, HEAP_BUSY))
                drain_waiting(heap, visitor->thread, now_ns);
            else
                take_dead_blocks(visitor, heap, now_ns);
        }
        heap = heap->next;
    }
    /* release: pairs with the acquire above. */
    atomic_store_explicit(&pool->next_visit, heap, memory_order_release);
}

/*
 * An inbox full of blocks that still hold something is looked through in vain, so not at every chance: what
 * is allocated meanwhile is memory that would have been found a little later.
 */
static bool is_time_to_visit(struct pool *pool, uint64_t now_ns)
{
    if (now_ns < load_relaxed(&pool->next_visit_ns))
        return false;
    store_relaxed(&pool->next_visit_ns, now_ns + VISIT_INTERVAL_NS);
    return true;
}

/* Gives pages back when it is time for a look. More than one thread may do so at once. */
static bool release_pages(struct heap *heap, uint64_t cutoff_ns)
{
    uint64_t released[TIERS_MAX] = {0};
    bool has_more = region_release(&heap->pool->region, cutoff_ns, released, heap->thread);

    for (unsigned t = 0; t < heap->tiers.count; t++)
        count_tier(heap, t, TIER_COUNTER_released_blocks, released[t]);
    return has_more;
}

static void decay(struct heap *heap, uint64_t now_ns)
{
    struct pool *pool = heap->pool;
    _Atomic(uint64_t) *next_ns = &pool->region.next_release_ns;

    if (likely(now_ns < load_relaxed(next_ns)) || now_ns < pool->decay_ns)
        return;
    /* Moved on before the work, so that others pass by meanwhile; back at once if there is more to do. */
    store_relaxed(next_ns, now_ns + pool->decay_ns / 8);
    if (is_time_to_visit(pool, now_ns))
        visit_inboxes(heap, load_relaxed(&pool->heap_count), now_ns);
    if (release_pages(heap, now_ns - pool->decay_ns))
        store_relaxed(next_ns, now_ns);
}

/* ---- opening a block ------------------------------------------------------------------------- */

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

static struct block *take_kept(struct heap *heap, unsigned tier)
{
    struct block *block = heap->keep[tier].first;

    if (block != NULL)
        block_list_remove(&heap->keep[tier], block);
    return block;
}

/* The warmest block there is: our own, another's with pages, one without. */
static struct block *take_block(struct heap *heap, unsigned tier, uint64_t now_ns)
{
    struct pool *pool = heap->pool;
    struct region *region = &pool->region;
    struct block *block = take_kept(heap, tier);
    enum block_source source = SOURCE_EMPTY;

    if (block == NULL)
        block = region_take_empty(region, tier, heap->thread);
    if (block == NULL && is_time_to_visit(pool, now_ns)) {
        visit_inboxes(heap, VISITS_MAX, now_ns);
        block = take_kept(heap, tier);
        if (block == NULL)
            block = region_take_empty(region, tier, heap->thread);
    }
    if (block == NULL) {
        block = region_take_unbacked(region, tier, &source, heap->thread);
        if (block == NULL)
            return NULL;
        touch_pages(pool, block);
    }
    count_tier(heap, tier,
               source == SOURCE_FRESH      ? TIER_COUNTER_opened_fresh_blocks
               : source == SOURCE_RELEASED ? TIER_COUNTER_opened_released_blocks
                                           : TIER_COUNTER_opened_empty_blocks,
               1);
    return block;
}

static void retire_current(struct heap *heap, unsigned tier, uint64_t now_ns)
{
    struct block *block = heap->current[tier];

    if (block == &block_closed)
        return;
    heap->current[tier] = &block_closed;
    store_relaxed(&block->retired_ns, now_ns);
    /* release: pairs with the acquire in is_dead. */
    atomic_store_explicit(&block->state, BLOCK_RETIRED, memory_order_release);
    count_tier(heap, tier, TIER_COUNTER_retired_blocks, 1);
}

/* Replaces the current block. When there is none to be had the old one stays, for smaller requests. */
static bool open_block(struct heap *heap, unsigned tier, uint64_t now_ns)
{
    struct block *block = take_block(heap, tier, now_ns);

    if (block == NULL)
        return false;
    retire_current(heap, tier, now_ns);
    store_relaxed(&block->owner, heap);
    store_relaxed(&block->opened_ns, now_ns);
    store_relaxed(&block->state, BLOCK_CURRENT);
    heap->current[tier] = block;
    return true;
}

void *heap_allocate_slow(struct heap *heap, size_t bytes, size_t alignment, uint64_t *touched_before)
{
    uint64_t now_ns = sys_now_coarse_ns();
    void *address;

    enter(heap);
    drain_inbox(heap, now_ns);
    address = heap_allocate(heap, bytes, alignment, touched_before); /* the drain may have made room */
    if (address == NULL && open_block(heap, tier_of(&heap->tiers, bytes), now_ns))
        address = heap_allocate(heap, bytes, alignment, touched_before);
    decay(heap, now_ns);
    leave(heap, HEAP_LIVE);
    return address;
}

/* ---- frees and resizing ---------------------------------------------------------------------- */

void heap_emptied_slow(struct heap *heap, struct block *block)
{
    uint64_t now_ns = sys_now_coarse_ns();

    enter(heap);
    put_empty(heap, block, now_ns);
    decay(heap, now_ns);
    leave(heap, HEAP_LIVE);
}

static bool is_shared(const struct heap *heap)
{
    return heap->counters == &heap->pool->shared;
}

bool heap_free_remote(struct heap *heap, struct block *block, const struct slice *slice)
{
    _Atomic(uint64_t) *counters = heap->counters->of_tier[block->tier];
    uint64_t bytes = (uint64_t)slice_count(slice) << block->granule_shift;
    uint64_t old;

    /* Before the OR: after it the block may be emptied, and its words no longer be ours to read. */
    if (is_shared(heap)) {
        counter_add_shared(&counters[TIER_COUNTER_freed_remote_slices], 1);
        counter_add_shared(&counters[TIER_COUNTER_freed_remote_bytes], bytes);
    } else {
        counter_add(&counters[TIER_COUNTER_freed_remote_slices], 1);
        counter_add(&counters[TIER_COUNTER_freed_remote_bytes], bytes);
    }
    /* acquire-release: see heap.h. Pairs with the exchange in drain_inbox. */
    old = atomic_fetch_or_explicit(&block->remote, slice->granules, memory_order_acq_rel);
    if (unlikely((old & slice->granules) != 0))
        return false; /* another thread freed the same slice between our look and our OR */
    if (old == 0)
        push_to_inbox(block);
    return true;
}

bool heap_resize(struct heap *heap, struct block *block, const struct slice *slice, size_t bytes)
{
    unsigned count, old_count = slice_count(slice);

    if (!tiers_serve(&heap->pool->tiers, bytes) || tier_of(&heap->pool->tiers, bytes) != block->tier)
        return false;
    count = block_granules_for(block, bytes);
    if (load_relaxed(&block->owner) != heap)
        return count <= old_count;
    if (!block_resize(block, slice, count, load_relaxed(&block->state) == BLOCK_CURRENT))
        return false;
    if (count > old_count)
        count_tier(heap, block->tier, TIER_COUNTER_carved_bytes,
                   (uint64_t)(count - old_count) << block->granule_shift);
    else
        count_tier(heap, block->tier, TIER_COUNTER_freed_local_bytes,
                   (uint64_t)(old_count - count) << block->granule_shift);
    return true;
}

bool heap_trim(struct heap *heap)
{
    uint64_t now_ns = sys_now_coarse_ns();
    bool has_released = false;

    enter(heap);
    drain_inbox(heap, now_ns);
    visit_inboxes(heap, load_relaxed(&heap->pool->heap_count), now_ns);
    for (unsigned t = 0; t < heap->tiers.count; t++)
        flush_keep(heap, t, 0);
    while (release_pages(heap, now_ns))
        has_released = true;
    leave(heap, HEAP_LIVE);
    return has_released;
}

void heap_count_slow(struct heap *heap, enum counter_id id)
{
    if (is_shared(heap))
        counter_add_shared(&heap->counters->of_heap[id], 1);
    else
        counter_add(&heap->counters->of_heap[id], 1);
}

/* ---- heaps and their threads ----------------------------------------------------------------- */

static struct heap *new_heap(struct pool *pool, const void *thread)
{
    struct heap *heap = region_metadata(&pool->region, sizeof *heap, thread);

    if (heap == NULL)
        return NULL;
    heap->tiers = pool->tiers;
    heap->pool = pool;
    for (unsigned t = 0; t < TIERS_MAX; t++)
        heap->current[t] = &block_closed;
    heap->id = atomic_fetch_add_explicit(&pool->heap_count, 1, memory_order_relaxed) + 1;
    heap->counters = region_metadata(&pool->region, sizeof *heap->counters, thread);
    if (heap->counters == NULL)
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
    for (struct heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire); heap != NULL;
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

    if (heap == NULL)
        heap = new_heap(pool, thread);
    if (heap != NULL) {
        heap->thread = thread;
        store_relaxed(&heap->tid, tid);
    }
    return heap;
}

void heap_release(struct heap *heap)
{
    uint64_t now_ns = sys_now_coarse_ns();

    enter(heap);
    drain_inbox(heap, now_ns);
    for (unsigned t = 0; t < heap->tiers.count; t++) {
        struct block *block = heap->current[t];

        if (block != &block_closed && load_relaxed(&block->free) == BLOCK_ALL_FREE) {
            retire_current(heap, t, now_ns);
            put_empty(heap, block, now_ns);
        }
        flush_keep(heap, t, 0);
    }
    decay(heap, now_ns);
    store_relaxed(&heap->tid, 0);
    atomic_fetch_add_explicit(&heap->pool->waiting_heaps, 1, memory_order_relaxed);
    leave(heap, HEAP_WAITING);
}

void pool_after_fork(struct pool *pool, struct heap *own, const void *thread, int32_t tid)
{
    uint32_t waiting = 0;

    region_after_fork(&pool->region, thread);
    for (struct heap *heap = load_relaxed(&pool->heaps); heap != NULL; heap = heap->next) {
        uint32_t state = load_relaxed(&heap->state);

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
}

void pool_sum_counters_sigsafe(struct pool *pool, uint64_t of_heap[COUNTER_COUNT],
                               uint64_t of_tier[TIERS_MAX][TIER_COUNTER_COUNT])
{
    counters_sum_sigsafe(of_heap, of_tier, &pool->shared);
    /* acquire: pairs with the release push in new_heap. */
    for (struct heap *heap = atomic_load_explicit(&pool->heaps, memory_order_acquire); heap != NULL;
         heap = heap->next)
        if (!is_shared(heap))
            counters_sum_sigsafe(of_heap, of_tier, heap->counters);
}

bool heap_is_valid(const struct heap *heap)
{
    for (unsigned t = 0; t < heap->tiers.count; t++) {
        const struct block *current = heap->current[t];
        size_t kept = 0;

        if (current != &block_closed && (load_relaxed(&current->state) != BLOCK_CURRENT ||
                                         load_relaxed(&current->owner) != heap || current->tier != t))
            return false;
        for (const struct block *block = heap->keep[t].first; block != NULL; block = block->next, kept++)
            if (load_relaxed(&block->state) != BLOCK_KEPT || load_relaxed(&block->free) != BLOCK_ALL_FREE ||
                load_relaxed(&block->remote) != 0)
                return false;
        if (kept != heap->keep[t].count)
            return false;
    }
    return true;
}
