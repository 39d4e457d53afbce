/* SPDX-License-Identifier: MIT */
/*
 * objects: see objects.h. Formats: elf(5); the GNU hash table as binutils writes it:
 *
 *   bucket_count  first_symbol  bloom_count  bloom_shift | bloom words | buckets | hashes
 *   A bucket holds the first symbol of its chain, 0 for none; a hash with its lowest bit set ends one.
 */
#include "base/objects.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

struct tables {
    const ElfW(Sym) *symbols;
    const char *texts;
    const uint32_t *gnu_hash, *hash;
    const ElfW(Half) *versions; /* of each symbol; NULL without */
};

/* The linker has added the load address to these already, but where the section is read-only (the vDSO). */
static const void *pointer_of(const struct link_map *object, const ElfW(Dyn) *entry)
{
    uintptr_t value = entry->d_un.d_ptr;

    return (const void *)(value < object->l_addr ? value + object->l_addr : value);
}

static struct tables read_tables(const struct link_map *object)
{
    struct tables tables = {.symbols = NULL};
    const ElfW(Dyn) *entry = object->l_ld;

    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            tables.symbols = pointer_of(object, entry);
        else if (entry->d_tag == DT_STRTAB)
            tables.texts = pointer_of(object, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            tables.gnu_hash = pointer_of(object, entry);
        else if (entry->d_tag == DT_VERSYM)
            tables.versions = pointer_of(object, entry);
        else if (entry->d_tag == DT_HASH)
            tables.hash = pointer_of(object, entry);
    }
    return tables;
}

/* A definition, and not one that is kept for programs linked against an older version. */
static bool is_definition(const struct tables *tables, uint32_t index, const char *name)
{
    enum { HIDDEN_VERSION = 0x8000 };
    const ElfW(Sym) *symbol = &tables->symbols[index];

    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           (!tables->versions || (tables->versions[index] & HIDDEN_VERSION) == 0) &&
           strcmp(tables->texts + symbol->st_name, name) == 0;
}

static const ElfW(Sym) *find_in_gnu_hash(const struct tables *tables, const char *name)
{
    const uint32_t *table = tables->gnu_hash;
    uint32_t bucket_count = table[0], first_symbol = table[1], bloom_count = table[2];
    const uint32_t *buckets = table + 4 + bloom_count * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *hashes = buckets + bucket_count;
    uint32_t hash = 5381;
    uint32_t index;

    for (const unsigned char *at = (const unsigned char *)name; *at != '\0'; at++)
        hash = hash * 33 + *at;
    if (bucket_count == 0)
        return NULL;
    index = buckets[hash % bucket_count];
    if (index < first_symbol)
        return NULL;
    for (;; index++) {
        uint32_t other = hashes[index - first_symbol];

        if ((other | 1) == (hash | 1) && is_definition(tables, index, name))
            return &tables->symbols[index];
        if ((other & 1) != 0)
            return NULL;
    }
}

static const ElfW(Sym) *find_symbol(const struct link_map *object, const char *name)
{
    struct tables tables = read_tables(object);

    if (!tables.symbols || !tables.texts)
        return NULL;
    if (tables.gnu_hash)
        return find_in_gnu_hash(&tables, name);
    if (tables.hash) /* the second word of the old table is the number of symbols */
        for (uint32_t index = 1; index < tables.hash[1]; index++)
            if (is_definition(&tables, index, name))
                return &tables.symbols[index];
    return NULL;
}

void *objects_symbol(const struct link_map *object, const char *symbol)
{
    const ElfW(Sym) *found = find_symbol(object, symbol);

    if (!found || ELF64_ST_TYPE(found->st_info) != STT_FUNC)
        return NULL;
    return (void *)(object->l_addr + found->st_value);
}

struct link_map *objects_find(const char *name)
{
    for (struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
        const char *slash = !object->l_name ? NULL : strrchr(object->l_name, '/');

        if (slash && strcmp(slash + 1, name) == 0)
            return object;
    }
    return NULL;
}

bool objects_define(const char *symbol)
{
    return objects_define_elsewhere(NULL, symbol);
}

/* The object with the highest load address that is not above `address`. */
static const struct link_map *holder_of(const void *address)
{
    const struct link_map *holder = NULL;

    for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next)
        if (object->l_addr <= (uintptr_t)address && (!holder || object->l_addr > holder->l_addr))
            holder = object;
    return holder;
}

bool objects_define_elsewhere(const void *address, const char *symbol)
{
    const struct link_map *holder = holder_of(address);

    for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next)
        if (object != holder && find_symbol(object, symbol))
            return true;
    return false;
}
