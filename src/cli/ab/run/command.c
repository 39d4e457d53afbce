/* SPDX-License-Identifier: MIT */
/*
 * command: one run of a command: started fresh, waited for, measured by what the kernel counts for it, its
 * arm proved.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ab/run/lock.h"
#include "cli/ab/run/proof.h"
#include "cli/ab/run/run.h"
#include "cli/kit/files.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"
#include "cli/system/tree.h"

/* ---- Shared with services ---- */

void run_fail(struct run *run, char *reason)
{
    free(run->failure);
    run->failure = reason;
}

void run_take_usage(struct run *run, const struct rusage *usage)
{
    double *values = run->values;
    values[MEASURE_user_s] = (double)usage->ru_utime.tv_sec + (double)usage->ru_utime.tv_usec / 1e6;
    values[MEASURE_system_s] = (double)usage->ru_stime.tv_sec + (double)usage->ru_stime.tv_usec / 1e6;
    values[MEASURE_peak_rss_bytes] = (double)usage->ru_maxrss * 1024;
    values[MEASURE_minor_faults] = (double)usage->ru_minflt;
    values[MEASURE_major_faults] = (double)usage->ru_majflt;
    values[MEASURE_voluntary_switches] = (double)usage->ru_nvcsw;
    values[MEASURE_involuntary_switches] = (double)usage->ru_nivcsw;
}

bool run_prove(struct run *run, const struct arm *arm, const struct watch *watch, const char *stats_dir,
               pid_t main_pid)
{
    struct proof proof;
    char *reason = proof_check(&proof, arm, watch, stats_dir, main_pid);
    if (run->proof)
        json_object_put(run->proof);
    run->proof = proof_to_json(&proof, arm);
    if (reason) {
        run_fail(run, reason);
        return false;
    }
    if (arm->kind != ARM_OFF && !proof.has_main)
        run_note(run, "the process that was started had no pinpool, processes that it started had");
    return true;
}

char *run_make_stats_dir(const struct experiment *experiment, const struct run *run)
{
    char *path = must_format("%s/%zu", experiment->scratch, run->index);
    files_remove_directory(path);
    /* As /tmp: a service may change its user, and its children still write their files. */
    if (mkdir(path, 0700) != 0 || chmod(path, 01777) != 0)
        die("%s: %s", path, strerror(errno));
    return path;
}

char *run_describe_end(const char *what, int status, const char *output_path)
{
    CLEANUP_FREE char *end = process_describe_status(status);
    CLEANUP_FREE char *tail = files_read_tail(output_path);
    return must_format("%s ended with %s%s%s", what, end, *tail ? "; its last output: " : "", tail);
}

/* ---- A command ---- */

/* Waits for the end, and looks at the processes meanwhile. As process_wait(). */
static int wait_and_look(struct process *process, struct watch *watch, uint64_t deadline_ns)
{
    struct process *const processes[] = {process};
    for (;;) {
        const uint64_t until_ns = now_monotonic_ns() + watch->pause_ns;
        const int ended = process_wait(processes, 1, until_ns < deadline_ns ? until_ns : deadline_ns);
        if (ended != WAIT_DEADLINE || now_monotonic_ns() >= deadline_ns)
            return ended;
        watch_look(watch, process->pid);
    }
}

static enum run_end stop_command(struct run *run, struct process *process, int ended, uint64_t timeout_ns)
{
    process_end(process, RUN_GRACE_NS);
    tree_end_all(RUN_GRACE_NS);
    if (ended == WAIT_STOPPED)
        return RUN_STOPPED;
    run_fail(run, must_format("the command had not ended after %g s", (double)timeout_ns / (double)NS_PER_S));
    return RUN_FAILED;
}

