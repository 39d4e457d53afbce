// SPDX-License-Identifier: MIT
//
// counts_operators_once: a request by operator new that is handed to the next allocator counts once, though
// the C++ runtime's operators behind ours call each other and malloc. Told from the counters of two dumps.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <unistd.h>

#include "../support/test.h"

namespace
{

enum { CALLS = 1000, SMALL_BYTES = 100, LARGE_BYTES = 100000 };

const std::align_val_t alignment{64};

struct passed {
    unsigned long small, large;
};

unsigned long counter_in(const char *dump, const char *name)
{
    char wanted[64];
    const char *at;

    std::strcpy(wanted, "\"name\":\"");
    std::strcat(wanted, name);
    REQUIRE((at = std::strstr(dump, wanted)) != nullptr);
    REQUIRE((at = std::strstr(at, "\"value\":")) != nullptr);
    return std::strtoul(at + std::strlen("\"value\":"), nullptr, 10);
}

// Nothing here allocates: it would be counted.
passed dump_and_read()
{
    static unsigned dumps;
    static char text[1 << 20];
    char path[512];
    ssize_t count;
    int fd;

    test_dump(SIGUSR1);
    test_dump_path(path, sizeof path, getpid(), ++dumps);
    REQUIRE((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
    REQUIRE((count = read(fd, text, sizeof text - 1)) > 0);
    close(fd);
    text[count] = '\0';
    return {counter_in(text, "passed_small"), counter_in(text, "passed_large")};
}

struct way {
    const char *name;
    void *(*allocate)(std::size_t bytes);
    void (*release)(void *memory);
};

void release_one(void *memory)
{
    ::operator delete(memory);
}

void release_array(void *memory)
{
    ::operator delete[](memory);
}

void release_aligned(void *memory)
{
    ::operator delete(memory, alignment);
}

void release_aligned_array(void *memory)
{
    ::operator delete[](memory, alignment);
}

const way ways[] = {
    {"new", [](std::size_t bytes) { return ::operator new(bytes); }, release_one},
    {"new[]", [](std::size_t bytes) { return ::operator new[](bytes); }, release_array},
    {"new nothrow", [](std::size_t bytes) { return ::operator new(bytes, std::nothrow); }, release_one},
    {"new[] nothrow", [](std::size_t bytes) { return ::operator new[](bytes, std::nothrow); }, release_array},
    {"new aligned", [](std::size_t bytes) { return ::operator new(bytes, alignment); }, release_aligned},
    {"new[] aligned", [](std::size_t bytes) { return ::operator new[](bytes, alignment); },
     release_aligned_array},
};

void count(const way &way, std::size_t bytes, passed expected)
{
    const passed before = dump_and_read();
    passed after;

    for (int i = 0; i < CALLS; i++)
        way.release(way.allocate(bytes));
    after = dump_and_read();
    if (after.small - before.small != expected.small || after.large - before.large != expected.large)
        test_fail("# %d calls of %s of %zu bytes count as %lu small and %lu large", CALLS, way.name, bytes,
                  after.small - before.small, after.large - before.large);
}

} // namespace

int main()
{
    for (const way &way : ways) {
        way.release(way.allocate(SMALL_BYTES)); // what it is looked up and set up with
        count(way, SMALL_BYTES, {CALLS, 0});
        count(way, LARGE_BYTES, {0, CALLS});
    }
    return 0;
}
