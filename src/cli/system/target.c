/* SPDX-License-Identifier: MIT */
/* target: see target.h. */
#include "cli/system/target.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/label.h"
#include "base/options.h"
#include "base/request.h"
#include "cli/kit/util.h"
#include "cli/system/procfs.h"

/* What one look at the memory map finds. */
struct findings {
    bool has_library;
    uint64_t label_at; /* where the sealed page is mapped */
    char *settings;    /* what follows /memfd:pinpool: in its name */
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* libpinpool.so or libpinpool.so.N. */
static bool is_library_name(const char *name)
{
    static const char library[] = "libpinpool.so";
    const size_t length = sizeof library - 1;
    return strncmp(name, library, length) == 0 && (name[length] == '\0' || name[length] == '.');
}

static void look_at_map(const struct procfs_map *map, void *context)
{
    static const char settings_prefix[] = "/memfd:" LABEL_NAME;
    struct findings *findings = context;
    const char *name = base_name(map->path);
    if (map->executable && is_library_name(name)) /* code, not a file that something reads */
        findings->has_library = true;
    if (!findings->settings && strncmp(map->path, settings_prefix, sizeof settings_prefix - 1) == 0) {
        findings->settings = must_copy_text(map->path + sizeof settings_prefix - 1);
        findings->label_at = map->start;
    }
}

/* "signal=10:dir=/tmp". False when it does not say both. */
static bool parse_settings(const char *text, int *signal, char **dir)
{
    int number = -1;
    const char *field = text;
    while (strncmp(field, "dir=", 4) != 0) {
        const size_t length = strcspn(field, ":");
        if (strncmp(field, "signal=", 7) == 0) {
            CLEANUP_FREE char *value = must_copy_text(field);
            value[length] = '\0';
            number = strcmp(value + 7, "0") == 0 ? 0 : options_parse_signal(value + 7);
        }
        if (field[length] == '\0')
            return false;
        field += length + 1;
    }
    if (number < 0 || field[4] != '/')
        return false;
    *signal = number;
    *dir = must_copy_text(field + 4);
    return true;
}

/* options_read() asks by name alone, so what it reads from stands here for the length of the call. */
static const struct procfs_environ *environ_being_read;

static const char *look_up_in_environ(const char *name)
{
    return procfs_find_variable(environ_being_read, name);
}

static void ignore_complaint(const char *line)
{
    (void)line; /* the library said it when it started */
}

static int read_settings_from_environ(struct target *target)
{
    struct procfs_environ environment;
    const int error = procfs_read_environ(target->pid, &environment);
    if (error)
        return error;
    struct options options;
    environ_being_read = &environment;
    options_read(&options, look_up_in_environ, ignore_complaint);
    environ_being_read = NULL;
    procfs_free_environ(&environment);
    target->signal = options.signal;
    target->dir = must_copy_text(options.dir);
    return 0;
}

/* "1234 (redis-server): and the sentence". */
static char *about(const struct target *target, const char *sentence)
{
    return must_format("%d (%s): %s", (int)target->pid, target->name, sentence);
}

static char *about_error(const struct target *target, const char *what, int error)
{
    CLEANUP_FREE char *sentence = must_format("%s: %s", what, strerror(-error));
    return about(target, sentence);
}

static char *read_settings(struct target *target, const char *settings)
{
    if (settings && parse_settings(settings, &target->signal, &target->dir))
        return NULL;
    const int error = read_settings_from_environ(target);
    return error ? about_error(target, "cannot read its environment", error) : NULL;
}

static char *look_at_maps(struct target *target)
{
    struct findings findings = {0};
    const int error = procfs_visit_maps(target->pid, look_at_map, &findings);
    CLEANUP_FREE char *settings = findings.settings;
    if (error)
        return about_error(target, "cannot read its memory map", error);
    if (!findings.has_library && target_has_ended(target))
        return about(target, "it has ended");
    if (!findings.has_library)
        return about(target, "libpinpool.so is not loaded into it; start it with 'pinpool run'");
    target->label_at = findings.label_at;
    return read_settings(target, settings);
}

static char *look_at_process(struct target *target)
{
    struct procfs_status status;
    const int error = procfs_read_status(target->pid, &status);
    if (error == -ENOENT || error == -ESRCH)
        return must_format("%d: there is no such process", (int)target->pid);
    if (error)
        return must_format("%d: %s", (int)target->pid, strerror(-error));
    target->name = procfs_read_name(target->pid);
    target->own_pid = status.own_pid;
    if (status.tgid != target->pid) {
        CLEANUP_FREE char *sentence = must_format("it is a thread of process %d", (int)status.tgid);
        return about(target, sentence);
    }
    if (status.state == 'Z' || status.state == 'X')
        return about(target, "it has ended");
    /* Before the map is read: what the map says is then true of the process behind this descriptor. */
    target->pidfd = pidfd_open(target->pid, 0);
    if (target->pidfd < 0)
        return errno == ESRCH ? about(target, "it has ended") : about_error(target, "pidfd_open", -errno);
    return look_at_maps(target);
}

char *target_open(struct target *target, pid_t pid)
{
    *target = (struct target){.pid = pid, .pidfd = -1};
    char *reason = look_at_process(target);
    if (reason)
        target_close(target);
    return reason;
}

void target_close(struct target *target)
{
    if (target->pidfd >= 0)
        close(target->pidfd);
    free(target->name);
    free(target->dir);
    *target = (struct target){.pidfd = -1};
}

bool target_has_ended(const struct target *target)
{
    struct pollfd end = {.fd = target->pidfd, .events = POLLIN};
    return poll(&end, 1, 0) > 0;
}

/* Absolute symbolic links in `dir` mean the process's root, not ours: hence RESOLVE_IN_ROOT. */
static int open_below_root(const struct target *target, const char *dir)
{
    CLEANUP_FREE char *root_path = must_format("/proc/%d/root", (int)target->pid);
    CLEANUP_CLOSE const int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -errno;
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    const long fd = syscall(SYS_openat2, root, dir, &how, sizeof how);
    if (fd >= 0)
        return (int)fd;
    if (errno != ENOSYS)
        return -errno;
    CLEANUP_FREE char *path = must_format("%s%s", root_path, dir);
    const int plain = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return plain < 0 ? -errno : plain;
}

static bool is_same_file(const char *path, const struct stat *file)
{
    struct stat other;
    return stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

/* A path by which we, and who reads our output, reach an open directory of the process. */
static char *path_for_us(const struct target *target, const char *dir, int fd)
{
    struct stat file;
    char resolved[4096];
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, resolved, sizeof resolved - 1);
    resolved[length > 0 ? length : 0] = '\0';

    /* The same name; below a chroot, the whole name; in another mount namespace, by way of the process. */
    char *candidates[] = {must_copy_text(dir), must_copy_text(resolved),
                          must_format("/proc/%d/root%s", (int)target->pid, dir),
                          must_format("/proc/%d/root%s", (int)target->pid, resolved)};
    char *path = NULL;
    const bool is_known = fstat(fd, &file) == 0;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        if (!path && is_known && is_same_file(candidates[i], &file))
            path = candidates[i];
        else
            free(candidates[i]);
    }
    return path ? path : must_copy_text(dir);
}

