// SPDX-License-Identifier: MIT
// uses_new: a C++ library for loads_cxx_plugin.c.
#include "new_and_delete.h"

extern "C" const char *check_new_and_delete(int with_too_much);

extern "C" const char *check_new_and_delete(int with_too_much)
{
    return new_and_delete::check(with_too_much != 0);
}
