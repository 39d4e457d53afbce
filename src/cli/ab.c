/* SPDX-License-Identifier: MIT */
/*
 * ab: `pinpool ab [OPTION...] -- COMMAND`. Draws the plan, runs it, keeps every finished run at once, and
 * makes the results from what there is, however it ends. Exit status: 0 complete, 1 a run failed, 128 +
 * signal after Ctrl-C.
 */
#include "cli/command.h"

#include <errno.h>
#include <gsl/gsl_errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/options.h"
#include "cli/ab/experiment.h"
#include "cli/ab/provenance.h"
#include "cli/ab/result/json.h"
#include "cli/ab/result/report.h"
#include "cli/ab/result/warnings.h"
#include "cli/ab/run/lock.h"
#include "cli/ab/run/progress.h"
#include "cli/ab/store.h"
#include "cli/kit/files.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"
#include "cli/system/tree.h"

enum { EXIT_BY_SIGNAL = 128 };

/* ---- Whatever ends the tool, nothing is left ---- */

static char *scratch_to_remove;
static pid_t tool_pid;

static void leave_nothing(void)
{
    if (getpid() != tool_pid)
        return;
    tree_end_all(NS_PER_S);
    if (scratch_to_remove)
        files_remove_directory(scratch_to_remove);
}

/*
 * Small files that live for one run: not on a disk, whose writing back would disturb the measurement.
 */
static char *make_scratch(void)
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    const char *given = getenv("TMPDIR");
    for (size_t i = 0; i <= sizeof places / sizeof places[0]; i++) {
        const char *place = i ? places[i - 1] : given;
        if (!place || place[0] != '/' ||
            strlen(place) > OPTIONS_DIR_MAX / 2) /* the library takes no longer ones */
            continue;
        char *path = must_format("%s/pinpool-ab.XXXXXX", place);
        if (mkdtemp(path)) {
            if (chmod(path, 0711) != 0) /* see run_make_stats_dir() */
                die("%s: %s", path, strerror(errno));
            return path;
        }
        free(path);
    }
    die("no directory for stats files can be made in /dev/shm or /tmp: %s", strerror(errno));
}

static void draw_seed(struct settings *settings)
{
    uint32_t seed;
    if (settings->has_seed)
        return;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        die("getrandom: %s", strerror(errno));
    settings->seed = seed;
}

/* ---- One run ---- */

/* The same again under the tracer, for its figures alone: proof and notes stay those of the measured run. */
static enum run_end measure_traced(struct experiment *experiment, struct run *run, const char *directory)
{
    struct json_object *proof = run->proof;
    CLEANUP_FREE char *notes = must_copy_text(run->notes);
    run->proof = NULL;
    const enum run_end end = settings_is_service(&experiment->settings)
                                 ? run_traced_service(experiment, run, directory)
                                 : run_traced_command(experiment, run, directory);
    if (run->proof)
        json_object_put(run->proof);
    run->proof = proof;
    free(run->notes);
    run->notes = must_copy_text(notes);
    return end;
}

static enum run_end measure(struct experiment *experiment, struct run *run, const char *directory)
{
    const enum run_end end = settings_is_service(&experiment->settings)
                                 ? run_service(experiment, run, directory)
                                 : run_command(experiment, run, directory);
    return end == RUN_DONE && experiment->mmap_lock ? measure_traced(experiment, run, directory) : end;
}

/* How many cores others used while the run ran: what was busy, without the run's own time. */
static double other_cores(const struct run *run, double busy_before_s, double busy_after_s)
{
    const double elapsed_s = (double)run->duration_ns / 1e9;
    const double own_s = run->values[MEASURE_user_s] + run->values[MEASURE_system_s];
    const double other = (busy_after_s - busy_before_s - own_s) / elapsed_s;
    /* A service's load is wanted too, and what is below a tick of the kernel's clock says nothing. */
    return elapsed_s < 0.1 ? NAN : fmax(0, other);
}

static enum run_end do_run(struct experiment *experiment, struct run *run)
{
    CLEANUP_FREE char *directory = run_directory(experiment, run);
    files_remove_directory(directory); /* of a run that was not finished */
    CLEANUP_FREE char *reason = files_make_directory(directory);
    if (reason) {
        run->failure = must_copy_text(reason);
        return RUN_FAILED;
    }
    run->start_unix_ns = now_unix_ns();
    run->load_average = provenance_load_average();
    const double busy_before_s = provenance_busy_s();
    const uint64_t start_ns = now_monotonic_ns();
    const enum run_end end = measure(experiment, run, directory);
    run->duration_ns = now_monotonic_ns() - start_ns;
    if (!settings_is_service(&experiment->settings) && !experiment->mmap_lock)
        run->other_cores = other_cores(run, busy_before_s, provenance_busy_s());
    run->is_done = end == RUN_DONE;
    /* The command could not write its output, and what failed then is only a consequence. */
    if (end == RUN_FAILED && files_is_disk_full(experiment->out)) {
        CLEANUP_FREE char *before = run->failure;
        run->failure = must_format("%s: %s (%s)", experiment->out, strerror(ENOSPC), before);
    }
    return end;
}

