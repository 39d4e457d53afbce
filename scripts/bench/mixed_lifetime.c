/* SPDX-License-Identifier: MIT */
/*
 * mixed_lifetime: a server's buffers, most of them short-lived, a few long-lived, all of medium size.
 *
 * Each of 4 threads lives in ticks. In a tick it frees the buffers that expire, then allocates 20;
 * 98 % of them live 20 to 30 ticks, 2 % live 5000 to 6000. The few long ones are what keeps a block of
 * a pool from being given back: the more buffers a block holds, the likelier one of them is long.
 * So about 490 short and 2200 long buffers are live per thread, whatever the allocator does with them.
 *
 * Sizes are drawn from LO to HI bytes, every doubling equally likely, for real buffers are mostly small. One
 * byte of every page of a buffer is written, so it is resident as in a program that uses it, and copying does
 * not drown the allocator.
 *
 * With `foreign` a buffer that expires is handed to the next thread, which frees it in its own
 * next tick (a bounded queue: who is too far ahead waits). A buffer in a queue is still live.
 *
 * It is a service for `pinpool ab`: says "steady" when the first 12000 ticks of every thread have filled the
 * buffers up to their steady number, then counts pairs of malloc and free, and samples live bytes (as
 * requested; the program knows them) every few milliseconds, prints both, and goes on until it is ended. What
 * it keeps resident and what the library holds for it, `pinpool ab` sees from outside. The measured threads
 * call nothing but malloc and free and write nothing that another writes.
 */
#include "workload.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 4,
    SIZES = 4096, /* a power of two: drawing takes the top bits of a random number */
    BUFFERS_PER_TICK = 20,
    LONG_PER_MILLE = 20,
    SHORT_TICKS_MIN = 20,
    SHORT_TICKS_MAX = 30,
    LONG_TICKS_MIN = 5000,
    LONG_TICKS_MAX = 6000,
    WHEEL_SLOTS = 8192, /* a power of two above the longest lifetime */
    /* Every buffer of the longest lifetime at once: the records can never run out. */
    RECORDS = BUFFERS_PER_TICK * (LONG_TICKS_MAX + 1),
    QUEUE_SLOTS = 1024, /* a power of two; about 50 ticks */
    WARMUP_TICKS = 2 * LONG_TICKS_MAX,
    SAMPLE_INTERVAL_NS = 5000000,
    NO_RECORD = 0 /* record 0 is never used, so that zeroed memory is an empty wheel */
};

_Static_assert(WHEEL_SLOTS > LONG_TICKS_MAX, "a lifetime fits the wheel");

/* One live buffer, in the list of the tick in which it expires or in the list of free records. */
struct record {
    void *address;
    uint32_t bytes;
    uint32_t next;
};

struct parcel {
    void *address;
    uint32_t bytes;
};

/* Buffers on their way to the thread that frees them: one writer, one reader. */
struct queue {
    _Alignas(WORKLOAD_CACHE_LINE) _Atomic(uint32_t) written; /* by the writer, released after the parcels */
    _Alignas(WORKLOAD_CACHE_LINE) _Atomic(uint32_t) read;    /* by the reader, released after their use */
    _Alignas(WORKLOAD_CACHE_LINE) struct parcel parcels[QUEUE_SLOTS];
};

struct worker {
    /* Written by the worker once a tick, read by the main thread. */
    _Alignas(WORKLOAD_CACHE_LINE) _Atomic(uint64_t) ticks;
    _Atomic(uint64_t) pairs;     /* buffers freed by this thread */
    _Atomic(int64_t) live_bytes; /* allocated less freed by this thread; live is the sum over threads */
    /* The worker's own. */
    _Alignas(WORKLOAD_CACHE_LINE) uint64_t tick;
    uint64_t freed_buffers;
    int64_t sum_live_bytes;
    struct record *records;  /* RECORDS + 1 of them */
    uint32_t *wheel;         /* WHEEL_SLOTS heads of lists of records */
    uint32_t free_records;   /* head of the records given back */
    uint32_t used_records;   /* records above this one were never used, and are not resident */
    uint32_t outbox_written; /* parcels put into the next thread's queue, published or not */
    uint64_t random;
    struct queue *inbox;  /* NULL unless another thread frees */
    struct queue *outbox; /* the next thread's inbox */
    pthread_t thread;
};

/* Equally likely sizes, ascending, so that drawing one costs one load and no logarithm. */
static uint32_t sizes_bytes[SIZES];
static struct worker *workers; /* THREADS of them */
static size_t page_bytes;

