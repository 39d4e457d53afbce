// SPDX-License-Identifier: MIT
//
// containers: a C++ program that lives on operator new and delete of every kind. It checks itself
// and prints one line a part; each line depends only on the arguments, never on timing or addresses.
// Usage: containers ROUNDS [no-bad-alloc]
// no-bad-alloc leaves out requests that no allocator can serve.
//
// Every thread works on a generator of its own, and what threads hand to each other is summed up in
// a way that does not depend on order, so the output is the same in every run.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <forward_list>
#include <functional>
#include <future>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <queue>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace
{

// A linear congruential generator with Knuth's MMIX constants: the same numbers with every library.
class Numbers
{
  public:
    explicit Numbers(uint64_t seed) : state_(seed * 2654435761u + 1)
    {
    }

    // A number in [low, high].
    size_t between(size_t low, size_t high)
    {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return low + static_cast<size_t>(state_ >> 33) % (high - low + 1);
    }

  private:
    uint64_t state_;
};

// FNV-1a, 64 bits.
uint64_t digest(const void *data, size_t bytes, uint64_t value = 14695981039346656037u)
{
    const unsigned char *byte = static_cast<const unsigned char *>(data);
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ byte[i]) * 1099511628211u;
    return value;
}

uint64_t digest(const std::string &text, uint64_t value = 14695981039346656037u)
{
    return digest(text.data(), text.size(), value);
}

[[noreturn]] void fail(const char *what)
{
    std::printf("FAILED: %s\n", what);
    std::fflush(stdout);
    std::_Exit(1);
}

void report(const char *part, uint64_t value)
{
    std::printf("%s %016llx\n", part, static_cast<unsigned long long>(value));
}

std::string make_text(Numbers &numbers, size_t bytes)
{
    std::string text;
    while (text.size() < bytes)
        text += static_cast<char>('a' + numbers.between(0, 25));
    return text;
}

uint64_t use_sequences(uint64_t seed)
{
    Numbers numbers(seed);
    uint64_t value = 1;
    std::vector<std::string> strings;
    std::deque<std::vector<uint32_t>> queue;
    std::list<std::array<char, 3000>> nodes;
    std::forward_list<std::string> chain;
    for (int i = 0; i < 400; i++) {
        strings.push_back(make_text(numbers, numbers.between(1, 9000)));
        queue.emplace_back(numbers.between(1, 5000), static_cast<uint32_t>(i));
        nodes.emplace_back().fill(static_cast<char>(i));
        chain.push_front(strings.back().substr(strings.back().size() / 2));
        if (queue.size() > 50)
            queue.pop_front();
        if (nodes.size() > 60)
            nodes.erase(std::next(nodes.begin(), static_cast<long>(numbers.between(0, 59))));
        if (i % 7 == 0)
            strings.erase(strings.begin() + static_cast<long>(numbers.between(0, strings.size() - 1)));
    }
    std::sort(strings.begin(), strings.end());
    strings.shrink_to_fit();
    for (const std::string &text : strings)
        value = digest(text, value);
    for (const std::vector<uint32_t> &run : queue)
        value = digest(run.data(), run.size() * sizeof run[0], value);
    for (const std::array<char, 3000> &node : nodes)
        value = digest(node.data(), node.size(), value);
    chain.sort();
    for (const std::string &text : chain)
        value = digest(text, value);
    return value;
}

uint64_t use_trees_and_tables(uint64_t seed)
{
    Numbers numbers(seed);
    std::map<std::string, std::vector<char>> tree;
    std::unordered_map<uint64_t, std::string> table;
    std::multiset<std::string> bag;
    for (int i = 0; i < 3000; i++) {
        uint64_t key = numbers.between(0, 700);
        tree["key " + std::to_string(key)].resize(numbers.between(1, 20000), static_cast<char>(key));
        table[key] = make_text(numbers, numbers.between(1000, 2400));
        bag.insert(table[key].substr(0, 1100));
        if (i % 3 == 0) {
            tree.erase("key " + std::to_string(numbers.between(0, 700)));
            table.erase(numbers.between(0, 700));
        }
        if (bag.size() > 300)
            bag.erase(bag.begin());
    }
    table.rehash(20000);
    uint64_t value = 2;
    for (const auto &[key, body] : tree) {
        if (std::count(body.begin(), body.end(), body.front()) != static_cast<long>(body.size()))
            fail("a map's body holds what nobody wrote");
        value = digest(body.data(), body.size(), digest(key, value));
    }
    std::vector<uint64_t> keys;
    for (const auto &entry : table)
        keys.push_back(entry.first);
    std::sort(keys.begin(), keys.end());
    for (uint64_t key : keys)
        value = digest(table.at(key), value);
    for (const std::string &text : bag)
        value = digest(text, value);
    return value;
}

// Every form of new and delete that a program can reach: plain, array, nothrow, sized, aligned.
template <size_t alignment> struct alignas(alignment) Aligned {
    unsigned char bytes[alignment * 3];
};

