/* SPDX-License-Identifier: Apache-2.0 */
/* AArch64 (64-bit Arm), little-endian. */
#ifndef RECORDER_ARCH_AARCH64_ARCH_H
#define RECORDER_ARCH_AARCH64_ARCH_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/compiler.h"

/* ---- the kernel ---- */

/* The smallest page size. Kernels have 4, 16 or 64 KiB: sys_page tells which. */
enum { ARCH_PAGE = 4096, ARCH_PAGE_MAX = 65536 };
#define ARCH_AUDIT AUDIT_ARCH_AARCH64 /* from <linux/audit.h>: seen by seccomp filters */
#define ARCH_VDSO_CLOCK "__kernel_clock_gettime"

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

/* The kernel has no path-based calls but the *at variants. */
#define ARCH_ACCESS(call, path, mode) call(SYS_faccessat, AT_FDCWD, (long)(path), mode, 0, 0, 0)
#define ARCH_UNLINK(call, path) call(SYS_unlinkat, AT_FDCWD, (long)(path), 0, 0, 0, 0)
#define ARCH_READLINK(call, path, to, bytes)                                                       \
	call(SYS_readlinkat, AT_FDCWD, (long)(path), (long)(to), (long)(bytes), 0, 0)
#define ARCH_PATH_QUESTIONS(group, address)                                                        \
	{ SYS_faccessat, group, { (uint64_t)AT_FDCWD, address, 4 } },                              \
		{ SYS_readlinkat, group, { (uint64_t)AT_FDCWD, address, address, 4095 } },         \
	{                                                                                          \
		SYS_unlinkat, group,                                                               \
		{                                                                                  \
			(uint64_t) AT_FDCWD, address                                               \
		}                                                                                  \
	}
enum { ARCH_SYS_READLINK = SYS_readlinkat };

/* ---- single instructions ---- */

/* Spin-wait hint. yield does nothing on most cores; isb waits a little. */
static inline void arch_pause(void)
{
	__asm__ volatile("isb");
}

/* The virtual counter of the generic timer. */
enum { ARCH_KERNEL_KNOWS_COUNTER = 0 }; /* PR_GET_TSC, since 6.12 */
static ALWAYS_INLINE uint64_t arch_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

/* The same, between the instructions before and after: for the time of a few of them. */
static ALWAYS_INLINE uint64_t arch_ticks_in_order(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
	return ticks;
}

/* Adds to a counter that has one writer; readers elsewhere see whole words. An exclusive store fails if a signal came since the
 * load, so that nothing a handler adds is lost. */
static ALWAYS_INLINE void arch_add(uint64_t *counter, uint64_t by)
{
#if defined(__SANITIZE_THREAD__)
	__atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
#elif defined(__ARM_FEATURE_ATOMICS)
	__asm__ volatile("stadd %1, %0" : "+Q"(*counter) : "r"(by));
#else
	uint64_t value;
	uint32_t failed;

	__asm__ volatile("0:	ldxr %0, %2\n\t"
			 "add %0, %0, %3\n\t"
			 "stxr %w1, %0, %2\n\t"
			 "cbnz %w1, 0b"
			 : "=&r"(value), "=&r"(failed), "+Q"(*counter)
			 : "r"(by));
#endif
}

/* The same for subtraction. True if the result is negative. */
static ALWAYS_INLINE bool arch_subtract(uint64_t *word, uint64_t by)
{
#ifndef __SANITIZE_THREAD__
	uint64_t value;
	uint32_t failed;

	__asm__("0:	ldxr %0, %2\n\t"
		"sub %0, %0, %3\n\t"
		"stxr %w1, %0, %2\n\t"
		"cbnz %w1, 0b"
		: "=&r"(value), "=&r"(failed), "+Q"(*word)
		: "r"(by));
	return (int64_t)value < 0;
#else
	__atomic_store_n(word, *word - by, __ATOMIC_RELAXED);
	return (int64_t)*word < 0;
#endif
}

