/* SPDX-License-Identifier: MIT */
/* process: see process.h. */
#include "cli/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/kit/files.h"
#include "cli/kit/util.h"

enum { PROCESSES_MAX = 4, CAPTURE_BYTES_MAX = 1 << 16 };

/* ---- Signals ---- */

static volatile sig_atomic_t stop_signal;
static sigset_t mask_before; /* what our children start with, and what ppoll() waits with */

static void note_stop(int signal)
{
    stop_signal = signal;
}

void process_catch_signals(void)
{
    static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction stop = {.sa_handler = note_stop};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof stopping / sizeof stopping[0]; i++) {
        struct sigaction before;
        sigaction(stopping[i], NULL, &before);
        /* nohup means it, except for SIGINT: a shell ignores that in every background job. */
        if (before.sa_handler == SIG_IGN && stopping[i] == SIGHUP)
            continue;
        sigaddset(&set, stopping[i]);
        sigaction(stopping[i], &stop, NULL);
    }
    sigprocmask(SIG_BLOCK, &set, &mask_before);
    for (size_t i = 0; i < sizeof stopping / sizeof stopping[0]; i++)
        sigdelset(&mask_before, stopping[i]);
}

int process_stop_signal(void)
{
    return stop_signal;
}

/* ---- Starting ---- */

