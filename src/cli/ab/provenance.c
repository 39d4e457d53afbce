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

#include "cli/kit/json.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"

static const uint64_t hash_timeout_ns = (uint64_t)60 * 1000000000;

/* The first line of a file without its newline, to be freed; NULL if it cannot be read. */
static char *read_line(const char *path)
{
    char line[512];
    CLEANUP_FCLOSE FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file))
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return text_printable(line);
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

/* "model name : X" of /proc/cpuinfo; ARM has no such line, and says numbers. To be freed. */
static char *read_cpu_model(void)
{
    static const char *const names[] = {"model name", "Model", "CPU part"};
    char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++) {
        CLEANUP_FCLOSE FILE *file = fopen("/proc/cpuinfo", "re");
        char line[512];
        while (file && !found && fgets(line, sizeof line, file)) {
            const char *colon = strchr(line, ':');
            if (strncmp(line, names[i], strlen(names[i])) != 0 || !colon)
                continue;
            line[strcspn(line, "\n")] = '\0';
            CLEANUP_FREE char *text = text_printable(colon + 1 + strspn(colon + 1, " "));
            found = must_format(i < 2 ? "%s" : "ARM part %s", text);
        }
    }
    return found;
}

static void add_cpu(struct json_object *json)
{
    cpu_set_t allowed;
    CLEANUP_FREE char *model = read_cpu_model();
    add_text(json, "cpu", model);
    json_add_u64(json, "cores_online", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    json_object_object_add(json, "cores_allowed",
                           sched_getaffinity(0, sizeof allowed, &allowed) == 0
                               ? json_object_new_int(CPU_COUNT(&allowed))
                               : NULL);
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
