/* SPDX-License-Identifier: MIT */
/* library: where libpinpool.so is, and where another allocator's library is that shall stand behind it. */
#ifndef PINPOOL_CLI_SYSTEM_LIBRARY_H
#define PINPOOL_CLI_SYSTEM_LIBRARY_H

/*
 * The absolute path of libpinpool.so, to be freed: `given` (--lib) if it is not NULL, else $PINPOOL_LIB, else
 * beside this executable, in ../lib or in ../lib/<machine>-linux-gnu as seen from there. Ends the tool
 * with a sentence when there is none that could be preloaded.
 */
char *library_find(const char *given);

/*
 * The absolute path of the library `name`, to be freed: a path, or a bare name that is looked for where
 * the dynamic linker looks. Ends the tool with a sentence when there is none: the dynamic linker
 * would only warn and go on without it.
 */
char *library_find_next(const char *name);

#endif
