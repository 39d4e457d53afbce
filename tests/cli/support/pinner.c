/* SPDX-License-Identifier: MIT */
/*
 * pinner: pins blocks of 64 KiB, a known number with known live bytes, then prints "ready" and waits.
 *
 *   pinner BLOCKS [wipe] [block=SIGNAL] [exit]
 *
 * Sixteen slices of 4 KiB fill a block; of each block the first slice stays. The block carved last is
 * the current one, so BLOCKS - 1 are pinned. No stdio: its buffers would be slices too.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_BYTES = 65536, SLICE_BYTES = 4096, SLICES = BLOCK_BYTES / SLICE_BYTES };

extern char **environ;

static void wipe_environment(void)
{
    for (char **variable = environ; *variable; variable++)
        memset(*variable, 'x', strlen(*variable));
}

static void block_signal(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void pin(size_t blocks)
{
    char *slices[SLICES];
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < SLICES; i++) {
            slices[i] = malloc(SLICE_BYTES);
            if (!slices[i])
                abort();
            memset(slices[i], 1, SLICE_BYTES);
        }
        for (size_t i = 1; i < SLICES; i++)
            free(slices[i]);
    }
}

int main(int argc, char **argv)
{
    alarm(60);
    if (argc < 2)
        return 2;
    pin(strtoul(argv[1], NULL, 10));
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "wipe") == 0)
            wipe_environment();
        else if (strncmp(argv[i], "block=", 6) == 0)
            block_signal(atoi(argv[i] + 6));
        else if (strcmp(argv[i], "exit") == 0)
            return 0;
    }
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}
