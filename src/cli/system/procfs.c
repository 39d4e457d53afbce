/* SPDX-License-Identifier: MIT */
/* procfs: see procfs.h. */
#include "cli/system/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/util.h"

enum { PATH_BYTES = 64 }; /* "/proc/PID/task/TID/status" and the like */

static FILE *open_proc_file(pid_t pid, const char *name)
{
    CLEANUP_FREE char *path = must_format("/proc/%d/%s", (int)pid, name);
    return fopen(path, "re");
}

/* What a read that failed or ended early means. errno is what the last call left. */
static int read_error(FILE *file)
{
    if (!ferror(file))
        return 0;
    return errno ? -errno : -EIO;
}

/* The kernel writes a newline in a file's name as \012, and nothing else. */
static void unescape_newlines(char *path)
{
    char *to = path;
    for (const char *from = path; *from; to++) {
        const bool escaped = strncmp(from, "\\012", 4) == 0;
        *to = escaped ? '\n' : *from;
        from += escaped ? 4 : 1;
    }
    *to = '\0';
}

/* Cuts " (deleted)" from the end, once: a name may end with the same word. */
static bool cut_deleted(char *path)
{
    static const char mark[] = " (deleted)";
    const size_t length = strlen(path);
    if (length < sizeof mark - 1 || strcmp(path + length - (sizeof mark - 1), mark) != 0)
        return false;
    path[length - (sizeof mark - 1)] = '\0';
    return true;
}

/* start-end perms offset device inode   path */
static bool parse_map(char *line, struct procfs_map *map)
{
    char permissions[5];
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64 " %n", &map->start, &map->end,
               permissions, &map->inode, &path_at) != 4 ||
        path_at == 0)
        return false;
    char *path = line + path_at;
    map->deleted = cut_deleted(path);
    unescape_newlines(path);
    map->path = path;
    map->executable = strchr(permissions, 'x');
    return true;
}

int procfs_visit_maps(pid_t pid, procfs_map_visitor visit, void *context)
{
    CLEANUP_FCLOSE FILE *file = open_proc_file(pid, "maps");
    if (!file)
        return -errno;
    CLEANUP_FREE char *line = NULL;
    size_t size = 0;
    errno = 0;
    while (getline(&line, &size, file) > 0) {
        struct procfs_map map;
        if (parse_map(line, &map))
            visit(&map, context);
    }
    return read_error(file);
}

/* "NSpid:\t1234\t7" -> 7. */
static pid_t last_number(const char *text)
{
    long number = 0;
    char *end;
    for (;; text = end) {
        const long next = strtol(text, &end, 10);
        if (end == text)
            return (pid_t)number;
        number = next;
    }
}

static void parse_status_line(const char *line, struct procfs_status *status)
{
    const char *value = strchr(line, ':');
    if (!value)
        return;
    const size_t length = (size_t)(value - line);
    value += 1 + strspn(value + 1, " \t");
    const struct {
        const char *name;
        uint64_t *set;
    } sets[] = {{"SigBlk", &status->blocked},
                {"SigIgn", &status->ignored},
                {"SigCgt", &status->caught},
                {"ShdPnd", &status->pending},
                {"CapEff", &status->capabilities}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (strlen(sets[i].name) == length && strncmp(line, sets[i].name, length) == 0)
            *sets[i].set = strtoull(value, NULL, 16);
    if (strncmp(line, "State:", length + 1) == 0)
        status->state = *value;
    else if (strncmp(line, "Tgid:", length + 1) == 0)
        status->tgid = last_number(value);
    else if (strncmp(line, "NSpid:", length + 1) == 0)
        status->own_pid = last_number(value);
    else if (strncmp(line, "Uid:", length + 1) == 0) /* real, effective, saved, of the file system */
        status->file_uid = (uid_t)last_number(value);
    else if (strncmp(line, "Gid:", length + 1) == 0)
        status->file_gid = (gid_t)last_number(value);
    else if (strncmp(line, "Seccomp:", length + 1) == 0)
        status->seccomp = (unsigned)last_number(value);
}

static int read_status(FILE *file, struct procfs_status *status)
{
    CLEANUP_FREE char *line = NULL;
    size_t size = 0;
    *status = (struct procfs_status){.state = '?'};
    errno = 0;
    while (getline(&line, &size, file) > 0)
        parse_status_line(line, status);
    return read_error(file);
}

int procfs_read_status(pid_t pid, struct procfs_status *status)
{
    CLEANUP_FCLOSE FILE *file = open_proc_file(pid, "status");
    if (!file)
        return -errno;
    const int error = read_status(file, status);
    if (status->own_pid == 0) /* a kernel without pid namespaces */
        status->own_pid = pid;
    return error;
}

int procfs_read_groups(pid_t pid, gid_t **groups)
{
    CLEANUP_FCLOSE FILE *file = open_proc_file(pid, "status");
    CLEANUP_FREE char *line = NULL;
    size_t size = 0;
    int count = 0;
    *groups = NULL;
    if (!file)
        return -errno;
    while (getline(&line, &size, file) > 0) {
        if (strncmp(line, "Groups:", 7) != 0)
            continue;
        char *end;
        for (char *at = line + 7;; at = end) {
            const unsigned long group = strtoul(at, &end, 10);
            if (end == at)
                break;
            *groups = must_grow(*groups, (size_t)count, sizeof **groups);
            (*groups)[count++] = (gid_t)group;
        }
    }
    return count;
}

int procfs_count_blocking(pid_t pid, int signal, unsigned *threads, unsigned *blocking)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return -errno;
    *threads = *blocking = 0;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        pid_t tid;
        if (!parse_pid(entry->d_name, &tid))
            continue;
        snprintf(path, sizeof path, "task/%d/status", (int)tid);
        CLEANUP_FCLOSE FILE *file = open_proc_file(pid, path);
        struct procfs_status status;
        if (!file || read_status(file, &status) != 0)
            continue; /* a thread that ended meanwhile */
        *threads += 1;
        *blocking += procfs_has_signal(status.blocked, signal);
    }
    closedir(tasks);
    return 0;
}

