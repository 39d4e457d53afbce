/* SPDX-License-Identifier: MIT */
/*
 * operators: C++ new and delete.
 *
 * mimalloc and jemalloc define these themselves, so behind us they would serve every `new` without our
 * seeing it. Here sizes of ours come from the pool, addresses of ours go back to it, and everything else
 * goes to the definition behind us, if that is an allocator's. The C++ runtime's own would call malloc, which
 * is ours, so we call it ourselves. The runtime is needed only when memory is out, to call handlers and throw
 * std::bad_alloc; it may not be in the global scope at all (a C program that loads a C++ plug-in).
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/libc.h"
#include "base/objects.h"
#include "base/out.h"
#include "base/sys.h"
#include "preload/interpose.h"
#include "preload/next.h"
#include "preload/start.h"
#include "preload/thread.h"

/*
 * The runtime is looked for when it is needed and not before: the look-up takes the dynamic linker's lock,
 * which a thread that waits for us may hold (a static constructor in dlopen).
 */
static COLD void *find_in_runtimes(const char *symbol)
{
    static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
    int errno_of_program = errno;
    void *found = NULL;

    for (size_t i = 0; !found && i < sizeof runtimes / sizeof runtimes[0]; i++) {
        struct link_map *runtime = objects_find(runtimes[i]);

        if (runtime)
            found = objects_symbol(runtime, symbol);
    }
    errno = errno_of_program;
    return found;
}

/* No C++ runtime is to be found that could throw, and the caller may not be told in another way. */
static _Noreturn COLD void die_without_runtime(void)
{
    out_stderr_line_sigsafe("operator new: no memory, and no C++ runtime to throw std::bad_alloc");
    sys_abort();
}

/* The next definitions are the C++ runtime's own. Written once at start, with them. */
static _Atomic(bool) has_runtime_behind;

static void *allocate_plainly(size_t bytes, size_t alignment)
{
    return alignment > 1 ? memalign(alignment, bytes) : malloc(bytes);
}

/*
 * `parameters` are those of the operator, `arguments` their names to hand them on; NOTHROW operators
 * return NULL where the others throw. behind_SYMBOL is the next definition, NULL when there is none; it is
 * called for every request that is not ours if it is an allocator's, and else to throw.
 */
#define NEW(symbol, parameters, arguments, alignment, is_nothrow)                                            \
    static _Atomic(void *) behind_##symbol;                                                                  \
    EXPORT void *symbol parameters;                                                                          \
    EXPORT void *symbol parameters                                                                           \
    {                                                                                                        \
        void *(*behind)parameters;                                                                           \
        void *address;                                                                                       \
                                                                                                             \
        *(void **)(void *)&behind = load_relaxed(&behind_##symbol);                                          \
        if (behind && !load_relaxed(&has_runtime_behind)) {                                                  \
            address = interpose_take(bytes, alignment);                                                      \
            return address ? address : behind arguments;                                                     \
        }                                                                                                    \
        address = allocate_plainly(bytes, alignment);                                                        \
        if (likely(address))                                                                                 \
            return address;                                                                                  \
        if (!behind)                                                                                         \
            *(void **)(void *)&behind = find_in_runtimes(#symbol);                                           \
        if (behind)                                                                                          \
            return behind arguments;                                                                         \
        if (!(is_nothrow))                                                                                   \
            die_without_runtime();                                                                           \
        return NULL;                                                                                         \
    }

#define DELETE(symbol, parameters, arguments)                                                                \
    static _Atomic(void *) behind_##symbol;                                                                  \
    EXPORT void symbol parameters;                                                                           \
    EXPORT void symbol parameters                                                                            \
    {                                                                                                        \
        void(*behind) parameters;                                                                            \
                                                                                                             \
        if (interpose_give_back(address, "operator delete"))                                                 \
            return;                                                                                          \
        *(void **)(void *)&behind = load_relaxed(&behind_##symbol);                                          \
        if (behind && !load_relaxed(&has_runtime_behind))                                                    \
            behind arguments;                                                                                \
        else                                                                                                 \
            free(address);                                                                                   \
    }

/* The names are those of the Itanium C++ ABI for 64-bit size_t (m). */
NEW(_Znwm, (size_t bytes), (bytes), 1, false)
NEW(_Znam, (size_t bytes), (bytes), 1, false)
NEW(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *nothrow), (bytes, nothrow), 1, true)
NEW(_ZnamRKSt9nothrow_t, (size_t bytes, const void *nothrow), (bytes, nothrow), 1, true)
NEW(_ZnwmSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment), alignment, false)
NEW(_ZnamSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment), alignment, false)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void *nothrow),
    (bytes, alignment, nothrow), alignment, true)
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void *nothrow),
    (bytes, alignment, nothrow), alignment, true)

