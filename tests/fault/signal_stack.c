/* SPDX-License-Identifier: MIT */
/*
 * signal_stack: a dump is asked for while the thread is on an alternate signal stack that has 2 KiB beside
 * what the kernel needs, and while it has one but is not on it. What lies below that stack stays untouched.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/test.h"

/* What our handler needs beside the kernel's frame; the dump itself brings a stack along. */
enum { GUARD_BYTES = 65536, PAINT = 0x5a, HANDLER_BYTES = 2048 };

static void dump_inside(int signal)
{
    (void)signal;
    test_dump(SIGUSR1);
}

int main(void)
{
    size_t bytes = 2 * getauxval(AT_MINSIGSTKSZ) + HANDLER_BYTES; /* two handlers, one in the other */
    unsigned char *memory =
        mmap(NULL, GUARD_BYTES + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = {.ss_sp = memory + GUARD_BYTES, .ss_size = bytes};

    REQUIRE(memory != MAP_FAILED);
    memset(memory, PAINT, GUARD_BYTES);
    REQUIRE(sigaltstack(&alternate, NULL) == 0);
    REQUIRE(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = dump_inside, .sa_flags = SA_ONSTACK},
                      NULL) == 0);
    free(test_hide(malloc(4000)));
    test_dump(SIGUSR1);
    test_raise(SIGUSR2);
    REQUIRE(test_dump_count(getpid()) == 2);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        REQUIRE(memory[i] == PAINT);
    return 0;
}
