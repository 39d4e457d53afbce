/* SPDX-License-Identifier: MIT */
/* test: see test.h. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "base/request.h"

/* Not dprintf: some C libraries allocate its buffer. */
static void print_line(const char *format, va_list arguments)
{
    char line[512];
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    size_t bytes = length < 0 ? 0 : (size_t)length;

    if (bytes > sizeof line - 2)
        bytes = sizeof line - 2;
    line[bytes++] = '\n';
    if (write(STDOUT_FILENO, line, bytes) < 0)
        return; /* closed, in some tests: the status tells */
}

void test_print(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
}

void test_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
    _exit(1);
}

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
size_t test_random_below(uint64_t *state, size_t limit)
{
    return (size_t)(random_next(state) % limit);
}

size_t test_random_size(uint64_t *state, size_t low, size_t high)
{
    unsigned low_width = 64 - (unsigned)__builtin_clzll(low | 1);
    unsigned high_width = 64 - (unsigned)__builtin_clzll(high | 1);
    size_t size;

    do {
        unsigned width = low_width + (unsigned)test_random_below(state, high_width - low_width + 1);
        size_t half = (size_t)1 << (width - 1);

        size = half + test_random_below(state, half);
    } while (size < low || size > high);
    return size;
}

static uint64_t pattern_word(uint64_t key, size_t index)
{
    return (key + index) * UINT64_C(0x9e3779b97f4a7c15) ^ key;
}

void test_fill(void *memory, size_t bytes, uint64_t key)
{
    unsigned char *at = memory;
    size_t index = 0;

    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word = pattern_word(key, index++);

        memcpy(at, &word, sizeof word);
    }
    if (bytes > 0) {
        uint64_t word = pattern_word(key, index);

        memcpy(at, &word, bytes);
    }
}

bool test_is_filled(const void *memory, size_t bytes, uint64_t key)
{
    const unsigned char *at = memory;
    size_t index = 0;

    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, at, sizeof word);
        if (word != pattern_word(key, index++))
            return false;
    }
    if (bytes > 0) {
        uint64_t word = pattern_word(key, index);

        return memcmp(at, &word, bytes) == 0;
    }
    return true;
}

