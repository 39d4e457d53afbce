/* SPDX-License-Identifier: MIT */
/*
 * family: calls every function of the malloc family at its edges and prints one line a case,
 *
 *   NAME: ANSWER
 *
 * with nothing in it that may differ between two good allocators (no address, no exact usable size).
 * The script runs it with and without the library: each line must be the same.
 *
 * An answer says: NULL or "memory"; whether it is aligned as asked, usable as far as it says, and
 * free of its neighbours; and errno, which is TEST_ERRNO when the call left it alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/test.h"

/* Everything that a pool may or may not serve, and what nobody can give. */
static const size_t sizes[] = {0,
                               1,
                               15,
                               16,
                               17,
                               24,
                               25,
                               64,
                               100,
                               127,
                               128,
                               129,
                               1000,
                               1024,
                               1025,
                               1032,
                               1033,
                               1152,
                               2047,
                               2048,
                               2049,
                               3000,
                               4000,
                               4095,
                               4096,
                               4097,
                               5000,
                               8191,
                               8192,
                               8193,
                               10000,
                               16384,
                               16385,
                               20000,
                               32767,
                               32768,
                               32769,
                               65536,
                               65537,
                               100000,
                               131071,
                               131072,
                               131073,
                               262144,
                               1000000,
                               2097152,
                               2097153,
                               5000000,
                               (size_t)PTRDIFF_MAX - 65536,
                               PTRDIFF_MAX - 1,
                               PTRDIFF_MAX,
                               (size_t)PTRDIFF_MAX + 1,
                               SIZE_MAX - 65536,
                               SIZE_MAX - 4096,
                               SIZE_MAX - 16,
                               SIZE_MAX - 1,
                               SIZE_MAX};

/* Fewer, for what is tried in combination. */
static const size_t few_sizes[] = {0,
                                   1,
                                   100,
                                   1025,
                                   2000,
                                   4096,
                                   4097,
                                   20000,
                                   32768,
                                   32769,
                                   200000,
                                   PTRDIFF_MAX,
                                   (size_t)PTRDIFF_MAX + 1,
                                   SIZE_MAX - 4096,
                                   SIZE_MAX};

static const size_t alignments[] = {0,
                                    1,
                                    2,
                                    3,
                                    4,
                                    7,
                                    8,
                                    15,
                                    16,
                                    17,
                                    24,
                                    32,
                                    48,
                                    64,
                                    65,
                                    128,
                                    100,
                                    256,
                                    512,
                                    1024,
                                    2048,
                                    4096,
                                    4097,
                                    8192,
                                    16384,
                                    32768,
                                    65536,
                                    1 << 20,
                                    4 << 20,
                                    (size_t)1 << 62,
                                    (size_t)1 << 63,
                                    ((size_t)1 << 63) + 1,
                                    SIZE_MAX - 1,
                                    SIZE_MAX};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The case at hand. */
static char case_name[128];

