/* SPDX-License-Identifier: MIT */
/* libc: see libc.h. */
#include "base/libc.h"

#include "base/objects.h"
#include "base/out.h"
#include "base/sys.h"

struct libc libc;

/* In the C library or, before glibc 2.34, in those that are part of it now. */
static void *find(const char *name)
{
    static const char *const objects[] = {"libc.so.6", "libpthread.so.0", "libdl.so.2"};

    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        struct link_map *object = objects_find(objects[i]);
        void *found = object == NULL ? NULL : objects_symbol(object, name);

        if (found != NULL)
            return found;
    }
    return NULL;
}

/* The detour over a void * slot avoids a cast that ISO C lacks. */
static void must_find(const char *name, void *slot)
{
    void *found = find(name);

    if (found == NULL) {
        out_stderr_line_sigsafe("no C library that we know: not glibc?");
        sys_abort();
    }
    *(void **)slot = found;
}

void libc_find(void)
{
    must_find("clock_gettime", &libc.clock_gettime);
    must_find("madvise", &libc.madvise);
    must_find("munmap", &libc.munmap);
    must_find("getauxval", &libc.getauxval);
    must_find("secure_getenv", &libc.secure_getenv);
    must_find("sigaction", &libc.sigaction);
    must_find("pthread_key_create", &libc.key_create);
    must_find("pthread_setspecific", &libc.setspecific);
    must_find("__register_atfork", &libc.register_atfork);
    must_find("dladdr", &libc.dladdr);
}
