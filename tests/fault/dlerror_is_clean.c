/* SPDX-License-Identifier: MIT */
/* dlerror_is_clean: a program whose first question to the dynamic linker is dlerror() is told of no error. */
#include <dlfcn.h>
#include <stddef.h>

#include "../support/test.h"

int main(void)
{
    const char *error = dlerror();

    if (error != NULL)
        test_fail("# dlerror() at the start of main: %s", error);
    return 0;
}