/* Runs argv to its good end. */
static enum run_end run_to_end(struct experiment *experiment, struct run *run, struct process *process,
                               const struct process_spec *spec, struct watch *watch)
{
    const uint64_t timeout_ns = experiment->settings.timeout_ns;
    char *reason = process_start(process, spec);
    if (reason) {
        run_fail(run, reason);
        return RUN_FAILED;
    }
    const int ended = wait_and_look(process, watch, process->start_ns + timeout_ns);
    if (ended < 0)
        return stop_command(run, process, ended, timeout_ns);
    const size_t left = tree_end_all(RUN_GRACE_NS);
    if (left)
        run_note(run, "the command left %zu process%s running, which %s ended", left, left == 1 ? "" : "es",
                 left == 1 ? "was" : "were");
    if (!WIFEXITED(process->status) || WEXITSTATUS(process->status) != 0) {
        run_fail(run, run_describe_end("the command", process->status, spec->output_path));
        return RUN_FAILED;
    }
    return RUN_DONE;
}

static enum run_end measure_command(struct experiment *experiment, struct run *run, const char *directory,
                                    const char *stats_dir)
{
    const struct arm *arm = run_arm(experiment, run);
    struct environment environment = arm_environment(arm, &experiment->base, experiment->pinpool, stats_dir);
    CLEANUP_FREE char *output = must_format("%s/output", directory);
    const struct process_spec spec = {
        .argv = experiment->settings.command, .envp = environment.variables, .output_path = output};
    struct process process;
    struct watch watch = watch_start(arm, experiment->pinpool, false);
    enum run_end end = run_to_end(experiment, run, &process, &spec, &watch);
    environment_free(&environment);
    if (end == RUN_DONE) {
        run->values[MEASURE_wall_s] = (double)(process.end_ns - process.start_ns) / (double)NS_PER_S;
        run_take_usage(run, &process.usage);
        if (!run_prove(run, arm, &watch, stats_dir, process.pid))
            end = RUN_FAILED;
    }
    if (end == RUN_DONE) {
        char *reason = metrics_read(&experiment->settings.metrics, output, run->values);
        if (reason)
            run_fail(run, reason);
        end = reason ? RUN_FAILED : RUN_DONE;
    }
    watch_free(&watch);
    process_forget(&process);
    return end;
}

enum run_end run_command(struct experiment *experiment, struct run *run, const char *directory)
{
    CLEANUP_FREE char *stats_dir = run_make_stats_dir(experiment, run);
    const enum run_end end = measure_command(experiment, run, directory, stats_dir);
    files_remove_directory(stats_dir);
    return end;
}

/* ---- Under the tracer ---- */

static enum run_end trace_command(struct experiment *experiment, struct run *run, const char *directory,
                                  const char *stats_dir)
{
    const struct arm *arm = run_arm(experiment, run);
    struct environment environment = arm_environment(arm, &experiment->base, experiment->pinpool, stats_dir);
    CLEANUP_FREE char *output = must_format("%s/traced-output", directory);
    CLEANUP_FREE char *figures = must_format("%s/mmap-lock.json", directory);
    char **argv = lock_wrap(experiment, &environment, figures);
    const struct process_spec spec = {
        .argv = argv, .envp = experiment->base.variables, .output_path = output};
    struct process process;
    struct watch watch = watch_start(arm, experiment->pinpool, true);
    enum run_end end = run_to_end(experiment, run, &process, &spec, &watch);
    if (end == RUN_DONE && !run_prove(run, arm, &watch, stats_dir, process.pid))
        end = RUN_FAILED;
    if (end == RUN_DONE) {
        char *reason = lock_read(figures, run->values);
        if (reason)
            run_fail(run, reason);
        end = reason ? RUN_FAILED : RUN_DONE;
    }
    watch_free(&watch);
    process_forget(&process);
    lock_free_wrap(argv);
    environment_free(&environment);
    return end;
}

enum run_end run_traced_command(struct experiment *experiment, struct run *run, const char *directory)
{
    CLEANUP_FREE char *stats_dir = run_make_stats_dir(experiment, run);
    const enum run_end end = trace_command(experiment, run, directory, stats_dir);
    files_remove_directory(stats_dir);
    return end;
}
