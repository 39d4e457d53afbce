/* SPDX-License-Identifier: MIT */
/*
 * process: starts a command, waits for it and for Ctrl-C at once, measures it, ends it.
 *
 * A process gets a session of its own, so that a terminal's Ctrl-C reaches only the tool, which then ends
 * what runs in its own order. If the tool dies, the kernel ends the process.
 *
 * It is started by fork() and not by vfork() or posix_spawn(): ru_maxrss of a process starts with what it
 * shared before exec, and after a vfork that is the tool's whole resident size, which would be the peak of
 * every small command. After a fork it is only what the tool has written to, 1 or 2 MiB.
 */
#ifndef PINPOOL_CLI_SYSTEM_PROCESS_H
#define PINPOOL_CLI_SYSTEM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct process_spec {
    char *const *argv;
    char *const *envp;
    const char *output_path; /* stdout and stderr go there, appended */
    bool drops_stderr;       /* stderr goes to /dev/null instead */
};

struct process {
    pid_t pid; /* also its session */
    int pidfd;
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    bool has_ended;
    int status; /* as of wait(2), when it has ended */
    struct rusage usage;
};

/* From here on SIGINT, SIGTERM and SIGHUP only make process_stop_signal() non-zero; waiting ends then. */
void process_catch_signals(void);
int process_stop_signal(void);

/* Returns NULL, or why there is no process, to be freed. */
char *process_start(struct process *process, const struct process_spec *spec);

/* argv for `sh -c COMMAND`; to be freed, not what it points to. */
char **process_shell(const char *command);

enum { WAIT_DEADLINE = -1, WAIT_STOPPED = -2 };

/*
 * Waits till one of the processes has ended and returns which; WAIT_DEADLINE at `deadline_ns`
 * (CLOCK_MONOTONIC; UINT64_MAX: never), WAIT_STOPPED after a signal. Processes that had ended before are
 * not waited for.
 */
int process_wait(struct process *const *processes, size_t count, uint64_t deadline_ns);

/* Nothing but time passes, unless a signal comes: false then. */
bool process_pause(uint64_t duration_ns);

/*
 * SIGTERM, and SIGKILL after `grace_ns`. Returns whether it took SIGKILL. For a process that has not ended.
 */
bool process_end(struct process *process, uint64_t grace_ns);

/* Closes the descriptor. */
void process_forget(struct process *process);

/* "exit status 3", "signal 11 (Segmentation fault)"; to be freed. */
char *process_describe_status(int status);

/*
 * Runs it to its end, whatever signal comes, or ends it after `timeout_ns`. Returns NULL, or why it could not
 * or did not end with status 0, to be freed.
 */
char *process_run(const struct process_spec *spec, uint64_t timeout_ns);

/* Runs a program to its end and returns what it printed, to be freed, or NULL if it failed. Its stderr is
 * dropped. */
char *process_capture(char *const *argv, char *const *envp, uint64_t timeout_ns);

#endif
