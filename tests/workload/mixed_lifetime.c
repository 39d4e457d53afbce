/* SPDX-License-Identifier: MIT */
/*
 * mixed_lifetime: a server's buffers, most of them short-lived, a few long-lived, all of medium size.
 *
 * Each of 4 threads lives in ticks. In a tick it frees the buffers that expire, then allocates 20;
 * 98 % of them live 20 to 30 ticks, 2 % live 5000 to 6000. The few long ones are what keeps a block of
 * a pool from being given back: the more buffers a block holds, the likelier one of them is long.
 * So about 490 short and 2200 long buffers are live per thread, whatever the allocator does with them.
 *
 * Sizes are drawn from LO to HI bytes, by default with every doubling equally likely (`log`), for real
 * buffers are mostly small; `uniform` makes every size equally likely. One byte of every page of a
 * buffer is written, so it is resident as in a program that uses it, and copying does not drown the
 * allocator.
 *
 * With --foreign-free a buffer that expires is handed to the next thread, which frees it in its own
 * next tick (a bounded queue: who is too far ahead waits). A buffer in a queue is still live.
 *
 * The first --warmup-ticks of every thread fill the buffers up to their steady number and are not
 * measured. Then the main thread samples live bytes (as requested; the program knows them) and
 * resident bytes every few milliseconds until the time or the ticks are up. Pairs of malloc and free
 * are counted in the same span. The measured threads call nothing but malloc and free and write
 * nothing that another writes.
 */
#include "workload.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
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
    THREADS_MAX = 256,
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
    _Atomic(uint64_t) pairs; /* buffers freed by this thread */
    _Atomic(int64_t)
        live_bytes; /* allocated less freed by this thread; the sum over threads is what is live */
    /* The worker's own. */
    _Alignas(WORKLOAD_CACHE_LINE) uint64_t tick;
    uint64_t freed_buffers;
    int64_t sum_live_bytes;
    struct record *records;  /* RECORDS + 1 of them */
    uint32_t *wheel;         /* WHEEL_SLOTS heads of lists of records */
    uint32_t free_records;   /* head of the records given back */
    uint32_t used_records;   /* records above this one were never used, and are not resident */
    uint32_t outbox_written; /* parcels put into the next thread's queue, published or not */
    struct random random;
    struct queue *inbox;  /* NULL unless another thread frees */
    struct queue *outbox; /* the next thread's inbox */
    pthread_t thread;
};

struct settings {
    struct sizes sizes;
    unsigned threads;
    uint64_t duration_ns; /* 0: `ticks` decides */
    uint64_t ticks;       /* measured ticks of the fastest thread */
    uint64_t warmup_ticks;
    uint64_t seed;
    double signal_at; /* fraction of the measured span; negative: no signal */
    const char *announce_path;
    bool foreign_free;
    bool json;
};

struct figures {
    uint64_t measured_ns;
    uint64_t pairs;
    uint64_t samples;
    double sum_live_bytes;
    double sum_rss_bytes;
    uint64_t rss_max_bytes;
    uint64_t live_at_signal_bytes; /* 0: no signal was raised */
};

static struct settings settings = {
    .sizes = {.low_bytes = 1100, .high_bytes = 32768, .distribution = DISTRIBUTION_LOG},
    .threads = 4,
    .duration_ns = UINT64_C(3000000000),
    .warmup_ticks = 2 * LONG_TICKS_MAX,
    .seed = 1,
    .signal_at = -1.0,
};
static struct worker *workers;
static size_t page_bytes;
static _Atomic(bool) is_over;

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
 * and if all of them only waited, none would go on. False when the run is over.
 */
