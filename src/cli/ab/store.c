/* SPDX-License-Identifier: MIT */
/* store: see store.h. */
#include "cli/ab/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/ab/provenance.h"
#include "cli/kit/files.h"
#include "cli/kit/json.h"
#include "cli/kit/util.h"
#include "cli/system/library.h"
#include "cli/system/program.h"

enum {
    STORE_FORMAT = 1,
    PLAN_BYTES_MAX = 64 << 20,
    RUN_BYTES_MAX = 16 << 20, /* a line of runs.jsonl; most have 2 KiB, and the proof no fixed size */
};

/* ---- The directory ---- */

static char *default_name(void)
{
    char text[64];
    const time_t now = time(NULL);
    struct tm local;
    strftime(text, sizeof text, "pinpool-ab-%Y%m%d-%H%M%S", localtime_r(&now, &local));
    return must_copy_text(text);
}

static bool is_empty(const char *path)
{
    DIR *directory = opendir(path);
    bool has_entries = false;
    if (!directory)
        die("%s: %s", path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(directory));)
        has_entries |= strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return !has_entries;
}

static void make_directory(struct experiment *experiment)
{
    CLEANUP_FREE char *name =
        experiment->settings.out ? must_copy_text(experiment->settings.out) : default_name();
    experiment->out = must_absolute_path(name);
    CLEANUP_FREE char *reason = files_make_directory(experiment->out);
    if (reason)
        die("--out: %s", reason);
    if (!is_empty(experiment->out))
        die("--out=%s: it is not empty; --resume goes on with an experiment that is there", name);
    CLEANUP_FREE char *runs = must_format("%s/runs", experiment->out);
    if (mkdir(runs, 0777) != 0)
        die("%s: %s", runs, strerror(errno));
}

/* Two tools that append to one experiment would spoil it. */
static void open_log(struct experiment *experiment)
{
    CLEANUP_FREE char *path = must_format("%s/runs.jsonl", experiment->out);
    CLEANUP_FREE char *no_file = NULL;
    CLEANUP_CLOSE const int there = open_regular_file(path, UINT64_MAX, &no_file);
    if (there < 0 && access(path, F_OK) == 0)
        die("%s: %s", path, no_file);
    experiment->log_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (experiment->log_fd < 0)
        die("%s: %s", path, strerror(errno));
    if (flock(experiment->log_fd, LOCK_EX | LOCK_NB) != 0)
        die("%s: another pinpool ab is at work on it", experiment->out);
}

/* ---- The plan ---- */

/* The files whose content decides what is measured: resuming with others would mix two experiments. */
static void add_library_hashes(const struct experiment *experiment, struct json_object *libraries)
{
    if (experiment->pinpool)
        json_object_object_add(libraries, experiment->pinpool, provenance_of_file(experiment->pinpool));
    for (size_t i = 0; i < experiment->settings.arm_count; i++) {
        const char *library = experiment->settings.arms[i].library;
        if (library && !json_object_object_get_ex(libraries, library, NULL))
            json_object_object_add(libraries, library, provenance_of_file(library));
    }
}

static struct json_object *words_to_json(const struct settings *settings)
{
    struct json_object *words = json_object_new_array();
    for (size_t i = 0; i < settings->word_count; i++)
        json_object_array_add(words, json_object_new_string(settings->words[i]));
    return words;
}

static void find_pinpool(struct experiment *experiment)
{
    for (size_t i = 0; i < experiment->settings.arm_count && !experiment->pinpool; i++)
        if (experiment->settings.arms[i].kind != ARM_OFF)
            experiment->pinpool = library_find(experiment->settings.library);
}

