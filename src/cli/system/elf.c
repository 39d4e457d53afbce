/* SPDX-License-Identifier: MIT */
/*
 * elf: see elf.h. Both classes are read, so that "a 32-bit program" can be said rather than "not an
 * ELF file". The file may be anything: what it says of itself is only ever used within bounds.
 */
#include "cli/system/elf.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/util.h"

enum { PROGRAM_HEADERS_MAX = 256 };

/* Reads exactly `bytes` at `offset`. */
static int read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
    if (offset > INT64_MAX - bytes)
        return -ENOEXEC;
    const ssize_t got = pread(fd, to, bytes, (off_t)offset);
    if (got < 0)
        return -errno;
    return (size_t)got == bytes ? 0 : -ENOEXEC;
}

static int read_interpreter(int fd, uint64_t offset, uint64_t bytes, struct elf_facts *facts)
{
    if (bytes < 2 || bytes > sizeof facts->interpreter)
        return -ENOEXEC;
    const int error = read_at(fd, facts->interpreter, bytes, offset);
    facts->interpreter[bytes - 1] = '\0';
    return error;
}

static int read_64_bit(int fd, struct elf_facts *facts)
{
    Elf64_Ehdr header;
    int error = read_at(fd, &header, sizeof header, 0);
    if (error)
        return error;
    facts->machine = header.e_machine;
    if (header.e_phentsize != sizeof(Elf64_Phdr))
        return -ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum && i < PROGRAM_HEADERS_MAX; i++) {
        Elf64_Phdr segment;
        error = read_at(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment);
        if (error)
            return error;
        if (segment.p_type == PT_INTERP)
            return read_interpreter(fd, segment.p_offset, segment.p_filesz, facts);
    }
    return 0;
}

static int read_32_bit(int fd, struct elf_facts *facts)
{
    Elf32_Ehdr header;
    int error = read_at(fd, &header, sizeof header, 0);
    if (error)
        return error;
    facts->machine = header.e_machine;
    if (header.e_phentsize != sizeof(Elf32_Phdr))
        return -ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum && i < PROGRAM_HEADERS_MAX; i++) {
        Elf32_Phdr segment;
        error = read_at(fd, &segment, sizeof segment, header.e_phoff + (uint64_t)i * sizeof segment);
        if (error)
            return error;
        if (segment.p_type == PT_INTERP)
            return read_interpreter(fd, segment.p_offset, segment.p_filesz, facts);
    }
    return 0;
}

int elf_read(const char *path, struct elf_facts *facts)
{
    unsigned char ident[EI_NIDENT];
    const unsigned char our_order = BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
    memset(facts, 0, sizeof *facts);
    CLEANUP_CLOSE const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    const int error = read_at(fd, ident, sizeof ident, 0);
    if (error)
        return error;
    if (memcmp(ident, ELFMAG, SELFMAG) != 0 || ident[EI_DATA] != our_order)
        return -ENOEXEC;
    facts->is_64_bit = ident[EI_CLASS] == ELFCLASS64;
    return facts->is_64_bit ? read_64_bit(fd, facts) : read_32_bit(fd, facts);
}
