/* SPDX-License-Identifier: Apache-2.0 */
/* The trap flag: SIGTRAP after every instruction. Functions of their own, with unwind information, because a handler may
 * look at the stack between any two of their instructions. */
#ifndef SINGLE_STEP_H
#define SINGLE_STEP_H

/* clang-format off */
__asm__(".text\n"
	".hidden step_on\n.globl step_on\n.type step_on, @function\n"
	"step_on:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushfq\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	orq $0x100, (%rsp)\n"
	"	popfq\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size step_on, .-step_on\n"
	".hidden step_off\n.globl step_off\n.type step_off, @function\n"
	"step_off:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushfq\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	andq $~0x100, (%rsp)\n"
	"	popfq\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size step_off, .-step_off\n");
/* clang-format on */

#ifdef __cplusplus
extern "C" {
#endif
void step_on(void);
void step_off(void);
#ifdef __cplusplus
}
#endif
#endif