template <size_t alignment> void use_alignment()
{
    std::vector<std::unique_ptr<Aligned<alignment>>> kept;
    for (int i = 0; i < 200; i++) {
        kept.push_back(std::make_unique<Aligned<alignment>>());
        if (reinterpret_cast<uintptr_t>(kept.back().get()) % alignment != 0)
            fail("aligned new is not aligned");
        std::memset(kept.back().get(), i, sizeof *kept.back());
        if (kept.size() > 20)
            kept.erase(kept.begin() + i % 20);
    }
    std::unique_ptr<Aligned<alignment>[]> array(new (std::nothrow) Aligned<alignment>[5]);
    if (!array || reinterpret_cast<uintptr_t>(array.get()) % alignment != 0)
        fail("nothrow aligned array new is not aligned");
}

// Alignments beyond 128 are left to use_alignment: mimalloc 2.0.9 by itself misaligns 1,024 bytes
// aligned to 256, and requests of that size go to whatever allocator stands behind us.
void use_plain_forms()
{
    for (size_t bytes :
         std::initializer_list<size_t>{0, 1, 1024, 1025, 4096, 4097, 16384, 32768, 32769, 131072, 400000}) {
        void *one = ::operator new(bytes);
        void *two = ::operator new[](bytes);
        void *three = ::operator new(bytes, std::nothrow);
        void *four = ::operator new[](bytes, std::nothrow);
        void *five = ::operator new(bytes, std::align_val_t(64));
        void *six = ::operator new[](bytes, std::align_val_t(128), std::nothrow);
        if (!one || !two || !three || !four || !five || !six)
            fail("operator new gives null");
        if (reinterpret_cast<uintptr_t>(five) % 64 != 0 || reinterpret_cast<uintptr_t>(six) % 128 != 0)
            fail("operator new with an alignment is not aligned");
        std::memset(one, 1, bytes);
        std::memset(six, 6, bytes);
        ::operator delete(one);
        ::operator delete[](two, bytes);
        ::operator delete(three, std::nothrow);
        ::operator delete[](four, std::nothrow);
        ::operator delete(five, bytes, std::align_val_t(64));
        ::operator delete[](six, std::align_val_t(128), std::nothrow);
    }
    ::operator delete(nullptr);
}

void use_too_large_requests()
{
    volatile size_t too_much = SIZE_MAX / 2 + 100;
    if (::operator new(too_much, std::nothrow))
        fail("operator new gives half the address space");
    try {
        ::operator delete(::operator new(too_much));
        fail("operator new does not throw");
    } catch (const std::bad_alloc &) {
    }
}

// Exceptions whose objects and messages are of our sizes, through several frames and threads.
class Trouble : public std::runtime_error
{
  public:
    Trouble(const std::string &text, size_t weight) : std::runtime_error(text), ballast_(weight, 'x')
    {
    }
    size_t weight() const
    {
        return ballast_.size();
    }

  private:
    std::string ballast_;
};

size_t throw_deep(Numbers &numbers, int depth)
{
    std::string local = make_text(numbers, numbers.between(1000, 3000));
    if (depth == 0)
        throw Trouble(local + local, numbers.between(1025, 30000));
    try {
        return throw_deep(numbers, depth - 1) + local.size();
    } catch (const std::exception &) {
        std::throw_with_nested(Trouble(local, local.size()));
    }
}

size_t weigh(const std::exception &error)
{
    size_t weight = std::strlen(error.what());
    if (const Trouble *trouble = dynamic_cast<const Trouble *>(&error))
        weight += trouble->weight();
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        weight += weigh(inner);
    }
    return weight;
}

uint64_t use_exceptions(uint64_t seed)
{
    Numbers numbers(seed);
    uint64_t weight = 0;
    for (int i = 0; i < 60; i++) {
        try {
            throw_deep(numbers, 8);
        } catch (const std::exception &error) {
            weight += weigh(error);
        }
        std::promise<std::string> promise;
        std::future<std::string> future = promise.get_future();
        std::thread thrower([&promise, i] {
            try {
                throw Trouble(std::string(2000 + static_cast<size_t>(i), 'p'), 5000);
            } catch (...) {
                promise.set_exception(std::current_exception());
            }
        });
        thrower.join();
        try {
            future.get();
            fail("a promise lost its exception");
        } catch (const Trouble &trouble) {
            weight += trouble.weight() + std::strlen(trouble.what());
        }
    }
    return weight;
}

uint64_t use_text(uint64_t seed)
{
    Numbers numbers(seed);
    std::ostringstream out;
    for (int i = 0; i < 3000; i++)
        out << "field" << i << "=" << numbers.between(0, 1000000) << (i % 9 ? ";" : "\n");
    std::string text = out.str();
    std::regex pair("field(\\d+)=(\\d*7)[;\n]");
    uint64_t value = digest(text);
    for (std::sregex_iterator hit(text.begin(), text.end(), pair), end; hit != end; ++hit)
        value = digest((*hit)[2].str(), value);
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        value = digest(line, value);
    std::array<std::byte, 2048> buffer;
    std::pmr::monotonic_buffer_resource arena(buffer.data(), buffer.size());
    std::pmr::vector<std::pmr::string> pieces(&arena);
    for (size_t i = 0; i < 500; i++)
        pieces.emplace_back(text.substr(i * 20, 15 + i));
    for (const std::pmr::string &piece : pieces)
        value = digest(piece.data(), piece.size(), value);
    return value;
}

