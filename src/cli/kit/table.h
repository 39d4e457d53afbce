/* SPDX-License-Identifier: MIT */
/* table: aligned columns on a terminal. Rows are collected first, for the widths. */
#ifndef PINPOOL_CLI_KIT_TABLE_H
#define PINPOOL_CLI_KIT_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "cli/kit/util.h"

enum table_side { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
    const char *heading;
    enum table_side side;
};

struct table {
    const struct table_column *columns;
    size_t column_count;
    char **cells; /* row after row */
    size_t cell_count;
};

/* `columns` is used until the table is printed. */
#define TABLE_OF(columns_array)                                                                              \
    {                                                                                                        \
        .columns = (columns_array), .column_count = sizeof(columns_array) / sizeof((columns_array)[0])       \
    }

/* Adds the next cell of the current row; control characters in it are made harmless. */
void table_add(struct table *table, const char *format, ...) PRINTF_LIKE(2, 3);
void table_add_bytes(struct table *table, uint64_t bytes);
void table_add_count(struct table *table, uint64_t count);

/* `numerator` / `denominator` with two decimals, or "-" where there is nothing to divide by. */
void table_add_ratio(struct table *table, uint64_t numerator, uint64_t denominator);

/* A bar of `amount` beside bars of at most `largest`: one '#' at least, unless it is zero. */
void table_add_bar(struct table *table, uint64_t amount, uint64_t largest);

/*
 * Prints it indented by two, with its headings, and frees what it holds. Columns without any text vanish; a
 * text wider than 256 stands out of its column.
 */
void table_print(struct table *table, FILE *to);

#endif
