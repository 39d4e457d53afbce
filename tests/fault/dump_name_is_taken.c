/* SPDX-License-Identifier: MIT */
/*
 * dump_name_is_taken: where the next dumps would go a symbolic link waits, then a file of somebody
 * else's, then a FIFO. None of them is touched; the dump goes to the next free number.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/test.h"

static void write_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    REQUIRE(fd >= 0 && write(fd, "mine\n", 5) == 5 && close(fd) == 0);
}

static void require_untouched(const char *path)
{
    char text[16];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    REQUIRE(fd >= 0 && read(fd, text, sizeof text) == 5 && memcmp(text, "mine\n", 5) == 0 && close(fd) == 0);
}

int main(void)
{
    char target[512], path[512];
    struct stat status;
    pid_t pid = getpid();

    REQUIRE((size_t)snprintf(target, sizeof target, "%s/target", test_dump_dir()) < sizeof target);
    write_file(target);
    test_dump(SIGUSR1);
    REQUIRE(test_dump_last_seq(pid) == 1 && test_dump_count(pid) == 1);
    test_dump_path(path, sizeof path, pid, 2);
    REQUIRE(symlink(target, path) == 0);
    test_dump_path(path, sizeof path, pid, 3);
    write_file(path);
    test_dump_path(path, sizeof path, pid, 4);
    REQUIRE(mkfifo(path, 0644) == 0);
    test_dump(SIGUSR1);
    require_untouched(target);
    test_dump_path(path, sizeof path, pid, 3);
    require_untouched(path);
    test_dump_path(path, sizeof path, pid, 5);
    REQUIRE(lstat(path, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0600);
    REQUIRE(test_dump_count(pid) == 2);
    test_dump_path(path, sizeof path, pid, 3);
    REQUIRE(unlink(path) == 0); /* not dumps: the script would judge them */
    test_dump_path(path, sizeof path, pid, 2);
    REQUIRE(unlink(path) == 0);
    test_dump_path(path, sizeof path, pid, 4);
    REQUIRE(unlink(path) == 0);
    return 0;
}
