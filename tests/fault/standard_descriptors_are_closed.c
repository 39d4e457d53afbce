/* SPDX-License-Identifier: MIT */
/*
 * standard_descriptors_are_closed FILE: started with 0, 1 and 2 closed. The program's own file lands
 * on descriptor 0, 1 or 2, and nothing that the library does writes into it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    struct stat status;
    int fds[3];

    if (argc != 2)
        return 2;
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 3; /* somebody opened one before main */
    for (int i = 0; i < 3; i++) {
        fds[i] = open(argv[1], O_RDWR | O_CREAT, 0600);
        if (fds[i] != i)
            return 4;
    }
    for (unsigned i = 0; i < 1000; i++)
        free(test_hide(malloc(1000 + 30 * i)));
    test_dump(SIGUSR1);
    if (fstat(2, &status) != 0)
        return 5;
    if (status.st_size != 0)
        return 6;
    if (test_dump_count(getpid()) != 1)
        return 7;
    return 0;
}
