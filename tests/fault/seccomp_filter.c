/* SPDX-License-Identifier: MIT */
/*
 * seccomp_filter: after its start the program allows itself only a handful of system calls; any other
 * kills it. Allocations of our sizes, also those that need more address space or give pages back, need
 * no more than mmap, madvise(MADV_DONTNEED), futex and gettid.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/test.h"

enum { SLICES = 8000 };

#define DATA(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
/* Allows the call when the loaded number is this one. */
#define ALLOW_CALL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), ALLOW

static void forbid_the_rest(void)
{
    struct sock_filter filter[] = {
        DATA(nr),
        ALLOW_CALL(SYS_mmap),
        ALLOW_CALL(SYS_futex),
        ALLOW_CALL(SYS_gettid),
        ALLOW_CALL(SYS_write),
        ALLOW_CALL(SYS_exit_group),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        DATA(args[2]), /* the low half, on a little-endian machine */
        ALLOW_CALL(MADV_DONTNEED),
        KILL,
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(void)
{
    static void *slices[SLICES];

    forbid_the_rest();
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < SLICES; i++) {
            size_t bytes = 1100 + (i * 37) % 20000;

            slices[i] = i % 3 == 0 ? calloc(1, bytes) : i % 3 == 1 ? aligned_alloc(512, 8192) : malloc(bytes);
            REQUIRE((slices[i] = realloc(slices[i], bytes)) != NULL);
            test_fill(slices[i], bytes, i);
        }
        for (unsigned i = 0; i < SLICES; i++)
            free(slices[i]);
    }
    _exit(0);
}
