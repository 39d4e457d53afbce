// SPDX-License-Identifier: MIT
//
// cxx_loads_plugin PLUGIN: a C++ program loads a C++ library. Nothing but the library uses the operators new
// and delete; what it says of them is the verdict.
#include <cstring>
#include <dlfcn.h>
#include <new>

#include "../support/test.h"

int main(int argc, char **argv)
{
    const char *(*check)(int);
    const char *complaint;
    void *plugin, *symbol;

    REQUIRE(argc == 2);
    REQUIRE(std::get_new_handler() == nullptr); // the C++ runtime is there from the start
    plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr)
        test_fail("# %s", dlerror());
    REQUIRE((symbol = dlsym(plugin, "check_new_and_delete")) != nullptr);
    std::memcpy(&check, &symbol, sizeof check);
    complaint = check(1);
    if (complaint != nullptr)
        test_fail("# not so: %s", complaint);
    return 0;
}