static void begin(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names the next case, and makes errno ready for it. */
static void begin(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(case_name, sizeof case_name, format, arguments);
    va_end(arguments);
    errno = TEST_ERRNO;
}

/* Ends the case. `error` is errno right after the call, or TEST_ERRNO when it does not matter. */
static void say(const char *answer, int error)
{
    if (error == TEST_ERRNO)
        test_print("%s: %s", case_name, answer);
    else
        test_print("%s: %s, errno %d", case_name, answer, error);
}

/* Judges memory of `bytes`, uses all of it, and frees it. */
static const char *judge(void *memory, size_t bytes, size_t alignment)
{
    size_t usable;

    if (memory == NULL)
        return "NULL";
    if (alignment > 1 && (uintptr_t)memory % alignment != 0)
        return "memory, not aligned";
    usable = malloc_usable_size(memory);
    if (usable < bytes)
        return "memory, usable for less than was asked";
    test_fill(memory, usable, bytes);
    if (malloc_usable_size(memory) != usable || !test_is_filled(memory, usable, bytes))
        return "memory, usable size not kept";
    free(memory);
    return "memory";
}

/* Ends a case whose answer is memory. */
static void answer(void *memory, int error, size_t bytes, size_t alignment)
{
    say(judge(memory, bytes, alignment), error);
}

/* Alignment that malloc owes to objects of a size. */
static size_t natural(size_t bytes)
{
    return bytes < 16 ? sizeof(void *) : 16;
}

static void cases_malloc(void)
{
    for (size_t i = 0; i < COUNT(sizes); i++) {
        void *memory;

        begin("malloc(%zu)", sizes[i]);
        memory = malloc(sizes[i]);
        answer(memory, errno, sizes[i], natural(sizes[i]));
    }
    for (size_t i = 0; i < COUNT(sizes); i++) {
        void *memory;

        begin("realloc(NULL, %zu)", sizes[i]);
        memory = realloc(NULL, sizes[i]);
        answer(memory, errno, sizes[i], natural(sizes[i]));
    }
}

static void cases_calloc(void)
{
    static const size_t pairs[][2] = {{0, 0},
                                      {0, 8},
                                      {8, 0},
                                      {1, 1},
                                      {3, 1000},
                                      {1, 4096},
                                      {4096, 1},
                                      {64, 64},
                                      {10, 3000},
                                      {1, 32768},
                                      {1, 32769},
                                      {1000, 1000},
                                      {2, (size_t)1 << 62},
                                      {4, (size_t)1 << 62},
                                      {(size_t)1 << 32, (size_t)1 << 32},
                                      {SIZE_MAX, 2},
                                      {2, SIZE_MAX},
                                      {SIZE_MAX, 1},
                                      {SIZE_MAX, SIZE_MAX},
                                      {SIZE_MAX / 4097 + 1, 4097},
                                      {0, SIZE_MAX},
                                      {SIZE_MAX, 0},
                                      {1, PTRDIFF_MAX},
                                      {1, (size_t)PTRDIFF_MAX + 1}};

    for (size_t i = 0; i < COUNT(pairs); i++) {
        size_t bytes = pairs[i][0] * pairs[i][1]; /* may wrap: then there is no memory */
        void *memory;
        int error;

        begin("calloc(%zu, %zu)", pairs[i][0], pairs[i][1]);
        memory = calloc(pairs[i][0], pairs[i][1]);
        error = errno;
        if (memory != NULL && !test_is_zero(memory, bytes))
            say("memory, not zero", error);
        else
            answer(memory, error, bytes, natural(bytes));
    }
}

/* Memory that was used before must come back as zero. */
static void case_calloc_recycled(size_t bytes)
{
    enum { SLICES = 200 };
    void *memory[SLICES];
    bool is_zero = true;

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SLICES; i++)
            REQUIRE((memory[i] = malloc(bytes)) != NULL);
        for (unsigned i = 0; i < SLICES; i++) {
            test_fill(memory[i], bytes, i);
            free(memory[i]);
        }
        for (unsigned i = 0; i < SLICES; i++) {
            REQUIRE((memory[i] = calloc(1, bytes)) != NULL);
            is_zero = is_zero && test_is_zero(memory[i], bytes);
            test_fill(memory[i], bytes, i);
        }
        for (unsigned i = 0; i < SLICES; i++)
            free(memory[i]);
    }
    begin("calloc(1, %zu) over used memory", bytes);
    say(is_zero ? "zero" : "not zero", TEST_ERRNO);
}

/* The alignment that an answer must have: memalign takes what is no power of two for the next one. */
static size_t effective(size_t alignment)
{
    size_t power = 1;

    while (power < alignment && power < (size_t)1 << 62)
        power *= 2;
    return power;
}

typedef void *aligned_function(size_t alignment, size_t bytes);

