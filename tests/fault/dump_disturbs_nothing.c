/* SPDX-License-Identifier: MIT */
/*
 * dump_disturbs_nothing: dumps leave errno, the open descriptors, the mappings, the signal mask, the
 * working directory and the umask of the program as they are, also when all descriptors were closed
 * and reopened behind the library's back.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/test.h"

enum { DUMPS = 20, DESCRIPTORS_MAX = 1024 };

/* One byte for each descriptor: open or not. Asked one by one: opendir would open one itself. */
static void list_descriptors(char *is_open)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void dump_and_compare(void)
{
    static char before[DESCRIPTORS_MAX], after[DESCRIPTORS_MAX];
    sigset_t mask_before, mask_after;
    char *directory_before = getcwd(NULL, 0), *directory_after;
    mode_t umask_before = umask(0027);
    size_t mappings = test_mapping_count();

    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &mask_before) == 0);
    list_descriptors(before);
    for (unsigned i = 0; i < DUMPS; i++) {
        errno = TEST_ERRNO;
        test_dump(SIGUSR1);
        REQUIRE(errno == TEST_ERRNO);
    }
    list_descriptors(after);
    REQUIRE(memcmp(before, after, sizeof before) == 0);
    REQUIRE(test_mapping_count() <= mappings + 1); /* what a dump needs it may keep, once */
    REQUIRE(sigprocmask(SIG_BLOCK, NULL, &mask_after) == 0);
    for (int number = 1; number < NSIG; number++)
        REQUIRE(sigismember(&mask_before, number) == sigismember(&mask_after, number));
    REQUIRE(umask(umask_before) == 0027);
    directory_after = getcwd(NULL, 0);
    REQUIRE(directory_before != NULL && directory_after != NULL &&
            strcmp(directory_before, directory_after) == 0);
    free(directory_before);
    free(directory_after);
}

int main(void)
{
    free(test_hide(malloc(3000)));
    dump_and_compare();
    REQUIRE(test_dump_count(getpid()) == DUMPS);
    for (int fd = 3; fd < DESCRIPTORS_MAX; fd++) /* as a daemon does */
        close(fd);
    dump_and_compare();
    REQUIRE(test_dump_count(getpid()) == 2 * DUMPS);
    return 0;
}