DELETE(_ZdlPv, (void *address), (address))
DELETE(_ZdaPv, (void *address), (address))
DELETE(_ZdlPvm, (void *address, size_t bytes), (address, bytes))
DELETE(_ZdaPvm, (void *address, size_t bytes), (address, bytes))
DELETE(_ZdlPvRKSt9nothrow_t, (void *address, const void *nothrow), (address, nothrow))
DELETE(_ZdaPvRKSt9nothrow_t, (void *address, const void *nothrow), (address, nothrow))
DELETE(_ZdlPvSt11align_val_t, (void *address, size_t alignment), (address, alignment))
DELETE(_ZdaPvSt11align_val_t, (void *address, size_t alignment), (address, alignment))
DELETE(_ZdlPvmSt11align_val_t, (void *address, size_t bytes, size_t alignment), (address, bytes, alignment))
DELETE(_ZdaPvmSt11align_val_t, (void *address, size_t bytes, size_t alignment), (address, bytes, alignment))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *address, size_t alignment, const void *nothrow),
       (address, alignment, nothrow))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *address, size_t alignment, const void *nothrow),
       (address, alignment, nothrow))

/* Is this the C++ runtime's own operator? The personality routine is in the object that throws. */
static bool is_of_runtime(const void *operator_new)
{
    const void *personality = next_find("__gxx_personality_v0");
    Dl_info of_new, of_personality;

    return personality && libc.dladdr(operator_new, &of_new) != 0 &&
           libc.dladdr(personality, &of_personality) != 0 && of_new.dli_fbase == of_personality.dli_fbase;
}

void operators_resolve(void)
{
    static const struct {
        const char *symbol;
        _Atomic(void *) *behind;
    } operators[] = {
        {"_Znwm", &behind__Znwm},
        {"_Znam", &behind__Znam},
        {"_ZnwmRKSt9nothrow_t", &behind__ZnwmRKSt9nothrow_t},
        {"_ZnamRKSt9nothrow_t", &behind__ZnamRKSt9nothrow_t},
        {"_ZnwmSt11align_val_t", &behind__ZnwmSt11align_val_t},
        {"_ZnamSt11align_val_t", &behind__ZnamSt11align_val_t},
        {"_ZnwmSt11align_val_tRKSt9nothrow_t", &behind__ZnwmSt11align_val_tRKSt9nothrow_t},
        {"_ZnamSt11align_val_tRKSt9nothrow_t", &behind__ZnamSt11align_val_tRKSt9nothrow_t},
        {"_ZdlPv", &behind__ZdlPv},
        {"_ZdaPv", &behind__ZdaPv},
        {"_ZdlPvm", &behind__ZdlPvm},
        {"_ZdaPvm", &behind__ZdaPvm},
        {"_ZdlPvRKSt9nothrow_t", &behind__ZdlPvRKSt9nothrow_t},
        {"_ZdaPvRKSt9nothrow_t", &behind__ZdaPvRKSt9nothrow_t},
        {"_ZdlPvSt11align_val_t", &behind__ZdlPvSt11align_val_t},
        {"_ZdaPvSt11align_val_t", &behind__ZdaPvSt11align_val_t},
        {"_ZdlPvmSt11align_val_t", &behind__ZdlPvmSt11align_val_t},
        {"_ZdaPvmSt11align_val_t", &behind__ZdaPvmSt11align_val_t},
        {"_ZdlPvSt11align_val_tRKSt9nothrow_t", &behind__ZdlPvSt11align_val_tRKSt9nothrow_t},
        {"_ZdaPvSt11align_val_tRKSt9nothrow_t", &behind__ZdaPvSt11align_val_tRKSt9nothrow_t},
    };

    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        void *found = next_find(operators[i].symbol);

        if (i == 0 && !found)
            return; /* who has one has all */
        if (i == 0)
            store_relaxed(&has_runtime_behind, is_of_runtime(found));
        store_relaxed(operators[i].behind, found);
    }
}