/* Thread-local storage lies above it, the C library's control block below. */
static inline uintptr_t arch_thread_pointer(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

/* ---- frames ---- */

/* The hook's frame record: the caller's x29, the return address, and the CFA. A copy: the real record has no fixed place in a
 * frame, so the CFA cannot be computed from it. Valid in the block that the macro is used in. */
#define HOOK_FRAME()                                                                               \
	((const uintptr_t[]){ *(const uintptr_t *)__builtin_frame_address(0),                      \
			      (uintptr_t)__builtin_return_address(0),                              \
			      (uintptr_t)__builtin_dwarf_cfa() })

/* The canonical frame address of the function with that frame record, which must exist. */
static ALWAYS_INLINE uintptr_t arch_cfa_of(const uintptr_t *frame)
{
	return frame[2];
}

/* Each function stores its return address where it likes, usually with the caller's x29 one word below. */
#define ARCH_RETURN_VARIES 1
enum { ARCH_RETURN_AT = -8 }; /* not used by the fast walk */

/* A return address without its signature (pointer authentication). The instruction is a no-op on processors that have none. */
static ALWAYS_INLINE uintptr_t arch_strip(uintptr_t address)
{
	register uintptr_t x30 __asm__("x30") = address;

	__asm__("hint #7" : "+r"(x30)); /* xpaclri */
	return x30;
}

/* DWARF register numbers: x29, sp, the program counter, and x30, the return address column. */
enum { DW_FP = 29, DW_RETURN = 30, DW_SP = 31, DW_PC = 32, DW_REGISTERS = 33 };

/* DW_CFA_AARCH64_negate_ra_state and negate_ra_state_with_pc: whether the return address is signed. It is stripped either way. */
static inline bool arch_is_cfa_no_op(uint8_t op)
{
	return op == 0x2d || op == 0x2c;
}

/* Stores the callee-saved registers of the function that this is inlined into, indexed by these numbers. */
static ALWAYS_INLINE void arch_registers(uint64_t *registers)
{
	uint64_t scratch;

	__asm__ volatile("stp x19, x20, [%1, #19*8]\n\t"
			 "stp x21, x22, [%1, #21*8]\n\t"
			 "stp x23, x24, [%1, #23*8]\n\t"
			 "stp x25, x26, [%1, #25*8]\n\t"
			 "stp x27, x28, [%1, #27*8]\n\t"
			 "stp x29, x30, [%1, #29*8]\n\t"
			 "mov %0, sp\n\t"
			 "str %0, [%1, #31*8]\n\t"
			 "adr %0, 0f\n\t"
			 "str %0, [%1, #32*8]\n"
			 "0:"
			 : "=&r"(scratch)
			 : "r"(registers)
			 : "memory");
}

/* ---- signal frames: the kernel's trampoline has no call frame information, or wrong information before Linux 5.8 ---- */

enum { ARCH_HAS_SIGNAL_CODE = 1 };
#define ARCH_SIGNAL_CODE UINT64_C(0xd4000001d2801168) /* mov x8, #SYS_rt_sigreturn; svc #0 */

/* Where the kernel stored the registers of the interrupted code, as offsets from sp in the trampoline: struct rt_sigframe. */
enum {
	ARCH_SIGNAL_REGISTERS =
		128 + 176 + 8,	 /* siginfo, ucontext up to uc_mcontext, fault_address */
	ARCH_SIGNAL_STORED = 33, /* x0 to x30, sp, pc: in the order of the DWARF numbers */
};

/* ---- relocations, from <elf.h>, that store the address of a function: lazily, at load time, as data ---- */

#define ARCH_RELOCATION_CALL R_AARCH64_JUMP_SLOT
#define ARCH_RELOCATION_ADDRESS R_AARCH64_GLOB_DAT
#define ARCH_RELOCATION_DATA R_AARCH64_ABS64

/* ---- thread-local variables: see x86_64 ---- */

#define ARCH_RELOCATION_TLS_OFFSET R_AARCH64_TLS_TPREL
#define ARCH_RELOCATION_TLS_DESCRIPTOR R_AARCH64_TLSDESC
#define ARCH_RELOCATION_TLS_MODULE R_AARCH64_TLS_DTPMOD

/* The static block is above the thread pointer, and small; nothing is mapped below 4 GiB. */
static inline bool arch_is_static_tls(uintptr_t word)
{
	return word < UINT64_C(1) << 32;
}

enum { ARCH_TLS_VECTOR_AT = 0 }; /* in the thread's control block */

/* Whether pthread_self returns the thread pointer. */
#define ARCH_THREAD_IS_BLOCK false

enum { ARCH_THUNK_BYTES = 32 }; /* size of each thunk in wrap_thunks, hooks_entry.c */

#ifdef __clang__
#error "clang's __builtin_dwarf_cfa is not the CFA on aarch64: build with gcc"
#endif
#endif
