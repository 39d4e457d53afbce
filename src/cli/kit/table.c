/* SPDX-License-Identifier: MIT */
/* table: see table.h. */
#include "cli/kit/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    BAR_WIDTH = 32,
    COLUMN_WIDTH_MAX = 256 /* beyond it, one long text would make every row long */
};

static void add_cell(struct table *table, char *text)
{
    table->cells = must_grow(table->cells, table->cell_count, sizeof *table->cells);
    table->cells[table->cell_count++] = text;
}

void table_add(struct table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = must_format_list(format, arguments);
    va_end(arguments);
    add_cell(table, text_printable(text));
    free(text);
}

void table_add_bytes(struct table *table, uint64_t bytes)
{
    char text[UTIL_TEXT_MAX];
    add_cell(table, must_copy_text(format_bytes(text, bytes)));
}

void table_add_count(struct table *table, uint64_t count)
{
    add_cell(table, must_format("%" PRIu64, count));
}

void table_add_ratio(struct table *table, uint64_t numerator, uint64_t denominator)
{
    add_cell(table, denominator ? must_format("%.2f", (double)numerator / (double)denominator)
                                : must_copy_text("-"));
}

void table_add_bar(struct table *table, uint64_t amount, uint64_t largest)
{
    size_t width = largest ? (size_t)((double)amount / (double)largest * BAR_WIDTH) : 0;
    if (width == 0 && amount > 0)
        width = 1;
    char *bar = must_allocate(width + 1);
    memset(bar, '#', width);
    add_cell(table, bar);
}

/* Columns that a terminal needs: UTF-8 continuation bytes take none. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* 0 when no row has a text there. */
static int column_width(const struct table *table, size_t column)
{
    int width = 0;
    for (size_t cell = column; cell < table->cell_count; cell += table->column_count) {
        const int cell_width = width_of(table->cells[cell]);
        if (cell_width > width)
            width = cell_width < COLUMN_WIDTH_MAX ? cell_width : COLUMN_WIDTH_MAX;
    }
    const int heading_width = width_of(table->columns[column].heading);
    return width && heading_width > width ? heading_width : width;
}

static void print_cell(const struct table *table, size_t column, int width, const char *text, FILE *to)
{
    if (width == 0)
        return;
    const int text_width = width_of(text);
    const int padding = text_width < width ? width - text_width : 0;
    if (table->columns[column].side == TABLE_RIGHT)
        fprintf(to, "  %*s%s", padding, "", text);
    else if (column + 1 < table->column_count)
        fprintf(to, "  %s%*s", text, padding, "");
    else if (*text)
        fprintf(to, "  %s", text); /* nothing behind it to be aligned */
}

void table_print(struct table *table, FILE *to)
{
    if (table->column_count == 0)
        return;
    CLEANUP_FREE int *widths = must_allocate(table->column_count * sizeof *widths);
    for (size_t column = 0; column < table->column_count; column++) {
        widths[column] = column_width(table, column);
        print_cell(table, column, widths[column], table->columns[column].heading, to);
    }
    for (size_t cell = 0; cell < table->cell_count; cell++) {
        const size_t column = cell % table->column_count;
        if (column == 0)
            fputc('\n', to);
        print_cell(table, column, widths[column], table->cells[cell], to);
        free(table->cells[cell]);
    }
    fputc('\n', to);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = 0;
}
