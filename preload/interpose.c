/* SPDX-License-Identifier: MIT */
/*
 * interpose: see interpose.h.
 *
 * Who answers a request: the pool for sizes of ours; the next allocator for all others, and whenever
 * the pool cannot. Who frees is told by the address alone. What glibc answers to an odd request is
 * left to glibc: it is passed on as it came.
 */
#include "preload/interpose.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/out.h"
#include "base/sys.h"
#include "preload/fork.h"
#include "preload/next.h"
#include "preload/start.h"
#include "preload/thread.h"

_Static_assert(COUNTER_passed_large == COUNTER_passed_small + 1, "count_passed indexes them");

/* ---- allocating ------------------------------------------------------------------------------ */

/* A size that is not the pool's. The heap is the thread's own. */
INLINE void count_passed(struct heap *heap, size_t bytes)
{
    counter_add(&heap->counters->of_heap[COUNTER_passed_small + (bytes > heap->tiers.min_bytes)], 1);
}

/* The same for any heap. */
static void count_passed_slow(struct heap *heap, size_t bytes)
{
    heap_count_slow(heap, bytes > pool.tiers.min_bytes ? COUNTER_passed_large : COUNTER_passed_small);
}

static void count_refused(struct heap *heap)
{
    heap_count_slow(heap, heap == &heap_busy || heap == &heap_none ? COUNTER_passed_reentrant
                          : heap == &heap_dying                    ? COUNTER_passed_dying
                                                                   : COUNTER_passed_refused);
}

/*
 * Everything but the fast path: a thread's first call, a full block, states without a heap. NULL: the
 * request is for the next allocator, and was counted.
 */
static COLD void *take_slow(size_t bytes, size_t alignment, bool *is_touched)
{
    struct heap *heap = self;
    void *address;

    if (heap == &heap_none && fork_is_in_order()) {
        thread_attach();
        heap = self;
    }
    if (!tiers_serve(&pool.tiers, bytes)) {
        count_passed_slow(heap, bytes);
        return NULL;
    }
    if (heap != mine || !fork_is_in_order()) {
        count_refused(heap);
        return NULL;
    }
    (void)thread_enter();
    address = heap_allocate_slow(heap, bytes, alignment, is_touched);
    thread_leave(heap);
    if (!address)
        count_refused(heap);
    return address;
}

static void *take(size_t bytes, bool *is_touched)
{
    struct heap *heap = self;
    void *address;

    if (!tiers_serve(&heap->tiers, bytes)) {
        count_passed(heap, bytes);
        return NULL;
    }
    address = heap_allocate(heap, bytes, 1, is_touched);
    return likely(address) ? address : take_slow(bytes, 1, is_touched);
}

static COLD void *malloc_slow(size_t bytes)
{
    bool is_touched;
    void *address = take_slow(bytes, 1, &is_touched);

    return address ? address : next.malloc(bytes);
}

/* Apart, so that taking a slice out of the cache need not save the registers that carving needs. */
static __attribute__((noinline)) void *malloc_carved(struct heap *heap, size_t bytes)
{
    bool is_touched;
    void *address = heap_carve(heap, bytes, 1, &is_touched);

    return likely(address) ? address : malloc_slow(bytes);
}

static __attribute__((noinline)) void *malloc_ours(struct heap *heap, size_t bytes)
{
    void *address = heap_allocate_cached(heap, bytes);

    return likely(address) ? address : malloc_carved(heap, bytes);
}

/*
 * Most requests of most programs are small, so passing on is the straight line, and what it does not
 * need (registers to save, a frame) is kept in other functions. The same in pool_free.
 */
static void *pool_malloc(size_t bytes)
{
    struct heap *heap = self;

    if (unlikely(tiers_serve(&heap->tiers, bytes)))
        return malloc_ours(heap, bytes);
    count_passed(heap, bytes);
    return next.malloc(bytes);
}

/* Memory is zero as it comes from the kernel; what was carved before is not. */
static void *pool_calloc(size_t count, size_t bytes)
{
    bool is_touched;
    void *address;
    size_t total;

    if (unlikely(__builtin_mul_overflow(count, bytes, &total)))
        return next.calloc(count, bytes);
    address = take(total, &is_touched);
    if (!address)
        return next.calloc(count, bytes);
    return !is_touched ? address : memset(address, 0, total);
}

/*
 * Alignments that a block gives: powers of two up to a page and half a block. Up to a granule every
 * slice has them anyway.
 */
