/* SPDX-License-Identifier: MIT */
/* provenance: see provenance.h. */
#include "cli/ab/provenance.h"

#include <glob.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/kit/files.h"
#include "cli/kit/json.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"

static const uint64_t hash_timeout_ns = 60 * NS_PER_S;

/* The first line of a file without its newline, to be freed; NULL if it cannot be read. */
static char *read_line(const char *path)
{
    char line[512];
    return files_read_line(path, line, sizeof line) ? text_printable(line) : NULL;
}

static void add_text(struct json_object *json, const char *name, const char *text)
{
    json_object_object_add(json, name, text ? json_object_new_string(text) : NULL);
}

static void add_line(struct json_object *json, const char *name, const char *path)
{
    CLEANUP_FREE char *line = read_line(path);
    add_text(json, name, line);
}

/* The value of the first line "NAME : VALUE" of /proc/cpuinfo, to be freed; NULL without one. */
static char *read_cpu_fact(const char *name)
{
    CLEANUP_FCLOSE FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        const size_t length = strlen(name);
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, name, length) == 0 && strchr(" \t:", line[length])) {
            line[strcspn(line, "\n")] = '\0';
            return text_printable(colon + 1 + strspn(colon + 1, " "));
        }
    }
    return NULL;
}

/* ARM has no model's name, and says numbers. To be freed. */
static char *read_cpu_model(void)
{
    char *model = read_cpu_fact("model name");
    if (!model)
        model = read_cpu_fact("Model");
    if (model)
        return model;
    CLEANUP_FREE char *part = read_cpu_fact("CPU part");
    return part ? must_format("ARM part %s", part) : NULL;
}

static void add_cpu_fact(struct json_object *json, const char *name, const char *fact)
{
    CLEANUP_FREE char *value = read_cpu_fact(fact);
    add_text(json, name, value);
}

static void add_cache(struct json_object *json, const char *name, int which)
{
    const long bytes = sysconf(which);
    json_object_object_add(json, name, bytes > 0 ? json_object_new_int64(bytes) : NULL);
}

