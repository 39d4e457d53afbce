/* SPDX-License-Identifier: MIT */
/*
 * mappings: see mappings.h. Formats: proc(5) for /proc/pid/maps; elf(5) for headers and notes.
 */
#include "evidence/mappings.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "base/record.h"
#include "base/sys.h"

enum {
    LINE_BYTES = 4096 + 128, /* the longest path and what stands before it */
    NOTES_BYTES = 1024,
    HEADERS_MAX = 32,
    BUILD_ID_BYTES_MAX = 32,
};

struct mapping {
    uint64_t start, end, offset;
    bool is_executable;
    const char *path; /* "" without one */
};

static struct {
    char line[LINE_BYTES];
    char read_ahead[4096];
    size_t read_at, read_end;
    char object_path[LINE_BYTES]; /* of the last mapping that began its file */
    uint64_t object_start;
    _Alignas(8) char notes[NOTES_BYTES];
    ElfW(Phdr) headers[HEADERS_MAX];
} scratch;

/* ---- build ids ------------------------------------------------------------------------------- */

static bool read_memory(int memory, uint64_t address, void *bytes, size_t count)
{
    return sys_pread(memory, bytes, count, address) == (ssize_t)count;
}

/* Looks a build id up in notes of `size` bytes; its length, or 0. */
static size_t find_build_id(const char *notes, size_t size, const unsigned char **id)
{
    size_t at = 0;

    while (at + sizeof(ElfW(Nhdr)) <= size) {
        ElfW(Nhdr) note;
        size_t name_bytes, id_at;

        memcpy(&note, notes + at, sizeof note);
        name_bytes = align_up(note.n_namesz, 4);
        id_at = at + sizeof note + name_bytes;
        if (name_bytes > size || id_at > size || note.n_descsz > size - id_at)
            return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" &&
            memcmp(notes + at + sizeof note, "GNU", sizeof "GNU") == 0) {
            *id = (const unsigned char *)notes + id_at;
            return min_size(note.n_descsz, BUILD_ID_BYTES_MAX);
        }
        at = id_at + align_up(note.n_descsz, 4);
    }
    return 0;
}

/* `start` is where the object's first byte is mapped. */
static size_t read_build_id(int memory, uint64_t start, const unsigned char **id)
{
    ElfW(Ehdr) header;
    uint64_t bias;
    size_t count;

    if (memory < 0 || !read_memory(memory, start, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(ElfW(Phdr)))
        return 0;
    count = min_size(header.e_phnum, HEADERS_MAX);
    if (!read_memory(memory, start + header.e_phoff, scratch.headers, count * sizeof scratch.headers[0]))
        return 0;
    bias = header.e_type == ET_EXEC ? 0 : start;
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *segment = &scratch.headers[i];
        size_t bytes = min_size(segment->p_filesz, NOTES_BYTES);
        size_t length;

        if (segment->p_type != PT_NOTE || !read_memory(memory, bias + segment->p_vaddr, scratch.notes, bytes))
            continue;
        length = find_build_id(scratch.notes, bytes, id);
        if (length > 0)
            return length;
    }
    return 0;
}

/* ---- /proc/self/maps ------------------------------------------------------------------------- */

/* The next line without its newline, into scratch.line; what is too long is cut. */
static bool read_line(int maps)
{
    size_t used = 0;

    for (;;) {
        if (scratch.read_at == scratch.read_end) {
            ssize_t got = sys_read(maps, scratch.read_ahead, sizeof scratch.read_ahead);

            if (got <= 0)
                return false;
            scratch.read_at = 0;
            scratch.read_end = (size_t)got;
        }
        if (scratch.read_ahead[scratch.read_at] == '\n') {
            scratch.read_at++;
            scratch.line[used] = '\0';
            return true;
        }
        if (used + 1 < sizeof scratch.line)
            scratch.line[used++] = scratch.read_ahead[scratch.read_at];
        scratch.read_at++;
    }
}

static const char *parse_hex(const char *at, uint64_t *value)
{
    for (*value = 0;; at++) {
        if (*at >= '0' && *at <= '9')
            *value = *value << 4 | (uint64_t)(*at - '0');
        else if (*at >= 'a' && *at <= 'f')
            *value = *value << 4 | (uint64_t)(*at - 'a' + 10);
        else
            return at;
    }
}

/* "start-end rwxp offset major:minor inode    path" */
static bool parse_line(const char *line, struct mapping *mapping)
{
    const char *at = parse_hex(line, &mapping->start);

    if (*at++ != '-')
        return false;
    at = parse_hex(at, &mapping->end);
    if (*at++ != ' ' || strlen(at) < 6)
        return false;
    mapping->is_executable = at[2] == 'x';
    (void)parse_hex(at + 5, &mapping->offset);
    for (int fields = 0; fields < 4; fields++) { /* permissions, offset, device, inode */
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    mapping->path = at;
    return true;
}

static void write_mapping(struct out *out, const struct mapping *mapping, const unsigned char *id,
                          size_t id_bytes)
{
    char text[2 * BUILD_ID_BYTES_MAX + 1];

    for (size_t i = 0; i < id_bytes; i++) {
        text[2 * i] = "0123456789abcdef"[id[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
    }
    text[2 * id_bytes] = '\0';
    record_write_sigsafe(out, &record_map,
                         &(struct dump_map){.start = mapping->start,
                                            .end = mapping->end,
                                            .offset_bytes = mapping->offset,
                                            .build_id = text,
                                            .path = mapping->path});
}

void mappings_write_sigsafe(struct out *out, bool with_build_ids)
{
    int maps = sys_open("/proc/thread-self/maps", O_RDONLY, 0);
    int memory = with_build_ids ? sys_open("/proc/thread-self/mem", O_RDONLY, 0) : -1;
    struct mapping mapping;

    scratch.read_at = scratch.read_end = 0;
    scratch.object_path[0] = '\0';
    for (unsigned written = 0; maps >= 0 && written < MAPPINGS_MAX && read_line(maps);) {
        const unsigned char *id = NULL;
        size_t id_bytes = 0;

        if (!parse_line(scratch.line, &mapping))
            continue;
        if (mapping.offset == 0 && mapping.path[0] != '\0') {
            strcpy(scratch.object_path, mapping.path);
            scratch.object_start = mapping.start;
        }
        if (!mapping.is_executable || (mapping.path[0] != '/' && strcmp(mapping.path, "[vdso]") != 0))
            continue;
        if (strcmp(scratch.object_path, mapping.path) == 0)
            id_bytes = read_build_id(memory, scratch.object_start, &id);
        write_mapping(out, &mapping, id, id_bytes);
        written++;
    }
    if (maps >= 0)
        (void)sys_close(maps);
    if (memory >= 0)
        (void)sys_close(memory);
}