static void *take_aligned(size_t alignment, size_t bytes)
{
    struct heap *heap = self;
    bool is_touched;
    void *address;

    if (!start_is_done() || settings->off || !is_power_of_two(alignment))
        return NULL;
    if (!tiers_serve(&pool.tiers, bytes)) {
        count_passed_slow(heap, bytes);
        return NULL;
    }
    if (alignment > tier_block_bytes(&pool.tiers, tier_of(&pool.tiers, bytes)) / 2 ||
        alignment > pool.region.page_bytes) {
        heap_count_slow(heap, COUNTER_passed_aligned);
        return NULL;
    }
    address = heap_allocate(heap, bytes, alignment, &is_touched);
    return address ? address : take_slow(bytes, alignment, &is_touched);
}

/* ---- freeing --------------------------------------------------------------------------------- */

static _Noreturn COLD void die_of_bad_free(const char *function, const void *address, enum heap_freed freed)
{
    if (freed == HEAP_DOUBLE_FREE)
        fatal_reason_address(function, "double free of ", address);
    fatal_address_reason(function, address, " is not the start of a slice");
}

/*
 * A free that the cache has no room for. Threads without a heap have no cache, and under the policy bump nobody
 * has one: their slices go to the blocks.
 */
static __attribute__((noinline)) bool free_slow(struct chunk *chunk, const void *address)
{
    struct block *block = chunk_block_at(chunk, address);
    struct heap *heap = self;
    _Atomic(uint8_t) *mark;
    unsigned count;
    bool is_freed;

    if (block_find(block, chunk_offset_in_block(chunk, address), &mark, &count) != BLOCK_LIVE)
        return false; /* since heap_free has looked */
    if (heap != mine || !pool.reuses_holes || !fork_is_in_order())
        return heap_free_to_block(heap, block, mark, count);
    (void)thread_enter();
    is_freed = heap_free_slow(heap, block, mark, count);
    thread_leave(heap);
    return is_freed;
}

static COLD void look(void)
{
    struct heap *heap;

    if (!fork_is_in_order())
        return;
    heap = thread_enter();
    heap_look(heap);
    thread_leave(heap);
}

static __attribute__((noinline)) void finish_free(struct chunk *chunk, const void *address,
                                                  enum heap_freed freed, const char *function)
{
    if (freed == HEAP_FREED_AND_DUE)
        look();
    else if (freed != HEAP_FREE_SLOWLY)
        die_of_bad_free(function, address, freed);
    else if (!free_slow(chunk, address))
        die_of_bad_free(function, address, HEAP_DOUBLE_FREE);
}

INLINE void give_back(struct chunk *chunk, void *address, const char *function)
{
    enum heap_freed freed = heap_free(self, chunk, chunk_block_at(chunk, address), address);

    if (unlikely(freed != HEAP_FREED))
        finish_free(chunk, address, freed, function);
}

static __attribute__((noinline)) void free_ours(struct chunk *chunk, void *address)
{
    give_back(chunk, address, "free");
}

static void pool_free(void *address)
{
    struct chunk *chunk = region_find(&pool.region, address);

    if (unlikely(chunk))
        free_ours(chunk, address);
    else if (likely(!bootstrap_owns(address)))
        next.free(address);
}

/* ---- realloc --------------------------------------------------------------------------------- */

/* The mark of the slice at an address of ours, and how many granules it has; or the end. */
static _Atomic(uint8_t) *slice_at(const struct chunk *chunk, const void *address, const char *function,
                                  unsigned *count)
{
    _Atomic(uint8_t) *mark;
    enum block_verdict verdict =
        block_find(chunk_block_at(chunk, address), chunk_offset_in_block(chunk, address), &mark, count);

    if (verdict != BLOCK_LIVE)
        die_of_bad_free(function, address,
                        verdict == BLOCK_DOUBLE_FREE ? HEAP_DOUBLE_FREE : HEAP_NOT_A_START);
    return mark;
}

static size_t slice_bytes(const struct chunk *chunk, unsigned count)
{
    return (size_t)count << (chunk->block_shift - BLOCK_GRANULES_LOG2);
}

