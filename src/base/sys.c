/* SPDX-License-Identifier: MIT */
/*
 * sys: see sys.h. syscall(2) reports through errno, which belongs to the program we are in: it is
 * put back after every call.
 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALL(...)                                                                                            \
    ({                                                                                                       \
        int errno_of_program = errno;                                                                        \
        long call_result = syscall(__VA_ARGS__);                                                             \
        if (call_result == -1)                                                                               \
            call_result = -errno;                                                                            \
        errno = errno_of_program;                                                                            \
        call_result;                                                                                         \
    })

/* mmap's result is an address or -errno: the kernel never maps the last page of the address space. */
static int map(void *hint, size_t bytes, int protection, int flags, int fd, void **address)
{
    long result = CALL(SYS_mmap, hint, bytes, protection, flags, fd, 0);

    if (result < 0 && result > -4096)
        return (int)result;
    *address = (void *)result;
    return 0;
}

int sys_map(size_t bytes, void **address)
{
    return map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, address);
}

int sys_map_exactly(void *wanted, size_t bytes, void **address)
{
    return map(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
               address);
}

int sys_map_file_shared(int fd, size_t bytes, void **address)
{
    return map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, address);
}

int sys_map_file_sealed(int fd, size_t bytes, void **address)
{
    return map(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, address);
}

int sys_unmap(void *address, size_t bytes)
{
    return (int)CALL(SYS_munmap, address, bytes);
}

int sys_discard(void *address, size_t bytes)
{
    return (int)CALL(SYS_madvise, address, bytes, MADV_DONTNEED);
}

int sys_wipe_on_fork(void *address, size_t bytes)
{
    return (int)CALL(SYS_madvise, address, bytes, MADV_WIPEONFORK);
}

int sys_mincore(void *address, size_t bytes, unsigned char *pages)
{
    return (int)CALL(SYS_mincore, address, bytes, pages);
}

int sys_open(const char *path, int flags, mode_t mode)
{
    return (int)CALL(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

int sys_close(int fd)
{
    return (int)CALL(SYS_close, fd);
}

ssize_t sys_read(int fd, void *bytes, size_t count)
{
    ssize_t got;

    do
        got = CALL(SYS_read, fd, bytes, count);
    while (got == -EINTR);
    return got;
}

ssize_t sys_pread(int fd, void *bytes, size_t count, uint64_t offset)
{
    return CALL(SYS_pread64, fd, bytes, count, offset);
}

ssize_t sys_pwrite(int fd, const void *bytes, size_t count, uint64_t offset)
{
    return CALL(SYS_pwrite64, fd, bytes, count, offset);
}

int sys_write_all(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;

    while (count > 0) {
        ssize_t written = CALL(SYS_write, fd, at, count);

        if (written == -EINTR)
            continue;
        if (written <= 0)
            return written == 0 ? -EIO : (int)written;
        at += written;
        count -= (size_t)written;
    }
    return 0;
}

ssize_t sys_readlink(const char *path, char *target, size_t size)
{
    return CALL(SYS_readlinkat, AT_FDCWD, path, target, size);
}

int sys_truncate(int fd, uint64_t bytes)
{
    return (int)CALL(SYS_ftruncate, fd, bytes);
}

uint64_t sys_file_limit_bytes(void)
{
    struct rlimit limit;

    return CALL(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

int sys_memfd(const char *name)
{
    return (int)CALL(SYS_memfd_create, name, 1U /* MFD_CLOEXEC */);
}

int sys_unlink(const char *path)
{
    return (int)CALL(SYS_unlinkat, AT_FDCWD, path, 0);
}

int32_t sys_getpid(void)
{
    return (int32_t)CALL(SYS_getpid);
}

int32_t sys_gettid(void)
{
    return (int32_t)CALL(SYS_gettid);
}

void sys_futex_wait(_Atomic(uint32_t) *word, uint32_t expected)
{
    (void)CALL(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void sys_futex_wake_one(_Atomic(uint32_t) *word)
{
    (void)CALL(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* clock_gettime goes through the vDSO and fails only for clocks that do not exist. */
static uint64_t now_ns(clockid_t clock)
{
    struct timespec now = {0, 0};

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t sys_now_ns(void)
{
    return now_ns(CLOCK_MONOTONIC);
}

uint64_t sys_now_coarse_ns(void)
{
    return now_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t sys_unix_ns(void)
{
    return now_ns(CLOCK_REALTIME);
}

size_t sys_page_bytes(void)
{
    return getauxval(AT_PAGESZ);
}
