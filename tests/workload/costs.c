/* SPDX-License-Identifier: MIT */
/*
 * costs: what single operations cost, one test a process, one line of JSON. scripts/bench runs it with
 * and without the preload and compares; a figure of one run alone means little.
 *
 * Timed tests double their work until it fills a span of at least 100 ms, and report that span; the
 * shorter ones before it were the warm-up. They are bound to one processor (two for the hand-over) as
 * far as the process may choose. Where one thread does all the work its processor time is measured, so
 * that whatever else runs on the machine disturbs less; else real time. `pin` and `load` are not timed here:
 * they make the situation that the dump or the kernel then describes.
 */
#include "workload.h"

#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SPAN_NS_MIN = 100000000,
    RING_SLOTS = 100,
    BATCH = 64,         /* objects handed over per store that the other thread sees */
    QUEUE_BATCHES = 16, /* a power of two */
    SPINS_BEFORE_YIELD = 2000,
    SERVER_THREADS = 4,
    SERVER_SLOTS = 1000,       /* live objects a thread */
    SERVER_GENERATION = 50000, /* replacements after which a thread hands its objects to a new one */
    PROBE_BYTES = 4096
};

struct settings {
    size_t bytes;       /* of the objects of `pair`, `ring` and `handover` */
    size_t blocks;      /* of each size, for `pin` */
    struct sizes sizes; /* of the objects of `server` */
    const char *block_bytes_list;
    bool has_company; /* a second thread exists, asleep: glibc drops its locks without one */
};

static struct settings settings = {
    .bytes = 4096,
    .blocks = 100000,
    .sizes = {.low_bytes = 512, .high_bytes = 32768, .distribution = DISTRIBUTION_UNIFORM},
    .block_bytes_list = "8192",
};

