/* SPDX-License-Identifier: MIT */
/*
 * test: what the test programs share. A program checks with REQUIRE: the first failure prints one
 * line on stdout and ends the process with status 1, so the script that runs it needs the status only.
 *
 * Nothing here allocates, except test_dump_count and test_dump_last_seq (opendir): the programs observe
 * an allocator, and must not disturb what they count.
 */
#ifndef PINPOOL_TESTS_SUPPORT_TEST_H
#define PINPOOL_TESTS_SUPPORT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* errno before a call whose errno is looked at: no call sets this value by itself. */
enum { TEST_ERRNO = 4242 };

/* One line on stdout; at most 500 bytes; signal-safe as far as vsnprintf is. */
void test_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints the line and ends the process with status 1, without exit handlers. */
void test_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define REQUIRE(condition)                                                                                   \
    ((condition) ? (void)0 : test_fail("# %s:%d: not so: %s", __FILE__, __LINE__, #condition))

/* A random number from 0 to limit - 1, of a sequence (base/random.h). */
size_t test_random_below(uint64_t *state, size_t limit);

/* A random size from low to high, each power of two as likely as the next. */
size_t test_random_size(uint64_t *state, size_t low, size_t high);

/* Fills memory with a pattern that depends on the key and the place, and looks whether it is still there. */
void test_fill(void *memory, size_t bytes, uint64_t key);
bool test_is_filled(const void *memory, size_t bytes, uint64_t key);
bool test_is_zero(const void *memory, size_t bytes);

/* Keeps the compiler from knowing where a pointer came from: the calls under test must all happen. */
void *test_hide(void *pointer);

/* A field of /proc/self/status, as "VmRSS:", in KiB. */
size_t test_status_kib(const char *field);

/* How many mappings the process has. */
size_t test_mapping_count(void);

/* 64 KiB, or the least that a thread may have where that is more. */
size_t test_small_stack_bytes(void);

uint64_t test_now_ms(void);
void test_sleep_ms(unsigned ms);

/* Waits for a child and returns its wait status. A child that is not done in time is killed: failure. */
int test_wait_child(pid_t pid, unsigned timeout_ms);

/* The number in argv[index], or the default when there are fewer arguments. */
unsigned long test_argument(int argc, char **argv, int index, unsigned long otherwise);

/* $PINPOOL_DIR; the script that runs the program sets it. */
const char *test_dump_dir(void);

/* Writes the path of a dump of this process into `path`. */
void test_dump_path(char *path, size_t size, pid_t pid, unsigned seq);

/* How many complete dumps (with an end record) this process has in $PINPOOL_DIR, and the highest seq. */
unsigned test_dump_count(pid_t pid);
unsigned test_dump_last_seq(pid_t pid);

/* Sends the signal to the calling thread and returns after its handler. */
void test_raise(int signal);

/*
 * Asks for a dump as the tool does, by a value that comes with the signal, and returns when it is written.
 * The first also has the program's own handler run; the third sends to a thread by its number.
 */
void test_dump(int signal);
void test_dump_alone(int signal);
void test_dump_to(pid_t pid, pid_t tid, int signal);

/* Has another program, /bin/sh, send the signal to `pid` so many times, and waits for its end. */
void test_kill_from_outside(pid_t pid, int signal, unsigned times);

#ifdef __cplusplus
}
#endif

#endif
