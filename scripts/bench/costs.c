/* SPDX-License-Identifier: MIT */
/*
 * costs: what single operations cost, one test a process. `bench` has `pinpool ab` run it with and without a
 * preload and compare; a figure of one run alone means little. Prints lines "NAME FIGURE", times with "ns".
 *
 * Timed tests double their work until it fills a span (100 ms), and report that span; the shorter ones before
 * it were the warm-up. They are bound to one processor (two for the hand-over) as far as the process may
 * choose. Where one thread does all the work its processor time is measured, so that whatever else runs on
 * the machine disturbs less; else real time. `pin` and `load` make the situation that the dump or the kernel
 * then describes.
 */
#include "base/request.h"
#include "workload.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    RING_SLOTS = 100,
    BATCH = 64,         /* objects handed over per store that the other thread sees */
    QUEUE_BATCHES = 16, /* a power of two */
    SPINS_BEFORE_YIELD = 2000,
    SERVER_THREADS = 4,
    SERVER_SLOTS = 1000,       /* live objects a thread */
    SERVER_GENERATION = 50000, /* replacements after which a thread hands its objects to a new one */
    SERVER_BYTES_MIN = 512,
    SERVER_BYTES_MAX = 32768
};

struct test {
    const char *name;
    void (*run)(const struct test *test);
    size_t bytes;     /* of its objects */
    bool has_company; /* a second thread exists, asleep: glibc drops its locks without one */
    const char *sentence;
};

static size_t object_bytes; /* of the test that runs */
static uint64_t span_ns_min = 100000000;
static size_t pinned_blocks = 100000;