/* Zeroed memory that malloc does not know; it becomes resident where it is written. */
static void *memory_map(size_t bytes)
{
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die_errno("mmap");
    return memory;
}

static void sizes_fill(double low_bytes, double high_bytes)
{
    for (unsigned i = 0; i < SIZES; i++) /* both ends occur */
        sizes_bytes[i] = (uint32_t)lround(low_bytes * pow(high_bytes / low_bytes, (double)i / (SIZES - 1)));
}

/* ---- the measured threads ---- */

static void buffer_free(struct worker *worker, void *address, uint32_t bytes)
{
    free(address);
    worker->freed_buffers++;
    worker->sum_live_bytes -= bytes;
}

static void counts_publish(struct worker *worker)
{
    atomic_store_explicit(&worker->ticks, worker->tick, memory_order_relaxed);
    atomic_store_explicit(&worker->pairs, worker->freed_buffers, memory_order_relaxed);
    atomic_store_explicit(&worker->live_bytes, worker->sum_live_bytes, memory_order_relaxed);
}

static void inbox_empty(struct worker *worker)
{
    struct queue *const inbox = worker->inbox;
    const uint32_t written = atomic_load_explicit(&inbox->written, memory_order_acquire);
    uint32_t read = atomic_load_explicit(&inbox->read, memory_order_relaxed);
    for (; read != written; read++) {
        const struct parcel *const parcel = &inbox->parcels[read % QUEUE_SLOTS];
        buffer_free(worker, parcel->address, parcel->bytes);
    }
    atomic_store_explicit(&inbox->read, read, memory_order_release);
}

static void outbox_publish(struct worker *worker)
{
    atomic_store_explicit(&worker->outbox->written, worker->outbox_written, memory_order_release);
}

/*
 * Hands a buffer to the next thread. While its queue is full we empty ours: the threads form a ring,
 * and if all of them only waited, none would go on.
 */
static void outbox_put(struct worker *worker, void *address, uint32_t bytes)
{
    struct queue *const outbox = worker->outbox;
    while (worker->outbox_written - atomic_load_explicit(&outbox->read, memory_order_acquire) ==
           QUEUE_SLOTS) {
        outbox_publish(worker);
        inbox_empty(worker);
        counts_publish(worker);
        sched_yield();
    }
    outbox->parcels[worker->outbox_written % QUEUE_SLOTS] = (struct parcel){address, bytes};
    worker->outbox_written++;
}

static uint32_t record_take(struct worker *worker)
{
    const uint32_t taken = worker->free_records;
    if (taken == NO_RECORD)
        return ++worker->used_records;
    worker->free_records = worker->records[taken].next;
    return taken;
}

static void expire(struct worker *worker)
{
    uint32_t *const head = &worker->wheel[worker->tick % WHEEL_SLOTS];
    uint32_t number = *head;
    *head = NO_RECORD;
    while (number != NO_RECORD) {
        struct record *const record = &worker->records[number];
        const uint32_t next = record->next;
        if (!worker->outbox)
            buffer_free(worker, record->address, record->bytes);
        else
            outbox_put(worker, record->address, record->bytes);
        record->next = worker->free_records;
        worker->free_records = number;
        number = next;
    }
}

static uint32_t lifetime_draw_ticks(uint64_t *random)
{
    if (random_below(random, 1000) < LONG_PER_MILLE)
        return LONG_TICKS_MIN + random_below(random, LONG_TICKS_MAX - LONG_TICKS_MIN + 1);
    return SHORT_TICKS_MIN + random_below(random, SHORT_TICKS_MAX - SHORT_TICKS_MIN + 1);
}

static void allocate(struct worker *worker)
{
    const uint32_t bytes = sizes_bytes[random_next(&worker->random) / (UINT64_MAX / SIZES + 1)];
    const uint64_t expires = worker->tick + lifetime_draw_ticks(&worker->random);
    void *const address = malloc(bytes);
    if (!address)
        die_errno("malloc");
    touch_pages(address, bytes, page_bytes);
    worker->sum_live_bytes += bytes;
    const uint32_t number = record_take(worker);
    uint32_t *const head = &worker->wheel[expires % WHEEL_SLOTS];
    worker->records[number] = (struct record){address, bytes, *head};
    *head = number;
}

static void *worker_run(void *argument)
{
    struct worker *const worker = argument;
    for (;;) {
        expire(worker);
        if (worker->inbox) {
            outbox_publish(worker);
            inbox_empty(worker);
        }
        for (unsigned i = 0; i < BUFFERS_PER_TICK; i++)
            allocate(worker);
        worker->tick++;
        counts_publish(worker);
    }
    return NULL;
}