/* The whole of a /proc file, with a NUL after it. They say no size: it is found by reading. */
static int read_whole(pid_t pid, const char *name, char **text, size_t *bytes)
{
    CLEANUP_FCLOSE FILE *file = open_proc_file(pid, name);
    if (!file)
        return -errno;
    size_t size = 4096, used = 0;
    char *buffer = must_allocate(size);
    errno = 0;
    for (size_t got; (got = fread(buffer + used, 1, size - 1 - used, file)) > 0;) {
        used += got;
        if (used == size - 1) {
            char *larger = must_allocate(2 * size);
            memcpy(larger, buffer, used);
            free(buffer);
            buffer = larger;
            size *= 2;
        }
    }
    buffer[used] = '\0';
    *text = buffer;
    *bytes = used;
    const int error = read_error(file);
    if (error) {
        free(buffer);
        *text = NULL;
    }
    return error;
}

char *procfs_read_name(pid_t pid)
{
    CLEANUP_FREE char *name = NULL;
    size_t bytes;
    if (read_whole(pid, "comm", &name, &bytes) != 0)
        return must_copy_text("?");
    if (bytes > 0 && name[bytes - 1] == '\n')
        name[bytes - 1] = '\0';
    return text_printable(name);
}

int procfs_read_environ(pid_t pid, struct procfs_environ *environment)
{
    *environment = (struct procfs_environ){NULL, 0};
    return read_whole(pid, "environ", &environment->text, &environment->bytes);
}

const char *procfs_find_variable(const struct procfs_environ *environment, const char *name)
{
    const size_t length = strlen(name);
    const char *end = environment->text + environment->bytes;
    for (const char *entry = environment->text; entry < end; entry += strlen(entry) + 1)
        if (strncmp(entry, name, length) == 0 && entry[length] == '=')
            return entry + length + 1;
    return NULL;
}

void procfs_free_environ(struct procfs_environ *environment)
{
    free(environment->text);
    *environment = (struct procfs_environ){NULL, 0};
}

/* "Rss:   1234 kB" in a text of such lines -> bytes. */
static bool find_kib(const char *text, const char *name, uint64_t *bytes)
{
    const size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            *bytes = strtoull(line + length + 1, NULL, 10) << 10;
            return true;
        }
    }
    return false;
}

int procfs_read_memory(pid_t pid, bool want_pss, struct procfs_memory *memory)
{
    CLEANUP_FREE char *rollup = NULL;
    CLEANUP_FREE char *statm = NULL;
    size_t bytes;
    *memory = (struct procfs_memory){0, 0, false};
    if (want_pss && read_whole(pid, "smaps_rollup", &rollup, &bytes) == 0 &&
        find_kib(rollup, "Rss", &memory->rss_bytes) && find_kib(rollup, "Pss", &memory->pss_bytes)) {
        memory->has_pss = true;
        return 0;
    }
    const int error = read_whole(pid, "statm", &statm, &bytes);
    if (error)
        return error;
    uint64_t resident_pages;
    if (sscanf(statm, "%*u %" SCNu64, &resident_pages) != 1)
        return -EIO;
    memory->rss_bytes = resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}