static void cases_aligned(const char *function, aligned_function *call)
{
    for (size_t i = 0; i < COUNT(alignments); i++)
        for (size_t k = 0; k < COUNT(few_sizes); k++) {
            void *memory;

            begin("%s(%zu, %zu)", function, alignments[i], few_sizes[k]);
            memory = call(alignments[i], few_sizes[k]);
            answer(memory, errno, few_sizes[k], effective(alignments[i]));
        }
}

static void cases_posix_memalign(void)
{
    for (size_t i = 0; i < COUNT(alignments); i++)
        for (size_t k = 0; k < COUNT(few_sizes); k++) {
            void *memory = &case_name; /* a failure must leave it alone */
            const char *verdict;
            char line[64];
            int error, result;

            begin("posix_memalign(%zu, %zu)", alignments[i], few_sizes[k]);
            result = posix_memalign(&memory, alignments[i], few_sizes[k]);
            error = errno;
            if (result != 0)
                verdict = memory == &case_name ? "pointer untouched" : "pointer changed";
            else
                verdict = judge(memory, few_sizes[k], alignments[i]);
            snprintf(line, sizeof line, "%d, %s", result, verdict);
            say(line, error);
        }
}

static void cases_page_aligned(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < COUNT(few_sizes); i++) {
        size_t bytes = few_sizes[i];
        void *memory;

        begin("valloc(%zu)", bytes);
        memory = valloc(bytes);
        answer(memory, errno, bytes, page);
        begin("pvalloc(%zu)", bytes);
        memory = pvalloc(bytes);
        /* pvalloc gives whole pages: all of them must be usable */
        answer(memory, errno, (bytes + page - 1) / page * page, page);
    }
}

/* From every size to every size: what was there stays; the whole new size is usable. */
static void cases_realloc(void)
{
    for (size_t i = 0; i < COUNT(few_sizes); i++)
        for (size_t k = 0; k < COUNT(few_sizes); k++) {
            size_t from = few_sizes[i], to = few_sizes[k], kept = from < to ? from : to;
            void *memory, *moved;
            int error;

            if (from > 1000000)
                continue;
            REQUIRE((memory = malloc(from)) != NULL);
            test_fill(memory, from, i);
            begin("realloc(%zu bytes, %zu)", from, to);
            moved = realloc(memory, to);
            error = errno;
            if (moved == NULL && to != 0) { /* a failure leaves the old memory as it was */
                say(test_is_filled(memory, from, i) ? "NULL, old memory kept" : "NULL, old memory lost",
                    error);
                free(memory);
            } else if (moved != NULL && !test_is_filled(moved, kept, i)) {
                say("memory, contents lost", error);
            } else {
                answer(moved, error, to, natural(to));
            }
        }
}

static void cases_reallocarray(void)
{
    static const size_t pairs[][2] = {{0, 8},
                                      {8, 0},
                                      {1, 100},
                                      {2, 4096},
                                      {100, 1000},
                                      {1, 32768},
                                      {SIZE_MAX, 2},
                                      {(size_t)1 << 32, (size_t)1 << 32},
                                      {SIZE_MAX / 8 + 1, 8},
                                      {1, PTRDIFF_MAX},
                                      {2, PTRDIFF_MAX},
                                      {1, SIZE_MAX}};
    static const size_t from[] = {0, 100, 3000, 20000, 200000};

    for (size_t i = 0; i < COUNT(pairs); i++)
        for (size_t k = 0; k < COUNT(from); k++) {
            size_t bytes = pairs[i][0] * pairs[i][1], kept = from[k] < bytes ? from[k] : bytes;
            void *memory = from[k] == 0 ? NULL : malloc(from[k]), *moved;
            int error;

            REQUIRE(from[k] == 0 || memory != NULL);
            if (memory != NULL)
                test_fill(memory, from[k], i);
            begin("reallocarray(%zu bytes, %zu, %zu)", from[k], pairs[i][0], pairs[i][1]);
            moved = reallocarray(memory, pairs[i][0], pairs[i][1]);
            error = errno;
            if (moved == NULL && error == ENOMEM) {
                say(memory == NULL || test_is_filled(memory, from[k], i) ? "NULL, old memory kept"
                                                                         : "NULL, old memory lost",
                    error);
                free(memory);
            } else if (moved != NULL && !test_is_filled(moved, kept, i)) {
                say("memory, contents lost", error);
            } else {
                answer(moved, error, bytes, natural(bytes));
            }
        }
}