/* Makes the compiler believe that the pointer is used, so that it keeps the call that made it. */
static inline void pointer_use(void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

static void *object_make(size_t bytes)
{
    void *const object = malloc(bytes);
    if (object == NULL)
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
    while (span_ns < SPAN_NS_MIN / 8) {
        count *= 4;
        span_ns = run(count);
    }
    while (span_ns < SPAN_NS_MIN) {
        count = (uint64_t)((double)count * 1.2 * SPAN_NS_MIN / (double)span_ns);
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
    if (settings.has_company && pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0)
        die("a thread cannot be started");
}

static void print_result(const char *test, double ns_per_operation)
{
    /* Last, when it disturbs nothing: what the allocator that serves this process makes of one request. */
    void *const probe = object_make(PROBE_BYTES);
    printf("{\"test\":\"%s\",\"bytes\":%zu,\"ns_per_operation\":%.3f,\"usable_of_4096_bytes\":%zu,"
           "\"libraries\":",
           test, settings.bytes, ns_per_operation, malloc_usable_size(probe));
    libraries_print_json(stdout);
    printf("}\n");
    free(probe);
}

/* ---- pair: malloc and free of one object ---- */

static uint64_t pair_run(uint64_t count)
{
    const size_t bytes = settings.bytes;
    const uint64_t start_ns = thread_clock_ns();
    for (uint64_t i = 0; i < count; i++)
        free(object_make(bytes));
    return thread_clock_ns() - start_ns;
}

static void test_pair(const char *name)
{
    processor_bind(0);
    company_start();
    print_result(name, measure(pair_run));
}

/* ---- ring: the same with 100 live objects, the oldest freed first ---- */

static uint64_t ring_run(uint64_t count)
{
    void *ring[RING_SLOTS];
    const size_t bytes = settings.bytes;
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

static void test_ring(const char *name)
{
    processor_bind(0);
    company_start();
    print_result(name, measure(ring_run));
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
    const size_t bytes = settings.bytes;
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

static void test_handover(const char *name)
{
    processor_bind(0);
    print_result(name, measure(handover_run));
}

/* ---- server: random replacement, and threads that hand their objects to a successor ---- */

/*
 * After P. Larson and M. Krishnan, "Memory allocation for long-running server applications" (ISMM 1998):
 * each thread replaces random objects of its set, then ends and leaves the set to a new thread, so most
 * frees are of objects that a dead thread allocated.
 */
struct server {
    _Alignas(WORKLOAD_CACHE_LINE) uint64_t left; /* replacements still to make, over all generations */
    struct random random;
    void *objects[SERVER_SLOTS];
};

static struct server servers[SERVER_THREADS];

static void object_replace(struct server *server)
{
    const uint32_t slot = random_below(&server->random, SERVER_SLOTS);
    const size_t bytes = sizes_draw(&settings.sizes, &server->random);
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
        random_seed(&servers[i].random, i);
        if (pthread_create(&threads[i], NULL, server_run, &servers[i]) != 0)
            die("a thread cannot be started");
    }
    for (unsigned i = 0; i < SERVER_THREADS; i++)
        pthread_join(threads[i], NULL);
    return clock_ns() - start_ns;
}

static void test_server(const char *name)
{
    sizes_fill(&settings.sizes);
    (void)servers_run((uint64_t)SERVER_THREADS * SERVER_GENERATION); /* the sets are full now */
    print_result(name, measure(servers_run));
}

/* ---- pin: blocks held by one live slice each, then a dump ---- */

/*
 * Fills each block with two slices of half its size and frees the second: with bump, the block then
 * stays pinned by the first. One more block than asked for, since the last is current, not pinned.
 */
static void blocks_pin(size_t block_bytes, size_t page_bytes)
{
    for (size_t i = 0; i <= settings.blocks; i++) {
        touch_pages(object_make(block_bytes / 2), page_bytes, page_bytes);
        void *const second = object_make(block_bytes / 2);
        touch_pages(second, page_bytes, page_bytes);
        free(second);
    }
}

static void test_pin(const char *name)
{
    enum { DUMPS = 5 };
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t raised_ns[DUMPS];
    const char *list = settings.block_bytes_list;
    while (*list != '\0') {
        char *end = NULL;
        const size_t block_bytes = strtoull(list, &end, 10);
        if (end == list || block_bytes < 2048 || (*end != '\0' && *end != ','))
            die("--block-bytes=%s: must be sizes separated by commas", settings.block_bytes_list);
        blocks_pin(block_bytes, page_bytes);
        list = *end == ',' ? end + 1 : end;
    }
    for (unsigned i = 0; i < DUMPS; i++) {
        const uint64_t start_ns = clock_ns();
        if (raise(SIGUSR1) != 0) /* to this thread: the handler has run when this returns */
            die_errno("raise");
        raised_ns[i] = clock_ns() - start_ns;
    }
    printf("{\"test\":\"%s\",\"blocks\":%zu,\"raised_ns\":[", name, settings.blocks);
    for (unsigned i = 0; i < DUMPS; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)raised_ns[i]);
    printf("],\"libraries\":");
    libraries_print_json(stdout);
    printf("}\n");
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
        *is_libc = strstr(line, "/libc.so.") != NULL || strstr(line, "/ld-linux") != NULL;
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
    if (line == NULL)
        die("/proc/self/status has no VmSize");
    return line_bytes(line, "VmSize:");
}

static void test_load(const char *name)
{
    struct residence residence = {0};
    const uint64_t virtual_bytes = virtual_bytes_read();
    residence_read(&residence);
    printf("{\"test\":\"%s\",\"virtual_bytes\":%llu,\"resident_bytes\":%llu,\"own_bytes\":%llu,"
           "\"private_bytes\":%llu,\"libraries\":",
           name, (unsigned long long)virtual_bytes, (unsigned long long)residence.total_bytes,
           (unsigned long long)(residence.total_bytes - residence.libc_bytes),
           (unsigned long long)residence.private_bytes);
    libraries_print_json(stdout);
    printf("}\n");
}

/* ---- options ---- */

struct test {
    const char *name;
    void (*run)(const char *name);
    const char *sentence;
};

static const struct test tests[] = {
    {"pair", test_pair, "malloc and free of one object"},
    {"ring", test_ring, "the same with 100 live objects, the oldest freed first"},
    {"handover", test_handover, "one thread allocates, another frees"},
    {"server", test_server, "4 threads replace random objects and are themselves replaced"},
    {"pin", test_pin, "pins blocks of 8 KiB or others, then raises SIGUSR1 five times"},
    {"load", test_load, "virtual and resident memory before the first medium request"},
};

static void usage(FILE *to)
{
    fputs("Usage: costs TEST [options]\n\nTests:\n", to);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        fprintf(to, "  %-10s %s\n", tests[i].name, tests[i].sentence);
    fputs("\nOptions:\n"
          "  --bytes=N            size of the objects of pair, ring and handover (4096)\n"
          "  --sizes=LO:HI        sizes of the objects of server (512:32768)\n"
          "  --company            a second thread exists, asleep\n"
          "  --blocks=N           blocks to pin, of each size (100000)\n"
          "  --block-bytes=N,...  their sizes (8192)\n"
          "  --help               this text\n",
          to);
}

static void option_apply(int option, const char *value)
{
    switch (option) {
    case 'b':
        settings.bytes = number_parse("bytes", value, 1, 1 << 30);
        break;
    case 'z':
        if (!sizes_parse(&settings.sizes, value))
            die("--sizes=%s: must be LO:HI in bytes", value);
        break;
    case 'c':
        settings.has_company = true;
        break;
    case 'n':
        settings.blocks = number_parse("blocks", value, 1, 1 << 30);
        break;
    case 'l':
        settings.block_bytes_list = value;
        break;
    case 'h':
        usage(stdout);
        exit(0);
    default:
        usage(stderr);
        exit(2);
    }
}

int main(int count, char **arguments)
{
    static const struct option table[] = {
        {"bytes", required_argument, NULL, 'b'},
        {"sizes", required_argument, NULL, 'z'},
        {"company", no_argument, NULL, 'c'},
        {"blocks", required_argument, NULL, 'n'},
        {"block-bytes", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    CPU_ZERO(&processors);
    (void)sched_getaffinity(0, sizeof(processors), &processors);
    while ((option = getopt_long(count, arguments, "", table, NULL)) != -1)
        option_apply(option, optarg);
    for (size_t i = 0; optind + 1 == count && i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (strcmp(arguments[optind], tests[i].name) != 0)
            continue;
        tests[i].run(tests[i].name);
        if (fflush(stdout) != 0)
            die_errno("stdout");
        return 0;
    }
    usage(stderr);
    return 2;
}