void store_create(struct experiment *experiment)
{
    CLEANUP_FREE char *here = getcwd(NULL, 0);
    find_pinpool(experiment);
    make_directory(experiment);
    open_log(experiment);
    struct json_object *plan = json_object_new_object();
    struct json_object *libraries = json_object_new_object();
    add_library_hashes(experiment, libraries);
    json_add_u64(plan, "format", STORE_FORMAT);
    json_object_object_add(plan, "pinpool_version", json_object_new_string(PINPOOL_VERSION));
    json_add_u64(plan, "start_unix_ns", experiment->start_unix_ns);
    json_add_u64(plan, "seed", experiment->settings.seed);
    json_object_object_add(plan, "directory", here ? json_object_new_string(here) : NULL);
    json_object_object_add(plan, "words", words_to_json(&experiment->settings));
    json_object_object_add(plan, "libraries", libraries);
    json_object_object_add(plan, "machine", provenance_of_machine());
    CLEANUP_FREE char *program = program_find(experiment->settings.command[0]);
    json_object_object_add(plan, "program", program ? provenance_of_file(program) : NULL);
    struct result_file *result = files_open_result(experiment->out, "plan.json");
    fprintf(result->file, "%s\n", json_text(plan));
    files_close_result(result);
    experiment->provenance = plan;
}

/* ---- Going on ---- */

static struct json_object *must_get(struct json_object *json, const char *name, enum json_type type,
                                    const char *path)
{
    struct json_object *value;
    if (!json_object_object_get_ex(json, name, &value) || !json_object_is_type(value, type))
        die("%s: has no proper %s; not a plan of this pinpool", path, name);
    return value;
}

/* A command line that is given beside --resume has to say the same as the one that the experiment has. */
static void compare_words(const struct settings *given, char **words, size_t count)
{
    for (size_t i = 0; i < count || i < given->word_count; i++) {
        const char *theirs = i < count ? words[i] : "nothing";
        const char *ours = i < given->word_count ? given->words[i] : "nothing";
        if (i >= count || i >= given->word_count || strcmp(theirs, ours) != 0)
            die("--resume: the experiment was started with other arguments: %s, where there is %s now; "
                "--resume with "
                "--out alone takes them as they were",
                theirs, ours);
    }
}

static void take_words(struct experiment *experiment, struct json_object *json, const char *path)
{
    struct settings given = experiment->settings;
    const size_t count = json_object_array_length(json);
    char **words = must_allocate((count + 1) * sizeof *words);
    for (size_t i = 0; i < count; i++) {
        struct json_object *word = json_object_array_get_idx(json, i);
        if (!json_object_is_type(word, json_type_string))
            die("%s: has no proper words; not a plan of this pinpool", path);
        words[i] = must_copy_text(json_object_get_string(word));
    }
    if (given.word_count)
        compare_words(&given, words, count);
    settings_parse_words(&experiment->settings, words, count); /* keeps pointing into words */
    if (!experiment->settings.command)
        die("%s: has no command; not a plan of this pinpool", path);
    experiment->settings.out = given.out;
    experiment->settings.format = given.format;
    experiment->settings.resumes = true;
    free(words);
    settings_free(&given);
}

static void check_hashes(struct json_object *libraries)
{
    json_object_object_foreach(libraries, path, before)
    {
        struct json_object *hash;
        CLEANUP_FREE char *now = provenance_hash(path);
        if (json_object_object_get_ex(before, "sha256", &hash) && hash && now &&
            strcmp(json_object_get_string(hash), now) != 0)
            die("--resume: %s has changed since the experiment was started: what follows would be another "
                "experiment",
                path);
    }
}

static struct json_object *must_read_plan(const char *path)
{
    CLEANUP_FREE char *no_file = NULL;
    CLEANUP_CLOSE const int fd = open_regular_file(path, PLAN_BYTES_MAX, &no_file);
    struct json_object *plan = fd < 0 ? NULL : json_object_from_fd(fd);
    if (!plan)
        die("--resume: %s: %s", path, no_file ? no_file : "not a plan");
    return plan;
}

