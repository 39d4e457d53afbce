/* SPDX-License-Identifier: MIT */
/* libc: see libc.h. */
#include "base/libc.h"

#include "base/objects.h"

struct libc libc;

/* In the C library or, before glibc 2.34, in those that are part of it now. */
static void *find(const char *name)
{
    static const char *const objects[] = {"libc.so.6", "libpthread.so.0", "libdl.so.2"};

    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        struct link_map *object = objects_find(objects[i]);
        void *found = !object ? NULL : objects_symbol(object, name);

        if (found)
            return found;
    }
    return NULL;
}

/* The detour over a void * slot avoids a cast that ISO C lacks. */
static bool find_into(const char *name, void *slot)
{
    return (*(void **)slot = find(name)) != NULL;
}

bool libc_find(void)
{
    return find_into("clock_gettime", &libc.clock_gettime) && find_into("madvise", &libc.madvise) &&
           find_into("munmap", &libc.munmap) && find_into("getauxval", &libc.getauxval) &&
           find_into("secure_getenv", &libc.secure_getenv) && find_into("sigaction", &libc.sigaction) &&
           find_into("pthread_key_create", &libc.key_create) &&
           find_into("pthread_setspecific", &libc.setspecific) &&
           find_into("__register_atfork", &libc.register_atfork) && find_into("dladdr", &libc.dladdr);
}
