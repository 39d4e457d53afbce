/* SPDX-License-Identifier: MIT */
/*
 * plot: figures drawn by gnuplot, an external program. A plot is a script with its data in it,
 * DIR/plots/NAME.gp, that can be changed and drawn again, and NAME.svg and NAME.png beside it.
 */
#ifndef PINPOOL_CLI_AB_RESULT_PLOT_H
#define PINPOOL_CLI_AB_RESULT_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct plot {
    FILE *script;
    char *directory, *name;
    char *commands; /* the parts of the plot command, parted by ", " */
    unsigned blocks;
};

/* False when PINPOOL_GNUPLOT is set to nothing: nobody wants plots then, or misses them. */
bool plot_is_wanted(void);

/* NULL when gnuplot is there, or what PINPOOL_GNUPLOT names instead; else why nothing can be drawn, to be
 * freed. */
char *plot_reason_not_possible(void);

/* Begins DIR/plots/NAME.gp. Texts may hold anything; NULL for no title of an axis. Ends the tool when it
 * cannot be written. */
struct plot plot_begin(const char *directory, const char *name, const char *title, const char *x_title,
                       const char *y_title);

/* Any line of gnuplot's language that stands before the data. */
void plot_command(struct plot *plot, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Names a place of the x axis instead of its number. */
void plot_x_name(struct plot *plot, double at, const char *name);

/* Begins a data block; rows follow, then plot_end_data(). */
void plot_begin_data(struct plot *plot);
void plot_row(struct plot *plot, double x, double y);

/*
 * Ends it, and has it drawn: `how` is what stands behind the block in gnuplot's plot command ("using 1:2 with
 * lines"), `color` one of gnuplot's line types, `title` NULL for no entry in the legend.
 */
void plot_end_data(struct plot *plot, const char *how, unsigned color, const char *title);

/* The last block once more, drawn in another way too. */
void plot_again(struct plot *plot, const char *how, unsigned color, const char *title);

/* Draws it. Returns NULL, or why it could not, to be freed. Frees the plot. */
char *plot_end(struct plot *plot);

#endif
