/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64. */
#ifndef RECORDER_ARCH_X86_64_ARCH_H
#define RECORDER_ARCH_X86_64_ARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/compiler.h"

/* ---- the kernel ---- */

enum { ARCH_PAGE = 4096, ARCH_PAGE_MAX = ARCH_PAGE };
#define ARCH_AUDIT AUDIT_ARCH_X86_64 /* from <linux/audit.h>: seen by seccomp filters */
#define ARCH_VDSO_CLOCK "__vdso_clock_gettime"

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Path-based calls that newer architectures provide only as *at variants. `call` is sys_call6; process/seccomp_filter.c
 * evaluates a filter for the rows. */
#define ARCH_ACCESS(call, path, mode) call(SYS_access, (long)(path), mode, 0, 0, 0, 0)
#define ARCH_UNLINK(call, path) call(SYS_unlink, (long)(path), 0, 0, 0, 0, 0)
#define ARCH_READLINK(call, path, to, bytes)                                                       \
	call(SYS_readlink, (long)(path), (long)(to), (long)(bytes), 0, 0, 0)
#define ARCH_PATH_QUESTIONS(group, address)                                                        \
	{ SYS_access, group, { address, 4 } },                                                     \
		{ SYS_readlink, group, { address, address, 4095 } },                               \
	{                                                                                          \
		SYS_unlink, group,                                                                 \
		{                                                                                  \
			address                                                                    \
		}                                                                                  \
	}
enum { ARCH_SYS_READLINK = SYS_readlink };

/* ---- single instructions ---- */

/* Spin-wait hint. */
static inline void arch_pause(void)
{
	__builtin_ia32_pause();
}

/* The time-stamp counter. Whether a program has disabled it, every kernel says (PR_GET_TSC). */
enum { ARCH_KERNEL_KNOWS_COUNTER = 1 };
static ALWAYS_INLINE uint64_t arch_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

/* The same, between the instructions before and after: for the time of a few of them. */
static ALWAYS_INLINE uint64_t arch_ticks_in_order(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* Adds to a counter that has one writer; readers elsewhere see whole words. One instruction, in program order: a compiler
 * emits three for a relaxed atomic load and store, and reorders plain ones. ThreadSanitizer needs the atomic form. */
static ALWAYS_INLINE void arch_add(uint64_t *counter, uint64_t by)
{
#ifndef __SANITIZE_THREAD__
	__asm__ volatile("addq %1, %0" : "+m"(*counter) : "er"(by) : "cc");
#else
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
#endif
}

/* Nothing to do: stores become visible in program order, and arch_add keeps it. */
#define ARCH_ORDER_STORES() ((void)0)

/* The same for subtraction, for which the compiler emits two instructions. True if the result is negative. */
static ALWAYS_INLINE bool arch_subtract(uint64_t *word, uint64_t by)
{
#ifndef __SANITIZE_THREAD__
	bool negative;

	__asm__("subq %2, %0" : "+m"(*word), "=@ccs"(negative) : "r"(by));
	return negative;
#else
	__atomic_store_n(word, *word - by, __ATOMIC_RELAXED);
	return (int64_t)*word < 0;
#endif
}

static inline uintptr_t arch_thread_pointer(void)
{
	uintptr_t thread_pointer;

	__asm__("mov %%fs:0, %0" : "=r"(thread_pointer));
	return thread_pointer;
}

/* ---- frames ---- */

/* The hook's own frame record: the caller's rbp and the return address. */
#define HOOK_FRAME() ((const uintptr_t *)__builtin_frame_address(0))

/* The canonical frame address of the function with that frame record. */
static inline uintptr_t arch_cfa_of(const uintptr_t *frame)
{
	return (uintptr_t)(frame + 2);
}

/* Offset of the return address from the CFA: the same in all functions. */
#define ARCH_RETURN_VARIES 0
enum { ARCH_RETURN_AT = -8 };

/* A return address as an address: it is never signed. */
static ALWAYS_INLINE uintptr_t arch_strip(uintptr_t address)
{
	return address;
}

/* DWARF register numbers: rbp, rsp, and the return address column for the program counter. */
enum { DW_FP = 6, DW_SP = 7, DW_PC = 16, DW_RETURN = DW_PC, DW_REGISTERS = 17 };

/* True for instructions of call frame information that change nothing here. */
static inline bool arch_is_cfa_no_op(uint8_t op)
{
	(void)op;
	return false;
}

/* The code that returns from a signal handler has call frame information. */
enum { ARCH_HAS_SIGNAL_CODE = 0, ARCH_SIGNAL_REGISTERS = 0, ARCH_SIGNAL_STORED = 0 };
#define ARCH_SIGNAL_CODE UINT64_C(0)

/* Stores the callee-saved registers of the function that this is inlined into, indexed by these numbers. */
static ALWAYS_INLINE void arch_registers(uint64_t *registers)
{
	__asm__ volatile("movq %%rbx, 3*8(%0)\n\t"
			 "movq %%rbp, 6*8(%0)\n\t"
			 "movq %%rsp, 7*8(%0)\n\t"
			 "movq %%r12, 12*8(%0)\n\t"
			 "movq %%r13, 13*8(%0)\n\t"
			 "movq %%r14, 14*8(%0)\n\t"
			 "movq %%r15, 15*8(%0)\n\t"
			 "leaq 0f(%%rip), %%rax\n\t"
			 "movq %%rax, 16*8(%0)\n"
			 "0:"
			 :
			 : "r"(registers)
			 : "rax", "memory");
}

#define ARCH_HAS_SCAN 1 /* scan.c */

/* ---- relocations, from <elf.h>, that store the address of a function: lazily, at load time, as data ---- */

#define ARCH_RELOCATION_CALL R_X86_64_JUMP_SLOT
#define ARCH_RELOCATION_ADDRESS R_X86_64_GLOB_DAT
#define ARCH_RELOCATION_DATA R_X86_64_64

/* ---- thread-local variables ---- */

/* Relocations, from <elf.h>: an offset from the thread pointer; a descriptor, whose second word is one if the variable is in the static
 * block; a module and an offset. */
#define ARCH_RELOCATION_TLS_OFFSET R_X86_64_TPOFF64
#define ARCH_RELOCATION_TLS_DESCRIPTOR R_X86_64_TLSDESC
#define ARCH_RELOCATION_TLS_MODULE R_X86_64_DTPMOD64

/* True for an offset from the thread pointer, false for an address: the static block is below the thread pointer. */
static inline bool arch_is_static_tls(uintptr_t word)
{
	return (intptr_t)word < 0;
}

enum { ARCH_TLS_VECTOR_AT = 8 }; /* in the thread's control block */

/* Whether pthread_self returns the thread pointer. */
#define ARCH_THREAD_IS_BLOCK true

enum { ARCH_THUNK_BYTES = 16 }; /* size of each thunk in wrap_thunks, hooks_entry.c */
#endif