/* ---- the main thread ---- */

static void workers_start(bool foreign_free)
{
    workers = memory_map(THREADS * sizeof(*workers));
    for (unsigned i = 0; i < THREADS; i++) {
        struct worker *const worker = &workers[i];
        worker->records = memory_map((RECORDS + 1) * sizeof(*worker->records));
        worker->wheel = memory_map(WHEEL_SLOTS * sizeof(*worker->wheel));
        worker->random = i;
        if (foreign_free)
            worker->inbox = memory_map(sizeof(*worker->inbox));
    }
    for (unsigned i = 0; foreign_free && i < THREADS; i++)
        workers[i].outbox = workers[(i + 1) % THREADS].inbox;
    for (unsigned i = 0; i < THREADS; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            die("a thread cannot be started");
    }
}

static uint64_t ticks_min(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < THREADS; i++) {
        const uint64_t ticks = atomic_load_explicit(&workers[i].ticks, memory_order_relaxed);
        least = ticks < least ? ticks : least;
    }
    return least;
}

static uint64_t pairs_now(void)
{
    uint64_t pairs = 0;
    for (unsigned i = 0; i < THREADS; i++)
        pairs += atomic_load_explicit(&workers[i].pairs, memory_order_relaxed);
    return pairs;
}

/*
 * What is live, summed over the threads. They go on meanwhile, tens of megabytes a millisecond, so a sum
 * during which we lost the processor is worth nothing and is made again.
 */
static uint64_t live_bytes_now(void)
{
    enum { TRIES = 20, GOOD_NS = 10000 };
    int64_t live_bytes = 0;
    for (unsigned try = 0; try < TRIES; try++) {
        const uint64_t start_ns = clock_ns();
        live_bytes = 0;
        for (unsigned i = 0; i < THREADS; i++)
            live_bytes += atomic_load_explicit(&workers[i].live_bytes, memory_order_relaxed);
        if (clock_ns() - start_ns < GOOD_NS)
            break;
    }
    return live_bytes > 0 ? (uint64_t)live_bytes : 0;
}

static void sleep_ns(uint64_t duration_ns)
{
    struct timespec left = {.tv_sec = (time_t)(duration_ns / UINT64_C(1000000000)),
                            .tv_nsec = (long)(duration_ns % UINT64_C(1000000000))};
    while (nanosleep(&left, &left) != 0) /* a dump interrupts it */
        ;
}

static void say(const char *format, double value)
{
    if (printf(format, value) < 0 || fflush(stdout) != 0)
        die_errno("stdout");
}

static void measure(uint64_t duration_ns)
{
    double sum_live_bytes = 0;
    uint64_t samples = 0;
    const uint64_t start_ns = clock_ns();
    const uint64_t start_pairs = pairs_now();
    uint64_t span_ns;
    do {
        sleep_ns(SAMPLE_INTERVAL_NS);
        sum_live_bytes += (double)live_bytes_now();
        samples++;
        span_ns = clock_ns() - start_ns;
    } while (span_ns < duration_ns);
    const double pairs = (double)(pairs_now() - start_pairs);
    say("live_bytes %.0f\n", sum_live_bytes / (double)samples);
    say("pairs_per_s %.0f\n", pairs * 1e9 / (double)span_ns);
}

int main(int count, char **arguments)
{
    const double low_bytes = count > 3 ? strtod(arguments[1], NULL) : 0;
    const double high_bytes = count > 3 ? strtod(arguments[2], NULL) : 0;
    const double seconds = count > 3 ? strtod(arguments[3], NULL) : 0;
    const bool foreign_free = count == 5 && strcmp(arguments[4], "foreign") == 0;
    if ((count != 4 && !foreign_free) || !(low_bytes >= 1 && low_bytes <= high_bytes && seconds > 0)) {
        fputs("Usage: mixed_lifetime LOW_BYTES HIGH_BYTES SECONDS [foreign]\n"
              "foreign: the next thread frees what a thread allocated\n",
              stderr);
        return 2;
    }
    sizes_fill(low_bytes, high_bytes);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    workers_start(foreign_free);
    while (ticks_min() < WARMUP_TICKS)
        sleep_ns(SAMPLE_INTERVAL_NS);
    say("steady after %.0f ticks\n", WARMUP_TICKS);
    measure((uint64_t)(seconds * 1e9));
    for (;;)
        pause();
}
