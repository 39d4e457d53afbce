/* SPDX-License-Identifier: MIT */
/*
 * procfs: what the kernel says of another process, in the fields that the tool needs. See proc(5).
 *
 * Functions return 0 or -errno: -ENOENT or -ESRCH when the process has gone, -EACCES or -EPERM when
 * it belongs to somebody else. Everything read here can be stale when the caller looks at it.
 */
#ifndef PINPOOL_CLI_SYSTEM_PROCFS_H
#define PINPOOL_CLI_SYSTEM_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One line of /proc/PID/maps. */
struct procfs_map {
    uint64_t start, end; /* addresses */
    uint64_t inode;
    bool executable;
    bool deleted;     /* the file has no name any more */
    const char *path; /* "" for anonymous memory; without " (deleted)", newlines as they are */
};

/* Called for each mapping, lowest address first; `map` is valid only during the call. */
typedef void (*procfs_map_visitor)(const struct procfs_map *map, void *context);

int procfs_visit_maps(pid_t pid, procfs_map_visitor visit, void *context);

/* /proc/PID/status. */
struct procfs_status {
    char state;       /* R S D T t Z X ... */
    pid_t tgid;       /* the process it is a thread of; its own id unless it is not the first thread */
    pid_t own_pid;    /* the id it sees itself, in the innermost pid namespace */
    uint64_t blocked; /* signal n is bit n - 1, here and below */
    uint64_t ignored;
    uint64_t caught;
    uint64_t pending;      /* sent to the process and not delivered to any thread yet */
    uint64_t capabilities; /* in effect; capabilities(7) n is bit n */
    uid_t file_uid;        /* with which files are opened */
    gid_t file_gid;
    unsigned seccomp; /* 0 none, 1 strict, 2 a filter of system calls */
};

int procfs_read_status(pid_t pid, struct procfs_status *status);

static inline bool procfs_has_signal(uint64_t set, int signal)
{
    return set >> (signal - 1) & 1;
}

/* The process's supplementary groups; to be freed. Returns how many, or -errno. */
int procfs_read_groups(pid_t pid, gid_t **groups);

/* How many threads there are, and how many of them block `signal`. */
int procfs_count_blocking(pid_t pid, int signal, unsigned *threads, unsigned *blocking);

/* The program's name as ps shows it, printable; "?" when it cannot be read. To be freed. */
char *procfs_read_name(pid_t pid);

/* /proc/PID/environ: what the process was started with. */
struct procfs_environ {
    char *text; /* NAME=VALUE, each ended by NUL, one more NUL at the end */
    size_t bytes;
};

int procfs_read_environ(pid_t pid, struct procfs_environ *environment);
const char *procfs_find_variable(const struct procfs_environ *environment, const char *name);
void procfs_free_environ(struct procfs_environ *environment);

/* Memory in RAM. */
struct procfs_memory {
    uint64_t rss_bytes;
    uint64_t pss_bytes; /* shared pages divided by the number of processes that share them */
    bool has_pss;
};

/*
 * With `want_pss` the kernel walks the page tables of the process and holds its mmap_lock (shared)
 * meanwhile. Without, or when that is not permitted, only the RSS is there, and costs nothing.
 */
int procfs_read_memory(pid_t pid, bool want_pss, struct procfs_memory *memory);

#endif
