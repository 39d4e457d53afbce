/* SPDX-License-Identifier: MIT */
/*
 * grower: a service that takes GROW KiB more every 20 ms, and 8 MiB at the start. TERM says what it does on
 * SIGTERM: ignore, crash, or (else) end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end(int signal)
{
    const char *how = getenv("TERM_DOES");
    (void)signal;
    if (how && strcmp(how, "crash") == 0)
        abort();
    _exit(0);
}

static void take(size_t bytes)
{
    volatile char *memory = malloc(bytes ? bytes : 1); /* volatile, or the compiler leaves the stores out */
    for (size_t i = 0; memory && i < bytes; i++)
        memory[i] = 1;
}

int main(void)
{
    const char *grow = getenv("GROW"), *how = getenv("TERM_DOES");
    const size_t bytes = grow ? strtoul(grow, NULL, 10) << 10 : 0;
    signal(SIGTERM, how && strcmp(how, "ignore") == 0 ? SIG_IGN : end);
    take(8 << 20);
    puts("ready");
    fflush(stdout);
    for (;;) {
        take(bytes);
        usleep(20000);
    }
}