void store_open(struct experiment *experiment)
{
    experiment->out = must_absolute_path(experiment->settings.out);
    CLEANUP_FREE char *path = must_format("%s/plan.json", experiment->out);
    struct json_object *plan = must_read_plan(path);
    if (json_object_get_uint64(must_get(plan, "format", json_type_int, path)) != STORE_FORMAT)
        die("%s: written by another pinpool", path);
    take_words(experiment, must_get(plan, "words", json_type_array, path), path);
    experiment->settings.seed = json_object_get_uint64(must_get(plan, "seed", json_type_int, path));
    experiment->start_unix_ns = json_object_get_uint64(must_get(plan, "start_unix_ns", json_type_int, path));
    const char *directory = json_object_get_string(must_get(plan, "directory", json_type_string, path));
    if (chdir(directory) != 0)
        die("--resume: %s, where the experiment was started: %s", directory, strerror(errno));
    check_hashes(must_get(plan, "libraries", json_type_object, path));
    experiment->provenance = plan;
    find_pinpool(experiment);
    open_log(experiment);
}

/* ---- Runs ---- */

/* The metrics whose values are in seconds: only the output says that, and --resume has to know. */
static struct json_object *times_to_json(const struct metrics *metrics)
{
    struct json_object *times = json_object_new_object();
    for (size_t id = MEASURE_COUNT; id < measure_count(metrics); id++)
        if (strcmp(measure_unit(metrics, id), "s") == 0)
            json_object_object_add(times, measure_name(metrics, id), json_object_new_boolean(1));
    return times;
}

struct json_object *store_run_to_json(const struct experiment *experiment, const struct run *run)
{
    const struct metrics *metrics = &experiment->settings.metrics;
    struct json_object *json = json_object_new_object();
    struct json_object *values = json_object_new_object();
    json_add_u64(json, "run", run->index);
    json_add_u64(json, "round", run->round);
    json_add_text(json, "arm", run_arm(experiment, run)->name);
    json_object_object_add(json, "warmup", json_object_new_boolean(run->is_warmup));
    json_add_u64(json, "start_unix_ns", run->start_unix_ns);
    json_add_u64(json, "duration_ns", run->duration_ns);
    json_add_number(json, "load_average", run->load_average);
    json_add_number(json, "other_cores", run->other_cores);
    json_add_text(json, "failure", run->failure);
    json_add_text(json, "notes", run->notes);
    for (size_t id = 0; run->is_done && id < measure_count(metrics); id++)
        if (!isnan(run->values[id]))
            json_add_number(values, measure_name(metrics, id), run->values[id]);
    json_object_object_add(json, "values", values);
    json_object_object_add(json, "seconds", times_to_json(metrics));
    json_object_object_add(json, "proof", json_object_get(run->proof));
    return json;
}

char *store_append(struct experiment *experiment, const struct run *run)
{
    struct json_object *json = store_run_to_json(experiment, run);
    CLEANUP_FREE char *line = must_format("%s\n", json_text(json));
    json_object_put(json);
    const size_t length = strlen(line);
    const off_t before = lseek(experiment->log_fd, 0, SEEK_END);
    errno = 0;
    if (before >= 0 && write(experiment->log_fd, line, length) == (ssize_t)length &&
        fdatasync(experiment->log_fd) == 0)
        return NULL;
    const int error = errno ? errno : ENOSPC; /* a short write */
    if (before >= 0 && ftruncate(experiment->log_fd, before) != 0)
        warn_user("%s/runs.jsonl: %s", experiment->out,
                  strerror(errno)); /* its last line is cut then, and skipped */
    return must_format("%s/runs.jsonl: %s", experiment->out, strerror(error));
}

/* A member of that type; NULL when there is none. */
static struct json_object *member_of_type(struct json_object *json, const char *name, enum json_type type)
{
    struct json_object *value;
    return json_object_object_get_ex(json, name, &value) && json_object_is_type(value, type) ? value : NULL;
}

static bool is_number(struct json_object *value)
{
    return json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
}

/* NAN for what is no number: json_add_number() writes null for that. */
static double number_of(struct json_object *json, const char *name)
{
    struct json_object *value;
    return json_object_object_get_ex(json, name, &value) && is_number(value) ? json_object_get_double(value)
                                                                             : NAN;
}