/* A chain of reallocs up and down, far enough to pass through every owner of memory. */
static void case_realloc_chain(const char *name, size_t low, size_t high, size_t step)
{
    unsigned char *memory = malloc(low);
    bool is_kept = memory != NULL;

    REQUIRE(memory != NULL);
    memset(memory, 'a', low);
    for (size_t bytes = low; bytes < high && is_kept; bytes += step) {
        memory = realloc(memory, bytes + step);
        REQUIRE(memory != NULL);
        is_kept = memory[0] == 'a' && memory[bytes - 1] == 'a' && memory[bytes / 2] == 'a';
        memset(memory + bytes, 'a', step);
    }
    for (size_t bytes = high; bytes > low && is_kept; bytes -= step) {
        memory = realloc(memory, bytes);
        REQUIRE(memory != NULL);
        is_kept = memory[0] == 'a' && memory[bytes - 1] == 'a' && memory[bytes / 2] == 'a';
    }
    free(memory);
    begin("%s", name);
    say(is_kept ? "contents kept" : "contents lost", TEST_ERRNO);
}

static void *free_in_thread(void *memory)
{
    errno = TEST_ERRNO;
    free(memory);
    return (void *)(intptr_t)errno;
}

/* free keeps errno, whoever calls it, for every owner and also when it gives memory back. */
static void cases_free_errno(void)
{
    for (size_t i = 0; i < COUNT(sizes) && sizes[i] <= 5000000; i++) {
        void *local, *remote, *result;
        pthread_t thread;

        REQUIRE((local = malloc(sizes[i])) != NULL && (remote = malloc(sizes[i])) != NULL);
        begin("free(%zu bytes)", sizes[i]);
        free(local);
        say("done", errno);
        begin("free(%zu bytes) by another thread", sizes[i]);
        REQUIRE(pthread_create(&thread, NULL, free_in_thread, remote) == 0);
        REQUIRE(pthread_join(thread, &result) == 0);
        say("done", (int)(intptr_t)result);
    }
    begin("free(NULL)");
    free(NULL);
    say("done", errno);
}

/* errno after each of many calls: the slow paths, which open and give back blocks, are among them. */
static void case_errno_in_bulk(size_t bytes)
{
    enum { SLICES = 3000 };
    static void *memory[SLICES];
    unsigned disturbed = 0;

    for (unsigned i = 0; i < SLICES; i++) {
        errno = TEST_ERRNO;
        memory[i] = malloc(bytes);
        REQUIRE(memory[i] != NULL);
        disturbed += errno != TEST_ERRNO;
    }
    for (unsigned i = 0; i < SLICES; i++) {
        errno = TEST_ERRNO;
        free(memory[(i * 7) % SLICES]);
        disturbed += errno != TEST_ERRNO;
    }
    begin("%d times malloc(%zu) and free", SLICES, bytes);
    say(disturbed == 0 ? "errno left alone" : "errno changed", TEST_ERRNO);
}

