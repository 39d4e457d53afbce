/* SPDX-License-Identifier: MIT */
/*
 * service: one run of a service:
 *
 *   start -> ready -> settle -> load -> dump -> settle -> dump -> SIGTERM (-> SIGKILL)
 *                     |--------- a sample each second ---------|
 *
 * The load and the ready command run in the base environment, without the arm's preload. A service that ends
 * before it is asked to has failed.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ab/run/lock.h"
#include "cli/ab/run/run.h"
#include "cli/ab/run/sampler.h"
#include "cli/dumpfile/account.h"
#include "cli/dumpfile/dumping.h"
#include "cli/kit/files.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"
#include "cli/system/stats.h"
#include "cli/system/tree.h"

enum { SERVER, HELPER }; /* places in service.processes; the helper is the ready command or the load */

static const uint64_t stop_grace_ns = 10 * NS_PER_S;

struct service {
    struct experiment *experiment;
    struct run *run;
    const struct arm *arm;
    const char *directory, *stats_dir;
    bool is_traced; /* for the tracer's figures alone: no samples, no dumps */
    struct environment helper_environment;
    struct process server, helper;
    struct sampler sampler;
    struct watch watch;
    char *server_output, *ready_output, *load_output, *figures;
};

static enum run_end fail(struct service *service, char *reason)
{
    run_fail(service->run, reason);
    return RUN_FAILED;
}

static enum run_end fail_server(struct service *service, const char *when)
{
    CLEANUP_FREE char *what = must_format("the service, %s,", when);
    return fail(service, run_describe_end(what, service->server.status, service->server_output));
}

/* ---- Waiting ---- */

static void take_sample(struct service *service, enum sampler_phase phase, pid_t other)
{
    watch_look(&service->watch, service->server.pid);
    if (!service->is_traced)
        sampler_take(&service->sampler, phase, other);
}

/*
 * Waits for `count` processes till the deadline and takes a sample each second meanwhile. As process_wait().
 */
static int wait_sampling(struct service *service, size_t count, uint64_t deadline_ns,
                         enum sampler_phase phase)
{
    struct process *const processes[] = {&service->server, &service->helper};
    const pid_t other = count > 1 ? service->helper.pid : 0;
    uint64_t next_ns = now_monotonic_ns() + NS_PER_S;
    for (;;) {
        const int ended = process_wait(processes, count, next_ns < deadline_ns ? next_ns : deadline_ns);
        if (ended != WAIT_DEADLINE || now_monotonic_ns() >= deadline_ns)
            return ended;
        take_sample(service, phase, other);
        while (next_ns <= now_monotonic_ns())
            next_ns += NS_PER_S;
    }
}

static enum run_end settle(struct service *service, enum sampler_phase phase)
{
    const uint64_t duration_ns = service->experiment->settings.settle_ns;
    take_sample(service, phase, 0);
    const int ended = wait_sampling(service, 1, now_monotonic_ns() + duration_ns, phase);
    if (ended == WAIT_STOPPED)
        return RUN_STOPPED;
    if (ended == SERVER)
        return fail_server(service, "while it settled");
    take_sample(service, phase, 0);
    return RUN_DONE;
}

/* ---- Getting ready ---- */

static char *start_helper(struct service *service, const char *command, const char *output_path)
{
    CLEANUP_FREE char **argv = process_shell(command);
    const struct process_spec spec = {
        .argv = argv, .envp = service->helper_environment.variables, .output_path = output_path};
    return process_start(&service->helper, &spec);
}

static enum run_end fail_ready(struct service *service)
{
    CLEANUP_FREE char *ready_tail = files_read_tail(service->ready_output);
    CLEANUP_FREE char *server_tail = files_read_tail(service->server_output);
    return fail(service,
                must_format("the service was not ready after %g s%s%s%s%s",
                            (double)service->experiment->settings.ready_timeout_ns / (double)NS_PER_S,
                            *ready_tail ? "; the ready command's last output: " : "", ready_tail,
                            *server_tail ? "; the service's last output: " : "", server_tail));
}

/* Only the last try's is of interest; one that was cut short counts if it had said something. */
static void keep_last_output(const struct service *service, const char *output, bool has_ended)
{
    struct stat file;
    if (has_ended || (stat(output, &file) == 0 && file.st_size > 0))
        rename(output, service->ready_output);
    else
        unlink(output);
}

