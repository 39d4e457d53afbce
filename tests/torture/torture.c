/* SPDX-License-Identifier: MIT */
/*
 * torture: threads that allocate, realloc, align and free each other's slices, die and are replaced,
 * and fork while the others allocate. Every slice is filled with a pattern of its own, which is
 * verified before it is freed or resized: a slice handed out twice, cut short, or written by the
 * allocator shows.
 *
 *   torture [--seconds S] [--threads N] [--seed X] [--no-fork] [--signal-dumps] [--verbose]
 *
 * All slices are in one table of cells. A thread takes a cell out (FULL or EMPTY -> BUSY), does one
 * thing to it, and puts it back; mostly one of its own range, else anybody's. So a forked child sees
 * which slices nobody was working on at the fork: it verifies and frees all of those, goes on
 * allocating by itself, and must come to its end.
 *
 * --signal-dumps asks the process for a dump every 50 ms (only with the library loaded: without a
 * handler it kills). Exit status 0: nothing wrong. What hangs is ended by the script that started it.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/allocator.h"
#include "../support/test.h"
#include "base/request.h"

enum {
    CELLS_PER_THREAD = 96,
    THREADS_MAX = 64,
    CELLS_MAX = CELLS_PER_THREAD * THREADS_MAX,
    OPERATIONS_PER_LIFE = 2000, /* of a thread, on average */
    FORK_INTERVAL_MS = 60,
    CHILD_TIMEOUT_MS = 30000,
    DUMP_INTERVAL_MS = 50,
};

/* Sizes at which the answer may change, whatever the pools: each is tried with its neighbours. */
static const size_t edges[] = {0,     16,    24,    1024,   1032,   2048,       4096,      8192,
                               16384, 32768, 65536, 131072, 262144, 1025 + 128, 4096 + 64, 2097152};

enum cell_state { CELL_EMPTY, CELL_BUSY, CELL_FULL };

/* What a cell holds belongs to whoever made it BUSY (acquire); making it FULL or EMPTY releases it. */
struct cell {
    _Atomic(int) state;
    void *address;
    size_t size;   /* as it was asked for */
    size_t usable; /* as usable_size said at first: must stay */
    size_t filled; /* bytes with the pattern: size or usable */
    uint64_t key;  /* of the pattern: made of address and size */
};

static struct cell cells[CELLS_MAX];
static size_t cell_count;

static struct {
    unsigned seconds, threads;
    uint64_t seed;
    bool forks, signal_dumps, is_verbose;
} options = {.seconds = 5, .threads = 8, .forks = true};

static atomic_bool is_stopping;
static _Atomic(uint64_t) operation_total, fork_total, life_total, next_fork_ms;
static pthread_key_t last_words; /* its destructor goes on allocating while the thread is torn down */

/* One life of a thread. */
struct life {
    size_t first_cell; /* of its own range */
    uint64_t random;
    uint64_t operations; /* done */
};

static size_t pick_size(uint64_t *random)
{
    size_t choice = test_random_below(random, 100);

    if (choice < 35) {
        size_t edge = edges[test_random_below(random, sizeof edges / sizeof edges[0])];

        /* The largest one is rare: filling it takes as long as a thousand others. */
        if (edge >= 262144 && test_random_below(random, 50) != 0)
            edge = 32768;
        return edge + test_random_below(random, 3) - (edge > 0);
    }
    return test_random_size(random, 1, choice < 40 ? 300000 : 40000);
}

static void cell_verify(const struct cell *cell)
{
    if (allocator.usable_size(cell->address) != cell->usable)
        test_fail("# usable size of %p changed from %zu to %zu", cell->address, cell->usable,
                  allocator.usable_size(cell->address));
    if (!test_is_filled(cell->address, cell->filled, cell->key))
        test_fail("# slice %p of %zu bytes was damaged", cell->address, cell->size);
}

static void cell_verify_and_free(struct cell *cell)
{
    cell_verify(cell);
    allocator.free(cell->address);
    cell->address = NULL;
}

