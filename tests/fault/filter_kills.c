/* SPDX-License-Identifier: MIT */
/*
 * filter_kills: the program allows itself little more than to open, read and write files; for any other call
 * it is killed. It can be dumped all the same: the dump leaves out what takes more, and says so.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/test.h"

enum { SLICES = 3000, CHILD_MS = 20000 };

#define ALLOW_CALL(number)                                                                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* The last ones are the program's own, for the request that it sends itself. */
static void forbid_the_rest(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
        ALLOW_CALL(SYS_openat),
        ALLOW_CALL(SYS_read),
        ALLOW_CALL(SYS_write),
        ALLOW_CALL(SYS_close),
        ALLOW_CALL(SYS_getpid),
        ALLOW_CALL(SYS_gettid),
        ALLOW_CALL(SYS_mmap),
        ALLOW_CALL(SYS_madvise),
        ALLOW_CALL(SYS_rt_sigprocmask),
        ALLOW_CALL(SYS_rt_sigreturn),
        ALLOW_CALL(SYS_exit_group),
        ALLOW_CALL(SYS_getuid),
        ALLOW_CALL(SYS_rt_tgsigqueueinfo),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

int main(void)
{
    static void *slices[SLICES];
    pid_t pid = fork();
    int status;

    REQUIRE(pid >= 0);
    if (pid == 0) {
        forbid_the_rest();
        for (unsigned i = 0; i < SLICES; i++)
            REQUIRE((slices[i] = malloc(2000 + i)) != NULL);
        for (unsigned i = 0; i < SLICES; i++)
            if (i % 7 != 0)
                free(slices[i]);
        test_dump(SIGUSR1);
        _exit(0);
    }
    status = test_wait_child(pid, CHILD_MS);
    if (status == 77 << 8)
        return 77;
    if (status != 0)
        test_fail("# the filtered process ended with wait status %#x", (unsigned)status);
    REQUIRE(test_dump_count(pid) == 1);
    return 0;
}