/* What the C library allocates is freed by free. */
static void cases_library_memory(void)
{
    char *text = malloc(3000), *copy = NULL, *line = NULL;
    size_t room = 0;
    FILE *file = tmpfile();

    REQUIRE(text != NULL && file != NULL);
    memset(text, 'x', 2999);
    text[2999] = '\0';
    copy = strdup(text);
    begin("strdup of 2999 bytes");
    say(copy != NULL && strcmp(copy, text) == 0 ? "equal" : "not equal", TEST_ERRNO);
    free(copy);
    copy = strndup(text, 2000);
    begin("strndup of 2000 bytes");
    say(copy != NULL && strlen(copy) == 2000 ? "equal" : "not equal", TEST_ERRNO);
    free(copy);
    REQUIRE(asprintf(&copy, "%s%s", text, text) == 5998);
    begin("asprintf of 5998 bytes");
    say(strlen(copy) == 5998 ? "equal" : "not equal", TEST_ERRNO);
    free(copy);
    REQUIRE(fprintf(file, "%s%s\n%s\n", text, text, text) > 0);
    rewind(file);
    begin("getline of 5999 bytes");
    say(getline(&line, &room, file) == 5999 ? "equal" : "not equal", TEST_ERRNO);
    line = realloc(line, 20000);
    room = 20000;
    begin("getline into memory of realloc");
    say(line != NULL && getline(&line, &room, file) == 3000 ? "equal" : "not equal", TEST_ERRNO);
    free(line);
    fclose(file);
    copy = realpath("/proc/self/exe", NULL);
    begin("realpath(path, NULL)");
    say(copy != NULL && copy[0] == '/' ? "a path" : "no path", TEST_ERRNO);
    free(copy);
    copy = getcwd(NULL, 10000);
    begin("getcwd(NULL, 10000)");
    say(copy != NULL && copy[0] == '/' ? "a path" : "no path", TEST_ERRNO);
    free(copy);
    free(text);
}

static void case_memory_stream(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);

    REQUIRE(stream != NULL);
    for (unsigned i = 0; i < 20000; i++)
        REQUIRE(fputc('a' + (int)(i % 26), stream) != EOF);
    REQUIRE(fclose(stream) == 0);
    begin("open_memstream of 20000 bytes");
    say(length == 20000 && text[19999] == 'a' + 19999 % 26 ? "equal" : "not equal", TEST_ERRNO);
    free(text);
}

/* The sized frees of C23 exist in some C libraries only; where they do not, free stands in. */
static void cases_sized_free(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "free_sized");
    void *aligned_symbol = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    void (*sized)(void *, size_t);
    void (*aligned_sized)(void *, size_t, size_t);

    memcpy(&sized, &symbol, sizeof sized);
    memcpy(&aligned_sized, &aligned_symbol, sizeof aligned_sized);
    for (size_t i = 0; i < COUNT(few_sizes) && few_sizes[i] <= 1000000; i++) {
        size_t bytes = few_sizes[i], aligned_bytes = (bytes + 255) / 256 * 256;
        void *memory, *aligned;

        REQUIRE((memory = malloc(bytes)) != NULL && (aligned = aligned_alloc(256, aligned_bytes)) != NULL);
        begin("free_sized(%zu bytes)", bytes);
        if (sized != NULL)
            sized(memory, bytes);
        else
            free(memory);
        say("done", errno);
        begin("free_aligned_sized(%zu bytes, 256)", bytes);
        if (aligned_sized != NULL)
            aligned_sized(aligned, 256, aligned_bytes);
        else
            free(aligned);
        say("done", errno);
    }
    begin("free_sized(NULL, 0)");
    if (sized != NULL)
        sized(NULL, 0);
    say("done", errno);
}

/* Which shared object a function of the family is from. */
static const char *object_of(const char *function)
{
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, function);

    REQUIRE(address != NULL && dladdr(address, &info) != 0);
    return info.dli_fname;
}

/*
 * The statistics count what the program holds. An interposer that leaves mallinfo2 to the C library
 * leaves it with the C library's own memory, and is not asked.
 */
static void case_mallinfo2(void)
{
    enum { SLICES = 1000, BYTES = 4000 };
    static void *memory[SLICES];
    struct mallinfo2 before = mallinfo2(), after;
    bool is_asked = strcmp(object_of("mallinfo2"), object_of("malloc")) == 0;

    for (unsigned i = 0; i < SLICES; i++)
        REQUIRE((memory[i] = malloc(BYTES)) != NULL);
    after = mallinfo2();
    for (unsigned i = 0; i < SLICES; i++)
        free(memory[i]);
    begin("mallinfo2 with %d more slices of %d bytes", SLICES, BYTES);
    say(is_asked && after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + (size_t)SLICES * BYTES
            ? "does not count them"
            : "counts them",
        TEST_ERRNO);
}