/* A fresh slice, or one that realloc gave: notes its sizes and fills it. */
static void cell_fill(struct cell *cell, void *address, size_t size, uint64_t *random)
{
    cell->address = address;
    cell->size = size;
    cell->usable = allocator.usable_size(address);
    if (cell->usable < size)
        test_fail("# usable size %zu of a slice of %zu bytes", cell->usable, size);
    cell->filled = size == 0 || test_random_below(random, 2) == 0 ? size : cell->usable;
    cell->key = (uint64_t)(uintptr_t)address ^ (uint64_t)size << 48;
    test_fill(address, cell->filled, cell->key);
}

/* Slices too small for any object that needs 16 may be aligned to 8 only: some allocators do that. */
static void require_alignment(const void *address, size_t alignment, size_t size)
{
    if (address == NULL)
        test_fail("# an allocation of %zu bytes failed", size);
    if (alignment == 2 * sizeof(void *) && size < alignment)
        alignment = sizeof(void *);
    if ((uintptr_t)address % alignment != 0)
        test_fail("# %p of %zu bytes is not aligned to %zu", address, size, alignment);
}

static void cell_allocate(struct cell *cell, uint64_t *random)
{
    size_t size = pick_size(random), alignment = 2 * sizeof(void *);
    void *address = NULL;

    switch (test_random_below(random, 8)) {
    case 0:
    case 1:
        address = allocator.calloc(1, size);
        if (address != NULL && !test_is_zero(address, size))
            test_fail("# calloc(1, %zu) at %p is not zero", size, address);
        break;
    case 2:
        alignment = (size_t)16 << test_random_below(random, 10); /* to 8 KiB */
        size = (size + alignment - 1) & ~(alignment - 1);        /* as C11 had it, and sanitizers insist on */
        address = allocator.aligned_alloc(alignment, size);
        break;
    case 3:
        alignment = (size_t)16 << test_random_below(random, 13); /* to 64 KiB */
        if (allocator.posix_memalign(&address, alignment, size) != 0)
            test_fail("# posix_memalign(%zu, %zu) failed", alignment, size);
        break;
    case 4:
        address = allocator.realloc(NULL, size);
        break;
    default:
        address = allocator.malloc(size);
    }
    require_alignment(address, alignment, size);
    cell_fill(cell, address, size, random);
}

static void cell_resize(struct cell *cell, uint64_t *random)
{
    size_t size = pick_size(random) + 1; /* realloc to 0 frees */
    size_t kept;
    void *address;

    if (test_random_below(random, 2) == 0) /* near by: may be done in place */
        size = cell->size + 1 + test_random_below(random, cell->size + 2);
    /* Only what was asked for at both times survives, however much of it was filled. */
    kept = cell->size < size ? cell->size : size;
    cell_verify(cell);
    address = allocator.realloc(cell->address, size);
    require_alignment(address, 2 * sizeof(void *), size);
    if (!test_is_filled(address, kept, cell->key))
        test_fail("# realloc of %zu bytes to %zu lost some", cell->size, size);
    cell_fill(cell, address, size, random);
}

