/* SPDX-License-Identifier: MIT */
/*
 * loads_cxx_plugin PLUGIN all|enough: a C program loads a C++ library into a scope of its own. Its operators
 * new and delete work, and with `all` throw and call handlers, as in a C++ program; then it is unloaded,
 * and loaded again.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../support/test.h"

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    for (unsigned round = 0; round < 3; round++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *symbol;
        const char *(*check)(int);
        const char *complaint;

        if (plugin == NULL)
            test_fail("# %s", dlerror());
        REQUIRE((symbol = dlsym(plugin, "check_new_and_delete")) != NULL);
        memcpy(&check, &symbol, sizeof check);
        complaint = check(strcmp(argv[2], "all") == 0);
        if (complaint != NULL)
            test_fail("# round %u: not so: %s", round, complaint);
        REQUIRE(dlclose(plugin) == 0);
        for (unsigned i = 0; i < 100; i++)
            free(test_hide(malloc(1000 + 300 * i)));
    }
    return 0;
}
