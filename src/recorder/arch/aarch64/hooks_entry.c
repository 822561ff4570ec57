/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that cannot be written in C: they must not change the stack or the arguments. */
#include <sys/syscall.h>

#include "recorder/api/wraps.h"
#include "recorder/arch/arch.h"

/* syscall: jumps to seal_forward; hooks_seccomp.c explains why, and handles the two numbers that matter. A jump by x16 may land where
 * a call may. */
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, %function\n"
	".balign 4\n"
	"syscall:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	adrp x16, seal_forward\n"
	"	ldr x16, [x16, #:lo12:seal_forward]\n"
	"	cbz x16, 1f\n"
	"	cmp x0, #277\n" /* seccomp */
	"	b.eq 1f\n"
	"	cmp x0, #167\n" /* prctl */
	"	b.eq 1f\n"
	"	br x16\n"
	"1:	mov x16, sp\n"
	"	stp x29, x30, [sp, #-80]!\n"
	"	.cfi_def_cfa_offset 80\n"
	"	.cfi_offset x29, -80\n"
	"	.cfi_offset x30, -72\n"
	"	mov x29, sp\n"
	"	stp x16, x0, [sp, #16]\n" /* the CFA, third in a hook's frame record */
	"	stp x1, x2, [sp, #32]\n"
	"	stp x3, x4, [sp, #48]\n"
	"	stp x5, x6, [sp, #64]\n"
	"	mov x4, x2\n" /* what follows the operation, as the fifth */
	"	mov x2, x1\n" /* the operation; its argument is in x3, as the fourth */
	"	mov x1, sp\n" /* the frame record, as in a hook */
	"	bl seccomp_next_syscall\n"
	"	mov x16, x0\n"
	"	ldr x0, [sp, #24]\n"
	"	ldp x1, x2, [sp, #32]\n"
	"	ldp x3, x4, [sp, #48]\n"
	"	ldp x5, x6, [sp, #64]\n"
	"	ldp x29, x30, [sp], #80\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size syscall, .-syscall\n");
_Static_assert(__NR_seccomp == 277 && __NR_prctl == 167, "the numbers of seccomp and prctl");

/* One thunk per target, WRAP_TARGETS in all: passes its number as the fourth argument and jumps to the handler. */
__asm__(".pushsection .text\n"
	".balign 32\n"
	".globl wrap_thunks\n"
	".hidden wrap_thunks\n"
	".type wrap_thunks, %function\n"
	"wrap_thunks:\n"
	".cfi_startproc\n"
	".set wrap_thunk, 0\n"
	".rept 64\n"
	".balign 32\n"
	"	hint #34\n" /* bti c */
	"	mov w3, #wrap_thunk\n"
	"	adrp x16, wrap_handlers + 8 * wrap_thunk\n"
	"	ldr x16, [x16, #:lo12:wrap_handlers + 8 * wrap_thunk]\n"
	"	br x16\n"
	".set wrap_thunk, wrap_thunk + 1\n"
	".endr\n"
	".cfi_endproc\n"
	".size wrap_thunks, . - wrap_thunks\n"
	".popsection\n");
_Static_assert(WRAP_TARGETS == 64, "the number of thunks");