/* One operation on one cell. */
static void life_step(struct life *life)
{
    bool is_own = test_random_below(&life->random, 4) != 0;
    size_t index = is_own ? life->first_cell + test_random_below(&life->random, CELLS_PER_THREAD)
                          : test_random_below(&life->random, cell_count);
    struct cell *cell = &cells[index];
    int state = atomic_load_explicit(&cell->state, memory_order_relaxed);
    int next = CELL_FULL;

    if (state == CELL_BUSY ||
        !atomic_compare_exchange_strong_explicit(&cell->state, &state, CELL_BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    if (state == CELL_EMPTY) {
        cell_allocate(cell, &life->random);
    } else if (test_random_below(&life->random, 4) == 0) {
        cell_resize(cell, &life->random);
    } else {
        cell_verify_and_free(cell);
        next = CELL_EMPTY;
    }
    atomic_store_explicit(&cell->state, next, memory_order_release);
    life->operations++;
}

/* Verifies and frees every slice that nobody is working on. */
static void free_all_cells(void)
{
    for (size_t i = 0; i < cell_count; i++)
        if (atomic_load_explicit(&cells[i].state, memory_order_acquire) == CELL_FULL) {
            cell_verify_and_free(&cells[i]);
            atomic_store_explicit(&cells[i].state, CELL_EMPTY, memory_order_release);
        }
}

static void *child_thread(void *argument)
{
    struct life *life = argument;

    if (allocator.thread_begin != NULL)
        allocator.thread_begin();
    for (unsigned i = 0; i < 500; i++)
        life_step(life);
    if (allocator.thread_end != NULL)
        allocator.thread_end();
    return NULL;
}

/* A child that forks: what the parent did, the child must be able to do. */
static void grandchild_fork(void)
{
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        free_all_cells();
        _exit(0);
    }
    REQUIRE(test_wait_child(pid, CHILD_TIMEOUT_MS / 2) == 0);
}

/*
 * The forked child: the other threads are gone, and with them whatever they had BUSY. It frees what
 * it can see, lives on alone or with a new thread beside it, forks again at times, and ends.
 */
static _Noreturn void child_run(struct life *life)
{
    pthread_t thread;
    struct life other = {.first_cell = 0, .random = life->random ^ 1};
    bool has_thread = test_random_below(&life->random, 3) == 0;

    free_all_cells();
    for (size_t i = 0; i < cell_count; i++)
        atomic_store_explicit(&cells[i].state, CELL_EMPTY, memory_order_relaxed);
    if (has_thread && pthread_create(&thread, NULL, child_thread, &other) != 0)
        test_fail("# pthread_create in a child failed");
    for (unsigned i = 0; i < 1000; i++)
        life_step(life);
    if (options.signal_dumps && test_random_below(&life->random, 4) == 0)
        test_dump(SIGUSR1);
    if (test_random_below(&life->random, 4) == 0)
        grandchild_fork();
    if (has_thread)
        REQUIRE(pthread_join(thread, NULL) == 0);
    free_all_cells();
    _exit(0);
}

/* Forks when nobody has for a while; a child that does not come to its end is a failure. */
static void life_fork(struct life *life)
{
    uint64_t now_ms = test_now_ms();
    uint64_t due_ms = atomic_load(&next_fork_ms);
    int status;
    pid_t pid;

    if (now_ms < due_ms || !atomic_compare_exchange_strong(&next_fork_ms, &due_ms, now_ms + FORK_INTERVAL_MS))
        return;
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child_run(life);
    status = test_wait_child(pid, CHILD_TIMEOUT_MS);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        test_fail("# forked child ended with wait status 0x%x", (unsigned)status);
    atomic_fetch_add(&fork_total, 1);
}

/* The destructor of thread-specific data: it must be possible to go on allocating and freeing. */
static void say_last_words(void *argument)
{
    struct life *life = argument;

    for (unsigned i = 0; i < 32; i++)
        life_step(life);
    atomic_fetch_add(&operation_total, life->operations);
}

static void *life_run(void *argument)
{
    struct life *life = argument;
    size_t operations = 1 + test_random_below(&life->random, (size_t)OPERATIONS_PER_LIFE * 2);
    sigset_t dump_signal;

    sigemptyset(&dump_signal);
    sigaddset(&dump_signal, SIGUSR1);
    if (options.signal_dumps)
        REQUIRE(pthread_sigmask(SIG_UNBLOCK, &dump_signal, NULL) == 0);
    if (allocator.thread_begin != NULL)
        allocator.thread_begin();
    REQUIRE(pthread_setspecific(last_words, life) == 0);
    while (operations-- > 0 && !atomic_load_explicit(&is_stopping, memory_order_relaxed)) {
        life_step(life);
        if (options.forks && operations % 64 == 0)
            life_fork(life);
    }
    if (allocator.thread_end != NULL)
        allocator.thread_end();
    return NULL;
}

/* Replaces one thread by the next until time is up. */
static void *supervise(void *argument)
{
    struct life *life = argument;

    while (!atomic_load_explicit(&is_stopping, memory_order_relaxed)) {
        pthread_t thread;

        life->operations = 0;
        REQUIRE(pthread_create(&thread, NULL, life_run, life) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        atomic_fetch_add(&life_total, 1);
    }
    return NULL;
}

static void wait_for_the_end(void)
{
    uint64_t end_ms = test_now_ms() + (uint64_t)options.seconds * 1000, value = REQUEST_MAGIC | REQUEST_DUMP;
    union sigval request;

    memcpy(&request.sival_ptr, &value, sizeof request.sival_ptr);
    while (test_now_ms() < end_ms) {
        test_sleep_ms(DUMP_INTERVAL_MS);
        if (options.signal_dumps)
            REQUIRE(sigqueue(getpid(), SIGUSR1, request) == 0);
    }
}

/*
 * The dump signal is blocked here and where threads only wait, so that it always meets a thread in
 * the middle of its work.
 */
static void block_dump_signal(void)
{
    sigset_t dump_signal;

    sigemptyset(&dump_signal);
    sigaddset(&dump_signal, SIGUSR1);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &dump_signal, NULL) == 0);
}

