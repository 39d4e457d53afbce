/* SPDX-License-Identifier: MIT */
/*
 * program: the file that a command would execute, and whether a preloaded library would arrive in
 * it. The dynamic linker ignores LD_PRELOAD silently where it does not apply; somebody who then
 * measures glibc twice would take it for "no difference".
 */
#ifndef PINPOOL_CLI_SYSTEM_PROGRAM_H
#define PINPOOL_CLI_SYSTEM_PROGRAM_H

#include <stdbool.h>

/*
 * The path that execvp() would find for `command`, to be freed; NULL when there is none, and exec will
 * say so itself.
 */
char *program_find(const char *command);

/* Whether there is a file of that name where execvp() looks, executable or not. */
bool program_is_there(const char *command);

/*
 * Why `library` would not be loaded into the program at `path`, a sentence to be freed; NULL when
 * nothing speaks against it. For a script it is the interpreter that counts.
 */
char *program_reason_not_to_preload(const char *path, const char *library);

/*
 * Why `library` is none that could be preloaded at all: no such file, no ELF file, a name that
 * LD_PRELOAD cannot hold. To be freed; NULL when it is good.
 */
char *program_reason_no_library(const char *library);

#endif
