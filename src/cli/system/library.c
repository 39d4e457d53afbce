/* SPDX-License-Identifier: MIT */
/* library: see library.h. */
#include "cli/system/library.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/util.h"
#include "cli/system/elf.h"
#include "cli/system/procfs.h"
#include "cli/system/program.h"

static char *checked_path(const char *path)
{
    char *absolute = must_absolute_path(path);
    CLEANUP_FREE char *reason = program_reason_no_library(absolute);
    if (reason)
        die("%s", reason);
    return absolute;
}

static char *own_directory(void)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        die("/proc/self/exe: %s", strerror(errno));
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    return must_copy_text(path);
}

/* Of several machines' libraries, ours: the one for which this program was built. */
static bool is_for_this_machine(const char *path)
{
    struct elf_facts ours, theirs;
    return elf_read("/proc/self/exe", &ours) == 0 && elf_read(path, &theirs) == 0 &&
           ours.machine == theirs.machine && ours.is_64_bit == theirs.is_64_bit;
}

static char *find_installed(void)
{
    static const char *const places[] = {"", "/../lib", "/../lib/*-linux-gnu*"};
    CLEANUP_FREE char *directory = own_directory();
    char *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !found; i++) {
        CLEANUP_FREE char *pattern = must_format("%s%s/libpinpool.so", directory, places[i]);
        glob_t matches = {0};
        if (glob(pattern, 0, NULL, &matches) == 0)
            for (size_t match = 0; match < matches.gl_pathc && !found; match++)
                if (is_for_this_machine(matches.gl_pathv[match]))
                    found = realpath(matches.gl_pathv[match], NULL);
        globfree(&matches);
    }
    if (!found)
        die("libpinpool.so is neither beside %s/pinpool nor in ../lib; say where with --lib or PINPOOL_LIB",
            directory);
    return found;
}

char *library_find(const char *given)
{
    if (given)
        return checked_path(given);
    const char *from_environment = getenv("PINPOOL_LIB");
    if (from_environment && *from_environment)
        return checked_path(from_environment);
    CLEANUP_FREE char *found = find_installed();
    return checked_path(found);
}

/* Remembers the directory of our own libc: distributions keep the other libraries there too. */
static void look_for_libc(const struct procfs_map *map, void *context)
{
    char **directory = context;
    const char *slash = strrchr(map->path, '/');
    if (!*directory && slash && strncmp(slash, "/libc.so", 8) == 0)
        *directory = must_format("%.*s", (int)(slash - map->path), map->path);
}

/* The first of the directories, parted by colons, that holds `name`; to be freed. */
static char *search_directories(const char *directories, const char *name)
{
    while (*directories) {
        const size_t length = strcspn(directories, ":");
        char *path = must_format("%.*s/%s", (int)length, directories, name);
        if (length && is_for_this_machine(path))
            return path;
        free(path);
        directories += length + (directories[length] == ':');
    }
    return NULL;
}

char *library_find_next(const char *name)
{
    if (strchr(name, '/'))
        return checked_path(name);
    CLEANUP_FREE char *libc_directory = NULL;
    procfs_visit_maps(getpid(), look_for_libc, &libc_directory);
    const char *first = getenv("LD_LIBRARY_PATH");
    CLEANUP_FREE char *directories = must_format("%s:%s:/usr/local/lib:/usr/lib:/lib", first ? first : "",
                                                 libc_directory ? libc_directory : "");
    CLEANUP_FREE char *path = search_directories(directories, name);
    if (path)
        return checked_path(path);
    die("%s: not found in the directories of libraries; give its path", name);
}
