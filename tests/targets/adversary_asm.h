/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-written x86-64 functions whose frames only their unwind information explains.
 *
 *   asm_call_*(function, argument)   call function(argument) from a frame of a special kind
 *   asm_switch(&save, load)          leave this stack for another one
 *   asm_coroutine_entry              where a new coroutine begins: calls %r12 with %r13; the root of its stack
 *   asm_trap_first                   its first instruction is an invalid one: the fault's pc is the function's start */
#ifndef ADVERSARY_ASM_H
#define ADVERSARY_ASM_H

#ifndef __x86_64__
#error "x86-64 only"
#endif

/* clang-format off */
#define ASM_BEGIN(name) ".globl " name "\n.hidden " name "\n.type " name ", @function\n.p2align 4\n" name ":\n"
#define ASM_CALL "	movq %rdi, %rax\n	movq %rsi, %rdi\n	call *%rax\n"
#define ASM_END(name) ".size " name ", .-" name "\n"

__asm__(".text\n"
	/* No unwind information at all: a walk must stop here. */
	ASM_BEGIN("asm_call_no_cfi")
	"	endbr64\n"
	"	pushq %rbx\n"
	"	subq $32, %rsp\n"
	ASM_CALL
	"	addq $32, %rsp\n"
	"	popq %rbx\n"
	"	ret\n"
	ASM_END("asm_call_no_cfi")

	/* A realigned frame; the CFA lies in the frame: DW_CFA_def_cfa_expression(breg7 rsp+16, deref). */
	ASM_BEGIN("asm_call_expression")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	leaq 8(%rsp), %r10\n"
	"	.cfi_def_cfa r10, 0\n"
	"	andq $-64, %rsp\n"
	"	subq $64, %rsp\n"
	"	movq %r10, 16(%rsp)\n"
	"	.cfi_escape 0x0f, 0x03, 0x77, 0x10, 0x06\n"
	ASM_CALL
	"	movq 16(%rsp), %r10\n"
	"	.cfi_def_cfa r10, 0\n"
	"	leaq -8(%r10), %rsp\n"
	"	.cfi_def_cfa rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_call_expression")

	/* CFA by rbx, as in the loader's _dl_runtime_resolve. */
	ASM_BEGIN("asm_call_rbx")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbx, 0\n"
	"	movq %rsp, %rbx\n"
	"	.cfi_def_cfa_register rbx\n"
	"	andq $-64, %rsp\n"
	"	subq $128, %rsp\n"
	ASM_CALL
	"	movq %rbx, %rsp\n"
	"	.cfi_def_cfa_register rsp\n"
	"	popq %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_call_rbx")

	/* CFA by r12, with rbp saved and then used for something else. */
	ASM_BEGIN("asm_call_r12")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset r12, 0\n"
	"	pushq %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbp, 0\n"
	"	movq %rsp, %r12\n"
	"	.cfi_def_cfa_register r12\n"
	"	movl $0x5a5a5a5a, %ebp\n"
	"	andq $-32, %rsp\n"
	"	subq $96, %rsp\n"
	ASM_CALL
	"	movq %r12, %rsp\n"
	"	.cfi_def_cfa_register rsp\n"
	"	popq %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbp\n"
	"	popq %r12\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore r12\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_call_r12"));