static void run(void)
{
    /* Static: a forked child gives the stacks of vanished threads to its new ones. */
    static pthread_t supervisors[THREADS_MAX];
    static struct life lives[THREADS_MAX];

    if (allocator.start != NULL)
        allocator.start();
    REQUIRE(pthread_key_create(&last_words, say_last_words) == 0);
    cell_count = (size_t)options.threads * CELLS_PER_THREAD;
    if (options.signal_dumps)
        block_dump_signal();
    for (size_t i = 0; i < options.threads; i++) {
        lives[i] = (struct life){.first_cell = i * CELLS_PER_THREAD, .random = options.seed * 1000003 + i};
        REQUIRE(pthread_create(&supervisors[i], NULL, supervise, &lives[i]) == 0);
    }
    wait_for_the_end();
    atomic_store(&is_stopping, true);
    for (size_t i = 0; i < options.threads; i++)
        REQUIRE(pthread_join(supervisors[i], NULL) == 0);
    free_all_cells();
    if (options.is_verbose)
        test_print("# %s, seed %llu: %llu operations, %llu threads, %llu forks", allocator.name,
                   (unsigned long long)options.seed, (unsigned long long)atomic_load(&operation_total),
                   (unsigned long long)atomic_load(&life_total),
                   (unsigned long long)atomic_load(&fork_total));
    REQUIRE(atomic_load(&operation_total) > 0);
}

static const char usage[] =
    "usage: torture [--seconds S] [--threads N] [--seed X] [--no-fork] [--signal-dumps] [--verbose]\n";

static unsigned long option_number(const char *text, unsigned long low, unsigned long high)
{
    char *end;
    unsigned long number = strtoul(text, &end, 0);

    if (*text == '\0' || *end != '\0' || number < low || number > high) {
        fprintf(stderr, "torture: %s is not a number from %lu to %lu\n%s", text, low, high, usage);
        exit(2);
    }
    return number;
}

static void parse_options(int argc, char **argv)
{
    static const struct option table[] = {
        {"seconds", required_argument, NULL, 's'}, {"threads", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 'x'},    {"no-fork", no_argument, NULL, 'f'},
        {"signal-dumps", no_argument, NULL, 'd'},  {"verbose", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},          {0}};
    int option;

    options.seed = test_now_ms();
    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (option == 's')
            options.seconds = (unsigned)option_number(optarg, 1, 86400);
        else if (option == 't')
            options.threads = (unsigned)option_number(optarg, 1, THREADS_MAX);
        else if (option == 'x')
            options.seed = option_number(optarg, 0, UINT64_MAX);
        else if (option == 'f')
            options.forks = false;
        else if (option == 'd')
            options.signal_dumps = true;
        else if (option == 'v')
            options.is_verbose = true;
        else {
            fputs(usage, option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
    if (optind < argc) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv);
    run();
    return 0;
}
