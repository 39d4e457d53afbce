/* SPDX-License-Identifier: MIT */
/*
 * on_stack: calls a function on another stack. A signal handler may find itself on a stack with a few hundred
 * bytes left (sigaltstack allows 2 KiB, of which the kernel's own frame takes most): what needs more brings a
 * stack along.
 *
 * The stack pointer is kept in a register that the called function preserves. Debuggers and unwinders see the
 * frames on the new stack and not those below.
 */
#ifndef PINPOOL_BASE_ON_STACK_H
#define PINPOOL_BASE_ON_STACK_H

/* `top` is the end of the stack, a multiple of 16. The function may not leave but by returning. */
static __attribute__((noinline)) void on_stack_call(char *top, void (*function)(void *argument),
                                                    void *argument)
{
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %[top], %%rsp\n\t"
                     "callq *%[function]\n\t"
                     "movq %%rbx, %%rsp"
                     : "+D"(argument)
                     : [top] "r"(top), [function] "r"(function)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                       "xmm13", "xmm14", "xmm15", "memory", "cc");
#elif defined(__aarch64__)
    register void *x0 __asm__("x0") = argument;

    __asm__ volatile("mov x19, sp\n\t"
                     "mov sp, %[top]\n\t"
                     "blr %[function]\n\t"
                     "mov sp, x19"
                     : "+r"(x0)
                     : [top] "r"(top), [function] "r"(function)
                     : "x19", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                       "x13", "x14", "x15", "x16", "x17", "x18", "x30", "v0", "v1", "v2", "v3", "v4", "v5",
                       "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",
                       "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
#else
#error "pinpool knows how to change stacks on x86_64 and aarch64"
#endif
}

#endif