static bool outbox_put(struct worker *worker, void *address, uint32_t bytes)
{
    struct queue *const outbox = worker->outbox;
    while (worker->outbox_written - atomic_load_explicit(&outbox->read, memory_order_acquire) ==
           QUEUE_SLOTS) {
        outbox_publish(worker);
        inbox_empty(worker);
        counts_publish(worker);
        if (atomic_load_explicit(&is_over, memory_order_relaxed))
            return false;
        sched_yield();
    }
    outbox->parcels[worker->outbox_written % QUEUE_SLOTS] = (struct parcel){address, bytes};
    worker->outbox_written++;
    return true;
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
        if (worker->outbox == NULL)
            buffer_free(worker, record->address, record->bytes);
        else if (!outbox_put(worker, record->address, record->bytes))
            return;
        record->next = worker->free_records;
        worker->free_records = number;
        number = next;
    }
}

static uint32_t lifetime_draw_ticks(struct random *random)
{
    if (random_below(random, 1000) < LONG_PER_MILLE)
        return LONG_TICKS_MIN + random_below(random, LONG_TICKS_MAX - LONG_TICKS_MIN + 1);
    return SHORT_TICKS_MIN + random_below(random, SHORT_TICKS_MAX - SHORT_TICKS_MIN + 1);
}

static void allocate(struct worker *worker)
{
    const uint32_t bytes = sizes_draw(&settings.sizes, &worker->random);
    const uint64_t expires = worker->tick + lifetime_draw_ticks(&worker->random);
    void *const address = malloc(bytes);
    if (address == NULL)
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
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        expire(worker);
        if (worker->inbox != NULL) {
            outbox_publish(worker);
            inbox_empty(worker);
        }
        for (unsigned i = 0; i < BUFFERS_PER_TICK; i++)
            allocate(worker);
        worker->tick++;
        counts_publish(worker);
    }
    return NULL; /* what is still live stays so: the process is about to end */
}

/* ---- the main thread ---- */

static void workers_start(void)
{
    workers = memory_map(settings.threads * sizeof(*workers));
    for (unsigned i = 0; i < settings.threads; i++) {
        struct worker *const worker = &workers[i];
        worker->records = memory_map((RECORDS + 1) * sizeof(*worker->records));
        worker->wheel = memory_map(WHEEL_SLOTS * sizeof(*worker->wheel));
        random_seed(&worker->random, settings.seed * THREADS_MAX + i);
        if (settings.foreign_free)
            worker->inbox = memory_map(sizeof(*worker->inbox));
    }
    for (unsigned i = 0; settings.foreign_free && i < settings.threads; i++)
        workers[i].outbox = workers[(i + 1) % settings.threads].inbox;
    for (unsigned i = 0; i < settings.threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            die("a thread cannot be started");
    }
}

static void workers_stop(void)
{
    atomic_store_explicit(&is_over, true, memory_order_relaxed);
    for (unsigned i = 0; i < settings.threads; i++)
        pthread_join(workers[i].thread, NULL);
}

static uint64_t ticks_min(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < settings.threads; i++) {
        const uint64_t ticks = atomic_load_explicit(&workers[i].ticks, memory_order_relaxed);
        least = ticks < least ? ticks : least;
    }
    return least;
}

static uint64_t ticks_max(void)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < settings.threads; i++) {
        const uint64_t ticks = atomic_load_explicit(&workers[i].ticks, memory_order_relaxed);
        most = ticks > most ? ticks : most;
    }
    return most;
}

static uint64_t pairs_now(void)
{
    uint64_t pairs = 0;
    for (unsigned i = 0; i < settings.threads; i++)
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
        for (unsigned i = 0; i < settings.threads; i++)
            live_bytes += atomic_load_explicit(&workers[i].live_bytes, memory_order_relaxed);
        if (clock_ns() - start_ns < GOOD_NS)
            break;
    }
    return live_bytes > 0 ? (uint64_t)live_bytes : 0;
}

/* Tells whoever waits for the steady state that it has come, by a file that holds our pid. */
static void announce(void)
{
    FILE *const file = fopen(settings.announce_path, "we");
    if (file == NULL || fprintf(file, "%ld\n", (long)getpid()) < 0 || fclose(file) != 0)
        die_errno(settings.announce_path);
}

