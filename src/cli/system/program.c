/* SPDX-License-Identifier: MIT */
/* program: see program.h. */
#include "cli/system/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/kit/util.h"
#include "cli/system/elf.h"

enum {
    INTERPRETERS_MAX = 5, /* how many scripts may be each other's interpreter; the kernel's limit is near */
    SHEBANG_BYTES = 256   /* BINPRM_BUF_SIZE of Linux */
};

static bool is_executable_file(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* The first path that execvp() would try and that `fits`; to be freed. NULL when there is none. */
static char *search_path(const char *command, bool (*fits)(const char *path))
{
    if (strchr(command, '/'))
        return fits(command) ? must_copy_text(command) : NULL;
    const char *path = getenv("PATH");
    if (!path)
        path = "/bin:/usr/bin"; /* as execvp() of glibc */
    while (*command) {
        const size_t length = strcspn(path, ":");
        char *candidate =
            length ? must_format("%.*s/%s", (int)length, path, command) : must_copy_text(command);
        if (fits(candidate))
            return candidate;
        free(candidate);
        if (path[length] == '\0')
            return NULL;
        path += length + 1;
    }
    return NULL;
}

char *program_find(const char *command)
{
    return search_path(command, is_executable_file);
}

bool program_is_there(const char *command)
{
    CLEANUP_FREE char *path = search_path(command, is_there);
    return path;
}

/* The interpreter that a script's first line names, /bin/sh for a text without one, NULL for a binary. */
static char *interpreter_of(const char *path)
{
    char line[SHEBANG_BYTES + 1];
    CLEANUP_CLOSE const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd < 0 ? -1 : read(fd, line, SHEBANG_BYTES);
    if (got <= 0)
        return NULL;
    line[got] = '\0';
    if (strncmp(line, "#!", 2) != 0)
        return memchr(line, '\0', (size_t)got) ? NULL : must_copy_text("/bin/sh"); /* as execvp() does */
    const char *name = line + 2 + strspn(line + 2, " \t");
    return must_format("%.*s", (int)strcspn(name, " \t\n"), name);
}

/* Whether exec of this file changes who we are, so that the dynamic linker distrusts the environment. */
static bool changes_privileges(const char *path)
{
    struct stat file;
    struct statvfs filesystem;
    if (stat(path, &file) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    if (statvfs(path, &filesystem) == 0 && (filesystem.f_flag & ST_NOSUID))
        return false;
    const bool sets_uid = (file.st_mode & S_ISUID) && file.st_uid != getuid();
    const bool sets_gid = (file.st_mode & S_ISGID) && (file.st_mode & S_IXGRP) && file.st_gid != getgid();
    const bool has_capabilities = getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
    return sets_uid || sets_gid || has_capabilities;
}

static const char *bits_of(const struct elf_facts *facts)
{
    return facts->is_64_bit ? "64" : "32";
}

/* For a binary: what is executed in the end. */
static char *reason_of_binary(const char *path, const char *library)
{
    struct elf_facts program, preloaded;
    if (elf_read(path, &program) != 0 || elf_read(library, &preloaded) != 0)
        return NULL; /* something that exec may know how to run, or will refuse itself */
    if (program.is_64_bit != preloaded.is_64_bit)
        return must_format("%s is a %s-bit program, %s a %s-bit library", path, bits_of(&program), library,
                           bits_of(&preloaded));
    if (program.machine != preloaded.machine)
        return must_format("%s and %s are for different machines (ELF machines %u and %u)", path, library,
                           program.machine, preloaded.machine);
    if (program.interpreter[0] == '\0')
        return must_format("%s is statically linked: nothing can be preloaded into it", path);
    if (strstr(program.interpreter, "/ld-musl-"))
        return must_format("%s is linked with musl libc, %s with glibc", path, library);
    if (changes_privileges(path))
        return must_format(
            "%s changes its user, group or capabilities (setuid, setgid or file capabilities): "
            "the dynamic linker then ignores LD_PRELOAD",
            path);
    return NULL;
}

char *program_reason_not_to_preload(const char *path, const char *library)
{
    char *program = must_copy_text(path);
    for (int i = 0; i < INTERPRETERS_MAX; i++) {
        char *interpreter = interpreter_of(program);
        if (!interpreter)
            break;
        free(program);
        program = interpreter;
    }
    char *reason = reason_of_binary(program, library);
    free(program);
    return reason;
}

char *program_reason_no_library(const char *library)
{
    struct elf_facts facts;
    CLEANUP_FREE char *no_file = NULL;
    if (strpbrk(library, ": "))
        return must_format("%s: a path with a colon or a space cannot stand in LD_PRELOAD", library);
    CLEANUP_CLOSE const int fd = open_regular_file(library, UINT64_MAX, &no_file);
    if (fd < 0)
        return must_format("%s: %s", library, no_file);
    const int error = elf_read(library, &facts);
    if (error == -ENOEXEC)
        return must_format("%s: not a shared library of this machine", library);
    return error ? must_format("%s: %s", library, strerror(-error)) : NULL;
}
