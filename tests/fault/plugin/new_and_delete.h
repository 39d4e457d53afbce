/* SPDX-License-Identifier: MIT */
/*
 * new_and_delete: uses every operator new and delete of C++17 with sizes of every owner, and what the
 * standard says about running out of memory. For a program and for a library that is loaded by one.
 */
#ifndef PINPOOL_TESTS_FAULT_NEW_AND_DELETE_H
#define PINPOOL_TESTS_FAULT_NEW_AND_DELETE_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace new_and_delete
{

/* The first condition that did not hold, or NULL. */
static const char *complaint;

static void require_at(bool holds, const char *text)
{
    if (!holds && complaint == nullptr)
        complaint = text;
}

#define HOLDS(condition) require_at((condition), #condition)

/* Sizes of the next allocator's, of both default pools, and of the next allocator's again. */
static const std::size_t sizes[] = {1, 16, 500, 1024, 1025, 2000, 4096, 4097, 10000, 32768, 32769, 200000};

static void *use(void *memory, std::size_t bytes, std::size_t alignment)
{
    HOLDS(memory != nullptr);
    HOLDS(reinterpret_cast<std::uintptr_t>(memory) % alignment == 0);
    if (memory != nullptr)
        std::memset(memory, 0x5a, bytes);
    return memory;
}

static void check_plain(std::size_t bytes)
{
    const std::size_t natural = bytes < 16 ? 8 : 16;

    ::operator delete(use(::operator new(bytes), bytes, natural));
    ::operator delete(use(::operator new(bytes), bytes, natural), bytes);
    ::operator delete(use(::operator new(bytes), bytes, natural), std::nothrow);
    ::operator delete[](use(::operator new[](bytes), bytes, natural));
    ::operator delete[](use(::operator new[](bytes), bytes, natural), bytes);
    ::operator delete[](use(::operator new[](bytes), bytes, natural), std::nothrow);
    ::operator delete(use(::operator new(bytes, std::nothrow), bytes, natural));
    ::operator delete[](use(::operator new[](bytes, std::nothrow), bytes, natural));
}

static void check_aligned(std::size_t bytes, std::size_t alignment)
{
    const std::align_val_t a{alignment};

    ::operator delete(use(::operator new(bytes, a), bytes, alignment), a);
    ::operator delete(use(::operator new(bytes, a), bytes, alignment), bytes, a);
    ::operator delete(use(::operator new(bytes, a), bytes, alignment), a, std::nothrow);
    ::operator delete[](use(::operator new[](bytes, a), bytes, alignment), a);
    ::operator delete[](use(::operator new[](bytes, a), bytes, alignment), bytes, a);
    ::operator delete[](use(::operator new[](bytes, a), bytes, alignment), a, std::nothrow);
    ::operator delete(use(::operator new(bytes, a, std::nothrow), bytes, alignment), a);
    ::operator delete[](use(::operator new[](bytes, a, std::nothrow), bytes, alignment), a);
}

template <typename Call> static bool throws_bad_alloc(Call call)
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static int handler_calls;

static void handle_no_memory()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

/* More than there can be: volatile, or the compiler would know. */
static void check_too_much()
{
    volatile std::size_t huge = PTRDIFF_MAX;
    const std::align_val_t a{64};

    HOLDS(throws_bad_alloc([&] { ::operator delete(::operator new(huge)); }));
    HOLDS(throws_bad_alloc([&] { ::operator delete[](::operator new[](huge)); }));
    HOLDS(throws_bad_alloc([&] { ::operator delete(::operator new(huge, a), a); }));
    HOLDS(throws_bad_alloc([&] { ::operator delete[](::operator new[](huge, a), a); }));
    HOLDS(::operator new(huge, std::nothrow) == nullptr);
    HOLDS(::operator new[](huge, std::nothrow) == nullptr);
    HOLDS(::operator new(huge, a, std::nothrow) == nullptr);
    HOLDS(::operator new[](huge, a, std::nothrow) == nullptr);
    handler_calls = 0;
    std::set_new_handler(handle_no_memory);
    HOLDS(throws_bad_alloc([&] { ::operator delete(::operator new(huge)); }));
    HOLDS(handler_calls == 3);
    HOLDS(std::get_new_handler() == nullptr);
}

/*
 * with_too_much: also what happens when there is no memory. Some allocators, built as C, end the process
 * where bad_alloc should be thrown.
 */
static const char *check(bool with_too_much)
{
    complaint = nullptr;
    for (std::size_t bytes : sizes) {
        check_plain(bytes);
        check_aligned(bytes, 32);
        check_aligned(bytes, 64);
        if (bytes > 1024) /* mimalloc 2.0.9 does not align smaller ones as far as this */
            check_aligned(bytes, 4096);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete (nullptr, std::size_t{16});
    if (with_too_much)
        check_too_much();
    return complaint;
}

} // namespace new_and_delete

#endif
