/* SPDX-License-Identifier: MIT */
/* progress: see progress.h. */
#include "cli/ab/run/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/kit/util.h"

struct progress progress_start(const struct experiment *experiment)
{
    return (struct progress){.experiment = experiment, .is_terminal = isatty(STDERR_FILENO)};
}

/* What is left, from how long each arm's runs have taken; 0 while nothing is known. */
static uint64_t guess_left_ns(const struct experiment *experiment)
{
    uint64_t left_ns = 0, all_ns = 0, all_done = 0;
    for (size_t i = 0; i < experiment->run_count; i++) {
        all_ns += experiment->runs[i].is_done ? experiment->runs[i].duration_ns : 0;
        all_done += experiment->runs[i].is_done;
    }
    for (size_t arm = 0; all_done && arm < experiment->settings.arm_count; arm++) {
        uint64_t ns = 0, done = 0, left = 0;
        for (size_t i = 0; i < experiment->run_count; i++) {
            const struct run *run = &experiment->runs[i];
            if (run->arm != arm)
                continue;
            ns += run->is_done ? run->duration_ns : 0;
            done += run->is_done;
            left += !run->is_done;
        }
        left_ns += left * (done ? ns / done : all_ns / all_done);
    }
    return left_ns;
}

void progress_show(struct progress *progress, const struct run *run)
{
    const struct experiment *experiment = progress->experiment;
    char left[UTIL_TEXT_MAX];
    if (!progress->is_terminal && progress->said_round == run->round + 1)
        return;
    progress->said_round = run->round + 1;
    const uint64_t left_ns = guess_left_ns(experiment);
    const unsigned rounds = experiment->settings.warmup + experiment->settings.rounds;
    CLEANUP_FREE char *arm = text_printable(run_arm(experiment, run)->name);
    fprintf(stderr, "%sround %u of %u%s, run %zu of %zu, arm %s%s%s%s",
            progress->is_terminal ? "\r\033[K" : "", run->round + 1, rounds,
            run->is_warmup ? " (warm-up)" : "", run->index + 1, experiment->run_count, arm,
            left_ns ? ", about " : "", left_ns ? format_ms(left, left_ns / NS_PER_MS) : "",
            left_ns ? " left" : "");
    if (!progress->is_terminal)
        fputc('\n', stderr);
    fflush(stderr);
    progress->is_shown = true;
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown && progress->is_terminal)
        fputs("\r\033[K", stderr);
    progress->is_shown = false;
}
