/* SPDX-License-Identifier: MIT */
/* sys: see sys.h. */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/libc.h"
#include "base/syscall.h"

/* Up to six arguments, pointers and numbers as they come. */
#define CALL(number, ...) CALL_PAD(number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_PAD(number, a, b, c, d, e, f, ...)                                                              \
    syscall_6((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

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

int sys_map_shared(size_t bytes, void **address)
{
    return map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, address);
}

int sys_map_exactly(void *wanted, size_t bytes, void **address)
{
    return map(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
               address);
}

int sys_map_file_sealed(int fd, size_t bytes, void **address)
{
    return map(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, address);
}

int sys_unmap(void *address, size_t bytes)
{
    int errno_of_program = errno;
    int result = libc.munmap(address, bytes) == 0 ? 0 : -errno;

    errno = errno_of_program;
    return result;
}

int sys_discard(void *address, size_t bytes)
{
    int errno_of_program = errno;
    int result = libc.madvise(address, bytes, MADV_DONTNEED) == 0 ? 0 : -errno;

    errno = errno_of_program;
    return result;
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

int sys_stat(const char *path, struct stat *file)
{
    return (int)CALL(SYS_newfstatat, AT_FDCWD, path, file, 0);
}

uint64_t sys_file_limit_bytes(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

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

int sys_uname(struct utsname *name)
{
    return (int)CALL(SYS_uname, name);
}

int32_t sys_getpid(void)
{
    return (int32_t)CALL(SYS_getpid, 0);
}

int32_t sys_gettid(void)
{
    return (int32_t)CALL(SYS_gettid, 0);
}

/* ---- signals ---------------------------------------------------------------------------------- */

enum { KERNEL_SIGNAL_SET_BYTES = 8 };

uint64_t sys_block_signals(void)
{
    uint64_t all = ~(uint64_t)0, before = 0;

    (void)CALL(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, KERNEL_SIGNAL_SET_BYTES);
    return before;
}

void sys_restore_signals(uint64_t mask)
{
    (void)CALL(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, KERNEL_SIGNAL_SET_BYTES);
}

uint64_t sys_change_signal_mask(int how, uint64_t set)
{
    uint64_t before = 0;

    (void)CALL(SYS_rt_sigprocmask, how, &set, &before, KERNEL_SIGNAL_SET_BYTES);
    return before;
}

int sys_signal_thread(int32_t tid, int number)
{
    return (int)CALL(SYS_tgkill, sys_getpid(), tid, number);
}

int sys_pass_signal_on(int32_t tid, int number, siginfo_t *info)
{
    return (int)CALL(SYS_rt_tgsigqueueinfo, sys_getpid(), tid, number, info);
}

/* As abort(3) does: a handler of the program's may run, and if it returns the default is put in place. */
_Noreturn void sys_abort(void)
{
    uint64_t abort_only = (uint64_t)1 << (SIGABRT - 1);
    struct {
        void (*handler)(int);
        unsigned long flags, restorer;
        uint64_t mask;
    } default_action = {.handler = SIG_DFL};

    (void)sys_change_signal_mask(SIG_UNBLOCK, abort_only);
    (void)sys_signal_thread(sys_gettid(), SIGABRT);
    (void)CALL(SYS_rt_sigaction, SIGABRT, &default_action, NULL, KERNEL_SIGNAL_SET_BYTES);
    for (;;) {
        (void)sys_change_signal_mask(SIG_UNBLOCK, abort_only);
        (void)sys_signal_thread(sys_gettid(), SIGABRT);
        (void)CALL(SYS_exit_group, 127);
    }
}

/* ---- waiting and time ------------------------------------------------------------------------- */

void sys_futex_wait(_Atomic(uint32_t) *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S)};

    (void)CALL(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns == 0 ? NULL : &timeout, NULL, 0);
}

void sys_futex_wake(_Atomic(uint32_t) *word, uint32_t most)
{
    (void)CALL(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
}

/* libc's clock_gettime goes through the vDSO and fails only for clocks that do not exist. */
static uint64_t now_ns(clockid_t clock)
{
    struct timespec now = {0, 0};

    (void)libc.clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
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
    return libc.getauxval(AT_PAGESZ);
}