static void *realloc_ours(struct chunk *chunk, void *address, size_t bytes)
{
    unsigned count;
    _Atomic(uint8_t) *mark = slice_at(chunk, address, "realloc", &count);
    size_t usable = slice_bytes(chunk, count);
    struct heap *heap = self;
    void *moved;

    if (bytes == 0) { /* as glibc */
        give_back(chunk, address, "realloc");
        return NULL;
    }
    if (heap_resize(heap, chunk_block_at(chunk, address), mark, count, bytes)) {
        heap_count_slow(heap, COUNTER_reallocs_in_place);
        return address;
    }
    moved = malloc(bytes);
    if (!moved)
        return bytes <= usable ? address : NULL; /* a smaller size never fails */
    heap_count_slow(self, COUNTER_reallocs_moved);
    memcpy(moved, address, min_size(usable, bytes));
    give_back(chunk, address, "realloc");
    return moved;
}

/*
 * A small allocation that grows into our sizes becomes ours; everything else of the next allocator's
 * stays there, where growth may need no copy.
 */
static void *realloc_foreign(void *address, size_t bytes)
{
    bool is_touched;
    size_t usable;
    void *moved;

    if (!tiers_serve(&pool.tiers, bytes)) {
        count_passed_slow(self, bytes);
        return next.realloc(address, bytes);
    }
    usable = next.malloc_usable_size(address);
    moved = usable < pool.tiers.min_bytes ? take(bytes, &is_touched) : NULL;
    if (!moved)
        return next.realloc(address, bytes);
    memcpy(moved, address, min_size(usable, bytes));
    next.free(address);
    return moved;
}

static void *realloc_bootstrap(void *address, size_t bytes)
{
    void *moved = bytes == 0 ? NULL : malloc(bytes);

    if (moved)
        memcpy(moved, address, min_size(bootstrap_size(address), bytes));
    return moved;
}

static void *pool_realloc(void *address, size_t bytes)
{
    struct chunk *chunk;

    if (!address)
        return pool_malloc(bytes);
    chunk = region_find(&pool.region, address);
    if (chunk)
        return realloc_ours(chunk, address, bytes);
    return unlikely(bootstrap_owns(address)) ? realloc_bootstrap(address, bytes)
                                             : realloc_foreign(address, bytes);
}

/* ---- before start, and off ------------------------------------------------------------------- */

static void *start_malloc(size_t bytes);
static void *start_calloc(size_t count, size_t bytes);
static void *start_realloc(void *address, size_t bytes);
static void start_free(void *address);

/* Written once, in start_is_done; another thread may read it then: whole pointers, each right. */
static struct {
    void *(*_Atomic malloc)(size_t bytes);
    void *(*_Atomic calloc)(size_t count, size_t bytes);
    void *(*_Atomic realloc)(void *address, size_t bytes);
    void (*_Atomic free)(void *address);
} entry = {start_malloc, start_calloc, start_realloc, start_free};

/* Not ready: the next allocator serves as soon as it is found, and the arena until then. */
static bool is_next_found(void)
{
    /* acquire: pairs with the release when `next` was filled. */
    return atomic_load_explicit(&start_phase, memory_order_acquire) >= RESOLVED;
}

static void *start_malloc(size_t bytes)
{
    if (start_is_done())
        return load_relaxed(&entry.malloc)(bytes);
    return is_next_found() ? next.malloc(bytes) : bootstrap_allocate(bytes, 1);
}

static void *start_calloc(size_t count, size_t bytes)
{
    size_t total;

    if (start_is_done())
        return load_relaxed(&entry.calloc)(count, bytes);
    if (is_next_found())
        return next.calloc(count, bytes);
    return __builtin_mul_overflow(count, bytes, &total) ? NULL : bootstrap_allocate(total, 1);
}

/*
 * A thread that sees the old pointers a moment after the switch may already be given what is ours, by another
 * that sees the new ones: so whose an address is decides here, too.
 */
static void *start_realloc(void *address, size_t bytes)
{
    if (start_is_done())
        return load_relaxed(&entry.realloc)(address, bytes);
    if (!address)
        return start_malloc(bytes);
    if (region_find(&pool.region, address))
        return pool_realloc(address, bytes);
    return bootstrap_owns(address) ? realloc_bootstrap(address, bytes) : next.realloc(address, bytes);
}

static void start_free(void *address)
{
    if (region_find(&pool.region, address))
        pool_free(address);
    else if (!bootstrap_owns(address) && (start_is_done() || is_next_found()))
        next.free(address);
}

static void *off_realloc(void *address, size_t bytes)
{
    return bootstrap_owns(address) ? realloc_bootstrap(address, bytes) : next.realloc(address, bytes);
}

static void off_free(void *address)
{
    if (likely(!bootstrap_owns(address)))
        next.free(address);
}

