/* SPDX-License-Identifier: MIT */
/*
 * target: a running process that pinpool is loaded into. Which signal it dumps on, where its files
 * are, and what it calls itself.
 *
 * The library says so in the name of a mapping, which /proc/PID/maps shows and which no later change of the
 * environment falsifies (programs that set their title write over it): see src/base/label.h. Without it
 * (a seccomp filter that has no memfd_create) the environment the process was started with is parsed as the
 * library itself does it.
 *
 * A process in a container has its own pid for itself and its own idea of /tmp. File names carry
 * its own pid; its directory is opened below /proc/PID/root.
 */
#ifndef PINPOOL_CLI_SYSTEM_TARGET_H
#define PINPOOL_CLI_SYSTEM_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct target {
    pid_t pid;         /* as we see it */
    pid_t own_pid;     /* as the process sees itself */
    int pidfd;         /* stays with the process when its number is used again */
    char *name;        /* printable */
    int signal;        /* that writes a dump; 0: none */
    char *dir;         /* as the process sees it */
    uint64_t label_at; /* where its sealed page is mapped, see stats.h; 0: nowhere */
};

/*
 * Finds out about process `pid`. Returns NULL, or why not, a sentence to be freed: there is no such
 * process, it may not be looked at, pinpool is not loaded into it. Sends nothing.
 */
char *target_open(struct target *target, pid_t pid);
void target_close(struct target *target);

/* The process has ended, though it may still be waited for. */
bool target_has_ended(const struct target *target);

/*
 * Opens the directory `dir` as the process sees it. Returns a descriptor or -errno; *path is then how we
 * reach it, to be freed: `dir` itself where it is the same directory for us.
 */
int target_open_dir(const struct target *target, const char *dir, char **path);

/*
 * Why the process cannot write a dump into its directory `fd` (it runs as a user who may not, the file system
 * is read-only), to be freed; NULL when it can, or when nobody can tell.
 */
char *target_reason_not_writable(const struct target *target, int fd, const char *dir);

/*
 * Sends `signal` with a request (src/base/request.h) if the process catches it at this moment; else it
 * would kill it or go unnoticed. A program that becomes another between the look and the signal is killed by
 * it, as by any kill(1). Returns NULL, or why nothing was sent, to be freed.
 */
char *target_send_request(const struct target *target, int signal, unsigned request);

/* What should be said before: that a system call filter is in force. To be freed; NULL: nothing. */
char *target_warning(const struct target *target);

/* "USR1", "RTMIN+3": the signal's name. To be freed. */
char *target_signal_name(int signal);

#endif