static void sample(struct figures *figures)
{
    const uint64_t rss = rss_bytes();
    figures->sum_rss_bytes += (double)rss;
    figures->sum_live_bytes += (double)live_bytes_now();
    figures->rss_max_bytes = rss > figures->rss_max_bytes ? rss : figures->rss_max_bytes;
    figures->samples++;
}

static void signal_raise(struct figures *figures)
{
    figures->live_at_signal_bytes = live_bytes_now();
    if (raise(SIGUSR1) != 0) /* to this thread: the handler has run when this returns */
        die_errno("raise");
}

/* How much of the measured span is over. */
static double progress(uint64_t start_ns, uint64_t start_ticks)
{
    if (settings.duration_ns != 0)
        return (double)(clock_ns() - start_ns) / (double)settings.duration_ns;
    return (double)(ticks_max() - start_ticks) / (double)settings.ticks;
}

static void measure(struct figures *figures)
{
    while (ticks_min() < settings.warmup_ticks)
        sleep_ns(SAMPLE_INTERVAL_NS);
    if (settings.announce_path != NULL)
        announce();

    const uint64_t start_ns = clock_ns();
    const uint64_t start_ticks = ticks_max();
    const uint64_t start_pairs = pairs_now();
    bool has_to_signal = settings.signal_at >= 0.0;
    double done = 0.0;
    while (done < 1.0) {
        sleep_ns(SAMPLE_INTERVAL_NS);
        sample(figures);
        done = progress(start_ns, start_ticks);
        if (has_to_signal && done >= settings.signal_at && done < 1.0) {
            signal_raise(figures);
            has_to_signal = false;
        }
    }
    figures->pairs = pairs_now() - start_pairs;
    figures->measured_ns = clock_ns() - start_ns;
    /* A fraction of 1 disturbs nothing: measuring is over, and the threads still run. */
    if (has_to_signal)
        signal_raise(figures);
}

static void print_json(const struct figures *figures)
{
    const double samples = (double)figures->samples;
    printf("{\"threads\":%u,\"sizes\":\"%u:%u\",\"distribution\":\"%s\",\"foreign_free\":%s,\"seed\":%llu,"
           "\"measured_ns\":%llu,\"pairs\":%llu,\"pairs_per_second\":%.0f,\"live_mean_bytes\":%.0f,"
           "\"rss_mean_bytes\":%.0f,\"rss_max_bytes\":%llu,\"live_at_signal_bytes\":%llu,\"libraries\":",
           settings.threads, settings.sizes.low_bytes, settings.sizes.high_bytes,
           settings.sizes.distribution == DISTRIBUTION_LOG ? "log" : "uniform",
           settings.foreign_free ? "true" : "false", (unsigned long long)settings.seed,
           (unsigned long long)figures->measured_ns, (unsigned long long)figures->pairs,
           (double)figures->pairs * 1e9 / (double)figures->measured_ns, figures->sum_live_bytes / samples,
           figures->sum_rss_bytes / samples, (unsigned long long)figures->rss_max_bytes,
           (unsigned long long)figures->live_at_signal_bytes);
    libraries_print_json(stdout);
    printf("}\n");
}

static void print_text(const struct figures *figures)
{
    const double samples = (double)figures->samples;
    const double live_bytes = figures->sum_live_bytes / samples;
    const double resident_bytes = figures->sum_rss_bytes / samples;
    printf("throughput     %10.3f million pairs of malloc and free a second\n",
           (double)figures->pairs * 1e3 / (double)figures->measured_ns);
    printf("live           %10.1f MB mean, as requested\n", live_bytes / 1e6);
    printf("resident       %10.1f MB mean, %.1f MB at most\n", resident_bytes / 1e6,
           (double)figures->rss_max_bytes / 1e6);
    printf("resident/live  %10.2f\n", resident_bytes / live_bytes);
}

/* ---- options ---- */

