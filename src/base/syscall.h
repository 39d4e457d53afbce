/* SPDX-License-Identifier: MIT */
/*
 * syscall: a system call as instructions of our own. libc's syscall(2) is a name like any other: a library
 * preloaded beside us may define it, with a lock or an initialiser of its own, and would run it inside
 * malloc, fork or our handler (torsocks does). It also reports through errno, which belongs to the program we
 * are in.
 *
 * Result: as the kernel returns it, -errno from -4095 to -1. System V ABI, x86-64 supplement, A.2.1; for
 * aarch64 as syscall(2) tabulates it.
 */
#ifndef PINPOOL_BASE_SYSCALL_H
#define PINPOOL_BASE_SYSCALL_H

#include "base/base.h"

#if defined(__x86_64__)

INLINE long syscall_6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

INLINE long syscall_6(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}

#else
#error "pinpool knows the system calls of x86_64 and aarch64"
#endif

#endif