/* Makes the compiler believe that the pointer is used, so that it keeps the call that made it. */
static inline void pointer_use(void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

static void *object_make(size_t bytes)
{
    void *const object = malloc(bytes);
    if (!object)
        die_errno("malloc");
    pointer_use(object);
    return object;
}

/* ---- timing ---- */

/* Processor time of the calling thread. */
static uint64_t thread_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Runs an operation `count` times and returns how long that took. */
typedef uint64_t (*timed_run)(uint64_t count);

/* Nanoseconds an operation. */
static double measure(timed_run run)
{
    uint64_t count = 1024;
    uint64_t span_ns = run(count);
    while (span_ns < span_ns_min / 8) {
        count *= 4;
        span_ns = run(count);
    }
    while (span_ns < span_ns_min) {
        count = (uint64_t)((double)count * 1.2 * (double)span_ns_min / (double)span_ns);
        span_ns = run(count);
    }
    return (double)span_ns / (double)count;
}

static cpu_set_t processors; /* those that the process was given, before any thread bound itself */

/*
 * Binds the calling thread to one of them, counted from the last (the first often serves interrupts).
 * Where there are not that many the thread stays where it is: that costs accuracy, not truth.
 */
static void processor_bind(unsigned from_last)
{
    for (size_t cpu = CPU_SETSIZE; cpu-- > 0;) {
        cpu_set_t one;
        if (!CPU_ISSET(cpu, &processors) || from_last-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

static void *sleep_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void company_start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0)
        die("a thread cannot be started");
}

static void test_timed(const struct test *test, timed_run run)
{
    processor_bind(0);
    object_bytes = test->bytes;
    if (test->has_company)
        company_start();
    printf("%s %.3f ns\n", test->name, measure(run));
}

/* ---- pair: malloc and free of one object ---- */

static uint64_t pair_run(uint64_t count)
{
    const size_t bytes = object_bytes;
    const uint64_t start_ns = thread_clock_ns();
    for (uint64_t i = 0; i < count; i++)
        free(object_make(bytes));
    return thread_clock_ns() - start_ns;
}

static void test_pair(const struct test *test)
{
    test_timed(test, pair_run);
}

/* ---- ring: the same with 100 live objects, the oldest freed first ---- */

static uint64_t ring_run(uint64_t count)
{
    void *ring[RING_SLOTS];
    const size_t bytes = object_bytes;
    for (unsigned slot = 0; slot < RING_SLOTS; slot++)
        ring[slot] = object_make(bytes);
    unsigned slot = 0;
    const uint64_t start_ns = thread_clock_ns();
    for (uint64_t i = 0; i < count; i++) {
        free(ring[slot]);
        ring[slot] = object_make(bytes);
        slot = slot + 1 < RING_SLOTS ? slot + 1 : 0;
    }
    const uint64_t span_ns = thread_clock_ns() - start_ns;
    for (slot = 0; slot < RING_SLOTS; slot++)
        free(ring[slot]);
    return span_ns;
}

static void test_ring(const struct test *test)
{
    test_timed(test, ring_run);
}

/* ---- handover: one thread allocates, another frees ---- */

/* Batches of pointers between two threads; the index of either side has a cache line of its own. */
static struct {
    _Alignas(
        WORKLOAD_CACHE_LINE) _Atomic(uint64_t) written;   /* batches; by the producer, released after them */
    _Alignas(WORKLOAD_CACHE_LINE) _Atomic(uint64_t) read; /* by the consumer, released after their use */
    _Alignas(WORKLOAD_CACHE_LINE) void *objects[QUEUE_BATCHES][BATCH];
} queue;

/* Waits until the other side's counter differs from `from`: spinning at first, for it is usually at work. */
static uint64_t counter_await(const _Atomic(uint64_t) *counter, uint64_t from)
{
    uint64_t now;
    for (unsigned spins = 0; (now = atomic_load_explicit(counter, memory_order_acquire)) == from; spins++) {
        if (spins > SPINS_BEFORE_YIELD)
            sched_yield();
    }
    return now;
}

static void *consumer_run(void *argument)
{
    const uint64_t batches = *(const uint64_t *)argument;
    processor_bind(1);
    for (uint64_t batch = 0; batch < batches; batch++) {
        if (atomic_load_explicit(&queue.written, memory_order_acquire) == batch)
            (void)counter_await(&queue.written, batch);
        void *const *const objects = queue.objects[batch % QUEUE_BATCHES];
        for (unsigned i = 0; i < BATCH; i++)
            free(objects[i]);
        atomic_store_explicit(&queue.read, batch + 1, memory_order_release);
    }
    return NULL;
}

static void produce(uint64_t batches)
{
    const size_t bytes = object_bytes;
    for (uint64_t batch = 0; batch < batches; batch++) {
        if (batch >= QUEUE_BATCHES &&
            atomic_load_explicit(&queue.read, memory_order_acquire) == batch - QUEUE_BATCHES)
            (void)counter_await(&queue.read, batch - QUEUE_BATCHES);
        void **const objects = queue.objects[batch % QUEUE_BATCHES];
        for (unsigned i = 0; i < BATCH; i++)
            objects[i] = object_make(bytes);
        atomic_store_explicit(&queue.written, batch + 1, memory_order_release);
    }
}

static uint64_t handover_run(uint64_t count)
{
    uint64_t batches = (count + BATCH - 1) / BATCH;
    pthread_t consumer;
    atomic_store(&queue.written, 0);
    atomic_store(&queue.read, 0);
    if (pthread_create(&consumer, NULL, consumer_run, &batches) != 0)
        die("a thread cannot be started");
    const uint64_t start_ns = clock_ns();
    produce(batches);
    pthread_join(consumer, NULL);
    return clock_ns() - start_ns;
}

static void test_handover(const struct test *test)
{
    test_timed(test, handover_run);
}

/* ---- server: random replacement, and threads that hand their objects to a successor ---- */

/*
 * After P. Larson and M. Krishnan, "Memory allocation for long-running server applications" (ISMM 1998):
 * each thread replaces random objects of its set, then ends and leaves the set to a new thread, so most
 * frees are of objects that a dead thread allocated.
 */
struct server {
    _Alignas(WORKLOAD_CACHE_LINE) uint64_t left; /* replacements still to make, over all generations */
    uint64_t random;
    void *objects[SERVER_SLOTS];
};

static struct server servers[SERVER_THREADS];

static void object_replace(struct server *server)
{
    const uint32_t slot = random_below(&server->random, SERVER_SLOTS);
    const size_t bytes =
        SERVER_BYTES_MIN + random_below(&server->random, SERVER_BYTES_MAX - SERVER_BYTES_MIN + 1);
    free(server->objects[slot]);
    char *const object = object_make(bytes);
    object[0] = 1;
    object[bytes - 1] = 1;
    server->objects[slot] = object;
}

static void *server_generation_run(void *argument)
{
    struct server *const server = argument;
    uint64_t replacements = server->left < SERVER_GENERATION ? server->left : SERVER_GENERATION;
    server->left -= replacements;
    while (replacements-- > 0)
        object_replace(server);
    return NULL;
}

/* One per set: starts a generation, waits for its end, starts the next. */
static void *server_run(void *argument)
{
    struct server *const server = argument;
    while (server->left > 0) {
        pthread_t generation;
        if (pthread_create(&generation, NULL, server_generation_run, server) != 0)
            die("a thread cannot be started");
        pthread_join(generation, NULL);
    }
    return NULL;
}

static uint64_t servers_run(uint64_t count)
{
    pthread_t threads[SERVER_THREADS];
    const uint64_t start_ns = clock_ns();
    for (unsigned i = 0; i < SERVER_THREADS; i++) {
        servers[i].left = count / SERVER_THREADS;
        servers[i].random = i;
        if (pthread_create(&threads[i], NULL, server_run, &servers[i]) != 0)
            die("a thread cannot be started");
    }
    for (unsigned i = 0; i < SERVER_THREADS; i++)
        pthread_join(threads[i], NULL);
    return clock_ns() - start_ns;
}

static void test_server(const struct test *test)
{
    (void)servers_run((uint64_t)SERVER_THREADS * SERVER_GENERATION); /* the sets are full now */
    printf("%s %.3f ns\n", test->name, measure(servers_run));
}

/* ---- pin: blocks held by one live slice each, then a dump ---- */

/*
 * Fills each block with two slices of half its size and frees the second: with bump, the block then
 * stays pinned by the first. One more block than asked for, since the last is current, not pinned.
 */
static void blocks_pin(size_t blocks, size_t block_bytes, size_t page_bytes)
{
    for (size_t i = 0; i <= blocks; i++) {
        touch_pages(object_make(block_bytes / 2), page_bytes, page_bytes);
        void *const second = object_make(block_bytes / 2);
        touch_pages(second, page_bytes, page_bytes);
        free(second);
    }
}

/* The blocks are divided among the pools of the arm, which PINPOOL_POOLS lists in KiB: "8k,64k". */
static void test_pin(const struct test *test)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const char *const pools = getenv("PINPOOL_POOLS");
    size_t count = 1;
    if (!pools)
        die("pin is for arms with pools: PINPOOL_POOLS is not set");
    for (const char *comma = pools; (comma = strchr(comma, ',')) != NULL; comma++)
        count++;
    for (const char *pool = pools; pool; pool = strchr(pool, ',')) {
        pool += *pool == ',';
        blocks_pin(pinned_blocks / count, strtoull(pool, NULL, 10) * 1024, page_bytes);
    }
    const uint64_t start_ns = clock_ns();
    /* To the only thread: the handler has run when this returns. */
    if (sigqueue(getpid(), SIGUSR1, (union sigval){.sival_ptr = (void *)(REQUEST_MAGIC | REQUEST_DUMP)}) != 0)
        die_errno("sigqueue");
    printf("%s %llu ns\n", test->name, (unsigned long long)(clock_ns() - start_ns));
}

/* ---- load: what the process consists of before its first medium request ---- */

/* Resident bytes of the process, by what they are. */
struct residence {
    uint64_t total_bytes;
    uint64_t private_bytes; /* in no other process */
    uint64_t
        libc_bytes; /* pages of libc's and the loader's files, which every process maps as it needs them */
};

/* Reads a file of /proc whole, without stdio, which would allocate. */
static void proc_read(const char *path, char *text, size_t text_bytes)
{
    size_t length = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die_errno(path);
    for (;;) {
        const ssize_t got = read(fd, text + length, text_bytes - 1 - length);
        if (got < 0)
            die_errno(path);
        if (got == 0)
            break;
        length += (size_t)got;
    }
    if (length == text_bytes - 1)
        die("%s is longer than expected", path);
    text[length] = '\0';
    close(fd);
}

/* The bytes of a line "Name:   123 kB"; 0 when the line is of another name. */
static uint64_t line_bytes(const char *line, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(line, name, length) == 0 ? strtoull(line + length, NULL, 10) * 1024 : 0;
}

/* One line of smaps: a mapping's first line "low-high rwxp ... path", or one of its figures. */
static void residence_add_line(struct residence *residence, const char *line, bool *is_libc)
{
    if ((*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f')) {
        *is_libc = strstr(line, "/libc.so.") || strstr(line, "/ld-linux");
        return;
    }
    const uint64_t resident_bytes = line_bytes(line, "Rss:");
    residence->total_bytes += resident_bytes;
    residence->libc_bytes += *is_libc ? resident_bytes : 0;
    residence->private_bytes += line_bytes(line, "Private_Clean:") + line_bytes(line, "Private_Dirty:");
}

static void residence_read(struct residence *residence)
{
    static char smaps[1 << 18]; /* not resident until it is read into, and then alike in every arm */
    bool is_libc = false;
    proc_read("/proc/self/smaps", smaps, sizeof(smaps));
    for (char *line = smaps, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        residence_add_line(residence, line, &is_libc);
    }
}

static uint64_t virtual_bytes_read(void)
{
    static char status[8192];
    proc_read("/proc/self/status", status, sizeof(status));
    const char *const line = strstr(status, "VmSize:");
    if (!line)
        die("/proc/self/status has no VmSize");
    return line_bytes(line, "VmSize:");
}

static void test_load(const struct test *test)
{
    struct residence residence = {0};
    const uint64_t virtual_bytes = virtual_bytes_read();
    residence_read(&residence);
    printf("%s_virtual %llu\n%s_resident %llu\n%s_own %llu\n%s_private %llu\n", test->name,
           (unsigned long long)virtual_bytes, test->name, (unsigned long long)residence.total_bytes,
           test->name, (unsigned long long)(residence.total_bytes - residence.libc_bytes), test->name,
           (unsigned long long)residence.private_bytes);
}

/* ---- the table ---- */

static const struct test tests[] = {
    {"small", test_pair, 64, false, "malloc and free of one object of 64 bytes"},
    {"pair", test_pair, 4096, false, "the same of 4096 bytes"},
    {"pair_company", test_pair, 4096, true, "the same where a second thread exists, asleep"},
    {"ring", test_ring, 4096, false, "with 100 live objects, the oldest freed first"},
    {"ring_company", test_ring, 4096, true, "the same where a second thread exists, asleep"},
    {"handover", test_handover, 4096, false, "one thread allocates, another frees"},
    {"server", test_server, 0, false, "4 threads replace random objects and are themselves replaced"},
    {"pin", test_pin, 0, false, "pins blocks of the sizes in PINPOOL_POOLS, then asks for a dump"},
    {"load", test_load, 0, false, "virtual and resident memory before the first medium request"},
};

static int usage(void)
{
    fputs("Usage: costs TEST [SPAN_MS [BLOCKS]]\n\n"
          "SPAN_MS: how long the last repetition of a timed test takes at least (100)\n"
          "BLOCKS: how many are pinned (100000)\n\n",
          stderr);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        fprintf(stderr, "  %-13s %s\n", tests[i].name, tests[i].sentence);
    return 2;
}

int main(int count, char **arguments)
{
    CPU_ZERO(&processors);
    (void)sched_getaffinity(0, sizeof(processors), &processors);
    if (count < 2 || count > 4)
        return usage();
    if (count > 2)
        span_ns_min = strtoull(arguments[2], NULL, 10) * 1000000;
    if (count > 3)
        pinned_blocks = strtoull(arguments[3], NULL, 10);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (strcmp(arguments[1], tests[i].name) != 0)
            continue;
        tests[i].run(&tests[i]);
        if (fflush(stdout) != 0)
            die_errno("stdout");
        return 0;
    }
    return usage();
}
