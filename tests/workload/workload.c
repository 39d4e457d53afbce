/* SPDX-License-Identifier: MIT */
/* workload: see workload.h. Whoever links it also links -lm. */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void die_errno(const char *what)
{
    die("%s: %s", what, strerror(errno));
}

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void sleep_ns(uint64_t duration_ns)
{
    struct timespec left = {.tv_sec = (time_t)(duration_ns / UINT64_C(1000000000)),
                            .tv_nsec = (long)(duration_ns % UINT64_C(1000000000))};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void *memory_map(size_t bytes)
{
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die_errno("mmap");
    return memory;
}

uint64_t rss_bytes(void)
{
    char text[128];
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die_errno("/proc/self/statm");
    const ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        die("/proc/self/statm cannot be read");
    text[length] = '\0';
    char *resident = NULL;
    (void)strtoull(text, &resident, 10); /* total pages */
    return strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void random_seed(struct random *random, uint64_t seed)
{
    /* splitmix64's finisher, so that neighbouring seeds give unrelated sequences. */
    uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    random->state = z != 0 ? z : 1;
}

bool sizes_parse(struct sizes *sizes, const char *text)
{
    unsigned low_bytes;
    unsigned high_bytes;
    int used = 0;
    if (sscanf(text, "%9u:%9u%n", &low_bytes, &high_bytes, &used) != 2 || text[used] != '\0')
        return false;
    sizes->low_bytes = low_bytes;
    sizes->high_bytes = high_bytes;
    return low_bytes >= 1 && low_bytes <= high_bytes;
}

void sizes_fill(struct sizes *sizes)
{
    const double low = sizes->low_bytes;
    const double span = (double)sizes->high_bytes - low;
    const double factor = (double)sizes->high_bytes / low;
    for (unsigned i = 0; i < WORKLOAD_SIZES; i++) {
        const double quantile = (double)i / (WORKLOAD_SIZES - 1); /* both ends occur */
        const double bytes =
            sizes->distribution == DISTRIBUTION_LOG ? low * pow(factor, quantile) : low + span * quantile;
        sizes->bytes[i] = (uint32_t)lround(bytes);
    }
}

uint64_t number_parse(const char *option, const char *text, uint64_t low, uint64_t high)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || value < low || value > high)
        die("--%s=%s: must be a whole number from %llu to %llu", option, text, (unsigned long long)low,
            (unsigned long long)high);
    return value;
}

void libraries_print_json(FILE *to)
{
    static const char *const names[] = {"libpinpool", "libjump_only", "libjemalloc", "libmimalloc",
                                        "libtcmalloc"};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    bool found[NAMES] = {false};
    char line[4352]; /* a path and the fields before it */
    FILE *const maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        die_errno("/proc/self/maps");
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *const slash = strrchr(line, '/');
        for (unsigned i = 0; slash != NULL && i < NAMES; i++)
            found[i] = found[i] || strncmp(slash + 1, names[i], strlen(names[i])) == 0;
    }
    fclose(maps);
    const char *separator = "";
    fputc('[', to);
    for (unsigned i = 0; i < NAMES; i++) {
        if (!found[i])
            continue;
        fprintf(to, "%s\"%s\"", separator, names[i]);
        separator = ",";
    }
    fputc(']', to);
}
