// SPDX-License-Identifier: MIT
//
// starts_thread: a C++ library whose static constructor starts a thread and waits for it. The thread is the
// first to use operators new and delete, while the one that loads the library holds the dynamic linker's
// lock. For loads_cxx_plugin.c and cxx_loads_plugin.cc.
#include <cstddef>
#include <cstring>
#include <new>
#include <pthread.h>

namespace
{

const char *complaint = "the static constructor has run";

const char *use_operators()
{
    static const std::size_t sizes[] = {100, 3000, 20000, 100000};

    for (std::size_t bytes : sizes) {
        void *memory = ::operator new(bytes, std::nothrow);
        void *array = ::operator new[](bytes, std::nothrow);

        if (memory == nullptr || array == nullptr)
            return "the thread gets memory";
        std::memset(memory, 0x5a, bytes);
        std::memset(array, 0x5a, bytes);
        ::operator delete(memory, std::nothrow);
        ::operator delete[](array, std::nothrow);
    }
    return nullptr;
}

void *use_in_thread(void *)
{
    complaint = use_operators();
    return nullptr;
}

struct at_load {
    at_load()
    {
        pthread_t thread;

        if (pthread_create(&thread, nullptr, use_in_thread, nullptr) != 0 ||
            pthread_join(thread, nullptr) != 0)
            complaint = "a thread can be had";
    }
};

const at_load now;

} // namespace

extern "C" const char *check_new_and_delete(int with_too_much);

extern "C" const char *check_new_and_delete(int with_too_much)
{
    (void)with_too_much;
    return complaint;
}
