/* SPDX-License-Identifier: MIT */
/*
 * madvise_does_nothing [COMMAND...]: a filter answers 0 to madvise for the kernel, which hears nothing of it,
 * as emulators and small kernels do. Memory from calloc is zero all the same, with whatever was in it before.
 * With a command the filter is in force when that starts, so the advice about forks is a lie, too.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/test.h"

enum { SLICES = 1500, ROUNDS = 3, BYTES = 20000 };

static void take_madvise_away(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        exit(77);
}

int main(int argc, char **argv)
{
    static char *slices[SLICES];

    take_madvise_away();
    if (argc > 1) {
        execv(argv[1], argv + 1);
        test_fail("# %s: %s", argv[1], strerror(errno));
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SLICES; i++) {
            REQUIRE((slices[i] = malloc(BYTES)) != NULL);
            memset(slices[i], 0xa5, BYTES);
        }
        for (unsigned i = 0; i < SLICES; i++)
            free(slices[i]);
        malloc_trim(0);
        for (unsigned i = 0; i < SLICES; i++) {
            REQUIRE((slices[i] = calloc(1, BYTES)) != NULL);
            REQUIRE(test_is_zero(slices[i], BYTES));
        }
        for (unsigned i = 0; i < SLICES; i++)
            free(slices[i]);
    }
    return 0;
}
