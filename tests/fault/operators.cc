// SPDX-License-Identifier: MIT
//
// operators all|enough|hold|misuse
//
// all: every operator new and delete works as the standard says. enough: the same while there is enough
// memory. hold: keeps 100 slices of a medium size from each operator new, and asks for a dump, in which
// the script looks who served them. misuse: deletes one twice, after printing what the library must say.
#include <csignal>
#include <cstring>
#include <new>

#include "../support/test.h"
#include "plugin/new_and_delete.h"

enum { SLICES = 100, BYTES = 3000 };

static void hold_and_dump()
{
    const std::align_val_t a{64};

    for (int i = 0; i < SLICES; i++) {
        new_and_delete::use(::operator new(BYTES), BYTES, 16);
        new_and_delete::use(::operator new[](BYTES), BYTES, 16);
        new_and_delete::use(::operator new(BYTES, std::nothrow), BYTES, 16);
        new_and_delete::use(::operator new[](BYTES, std::nothrow), BYTES, 16);
        new_and_delete::use(::operator new(BYTES, a), BYTES, 64);
        new_and_delete::use(::operator new[](BYTES, a), BYTES, 64);
        new_and_delete::use(::operator new(BYTES, a, std::nothrow), BYTES, 64);
        new_and_delete::use(::operator new[](BYTES, a, std::nothrow), BYTES, 64);
    }
    test_dump(SIGUSR1);
}

static void misuse()
{
    void *slice = ::operator new(BYTES), *again = test_hide(slice);

    test_print("pinpool: operator delete(): double free of 0x%zx", reinterpret_cast<std::size_t>(slice));
    ::operator delete(slice);
    ::operator delete(again);
    test_fail("# the fault was not noticed");
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "all";
    const char *complaint = new_and_delete::check(std::strcmp(what, "all") == 0);

    if (complaint != nullptr)
        test_fail("# not so: %s", complaint);
    if (std::strcmp(what, "hold") == 0)
        hold_and_dump();
    if (std::strcmp(what, "misuse") == 0)
        misuse();
    return 0;
}