static void cases_odds(void)
{
    void *first = malloc(0), *second = malloc(0);
    int result;

    begin("two of malloc(0)");
    say(first != second ? "two addresses" : "one address", TEST_ERRNO);
    free(first);
    free(second);
    begin("malloc_usable_size(NULL)");
    result = malloc_usable_size(NULL) == 0;
    say(result ? "0" : "not 0", errno);
    free(test_hide(malloc(300000)));
    begin("malloc_trim(0)");
    result = malloc_trim(0);
    say(result == 0 || result == 1 ? "0 or 1" : "another number", errno);
    begin("malloc_trim(SIZE_MAX)");
    result = malloc_trim(SIZE_MAX);
    say(result == 0 || result == 1 ? "0 or 1" : "another number", errno);
    REQUIRE((first = malloc(3000)) != NULL);
    begin("realloc(3000 bytes, 0)");
    second = realloc(first, 0);
    say(second == NULL ? "NULL" : "memory", errno);
    free(second);
}

/* A long random sequence: sizes, functions and order are the same in every run; so must be its outcome. */
static void case_random_sequence(uint64_t seed)
{
    enum { SLOTS = 256, STEPS = 30000 };
    static struct {
        void *memory;
        size_t bytes;
    } slots[SLOTS];
    uint64_t random = seed;
    unsigned damaged = 0;

    for (unsigned step = 0; step < STEPS; step++) {
        size_t i = test_random_below(&random, SLOTS), bytes = test_random_size(&random, 1, 140000);
        size_t kept = slots[i].bytes < bytes ? slots[i].bytes : bytes;

        if (slots[i].memory != NULL && test_random_below(&random, 3) != 0) {
            damaged += !test_is_filled(slots[i].memory, slots[i].bytes, i);
            free(slots[i].memory);
            slots[i].memory = NULL;
            slots[i].bytes = 0;
            continue;
        }
        slots[i].memory = realloc(slots[i].memory, bytes);
        REQUIRE(slots[i].memory != NULL);
        damaged += !test_is_filled(slots[i].memory, kept, i);
        slots[i].bytes = bytes;
        test_fill(slots[i].memory, bytes, i);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        free(slots[i].memory);
        slots[i].memory = NULL;
        slots[i].bytes = 0;
    }
    begin("random sequence %llu", (unsigned long long)seed);
    say(damaged == 0 ? "no damage" : "damage", TEST_ERRNO);
}

int main(void)
{
    cases_malloc();
    cases_calloc();
    for (size_t i = 0; i < COUNT(few_sizes) && few_sizes[i] <= 1000000; i++)
        case_calloc_recycled(few_sizes[i]);
    cases_aligned("aligned_alloc", aligned_alloc);
    cases_aligned("memalign", memalign);
    cases_posix_memalign();
    cases_page_aligned();
    cases_realloc();
    cases_reallocarray();
    case_realloc_chain("realloc chain 1 to 3000 by 1", 1, 3000, 1);
    case_realloc_chain("realloc chain 500 to 70000 by 100", 500, 70000, 100);
    case_realloc_chain("realloc chain 1000 to 5000000 by 40000", 1000, 5001000, 40000);
    cases_free_errno();
    for (size_t i = 0; i < COUNT(few_sizes) && few_sizes[i] <= 40000; i++)
        case_errno_in_bulk(few_sizes[i]);
    cases_library_memory();
    case_memory_stream();
    cases_sized_free();
    case_mallinfo2();
    cases_odds();
    for (uint64_t seed = 1; seed <= 4; seed++)
        case_random_sequence(seed);
    return 0;
}