int target_open_dir(const struct target *target, const char *dir, char **path)
{
    int fd = open_below_root(target, dir);
    if (fd == -EACCES || fd == -EPERM) { /* /proc/PID/root wants more rights than the directory itself */
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            fd = -errno;
    }
    *path = fd >= 0 ? path_for_us(target, dir, fd) : NULL;
    return fd;
}

char *target_signal_name(int signal)
{
    struct options options = {.signal = signal};
    char text[OPTIONS_TEXT_MAX];
    options_format_sigsafe(&options, OPTION_SIGNAL, text);
    return must_copy_text(text);
}

/* In a process of its own, with the rights of the target: 0, or the error of access(2). */
static int ask_as_target(const struct procfs_status *status, const gid_t *groups, int group_count, int fd)
{
    int result = 0;
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgroups((size_t)group_count, groups) != 0 ||
                               setresgid(status->file_gid, status->file_gid, status->file_gid) != 0 ||
                               setresuid(status->file_uid, status->file_uid, status->file_uid) != 0))
            _exit(0); /* cannot tell */
        _exit(faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno);
    }
    while (child > 0 && waitpid(child, &result, 0) < 0)
        if (errno != EINTR)
            return 0;
    return child > 0 && WIFEXITED(result) ? WEXITSTATUS(result) : 0;
}

char *target_reason_not_writable(const struct target *target, int fd, const char *dir)
{
    enum { CAP_DAC_OVERRIDE_BIT = 1 }; /* capabilities(7): may write anywhere */
    struct procfs_status status;
    CLEANUP_FREE gid_t *groups = NULL;
    if (procfs_read_status(target->pid, &status) != 0 || (status.capabilities >> CAP_DAC_OVERRIDE_BIT & 1))
        return NULL;
    const int group_count = procfs_read_groups(target->pid, &groups);
    const int error = group_count < 0 ? 0 : ask_as_target(&status, groups, group_count, fd);
    if (error == 0)
        return NULL;
    CLEANUP_FREE char *shown = text_printable(dir);
    CLEANUP_FREE char *sentence = must_format(
        "it runs as user %u, which cannot write to %s: %s; start it with a PINPOOL_DIR that it can "
        "write to (nothing was sent)",
        (unsigned)status.file_uid, shown, strerror(error));
    return about(target, sentence);
}

char *target_warning(const struct target *target)
{
    struct procfs_status status;
    if (procfs_read_status(target->pid, &status) != 0 || status.seccomp != 2)
        return NULL;
    return about(target,
                 "it runs under a system call filter (seccomp): the dump leaves out what takes more than "
                 "opening, reading and writing files, but a filter that kills for opening a file kills it");
}

/* Why the signal must not be sent now, or NULL. */
static char *reason_not_to_send(const struct target *target, int signal)
{
    struct procfs_status status;
    const int error = procfs_read_status(target->pid, &status);
    if (error || target_has_ended(target))
        return about(target, "it has ended");
    if (status.seccomp == 1)
        return about(target, "it is under strict seccomp, where opening a file kills it; nothing was sent");
    if (procfs_has_signal(status.caught, signal))
        return NULL;
    CLEANUP_FREE char *name = target_signal_name(signal);
    CLEANUP_FREE char *sentence =
        procfs_has_signal(status.ignored, signal)
            ? must_format("it ignores signal %s; nothing was sent", name)
            : must_format("signal %s has no handler and would kill it; nothing was sent", name);
    return about(target, sentence);
}

char *target_send_request(const struct target *target, int signal, unsigned request)
{
    char *reason = reason_not_to_send(target, signal);
    siginfo_t info;
    if (reason)
        return reason;
    memset(&info, 0, sizeof info);
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    const uintptr_t value = REQUEST_MAGIC | request;
    memcpy(&info.si_value.sival_ptr, &value, sizeof value);
    if (pidfd_send_signal(target->pidfd, signal, &info, 0) == 0)
        return NULL;
    if (errno == ESRCH)
        return about(target, "it has ended");
    return about_error(target, "cannot send it a signal", -errno);
}