// Producers fill buffers, consumers check and free them: frees by other threads, all the time.
struct Parcel {
    std::vector<unsigned char> body;
    std::shared_ptr<std::string> label;
};

class Belt
{
  public:
    void put(std::unique_ptr<Parcel> parcel)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return parcels_.size() < 64; });
        parcels_.push(std::move(parcel));
        changed_.notify_all();
    }

    std::unique_ptr<Parcel> take()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return !parcels_.empty(); });
        std::unique_ptr<Parcel> parcel = std::move(parcels_.front());
        parcels_.pop();
        changed_.notify_all();
        return parcel;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::queue<std::unique_ptr<Parcel>> parcels_;
};

uint64_t consume(Belt &belt)
{
    uint64_t sum = 0;
    while (std::unique_ptr<Parcel> parcel = belt.take()) {
        unsigned char expected = static_cast<unsigned char>(parcel->body.size() * 31);
        for (unsigned char byte : parcel->body)
            if (byte != expected)
                fail("a buffer changed between two threads");
        sum += parcel->body.size() + parcel->label->size();
    }
    return sum;
}

void produce(Belt &belt, uint64_t seed)
{
    Numbers numbers(seed);
    std::shared_ptr<std::string> label;
    for (int i = 0; i < 4000; i++) {
        size_t bytes = numbers.between(1, 33000);
        if (i % 10 == 0)
            label = std::make_shared<std::string>(numbers.between(900, 2500), 'l');
        std::unique_ptr<Parcel> parcel = std::make_unique<Parcel>();
        parcel->body.assign(bytes, static_cast<unsigned char>(bytes * 31));
        parcel->label = label;
        belt.put(std::move(parcel));
    }
}

uint64_t use_producers_and_consumers(uint64_t seed)
{
    Belt belt;
    std::vector<std::future<uint64_t>> consumers;
    std::vector<std::thread> producers;
    for (int i = 0; i < 3; i++)
        consumers.push_back(std::async(std::launch::async, consume, std::ref(belt)));
    for (uint64_t i = 0; i < 3; i++)
        producers.emplace_back(produce, std::ref(belt), seed * 3 + i);
    for (std::thread &producer : producers)
        producer.join();
    for (int i = 0; i < 3; i++)
        belt.put(nullptr);
    uint64_t sum = 0;
    for (std::future<uint64_t> &consumer : consumers)
        sum += consumer.get();
    return sum;
}

// Threads that come and go, each with thread_local state of our sizes whose destructor frees it.
struct Local {
    std::vector<char> body = std::vector<char>(6000, 't');
    std::string text = std::string(1500, 'u');
};

uint64_t visit_thread_local(size_t i)
{
    thread_local Local local;
    local.body.resize(1000 + i * 300, 'v');
    return local.body.size() + local.text.size();
}

uint64_t use_short_threads()
{
    std::mutex mutex;
    std::vector<std::string> left_behind; // freed here, by the main thread, after their makers died
    uint64_t sum = 0;
    for (size_t round = 0; round < 25; round++) {
        std::vector<std::thread> threads;
        for (size_t i = 0; i < 8; i++)
            threads.emplace_back([&, i] {
                uint64_t visited = visit_thread_local(i * 10);
                std::string text(1025 + i * 4000, static_cast<char>('A' + i));
                std::lock_guard<std::mutex> lock(mutex);
                left_behind.push_back(std::move(text));
                sum += visited;
            });
        for (std::thread &thread : threads)
            thread.join();
        for (const std::string &text : left_behind)
            if (text.front() != text.back())
                fail("a string of a thread that ended is damaged");
        if (round % 3 == 0)
            left_behind.clear();
    }
    return sum + left_behind.size();
}

} // namespace

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
    bool throws_bad_alloc = argc < 3 || std::strcmp(argv[2], "no-bad-alloc") != 0;
    for (uint64_t round = 1; round <= rounds; round++) {
        std::vector<std::future<uint64_t>> parts;
        for (uint64_t i = 0; i < 3; i++)
            parts.push_back(std::async(std::launch::async, [round, i] {
                return use_sequences(round * 10 + i) ^ use_trees_and_tables(round * 20 + i);
            }));
        for (std::future<uint64_t> &part : parts)
            report("containers", part.get());
        use_plain_forms();
        if (throws_bad_alloc)
            use_too_large_requests();
        use_alignment<16>();
        use_alignment<64>();
        use_alignment<512>();
        use_alignment<4096>();
        use_alignment<32768>();
        report("exceptions", use_exceptions(round));
        report("text", use_text(round));
        report("producers and consumers", use_producers_and_consumers(round));
        report("short threads", use_short_threads());
    }
    std::puts("done");
    return 0;
}