/*
 * Who frees comes before who allocates: nobody is given what those who free do not know yet.
 */
void interpose_switch(bool off)
{
    store_relaxed(&entry.free, off ? off_free : pool_free);
    store_relaxed(&entry.realloc, off ? off_realloc : pool_realloc);
    /* release: whoever takes an address from these, and hands it on, has the two above in sight. */
    atomic_store_explicit(&entry.malloc, off ? next.malloc : pool_malloc, memory_order_release);
    atomic_store_explicit(&entry.calloc, off ? next.calloc : pool_calloc, memory_order_release);
}

/* ---- the family ------------------------------------------------------------------------------ */

EXPORT void *malloc(size_t bytes)
{
    return load_relaxed(&entry.malloc)(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    return load_relaxed(&entry.calloc)(count, bytes);
}

EXPORT void *realloc(void *address, size_t bytes)
{
    return load_relaxed(&entry.realloc)(address, bytes);
}

EXPORT void free(void *address)
{
    load_relaxed (&entry.free)(address);
}

/* The sizes say nothing that the address does not, and after a realloc in place they may be wrong. */
EXPORT void free_sized(void *address, size_t bytes);
EXPORT void free_sized(void *address, size_t bytes)
{
    (void)bytes;
    free(address);
}

EXPORT void free_aligned_sized(void *address, size_t alignment, size_t bytes);
EXPORT void free_aligned_sized(void *address, size_t alignment, size_t bytes)
{
    (void)alignment;
    (void)bytes;
    free(address);
}

EXPORT void *reallocarray(void *address, size_t count, size_t bytes)
{
    size_t total;

    if (__builtin_mul_overflow(count, bytes, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(address, total);
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
    void *address = take_aligned(alignment, bytes);

    if (address)
        return address;
    return is_next_found() ? next.memalign(alignment, bytes) : bootstrap_allocate(bytes, alignment);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *address = take_aligned(alignment, bytes);

    if (address)
        return address;
    return is_next_found() ? next.aligned_alloc(alignment, bytes) : bootstrap_allocate(bytes, alignment);
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t bytes)
{
    void *address = alignment % sizeof(void *) == 0 ? take_aligned(alignment, bytes) : NULL;

    if (!address && is_next_found())
        return next.posix_memalign(result, alignment, bytes);
    if (!address)
        address = bootstrap_allocate(bytes, alignment);
    if (!address)
        return ENOMEM;
    *result = address;
    return 0;
}

EXPORT void *valloc(size_t bytes)
{
    return memalign(sys_page_bytes(), bytes);
}

EXPORT void *pvalloc(size_t bytes)
{
    size_t page = sys_page_bytes();

    if (bytes > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return memalign(page, align_up(bytes, page));
}

EXPORT size_t malloc_usable_size(void *address)
{
    struct chunk *chunk;

    if (!address)
        return 0;
    chunk = region_find(&pool.region, address);
    if (chunk) {
        unsigned count;

        (void)slice_at(chunk, address, "malloc_usable_size", &count);
        return slice_bytes(chunk, count);
    }
    if (bootstrap_owns(address))
        return bootstrap_size(address);
    return is_next_found() ? next.malloc_usable_size(address) : 0;
}

EXPORT int malloc_trim(size_t pad)
{
    bool has_released = false;
    int result;

    if (!start_is_done())
        return 0;
    if (self == &heap_none && !settings->off && fork_is_in_order())
        thread_attach(); /* a thread that only trims, or only frees and trims */
    if (mine && self == mine && fork_is_in_order()) {
        struct heap *heap = thread_enter();

        has_released = heap_trim(heap);
        thread_leave(heap);
    }
    result = next.malloc_trim ? next.malloc_trim(pad) : 0;
    return has_released || result;
}

/* ---- for operators.c ------------------------------------------------------------------------- */

void *interpose_take(size_t bytes, size_t alignment)
{
    bool is_touched;

    /* Other sizes are counted where they end up: in our malloc, unless the next allocator has operators. */
    if (!start_is_done() || settings->off || !tiers_serve(&pool.tiers, bytes))
        return NULL;
    return alignment > 1 ? take_aligned(alignment, bytes) : take(bytes, &is_touched);
}

bool interpose_give_back(void *address, const char *function)
{
    struct chunk *chunk = region_find(&pool.region, address);

    if (chunk)
        give_back(chunk, address, function);
    return chunk || bootstrap_owns(address);
}
