/* SPDX-License-Identifier: MIT */
/* next: see next.h. */
#include "preload/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "base/libc.h"
#include "base/objects.h"
#include "base/out.h"
#include "base/sys.h"

struct next next;

_Alignas(CACHE_LINE_BYTES) char bootstrap_arena[BOOTSTRAP_BYTES];
static _Atomic(size_t) bootstrap_used;

/* Before each piece its size, in a header as large as malloc's alignment. */
enum { HEADER_BYTES = 16 };

void *bootstrap_allocate(size_t bytes, size_t alignment)
{
    size_t room, used, start;

    alignment = max_size(alignment, HEADER_BYTES);
    if (bytes > BOOTSTRAP_BYTES || alignment > BOOTSTRAP_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    /* As much as the worst position could need, so that one addition takes it. */
    room = align_up(bytes, HEADER_BYTES) + alignment + HEADER_BYTES;
    used = atomic_fetch_add_explicit(&bootstrap_used, room, memory_order_relaxed);
    if (used > BOOTSTRAP_BYTES - room || room > BOOTSTRAP_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    start =
        align_up((uintptr_t)bootstrap_arena + used + HEADER_BYTES, alignment) - (uintptr_t)bootstrap_arena;
    *(size_t *)(void *)(bootstrap_arena + start - HEADER_BYTES) = bytes;
    return bootstrap_arena + start;
}

size_t bootstrap_size(const void *address)
{
    return *(const size_t *)(const void *)((const char *)address - HEADER_BYTES);
}

void *next_find(const char *name)
{
    static const char here;

    return objects_define_elsewhere(&here, name) ? dlsym(RTLD_NEXT, name) : NULL;
}

/* POSIX lets dlsym's result be a function; the detour over a void * slot avoids the cast ISO C lacks. */
static void find(const char *name, void *slot)
{
    *(void **)slot = next_find(name);
}

void next_resolve(void)
{
    if (!libc_find()) {
        out_stderr_line_sigsafe("no C library that we know: not glibc?");
        sys_abort();
    }
    find("malloc", &next.malloc);
    find("calloc", &next.calloc);
    find("realloc", &next.realloc);
    find("free", &next.free);
    find("memalign", &next.memalign);
    find("aligned_alloc", &next.aligned_alloc);
    find("posix_memalign", &next.posix_memalign);
    find("malloc_usable_size", &next.malloc_usable_size);
    find("malloc_trim", &next.malloc_trim);
    find("mallinfo2", &next.mallinfo2);
    find("mallinfo", &next.mallinfo);
    find("sigaction", &next.sigaction);
    find("signal", &next.signal);
    find("sysv_signal", &next.sysv_signal);
    find("sigset", &next.sigset);
    find("sigignore", &next.sigignore);
    find("siginterrupt", &next.siginterrupt);
    find("sigwait", &next.sigwait);
    find("sigtimedwait", &next.sigtimedwait);
    if (!next.malloc || !next.calloc || !next.realloc || !next.free || !next.memalign ||
        !next.aligned_alloc || !next.posix_memalign || !next.malloc_usable_size || !next.sigaction ||
        !next.sigwait || !next.sigtimedwait) {
        out_stderr_line_sigsafe("no allocator behind us: malloc was not found by dlsym(RTLD_NEXT)");
        sys_abort();
    }
}

const char *next_path(void)
{
    Dl_info info;
    void *address;

    *(void *(**)(size_t))(void *)&address = next.malloc;
    return libc.dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}
