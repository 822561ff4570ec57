/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that cannot be written in C: they must not change the stack or the arguments. */
#include <sys/syscall.h>

#include "recorder/api/wraps.h"
#include "recorder/arch/arch.h"

/* syscall: jumps to seal_forward; hooks_seccomp.c explains why, and handles the two numbers that matter. */
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	movq seal_forward(%rip), %rax\n"
	"	testq %rax, %rax\n"
	"	je 1f\n"
	"	cmpq $317, %rdi\n" /* seccomp */
	"	je 1f\n"
	"	cmpq $157, %rdi\n" /* prctl */
	"	je 1f\n"
	"	jmp *%rax\n"
	"1:	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register rbp\n"
	"	pushq %rdi\n"
	"	pushq %rsi\n"
	"	pushq %rdx\n"
	"	pushq %rcx\n"
	"	pushq %r8\n"
	"	pushq %r9\n"
	"	movq %rdx, %r8\n"  /* what follows the operation, as the fifth */
	"	movq %rsi, %rdx\n" /* the operation; its argument is in rcx, as the fourth */
	"	movq %rbp, %rsi\n" /* the frame record, as in a hook */
	"	call seccomp_next_syscall\n"
	"	popq %r9\n"
	"	popq %r8\n"
	"	popq %rcx\n"
	"	popq %rdx\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	"	popq %rbp\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	jmp *%rax\n"
	"	.cfi_endproc\n"
	".size syscall, .-syscall\n");
_Static_assert(__NR_seccomp == 317 && __NR_prctl == 157, "the numbers of seccomp and prctl");

/* One thunk per target, WRAP_TARGETS in all: passes its number as the fourth argument and jumps to the handler. */
__asm__(".pushsection .text\n"
	".balign 16\n"
	".globl wrap_thunks\n"
	".hidden wrap_thunks\n"
	".type wrap_thunks, @function\n"
	"wrap_thunks:\n"
	".cfi_startproc\n"
	".set wrap_thunk, 0\n"
	".rept 64\n"
	".balign 16\n"
	"	endbr64\n"
	"	movl $wrap_thunk, %ecx\n"
	"	jmp *(wrap_handlers + 8 * wrap_thunk)(%rip)\n"
	".set wrap_thunk, wrap_thunk + 1\n"
	".endr\n"
	".cfi_endproc\n"
	".size wrap_thunks, . - wrap_thunks\n"
	".popsection\n");
_Static_assert(WRAP_TARGETS == 64, "the number of thunks");