__asm__(".text\n"
	/* rbp's place by expression (CFA - 16), then rbp holds rubbish: DW_CFA_expression(rbp: lit16, minus). */
	ASM_BEGIN("asm_call_saved_by_expression")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_escape 0x10, 0x06, 0x02, 0x40, 0x1c\n"
	"	movl $0x12345678, %ebp\n"
	"	subq $16, %rsp\n"
	"	.cfi_adjust_cfa_offset 16\n"
	ASM_CALL
	"	addq $16, %rsp\n"
	"	.cfi_adjust_cfa_offset -16\n"
	"	popq %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_call_saved_by_expression")

	/* rbp kept inverted: DW_CFA_val_expression(rbp: lit16, minus, deref, not). */
	ASM_BEGIN("asm_call_value_expression")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	notq %rbp\n"
	"	.cfi_escape 0x16, 0x06, 0x03, 0x76, 0x00, 0x20\n"
	"	pushq %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_escape 0x16, 0x06, 0x04, 0x40, 0x1c, 0x06, 0x20\n"
	"	movl $7, %ebp\n"
	ASM_CALL
	"	popq %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_escape 0x16, 0x06, 0x03, 0x76, 0x00, 0x20\n"
	"	notq %rbp\n"
	"	.cfi_restore rbp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_call_value_expression")

	/* Two ways out: remember_state and restore_state, and an argument area that grows before the call. */
	ASM_BEGIN("asm_call_two_exits")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbp, 0\n"
	"	testq %rdi, %rdi\n"
	"	jnz 1f\n"
	"	.cfi_remember_state\n"
	"	popq %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbp\n"
	"	ret\n"
	"1:	.cfi_restore_state\n" /* whole offsets from here: older LLVM counts adjustments wrongly */
	"	pushq %rsi\n"
	"	.cfi_def_cfa_offset 24\n"
	"	pushq %rsi\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_escape 0x2e, 0x10\n" /* DW_CFA_GNU_args_size 16 */
	ASM_CALL
	"	addq $16, %rsp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	popq %rbp\n"
	"	.cfi_def_cfa_offset 8\n"
	"	.cfi_restore rbp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_call_two_exits"));

__asm__(".text\n"
	ASM_BEGIN("asm_switch")
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbp\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset rbp, 0\n"
	"	pushq %rbx\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset rbx, 0\n"
	"	pushq %r12\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset r12, 0\n"
	"	pushq %r13\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset r13, 0\n"
	"	pushq %r14\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset r14, 0\n"
	"	pushq %r15\n	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset r15, 0\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r15\n"
	"	popq %r14\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r14\n"
	"	popq %r13\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r13\n"
	"	popq %r12\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r12\n"
	"	popq %rbx\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore rbx\n"
	"	popq %rbp\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore rbp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_switch")

	/* The root: no caller, and the unwind information says so. */
	ASM_BEGIN("asm_coroutine_entry")
	"	.cfi_startproc\n"
	"	.cfi_undefined rip\n"
	"	endbr64\n"
	"	movq %r13, %rdi\n"
	"	call *%r12\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	ASM_END("asm_coroutine_entry")

	ASM_BEGIN("asm_trap_first")
	"	.cfi_startproc\n"
	"	ud2\n"
	"	ret\n"
	"	.cfi_endproc\n"
	ASM_END("asm_trap_first"));

/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif
typedef void asm_callee(long argument);
void asm_call_no_cfi(asm_callee *function, long argument);
void asm_call_expression(asm_callee *function, long argument);
void asm_call_rbx(asm_callee *function, long argument);
void asm_call_r12(asm_callee *function, long argument);
void asm_call_saved_by_expression(asm_callee *function, long argument);
void asm_call_value_expression(asm_callee *function, long argument);
void asm_call_two_exits(asm_callee *function, long argument);
void asm_switch(void **ret_save, void *load);
void asm_coroutine_entry(void);
void asm_trap_first(void);
#ifdef __cplusplus
}
#endif

/* Lays out a new stack so that asm_switch to the returned value begins function(argument) there. */
static inline void *asm_coroutine(void *stack, unsigned long size, asm_callee *function,
				  long argument)
{
	void **top = (void **)(((unsigned long)stack + size) & ~63ul);
	void **sp = top - 2; /* the return address lies so that the entry's own calls are aligned */

	*--sp = (void *)asm_coroutine_entry;
	*--sp = (void *)0;	  /* rbp */
	*--sp = (void *)0;	  /* rbx */
	*--sp = (void *)function; /* r12 */
	*--sp = (void *)argument; /* r13 */
	*--sp = (void *)0;	  /* r14 */
	*--sp = (void *)0;	  /* r15 */
	return sp;
}
#endif
