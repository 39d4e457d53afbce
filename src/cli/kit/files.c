/* SPDX-License-Identifier: MIT */
/* files: see files.h. */
#include "cli/kit/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/kit/util.h"

enum { TAIL_BYTES = 400, COPY_BYTES = 1 << 16 };

void files_remove_directory(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory) {
        util_close(&fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, entry->d_name, 0) != 0 && (errno == EISDIR || errno == EPERM)) {
            CLEANUP_FREE char *below = must_format("%s/%s", path, entry->d_name);
            files_remove_directory(below);
        }
    }
    closedir(directory);
    rmdir(path);
}

char *files_make_directory(const char *path)
{
    CLEANUP_FREE char *copy = must_copy_text(path);
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            return must_format("%s: %s", copy, strerror(errno));
        *slash = '/';
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return must_format("%s: %s", path, strerror(errno));
    struct stat file;
    if (stat(path, &file) != 0 || !S_ISDIR(file.st_mode))
        return must_format("%s: %s", path, strerror(ENOTDIR));
    return NULL;
}

bool files_read_line(const char *path, char *line, size_t line_bytes)
{
    CLEANUP_FCLOSE FILE *file = fopen(path, "re");
    if (!file || !fgets(line, (int)line_bytes, file))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

char *files_read_end(const char *path, size_t bytes_max, size_t *length)
{
    CLEANUP_FCLOSE FILE *file = fopen(path, "re");
    if (!file || fseeko(file, 0, SEEK_END) != 0)
        return NULL;
    const off_t size = ftello(file);
    const off_t from = size > (off_t)bytes_max ? size - (off_t)bytes_max : 0;
    if (size < 0 || fseeko(file, from, SEEK_SET) != 0)
        return NULL;
    char *text = must_allocate((size_t)(size - from) + 1);
    *length = fread(text, 1, (size_t)(size - from), file);
    text[*length] = '\0';
    return text;
}

char *files_read_tail(const char *path)
{
    size_t length;
    CLEANUP_FREE char *text = files_read_end(path, TAIL_BYTES, &length);
    if (!text)
        return must_copy_text("");
    while (length && strchr(" \n\t", text[length - 1]))
        length--;
    text[length] = '\0';
    return text_printable(text);
}

char *files_copy(const char *from, const char *to)
{
    char bytes[COPY_BYTES];
    CLEANUP_FCLOSE FILE *source = fopen(from, "re");
    if (!source)
        return must_format("%s: %s", from, strerror(errno));
    FILE *target = fopen(to, "we");
    if (!target)
        return must_format("%s: %s", to, strerror(errno));
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, source)) > 0;)
        fwrite(bytes, 1, got, target);
    const int has_failed = ferror(target) | ferror(source);
    if (fclose(target) != 0 || has_failed)
        return must_format("%s: %s", to, strerror(errno ? errno : EIO));
    return NULL;
}

/* On the heap: the stream keeps the addresses of its text and length. */
struct result_file *files_open_result(const char *directory, const char *name)
{
    struct result_file *result = must_allocate(sizeof *result);
    result->path = must_format("%s/%s", directory, name);
    result->file = open_memstream(&result->text, &result->bytes);
    if (!result->file)
        die("out of memory");
    return result;
}

/* 0 or -errno. */
static int write_whole(const char *path, const char *text, size_t bytes)
{
    CLEANUP_CLOSE const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    for (size_t written = 0; written < bytes;) {
        const ssize_t now = write(fd, text + written, bytes - written);
        if (now < 0 && errno != EINTR)
            return -errno;
        written += now > 0 ? (size_t)now : 0;
    }
    return 0;
}

void files_close_result(struct result_file *result)
{
    if (fclose(result->file) != 0)
        die("out of memory");
    CLEANUP_FREE char *temporary = must_format("%s.new", result->path);
    int error = write_whole(temporary, result->text, result->bytes);
    if (!error && rename(temporary, result->path) != 0)
        error = -errno;
    if (error) {
        unlink(temporary);
        die("%s: %s; the finished runs are in runs.jsonl beside it, --resume makes the results anew",
            result->path, strerror(-error));
    }
    free(result->text);
    free(result->path);
    free(result);
}

bool files_is_disk_full(const char *path)
{
    struct statvfs disk;
    return statvfs(path, &disk) == 0 && disk.f_blocks > 0 && disk.f_bavail == 0;
}