static void add_cpu(struct json_object *json)
{
    cpu_set_t allowed;
    CLEANUP_FREE char *model = read_cpu_model();
    add_text(json, "cpu", model);
    add_cpu_fact(json, "cpu_family", "cpu family"); /* a virtual machine's model name may say little */
    add_cpu_fact(json, "cpu_model", "model");
    json_add_u64(json, "cores_online", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    json_object_object_add(json, "cores_allowed",
                           sched_getaffinity(0, sizeof allowed, &allowed) == 0
                               ? json_object_new_int(CPU_COUNT(&allowed))
                               : NULL);
    add_cache(json, "cache_l1d_bytes", _SC_LEVEL1_DCACHE_SIZE);
    add_cache(json, "cache_l2_bytes", _SC_LEVEL2_CACHE_SIZE);
    add_cache(json, "cache_l3_bytes", _SC_LEVEL3_CACHE_SIZE);
    add_line(json, "cpu_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    add_line(json, "cgroup_cpu_max", "/sys/fs/cgroup/cpu.max");
}

static void add_memory(struct json_object *json)
{
    struct sysinfo info;
    const bool is_known = sysinfo(&info) == 0;
    json_object_object_add(json, "memory_bytes",
                           is_known ? json_object_new_uint64((uint64_t)info.totalram * info.mem_unit) : NULL);
    json_object_object_add(json, "swap_bytes",
                           is_known ? json_object_new_uint64((uint64_t)info.totalswap * info.mem_unit)
                                    : NULL);
    json_add_u64(json, "page_bytes", (uint64_t)sysconf(_SC_PAGESIZE));
    add_line(json, "cgroup_memory_max", "/sys/fs/cgroup/memory.max");
    add_line(json, "overcommit_memory", "/proc/sys/vm/overcommit_memory");
    add_line(json, "max_map_count", "/proc/sys/vm/max_map_count");
}

/* Transparent huge pages, and those of other sizes that newer kernels have. */
static void add_huge_pages(struct json_object *json)
{
    static const char pattern[] = "/sys/kernel/mm/transparent_hugepage/hugepages-*kB/enabled";
    struct json_object *sizes = json_object_new_object();
    glob_t matches = {0};
    add_line(json, "thp_enabled", "/sys/kernel/mm/transparent_hugepage/enabled");
    add_line(json, "thp_defrag", "/sys/kernel/mm/transparent_hugepage/defrag");
    if (glob(pattern, 0, NULL, &matches) == 0)
        for (size_t i = 0; i < matches.gl_pathc; i++) {
            const char *size = strstr(matches.gl_pathv[i], "hugepages-") + strlen("hugepages-");
            CLEANUP_FREE char *name = must_format("%.*s", (int)strcspn(size, "/"), size);
            add_line(sizes, name, matches.gl_pathv[i]);
        }
    globfree(&matches);
    json_object_object_add(json, "mthp_enabled", sizes);
}

struct json_object *provenance_of_machine(void)
{
    struct json_object *json = json_object_new_object();
    struct utsname kernel;
    if (uname(&kernel) == 0) {
        add_text(json, "machine", kernel.machine);
        add_text(json, "kernel", kernel.release);
        add_text(json, "kernel_version", kernel.version);
    }
    add_cpu(json);
    add_memory(json);
    add_huge_pages(json);
    add_text(json, "glibc", gnu_get_libc_version());
    return json;
}

/* A fact of the machine, or NULL. */
static struct json_object *fact_of(struct json_object *machine, const char *name)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(machine, name, &value);
    return value;
}

static void put_fact(FILE *line, const char *format, struct json_object *value)
{
    if (value)
        fprintf(line, format, json_object_get_string(value));
}

static void put_cache(FILE *line, const char *name, struct json_object *bytes)
{
    char text[UTIL_TEXT_MAX];
    if (bytes)
        fprintf(line, ", %s %s", name, format_size(text, json_object_get_uint64(bytes)));
}

char *provenance_line(struct json_object *provenance)
{
    struct json_object *machine = fact_of(provenance, "machine");
    struct json_object *model = fact_of(machine, "cpu");
    char *text;
    size_t bytes;
    FILE *line = open_memstream(&text, &bytes);
    if (!line)
        die("out of memory");
    fprintf(line, "Measured on %s", model ? json_object_get_string(model) : "an unknown processor");
    put_fact(line, ", family %s", fact_of(machine, "cpu_family"));
    put_fact(line, " model %s", fact_of(machine, "cpu_model"));
    put_fact(line, ", cores allowed: %s", fact_of(machine, "cores_allowed"));
    put_cache(line, "L1d", fact_of(machine, "cache_l1d_bytes"));
    put_cache(line, "L2", fact_of(machine, "cache_l2_bytes"));
    put_cache(line, "L3", fact_of(machine, "cache_l3_bytes"));
    put_fact(line, "; Linux %s", fact_of(machine, "kernel"));
    put_fact(line, ", glibc %s", fact_of(machine, "glibc"));
    fputc('.', line);
    if (fclose(line) != 0)
        die("out of memory");
    return text;
}

char *provenance_hash(const char *path)
{
    static char program[] = "sha256sum", option[] = "--";
    CLEANUP_FREE char *no_file = NULL;
    CLEANUP_CLOSE const int fd = open_regular_file(path, UINT64_MAX, &no_file);
    if (fd < 0)
        return NULL; /* sha256sum would wait for a FIFO */
    CLEANUP_FREE char *file = must_copy_text(path);
    char *const argv[] = {program, option, file, NULL};
    char *text = process_capture(argv, environ, hash_timeout_ns);
    if (text)
        text[strspn(text, "0123456789abcdef")] = '\0';
    return text;
}

struct json_object *provenance_of_file(const char *path)
{
    struct stat file;
    struct json_object *json = json_object_new_object();
    CLEANUP_FREE char *resolved = realpath(path, NULL);
    CLEANUP_FREE char *hash = provenance_hash(path);
    add_text(json, "path", path);
    add_text(json, "resolved", resolved);
    json_object_object_add(json, "bytes",
                           stat(path, &file) == 0 ? json_object_new_uint64((uint64_t)file.st_size) : NULL);
    add_text(json, "sha256", hash);
    return json;
}

double provenance_load_average(void)
{
    double averages[1];
    return getloadavg(averages, 1) == 1 ? averages[0] : NAN;
}

/* user nice system idle iowait irq softirq steal: all but idle and iowait, see proc(5). */
double provenance_busy_s(void)
{
    CLEANUP_FREE char *line = read_line("/proc/stat");
    uint64_t ticks[8];
    if (!line ||
        sscanf(line,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) != 8)
        return NAN;
    const uint64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    return (double)busy / (double)sysconf(_SC_CLK_TCK);
}