/* One try. RUN_FAILED without a reason: not yet. */
static enum run_end try_ready(struct service *service, uint64_t deadline_ns)
{
    struct process *const processes[] = {&service->server, &service->helper};
    CLEANUP_FREE char *output = must_format("%s.try", service->ready_output);
    char *reason = start_helper(service, service->experiment->settings.ready, output);
    if (reason)
        return fail(service, reason);
    const int ended = process_wait(processes, 2, deadline_ns);
    if (ended != HELPER)
        process_end(&service->helper, 0);
    keep_last_output(service, output, ended == HELPER);
    process_forget(&service->helper);
    if (ended == WAIT_STOPPED)
        return RUN_STOPPED;
    if (ended == SERVER)
        return fail_server(service, "not ready yet");
    return ended == HELPER && WIFEXITED(service->helper.status) && WEXITSTATUS(service->helper.status) == 0
               ? RUN_DONE
               : RUN_FAILED;
}

static enum run_end get_ready(struct service *service)
{
    struct process *const processes[] = {&service->server};
    const uint64_t deadline_ns = service->server.start_ns + service->experiment->settings.ready_timeout_ns;
    for (;;) {
        const enum run_end tried = try_ready(service, deadline_ns);
        if (tried != RUN_FAILED || service->run->failure)
            return tried;
        const uint64_t next_ns = now_monotonic_ns() + 100 * NS_PER_MS;
        const int ended = process_wait(processes, 1, next_ns < deadline_ns ? next_ns : deadline_ns);
        if (ended == WAIT_STOPPED)
            return RUN_STOPPED;
        if (ended == SERVER)
            return fail_server(service, "not ready yet");
        if (now_monotonic_ns() >= deadline_ns)
            return fail_ready(service);
    }
}

/* ---- The load ---- */

static enum run_end judge_load(struct service *service, int ended)
{
    const struct process *load = &service->helper;
    if (ended == WAIT_STOPPED)
        return RUN_STOPPED;
    if (ended == SERVER)
        return fail_server(service, "under load");
    if (ended == WAIT_DEADLINE)
        return fail(service,
                    must_format("the load had not ended after %g s",
                                (double)service->experiment->settings.timeout_ns / (double)NS_PER_S));
    if (!WIFEXITED(load->status) || WEXITSTATUS(load->status) != 0)
        return fail(service, run_describe_end("the load", load->status, service->load_output));
    return RUN_DONE;
}

static enum run_end run_load(struct service *service)
{
    struct settings *settings = &service->experiment->settings;
    double *values = service->run->values;
    char *reason = start_helper(service, settings->load, service->load_output);
    if (reason)
        return fail(service, reason);
    take_sample(service, PHASE_LOAD, service->helper.pid);
    const uint64_t deadline_ns = service->helper.start_ns + settings->timeout_ns;
    const int ended = wait_sampling(service, 2, deadline_ns, PHASE_LOAD);
    if (ended != HELPER)
        process_end(&service->helper, RUN_GRACE_NS);
    const enum run_end end = judge_load(service, ended);
    if (end == RUN_DONE && !service->is_traced) {
        take_sample(service, PHASE_END, service->helper.pid);
        values[MEASURE_load_s] =
            (double)(service->helper.end_ns - service->helper.start_ns) / (double)NS_PER_S;
        reason = metrics_read(&settings->metrics, service->load_output, values);
    }
    process_forget(&service->helper);
    return reason ? fail(service, reason) : end;
}

/* ---- Dumps ---- */

/* Has one process write a dump, keeps it beside the run's other files, adds its account. */
static bool take_dump(struct service *service, pid_t pid, const char *when, struct account *sum)
{
    const struct dumping dumping = {.pid = pid, .timeout_ns = 10 * NS_PER_S, .signal = -1, .quiet = true};
    CLEANUP_FREE char *to = must_format("%s/%s-%d.jsonl", service->directory, when, (int)pid);
    CLEANUP_FREE char *from = NULL;
    CLEANUP_FREE char *not_taken = dumping_take(&dumping, &from);
    if (not_taken)
        return false;
    CLEANUP_FREE char *not_copied = files_copy(from, to);
    if (not_copied)
        return false;
    unlink(from);
    struct dump_file file;
    CLEANUP_FREE char *not_read = reader_load(&file, to);
    if (not_read)
        return false;
    for (size_t i = 0; i < file.tier_count; i++)
        account_add_tier(sum, &file.tiers[i]);
    reader_free(&file);
    return true;
}

