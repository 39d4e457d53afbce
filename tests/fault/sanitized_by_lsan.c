/* SPDX-License-Identifier: MIT */
/*
 * sanitized_by_lsan: LeakSanitizer alone looks for pointers in the blocks that it knows. What only a block of
 * somebody else's points to would be reported as lost, and end the program with another status.
 */
#include <stdlib.h>
#include <string.h>

enum { POINTERS = 512 };

static char **table; /* of one of the library's sizes */

int main(void)
{
    table = malloc(POINTERS * sizeof *table);
    for (int i = 0; table != NULL && i < POINTERS; i++)
        table[i] = strdup("kept by the table alone");
    return table != NULL && strlen(table[POINTERS - 1]) > 0 ? 0 : 1;
}
