/* SPDX-License-Identifier: MIT */
/* elf: the few facts of an executable file that decide whether a library can be preloaded into it. */
#ifndef PINPOOL_CLI_SYSTEM_ELF_H
#define PINPOOL_CLI_SYSTEM_ELF_H

#include <limits.h>
#include <stdbool.h>

struct elf_facts {
    unsigned machine; /* EM_X86_64, ... */
    bool is_64_bit;
    char interpreter[PATH_MAX]; /* the dynamic linker it asks for; "" in static programs and libraries */
};

/* Returns 0, -errno, or -ENOEXEC when the file is no ELF file of this machine's byte order. */
int elf_read(const char *path, struct elf_facts *facts);

#endif