/* Measures that come from a dump: first of four in the order live, held, stranded, resident of it. */
static void take_dumps(struct service *service, const char *when, enum measure_id first)
{
    struct account sum = {0};
    unsigned dumped = 0, missed = 0;
    if (service->arm->kind != ARM_POOLS || service->is_traced)
        return;
    struct tree tree = tree_read();
    tree_mark_service(&tree, service->server.pid, 0);
    for (size_t i = 0; i < tree.count; i++) {
        if (!tree.processes[i].is_member || tree.processes[i].state == 'Z' ||
            stats_find_label(tree.processes[i].pid) == 0)
            continue;
        if (take_dump(service, tree.processes[i].pid, when, &sum))
            dumped++;
        else
            missed++;
    }
    tree_free(&tree);
    if (missed)
        run_note(service->run, "%u of %u processes wrote no dump (%s)", missed, dumped + missed, when);
    if (dumped == 0 || missed)
        return; /* part of a sum would be a wrong sum */
    service->run->values[first] = (double)sum.live_bytes;
    service->run->values[first + 1] = (double)sum.held_bytes;
    service->run->values[first + 2] = (double)sum.stranded_bytes;
    if (sum.stranded_resident_bytes != UINT64_MAX)
        service->run->values[first + 3] = (double)sum.stranded_resident_bytes;
}

_Static_assert(MEASURE_stranded_resident_load_bytes == MEASURE_live_load_bytes + 3 &&
                   MEASURE_stranded_resident_settled_bytes == MEASURE_live_settled_bytes + 3,
               "take_dumps() counts on the order of the rows");

/* ---- Figures ---- */

static double load_cpu_s(const struct sampler *sampler)
{
    const struct sample *end = sampler_last(sampler, PHASE_END);
    for (size_t i = 0; i < sampler->count && end; i++)
        if (sampler->samples[i].phase == PHASE_LOAD)
            return end->cpu_s - sampler->samples[i].cpu_s;
    return NAN;
}

static void take_figures(struct service *service)
{
    double *values = service->run->values;
    const struct sampler *sampler = &service->sampler;
    const struct sample *settled = sampler_last(sampler, PHASE_SETTLE);
    double largest = NAN;
    for (size_t i = 0; i < sampler->count; i++)
        largest = fmax(largest, sample_rss(&sampler->samples[i]));
    values[MEASURE_rss_max_bytes] = largest;
    values[MEASURE_load_cpu_s] = load_cpu_s(sampler);
    values[MEASURE_rss_load_bytes] = sampler_late_mean(sampler, PHASE_LOAD, sample_rss);
    values[MEASURE_pss_load_bytes] = sampler_late_mean(sampler, PHASE_LOAD, sample_pss);
    values[MEASURE_rss_settled_bytes] = settled ? sample_rss(settled) : NAN;
    values[MEASURE_pss_settled_bytes] = settled ? sample_pss(settled) : NAN;
    values[MEASURE_rss_climb_bytes_per_min] = 60 * sampler_late_slope(sampler, PHASE_LOAD, sample_rss);
    values[MEASURE_stranded_climb_bytes_per_min] =
        60 * sampler_late_slope(sampler, PHASE_LOAD, sample_stranded);
}

/* A line each second: what the plots are made from. */
static void write_samples(const struct service *service)
{
    struct result_file *result = files_open_result(service->directory, "samples.csv");
    fputs("time_s,phase,processes,rss_bytes,pss_bytes,live_bytes,held_bytes,stranded_low_bytes,stranded_high_"
          "bytes,"
          "pinned_blocks\n",
          result->file);
    for (size_t i = 0; i < service->sampler.count; i++) {
        const struct sample *sample = &service->sampler.samples[i];
        const struct stats_gauge *gauge = &sample->gauge;
        fprintf(result->file, "%.3f,%s,%u,%llu,", sample->time_s, sampler_phase_name(sample->phase),
                sample->processes, (unsigned long long)sample->rss_bytes);
        if (sample->has_pss)
            fprintf(result->file, "%llu", (unsigned long long)sample->pss_bytes);
        if (sample->with_pinpool)
            fprintf(result->file, ",%llu,%llu,%llu,%llu,%llu\n", (unsigned long long)gauge->live_bytes,
                    (unsigned long long)gauge->held_bytes, (unsigned long long)gauge->stranded_low_bytes,
                    (unsigned long long)gauge->stranded_high_bytes, (unsigned long long)gauge->pinned_blocks);
        else
            fputs(",,,,,\n", result->file);
    }
    files_close_result(result);
}

/* ---- The whole ---- */

/* From ready to the end of the settle time. */
static enum run_end serve(struct service *service)
{
    enum run_end end = get_ready(service);
    if (end != RUN_DONE)
        return end;
    if (!service->is_traced)
        service->run->values[MEASURE_ready_s] =
            (double)(now_monotonic_ns() - service->server.start_ns) / (double)NS_PER_S;
    end = settle(service, PHASE_BEFORE);
    if (end == RUN_DONE)
        end = run_load(service);
    if (end != RUN_DONE || service->is_traced)
        return end;
    take_dumps(service, "load", MEASURE_live_load_bytes);
    end = settle(service, PHASE_SETTLE);
    if (end == RUN_DONE)
        take_dumps(service, "settled", MEASURE_live_settled_bytes);
    return end;
}