static bool has_only_numbers(struct json_object *json)
{
    json_object_object_foreach(json, name, value)
    {
        (void)name;
        if (!is_number(value))
            return false;
    }
    return true;
}

/* The run of this plan that a line is about; NULL for a line that is none. */
static struct run *run_of_line(struct experiment *experiment, struct json_object *json)
{
    struct json_object *index = member_of_type(json, "run", json_type_int);
    struct json_object *arm = member_of_type(json, "arm", json_type_string);
    struct json_object *values = member_of_type(json, "values", json_type_object);
    if (!index || !arm || !values || !has_only_numbers(values))
        return NULL;
    const int64_t number = json_object_get_int64(index);
    if (number < 0 || (uint64_t)number >= experiment->run_count)
        return NULL;
    struct run *run = &experiment->runs[number];
    return strcmp(json_object_get_string(arm), run_arm(experiment, run)->name) == 0 ? run : NULL;
}

/* Only runs that have values: a failed one is done again. False for a line that is none of this plan's. */
static bool take_line(struct experiment *experiment, struct json_object *json)
{
    struct json_object *failure, *proof, *seconds;
    struct metrics *metrics = &experiment->settings.metrics;
    struct run *run = run_of_line(experiment, json);
    if (!run)
        return false;
    if (json_object_object_get_ex(json, "failure", &failure) && failure)
        return true;
    struct json_object *values = member_of_type(json, "values", json_type_object);
    struct json_object *start = member_of_type(json, "start_unix_ns", json_type_int);
    struct json_object *duration = member_of_type(json, "duration_ns", json_type_int);
    struct json_object *notes = member_of_type(json, "notes", json_type_string);
    if (!start || !duration || !notes)
        return false;
    run->is_done = true;
    run->start_unix_ns = json_object_get_uint64(start);
    run->duration_ns = json_object_get_uint64(duration);
    run->load_average = number_of(json, "load_average");
    run->other_cores = number_of(json, "other_cores");
    for (size_t id = 0; id < measure_count(metrics); id++) {
        run->values[id] = number_of(values, measure_name(metrics, id));
        if (json_object_object_get_ex(json, "seconds", &seconds) &&
            json_object_object_get_ex(seconds, measure_name(metrics, id), NULL))
            metrics_set_time(metrics, id);
    }
    free(run->notes);
    run->notes = must_copy_text(json_object_get_string(notes));
    if (json_object_object_get_ex(json, "proof", &proof))
        run->proof = json_object_get(proof);
    return true;
}

/* The next line with its newline, which the last one may lack; false at the end. Ends the tool at one that is
 * none. */
static bool must_get_line(char *line, FILE *file, const char *path, size_t number)
{
    if (!fgets(line, RUN_BYTES_MAX, file))
        return false;
    if (!strchr(line, '\n') && !feof(file))
        die("%s:%zu: not a run of this experiment", path, number);
    return true;
}

void store_load_runs(struct experiment *experiment)
{
    CLEANUP_FREE char *path = must_format("%s/runs.jsonl", experiment->out);
    CLEANUP_FREE char *no_file = NULL;
    CLEANUP_FCLOSE FILE *file = open_regular_stream(path, UINT64_MAX, &no_file);
    CLEANUP_FREE char *line = must_allocate(RUN_BYTES_MAX); /* what is not used of it takes no memory */
    off_t whole = 0;
    if (!file)
        die("%s: %s", path, no_file);
    for (size_t number = 1; must_get_line(line, file, path, number); number++) {
        if (!strchr(line, '\n')) {
            warn_user("%s:%zu: the line is cut; that run is done again", path, number);
            break;
        }
        struct json_object *json = json_tokener_parse(line);
        if (!json || !take_line(experiment, json))
            die("%s:%zu: not a run of this experiment", path, number);
        json_object_put(json);
        whole += (off_t)strlen(line);
    }
    if (ftruncate(experiment->log_fd, whole) != 0)
        die("%s: %s", path, strerror(errno));
}
