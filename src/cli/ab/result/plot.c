/* SPDX-License-Identifier: MIT */
/* plot: see plot.h. */
#include "cli/ab/result/plot.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/files.h"
#include "cli/kit/util.h"
#include "cli/system/process.h"
#include "cli/system/program.h"

static const uint64_t draw_timeout_ns = 60 * NS_PER_S;

/* $PINPOOL_GNUPLOT, or gnuplot. */
static const char *program_name(void)
{
    const char *given = getenv("PINPOOL_GNUPLOT");
    return given ? given : "gnuplot";
}

bool plot_is_wanted(void)
{
    return *program_name() != '\0';
}

char *plot_reason_not_possible(void)
{
    CLEANUP_FREE char *program = program_find(program_name());
    return program ? NULL : must_format("%s was not found (apt-get install gnuplot-nox)", program_name());
}

/*
 * In single quotes a quote is doubled, and nothing else is special. A newline would end the command, and an
 * SVG may have no control characters.
 */
static void put_quoted(const char *text, FILE *to)
{
    CLEANUP_FREE char *printable = text_printable(text);
    fputc('\'', to);
    for (const char *at = printable; *at; at++) {
        if (*at == '\'')
            fputc('\'', to);
        fputc(*at, to);
    }
    fputc('\'', to);
}

static void put_title(const struct plot *plot, const char *command, const char *text)
{
    if (!text)
        return;
    fprintf(plot->script, "%s ", command);
    put_quoted(text, plot->script);
    fputc('\n', plot->script);
}

struct plot plot_begin(const char *directory, const char *name, const char *title, const char *x_title,
                       const char *y_title)
{
    struct plot plot = {.directory = must_format("%s/plots", directory),
                        .name = must_copy_text(name),
                        .commands = must_copy_text("")};
    CLEANUP_FREE char *path = must_format("%s/%s.gp", plot.directory, name);
    CLEANUP_FREE char *reason = files_make_directory(plot.directory);
    plot.script = reason ? NULL : fopen(path, "we");
    if (!plot.script)
        die("%s: %s", path, reason ? reason : strerror(errno));
    fprintf(plot.script,
            "# gnuplot -e \"set terminal svg; set output '%s.svg'\" %s.gp\n"
            "set termoption noenhanced\nset encoding utf8\nset grid ytics lc rgb '#dddddd'\nset border 3\n"
            "set tics nomirror\nset key outside right top\nset style fill transparent solid 0.25\n",
            name, name);
    put_title(&plot, "set title", title);
    put_title(&plot, "set xlabel", x_title);
    put_title(&plot, "set ylabel", y_title);
    return plot;
}

void plot_command(struct plot *plot, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(plot->script, format, arguments);
    va_end(arguments);
    fputc('\n', plot->script);
}

void plot_x_name(struct plot *plot, double at, const char *name)
{
    fputs("set xtics add (", plot->script);
    put_quoted(name, plot->script);
    fprintf(plot->script, " %g)\n", at);
}

void plot_begin_data(struct plot *plot)
{
    fprintf(plot->script, "$data%u << END_OF_DATA\n", ++plot->blocks);
}

void plot_row(struct plot *plot, double x, double y)
{
    if (isfinite(x) && isfinite(y))
        fprintf(plot->script, "%.9g %.9g\n", x, y);
}

void plot_end_data(struct plot *plot, const char *how, unsigned color, const char *title)
{
    fputs("END_OF_DATA\n", plot->script);
    plot_again(plot, how, color, title);
}

void plot_again(struct plot *plot, const char *how, unsigned color, const char *title)
{
    char *quoted = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&quoted, &size);
    if (!memory)
        die("out of memory");
    if (title)
        put_quoted(title, memory);
    fclose(memory);
    CLEANUP_FREE char *before = plot->commands;
    plot->commands = must_format("%s%s$data%u %s lt %u %s%s", before, *before ? ", \\\n  " : "", plot->blocks,
                                 how, color, title ? "title " : "notitle", title ? quoted : "");
    free(quoted);
}

/* One picture: gnuplot with its terminal set before the script. */
static char *draw(const struct plot *plot, const char *script, const char *terminal, const char *suffix)
{
    static char option[] = "-e";
    CLEANUP_FREE char *program = must_copy_text(program_name());
    CLEANUP_FREE char *errors = must_format("%s/.%s.err", plot->directory, plot->name);
    /* In gnuplot's double quotes a backslash is special, in single quotes only the quote is: by cd it needs
     * no path. */
    CLEANUP_FREE char *setup =
        must_format("set terminal %s; set output '%s.%s'", terminal, plot->name, suffix);
    static char run[] = "cd \"$1\" && exec \"$2\" \"$3\" \"$4\" \"$5\"";
    static char shell[] = "/bin/sh", shell_option[] = "-c", shell_name[] = "sh";
    CLEANUP_FREE char *directory = must_copy_text(plot->directory);
    CLEANUP_FREE char *file = must_copy_text(script);
    char *const argv[] = {shell,   shell_option, run,   shell_name, directory,
                          program, option,       setup, file,       NULL};
    const struct process_spec spec = {.argv = argv, .envp = environ, .output_path = errors};
    CLEANUP_FREE char *reason = process_run(&spec, draw_timeout_ns);
    CLEANUP_FREE char *tail = files_read_tail(errors);
    unlink(errors);
    return reason ? must_format("%s: %s.%s: %s", program, plot->name, suffix, *tail ? tail : reason) : NULL;
}

char *plot_end(struct plot *plot)
{
    CLEANUP_FREE char *script = must_format("%s.gp", plot->name);
    fprintf(plot->script, "plot %s\n", plot->commands);
    const int has_failed = ferror(plot->script);
    if (fclose(plot->script) != 0 || has_failed)
        die("%s/%s: %s", plot->directory, script, strerror(errno ? errno : EIO));
    char *reason = draw(plot, script, "svg size 900,480 background '#ffffff' font 'sans,12'", "svg");
    if (!reason)
        reason = draw(plot, script, "pngcairo size 1350,720 font 'sans,14'", "png");
    free(plot->directory);
    free(plot->name);
    free(plot->commands);
    return reason;
}