bool test_is_zero(const void *memory, size_t bytes)
{
    const unsigned char *at = memory;

    return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

void *test_hide(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static size_t read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;

    REQUIRE(fd >= 0);
    for (;;) {
        ssize_t count = read(fd, text + used, size - 1 - used);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        used += (size_t)count;
    }
    close(fd);
    text[used] = '\0';
    return used;
}

size_t test_status_kib(const char *field)
{
    char text[4096];
    const char *at;

    read_file("/proc/self/status", text, sizeof text);
    at = strstr(text, field);
    REQUIRE(at != NULL);
    return strtoul(at + strlen(field), NULL, 10);
}

size_t test_mapping_count(void)
{
    char text[4096];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t lines = 0;
    ssize_t count;

    REQUIRE(fd >= 0);
    while ((count = read(fd, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < count; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

size_t test_small_stack_bytes(void)
{
    long least = sysconf(_SC_THREAD_STACK_MIN);

    return least > 64 << 10 ? (size_t)least : 64 << 10;
}

uint64_t test_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void test_sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

int test_wait_child(pid_t pid, unsigned timeout_ms)
{
    uint64_t deadline_ms = test_now_ms() + timeout_ms;

    for (;;) {
        int status;
        pid_t done = waitpid(pid, &status, WNOHANG);

        if (done == pid)
            return status;
        REQUIRE(done == 0 || errno == EINTR);
        if (test_now_ms() > deadline_ms) {
            kill(pid, SIGKILL);
            test_fail("# child %d did not end in %u ms", (int)pid, timeout_ms);
        }
        test_sleep_ms(1);
    }
}

unsigned long test_argument(int argc, char **argv, int index, unsigned long otherwise)
{
    char *end;
    unsigned long value;

    if (index >= argc)
        return otherwise;
    value = strtoul(argv[index], &end, 0);
    if (*argv[index] == '\0' || *end != '\0')
        test_fail("# %s: not a number: %s", argv[0], argv[index]);
    return value;
}

const char *test_dump_dir(void)
{
    const char *dir = getenv("PINPOOL_DIR");

    REQUIRE(dir != NULL);
    return dir;
}

void test_dump_path(char *path, size_t size, pid_t pid, unsigned seq)
{
    int length = snprintf(path, size, "%s/pinpool.%d.%u.jsonl", test_dump_dir(), (int)pid, seq);

    REQUIRE(length > 0 && (size_t)length < size);
}

/* The last line of a complete dump is its end record. */
static bool is_complete(const char *path)
{
    char tail[256];
    const char *line;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a FIFO may wait there */
    off_t bytes;
    ssize_t count;

    if (fd < 0)
        return false;
    bytes = lseek(fd, 0, SEEK_END);
    count = pread(fd, tail, sizeof tail - 1, bytes > 255 ? bytes - 255 : 0);
    close(fd);
    if (count <= 0 || tail[count - 1] != '\n')
        return false;
    tail[count - 1] = '\0';
    line = strrchr(tail, '\n');
    return strncmp(line == NULL ? tail : line + 1, "{\"type\":\"end\"", 13) == 0;
}

/* Parses "pinpool.<pid>.<seq>.jsonl"; 0 when the name is another. */
static unsigned dump_seq(const char *name, pid_t pid)
{
    char prefix[64], *end;
    size_t length = (size_t)snprintf(prefix, sizeof prefix, "pinpool.%d.", (int)pid);
    unsigned long seq;

    if (strncmp(name, prefix, length) != 0)
        return 0;
    seq = strtoul(name + length, &end, 10);
    return strcmp(end, ".jsonl") == 0 ? (unsigned)seq : 0;
}

static void scan_dumps(pid_t pid, unsigned *complete, unsigned *last_seq)
{
    DIR *dir = opendir(test_dump_dir());
    struct dirent *entry;

    REQUIRE(dir != NULL);
    *complete = 0;
    *last_seq = 0;
    while ((entry = readdir(dir)) != NULL) {
        char path[512];
        unsigned seq = dump_seq(entry->d_name, pid);

        if (seq == 0)
            continue;
        test_dump_path(path, sizeof path, pid, seq);
        *complete += is_complete(path);
        if (seq > *last_seq)
            *last_seq = seq;
    }
    closedir(dir);
}

unsigned test_dump_count(pid_t pid)
{
    unsigned complete, last_seq;

    scan_dumps(pid, &complete, &last_seq);
    return complete;
}

unsigned test_dump_last_seq(pid_t pid)
{
    unsigned complete, last_seq;

    scan_dumps(pid, &complete, &last_seq);
    return last_seq;
}

void test_raise(int signal)
{
    REQUIRE(raise(signal) == 0);
}

static void send_request(pid_t pid, pid_t tid, int signal, unsigned request)
{
    siginfo_t info;
    uint64_t value = REQUEST_MAGIC | request;

    memset(&info, 0, sizeof info);
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    memcpy(&info.si_value.sival_ptr, &value, sizeof info.si_value.sival_ptr);
    REQUIRE(syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info) == 0);
}

void test_dump(int signal)
{
    send_request((pid_t)syscall(SYS_getpid), (pid_t)syscall(SYS_gettid), signal,
                 REQUEST_DUMP | REQUEST_CHAIN);
}

void test_dump_alone(int signal)
{
    send_request((pid_t)syscall(SYS_getpid), (pid_t)syscall(SYS_gettid), signal, REQUEST_DUMP);
}

void test_dump_to(pid_t pid, pid_t tid, int signal)
{
    send_request(pid, tid, signal, REQUEST_DUMP | REQUEST_CHAIN);
}

void test_kill_from_outside(pid_t pid, int signal, unsigned times)
{
    enum { PATIENCE_MS = 20000 };
    char script[128];
    pid_t sender;

    snprintf(script, sizeof script, "i=0; while [ $i -lt %u ]; do kill -%d %d; i=$((i + 1)); done", times,
             signal, (int)pid);
    sender = fork();
    REQUIRE(sender >= 0);
    if (sender == 0) {
        unsetenv("LD_PRELOAD");
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    REQUIRE(test_wait_child(sender, PATIENCE_MS) == 0);
}