static void usage(FILE *to)
{
    fputs("Usage: mixed_lifetime [options]\n"
          "Allocates as a server does, many buffers for a moment and a few for long, and reports\n"
          "throughput, live and resident bytes.\n\n"
          "  --threads=N          threads (4)\n"
          "  --sizes=LO:HI        sizes of the buffers in bytes (1100:32768)\n"
          "  --distribution=D     log: every doubling equally likely; uniform: every size (log)\n"
          "  --foreign-free       the next thread frees what a thread allocated\n"
          "  --seconds=S          how long to measure (3)\n"
          "  --ticks=N            instead: until the fastest thread has made N ticks\n"
          "  --warmup-ticks=N     ticks of every thread before that (12000: twice the longest lifetime)\n"
          "  --seed=N             start of the random numbers (1)\n"
          "  --dump-signal-at=F   raise SIGUSR1 when the fraction F of the measured span is over;\n"
          "                       without somebody who catches it, it ends the program\n"
          "  --announce=PATH      write the process id to PATH when the measured span begins\n"
          "  --json               one line of JSON\n"
          "  --help               this text\n",
          to);
}

static double decimal_parse(const char *option, const char *text, double low, double high)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high))
        die("--%s=%s: must be a number from %g to %g", option, text, low, high);
    return value;
}

static enum distribution distribution_parse(const char *text)
{
    if (strcmp(text, "uniform") == 0)
        return DISTRIBUTION_UNIFORM;
    if (strcmp(text, "log") != 0)
        die("--distribution=%s: must be log or uniform", text);
    return DISTRIBUTION_LOG;
}

static void option_apply(int option, const char *value)
{
    switch (option) {
    case 't':
        settings.threads = (unsigned)number_parse("threads", value, 1, THREADS_MAX);
        break;
    case 'z':
        if (!sizes_parse(&settings.sizes, value))
            die("--sizes=%s: must be LO:HI in bytes", value);
        break;
    case 'd':
        settings.sizes.distribution = distribution_parse(value);
        break;
    case 'f':
        settings.foreign_free = true;
        break;
    case 's':
        settings.duration_ns = (uint64_t)(decimal_parse("seconds", value, 0.01, 86400.0) * 1e9);
        break;
    case 'k':
        settings.ticks = number_parse("ticks", value, 1, UINT64_C(1) << 40);
        settings.duration_ns = 0;
        break;
    case 'w':
        settings.warmup_ticks = number_parse("warmup-ticks", value, 0, UINT64_C(1) << 40);
        break;
    case 'r':
        settings.seed = number_parse("seed", value, 0, UINT64_C(1) << 48);
        break;
    case 'u':
        settings.signal_at = decimal_parse("dump-signal-at", value, 0.0, 1.0);
        break;
    case 'a':
        settings.announce_path = value;
        break;
    case 'j':
        settings.json = true;
        break;
    case 'h':
        usage(stdout);
        exit(0);
    default:
        usage(stderr);
        exit(2);
    }
}

static void options_read(int count, char **arguments)
{
    static const struct option table[] = {
        {"threads", required_argument, NULL, 't'},
        {"sizes", required_argument, NULL, 'z'},
        {"distribution", required_argument, NULL, 'd'},
        {"foreign-free", no_argument, NULL, 'f'},
        {"seconds", required_argument, NULL, 's'},
        {"ticks", required_argument, NULL, 'k'},
        {"warmup-ticks", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 'r'},
        {"dump-signal-at", required_argument, NULL, 'u'},
        {"announce", required_argument, NULL, 'a'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(count, arguments, "", table, NULL)) != -1)
        option_apply(option, optarg);
    if (optind < count)
        die("%s: unexpected argument", arguments[optind]);
    if (settings.foreign_free && settings.threads < 2)
        die("--foreign-free needs two threads");
}

int main(int count, char **arguments)
{
    struct figures figures = {0};
    options_read(count, arguments);
    sizes_fill(&settings.sizes);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    workers_start();
    measure(&figures);
    workers_stop();
    if (settings.json)
        print_json(&figures);
    else
        print_text(&figures);
    if (fflush(stdout) != 0)
        die_errno("stdout");
    return 0;
}