/* ---- All of them ---- */

static void say_failure(const struct experiment *experiment, const struct run *run)
{
    CLEANUP_FREE char *directory = run_directory(experiment, run);
    CLEANUP_FREE char *failure = text_printable(run->failure);
    warn_user("round %u, arm %s: %s", run->round, run_arm(experiment, run)->name, failure);
    warn_user("the run's files are in %s; finished runs are kept, --resume --out=%s goes on", directory,
              experiment->out);
}

/* Returns the exit status that it comes to. */
static int run_plan(struct experiment *experiment)
{
    struct progress progress = progress_start(experiment);
    int status = EXIT_SUCCESS;
    for (size_t i = 0; i < experiment->run_count && status == EXIT_SUCCESS; i++) {
        struct run *run = &experiment->runs[i];
        if (run->is_done)
            continue;
        progress_show(&progress, run);
        const enum run_end end = process_stop_signal() ? RUN_STOPPED : do_run(experiment, run);
        if (end == RUN_STOPPED) {
            status = EXIT_BY_SIGNAL + process_stop_signal();
            break;
        }
        CLEANUP_FREE char *not_kept = store_append(experiment, run);
        progress_end(&progress);
        if (run->failure)
            say_failure(experiment, run);
        if (not_kept)
            warn_user("%s; this run is not kept, the others are", not_kept);
        if (not_kept)
            run->is_done = false;
        if (run->failure || not_kept)
            status = EXIT_FAILURE;
    }
    progress_end(&progress);
    if (status > EXIT_BY_SIGNAL)
        warn_user("stopped by signal %d; finished runs are kept, --resume --out=%s goes on",
                  status - EXIT_BY_SIGNAL, experiment->out);
    return status;
}

static void print_file(const struct experiment *experiment, const char *name)
{
    CLEANUP_FREE char *path = must_format("%s/%s", experiment->out, name);
    CLEANUP_FCLOSE FILE *file = fopen(path, "re");
    char bytes[4096];
    if (!file)
        die("%s: %s", path, strerror(errno));
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;)
        fwrite(bytes, 1, got, stdout);
    flush_stdout_or_fail();
}

static void write_results(const struct experiment *experiment)
{
    struct ab_result result = result_make(experiment);
    warnings_collect(&result);
    const struct page terminal = {PAGE_TEXT, stdout};
    json_write_result(&result);
    report_write_long_csv(&result);
    report_write_samples_csv(&result);
    report_write_node_csv(&result);
    report_write_markdown(&result);
    report_write_html(&result);
    if (experiment->settings.format == FORMAT_TEXT)
        report_write_tables(&result, &terminal);
    else if (experiment->settings.format == FORMAT_MD)
        print_file(experiment, "report.md");
    else if (experiment->settings.format == FORMAT_JSON)
        print_file(experiment, "result.json");
    else if (experiment->settings.format == FORMAT_CSV)
        print_file(experiment, "runs.csv");
    else
        print_file(experiment, "report.html");
    flush_stdout_or_fail();
    result_free(&result);
}

static void start_experiment(struct experiment *experiment)
{
    struct settings *settings = &experiment->settings;
    experiment->start_unix_ns = now_unix_ns();
    if (settings->resumes) {
        store_open(experiment);
    } else {
        draw_seed(settings);
        store_create(experiment);
        result_warn_of_few_rounds(settings->rounds);
    }
    experiment_plan(experiment);
    if (settings->resumes)
        store_load_runs(experiment);
    if (settings->traces_mmap_lock)
        lock_prepare(experiment);
    if (experiment->lock_note)
        warn_user("--mmap-lock: %s", experiment->lock_note);
    warn_user("seed %" PRIu64 "; results go to %s", settings->seed, experiment->out);
}

static void free_experiment(struct experiment *experiment)
{
    for (size_t i = 0; i < experiment->run_count; i++) {
        free(experiment->runs[i].failure);
        free(experiment->runs[i].notes);
        free(experiment->runs[i].values);
        json_object_put(experiment->runs[i].proof);
    }
    free(experiment->runs);
    settings_free(&experiment->settings);
    environment_free(&experiment->base);
    free(experiment->dropped);
    free(experiment->pinpool);
    free(experiment->mmap_lock);
    free(experiment->lock_note);
    free(experiment->out);
    json_object_put(experiment->provenance);
    close(experiment->log_fd);
}

int command_ab(int argc, char **argv)
{
    struct experiment experiment = {.log_fd = -1};
    settings_parse(&experiment.settings, argc, argv);
    gsl_set_error_handler_off(); /* it would abort; what cannot be computed is NAN here */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        die("PR_SET_CHILD_SUBREAPER: %s", strerror(errno));
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write(2), like a full disk */
    process_catch_signals();
    tool_pid = getpid();
    atexit(leave_nothing);
    experiment.base = environment_base(&experiment.dropped);
    experiment.scratch = scratch_to_remove = make_scratch();
    start_experiment(&experiment);
    const int status = run_plan(&experiment);
    write_results(&experiment);
    free_experiment(&experiment);
    return status;
}
