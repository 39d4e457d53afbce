/* SPDX-License-Identifier: MIT */
/*
 * secure_execution LIBRARY: run by an ordinary user, from a copy that is setuid root. The dynamic
 * linker preloads nothing into such a process unless an administrator arranged it, so the library is
 * loaded by its path here. It must take no setting from the environment, write no file and leave the
 * signal alone; its family works. Exit status 77: the process is not in secure execution after all.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    struct sigaction action;
    void *(*allocate)(size_t);
    void (*release)(void *);
    void *library, *symbol, *slice;

    REQUIRE(argc == 2);
    if (getauxval(AT_SECURE) == 0)
        return 77;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        test_fail("# %s", dlerror());
    REQUIRE((symbol = dlsym(library, "malloc")) != NULL);
    memcpy(&allocate, &symbol, sizeof allocate);
    REQUIRE((symbol = dlsym(library, "free")) != NULL);
    memcpy(&release, &symbol, sizeof release);
    for (unsigned i = 0; i < 100; i++) {
        REQUIRE((slice = allocate(3000)) != NULL);
        test_fill(slice, 3000, i);
        release(slice);
    }
    REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    return 0;
}