/* Ends it as its supervisor would. What ended by a signal other than ours crashed on the way. */
static enum run_end stop(struct service *service, enum run_end end)
{
    struct process *server = &service->server;
    bool was_killed = false;
    if (!server->has_ended)
        was_killed = process_end(server, service->is_traced ? 3 * stop_grace_ns : stop_grace_ns);
    tree_end_all(RUN_GRACE_NS);
    if (end != RUN_DONE)
        return end;
    if (was_killed)
        run_note(service->run, "the service had not ended %g s after SIGTERM and got SIGKILL",
                 (double)stop_grace_ns / (double)NS_PER_S);
    else if (WIFSIGNALED(server->status) && WTERMSIG(server->status) != SIGTERM)
        return fail_server(service, "asked to stop");
    return RUN_DONE;
}

static char *start_server(struct service *service)
{
    const struct experiment *experiment = service->experiment;
    struct environment environment =
        arm_environment(service->arm, &experiment->base, experiment->pinpool, service->stats_dir);
    char **traced = service->is_traced ? lock_wrap(experiment, &environment, service->figures) : NULL;
    const struct process_spec spec = {.argv = traced ? traced : experiment->settings.command,
                                      .envp = traced ? experiment->base.variables : environment.variables,
                                      .output_path = service->server_output};
    char *reason = process_start(&service->server, &spec);
    if (traced)
        lock_free_wrap(traced);
    environment_free(&environment);
    return reason;
}

/* The ready command and the load may want to know whom they serve. */
static void make_helper_environment(struct service *service)
{
    static const struct arm plain = {.kind = ARM_OFF};
    CLEANUP_FREE char *pid = must_format("%d", (int)service->server.pid);
    service->helper_environment =
        arm_environment(&plain, &service->experiment->base, NULL, service->stats_dir);
    environment_set(&service->helper_environment, "PINPOOL_STATS", "0");
    environment_set(&service->helper_environment, "PINPOOL_AB_PID", pid);
    environment_set(&service->helper_environment, "PINPOOL_AB_ARM", service->arm->name);
    environment_set(&service->helper_environment, "PINPOOL_AB_OUTPUT", service->server_output);
}

static enum run_end run_started(struct service *service)
{
    struct run *run = service->run;
    make_helper_environment(service);
    service->watch.must_be_there = true;
    service->sampler = sampler_start(service->server.pid, service->server.start_ns);
    enum run_end end = stop(service, serve(service));
    if (!service->is_traced) {
        sampler_stop(&service->sampler);
        write_samples(service);
    }
    if (end == RUN_DONE && !service->is_traced) {
        run_take_usage(run, &service->server.usage);
        take_figures(service);
    }
    if (end == RUN_DONE &&
        !run_prove(run, service->arm, &service->watch, service->stats_dir, service->server.pid))
        end = RUN_FAILED;
    char *reason = end == RUN_DONE && service->is_traced ? lock_read(service->figures, run->values) : NULL;
    sampler_free(&service->sampler);
    environment_free(&service->helper_environment);
    process_forget(&service->server);
    return reason ? fail(service, reason) : end;
}

static enum run_end run_one(struct experiment *experiment, struct run *run, const char *directory,
                            bool is_traced)
{
    const char *prefix = is_traced ? "traced-" : "";
    CLEANUP_FREE char *stats_dir = run_make_stats_dir(experiment, run);
    struct service service = {.experiment = experiment,
                              .run = run,
                              .arm = run_arm(experiment, run),
                              .directory = directory,
                              .stats_dir = stats_dir,
                              .is_traced = is_traced,
                              .watch = watch_start(run_arm(experiment, run), experiment->pinpool, is_traced),
                              .server_output = must_format("%s/%soutput", directory, prefix),
                              .ready_output = must_format("%s/%sready", directory, prefix),
                              .load_output = must_format("%s/%sload", directory, prefix),
                              .figures = must_format("%s/mmap-lock.json", directory)};
    char *reason = start_server(&service);
    const enum run_end end = reason ? fail(&service, reason) : run_started(&service);
    files_remove_directory(stats_dir);
    watch_free(&service.watch);
    free(service.server_output);
    free(service.ready_output);
    free(service.load_output);
    free(service.figures);
    return end;
}

enum run_end run_service(struct experiment *experiment, struct run *run, const char *directory)
{
    return run_one(experiment, run, directory, false);
}

enum run_end run_traced_service(struct experiment *experiment, struct run *run, const char *directory)
{
    return run_one(experiment, run, directory, true);
}