/* In the child. Reports through `report` what went wrong; nothing when exec succeeds, which closes it. */
static _Noreturn void become(const struct process_spec *spec, pid_t parent, int report)
{
    static const int restored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof restored / sizeof restored[0]; i++)
        signal(restored[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    const int input = open("/dev/null", O_RDONLY);
    const int output = open(spec->output_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    const int errors = spec->drops_stderr ? open("/dev/null", O_WRONLY) : output;
    const int opened[] = {input, output, errors};
    if (getppid() == parent && input >= 0 && output >= 0 && errors >= 0 && dup2(input, STDIN_FILENO) >= 0 &&
        dup2(output, STDOUT_FILENO) >= 0 && dup2(errors, STDERR_FILENO) >= 0) {
        for (size_t i = 0; i < sizeof opened / sizeof opened[0]; i++)
            if (opened[i] > STDERR_FILENO)
                close(opened[i]);
        execvpe(spec->argv[0], spec->argv, spec->envp);
    }
    const int error = errno;
    while (write(report, &error, sizeof error) < 0 && errno == EINTR)
        continue;
    _exit(127);
}

/* 0 when exec succeeded, else the child's errno. */
static int read_report(int fd)
{
    int error = 0;
    ssize_t got;
    do
        got = read(fd, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof error ? error : 0;
}

char *process_start(struct process *process, const struct process_spec *spec)
{
    int report[2];
    *process = (struct process){.pid = -1, .pidfd = -1};
    if (pipe2(report, O_CLOEXEC) != 0)
        return must_format("pipe: %s", strerror(errno));
    fflush(NULL); /* nothing of ours twice */
    const pid_t parent = getpid();
    process->start_ns = now_monotonic_ns();
    process->pid = fork();
    if (process->pid == 0)
        become(spec, parent, report[1]);
    const int fork_error = errno;
    close(report[1]);
    const int error = process->pid < 0 ? fork_error : read_report(report[0]);
    close(report[0]);
    if (process->pid < 0)
        return must_format("fork: %s", strerror(error));
    if (error) {
        waitpid(process->pid, NULL, 0);
        return must_format("%s: %s", spec->argv[0], strerror(error));
    }
    process->pidfd = pidfd_open(process->pid, 0);
    if (process->pidfd < 0)
        die("pidfd_open: %s", strerror(errno));
    return NULL;
}

char **process_shell(const char *command)
{
    char **argv = must_allocate(4 * sizeof *argv);
    static char shell[] = "/bin/sh", option[] = "-c";
    argv[0] = shell;
    argv[1] = option;
    memcpy(&argv[2], &command, sizeof command); /* exec wants it without const and leaves it alone */
    return argv;
}

/* ---- Waiting ---- */

static void collect(struct process *process)
{
    process->end_ns = now_monotonic_ns();
    while (wait4(process->pid, &process->status, 0, &process->usage) < 0 && errno == EINTR)
        continue;
    process->has_ended = true;
}

static struct timespec time_left(uint64_t deadline_ns)
{
    const uint64_t now_ns = now_monotonic_ns();
    const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    return (struct timespec){.tv_sec = (time_t)(left_ns / NS_PER_S), .tv_nsec = (long)(left_ns % NS_PER_S)};
}

int process_wait(struct process *const *processes, size_t count, uint64_t deadline_ns)
{
    struct pollfd ends[PROCESSES_MAX];
    for (size_t i = 0; i < count; i++)
        ends[i] = (struct pollfd){.fd = processes[i]->has_ended ? -1 : processes[i]->pidfd, .events = POLLIN};
    for (;;) {
        const struct timespec left = time_left(deadline_ns);
        const int ready = ppoll(ends, count, deadline_ns == UINT64_MAX ? NULL : &left, &mask_before);
        if (stop_signal)
            return WAIT_STOPPED;
        if (ready < 0 && errno != EINTR)
            die("ppoll: %s", strerror(errno));
        for (size_t i = 0; ready > 0 && i < count; i++)
            if (ends[i].revents) {
                collect(processes[i]);
                return (int)i;
            }
        if (ready == 0 && now_monotonic_ns() >= deadline_ns)
            return WAIT_DEADLINE;
    }
}

bool process_pause(uint64_t duration_ns)
{
    return process_wait(NULL, 0, now_monotonic_ns() + duration_ns) == WAIT_DEADLINE;
}

/* As process_wait() for one, but deaf to Ctrl-C: false at the deadline. */
static bool wait_deaf(struct process *process, uint64_t deadline_ns)
{
    struct pollfd end = {.fd = process->pidfd, .events = POLLIN};
    while (!process->has_ended) {
        const struct timespec left = time_left(deadline_ns);
        const int ready = ppoll(&end, 1, &left, NULL);
        if (ready > 0)
            collect(process);
        else if (now_monotonic_ns() >= deadline_ns)
            return false;
    }
    return true;
}

bool process_end(struct process *process, uint64_t grace_ns)
{
    pidfd_send_signal(process->pidfd, SIGTERM, NULL, 0);
    /* A stopped process would not even notice. */
    pidfd_send_signal(process->pidfd, SIGCONT, NULL, 0);
    if (wait_deaf(process, now_monotonic_ns() + grace_ns))
        return false;
    pidfd_send_signal(process->pidfd, SIGKILL, NULL, 0);
    if (!wait_deaf(process, now_monotonic_ns() + 10 * NS_PER_S))
        warn_user("process %d does not even end on SIGKILL", (int)process->pid);
    return true;
}

void process_forget(struct process *process)
{
    if (process->pidfd >= 0)
        close(process->pidfd);
    process->pidfd = -1;
}

char *process_describe_status(int status)
{
    if (WIFEXITED(status))
        return must_format("exit status %d", WEXITSTATUS(status));
    if (WIFSIGNALED(status))
        return must_format("signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return must_format("status %#x", (unsigned)status);
}

/* ---- Running ---- */

char *process_run(const struct process_spec *spec, uint64_t timeout_ns)
{
    struct process process;
    char *reason = process_start(&process, spec);
    if (reason)
        return reason;
    const bool is_late = !wait_deaf(&process, now_monotonic_ns() + timeout_ns);
    if (is_late)
        process_end(&process, 0);
    process_forget(&process);
    if (is_late)
        return must_format("%s: had not ended in time", spec->argv[0]);
    if (WIFEXITED(process.status) && WEXITSTATUS(process.status) == 0)
        return NULL;
    return process_describe_status(process.status);
}

char *process_capture(char *const *argv, char *const *envp, uint64_t timeout_ns)
{
    char path[] = "/tmp/pinpool-ab.XXXXXX";
    CLEANUP_CLOSE const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return NULL;
    const struct process_spec spec = {.argv = argv, .envp = envp, .output_path = path, .drops_stderr = true};
    CLEANUP_FREE char *reason = process_run(&spec, timeout_ns);
    size_t length;
    char *text = reason ? NULL : files_read_end(path, CAPTURE_BYTES_MAX, &length);
    unlink(path);
    return text;
}
