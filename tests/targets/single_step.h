/* SPDX-License-Identifier: Apache-2.0 */
/* The trap flag: SIGTRAP after every instruction. Nothing may lie in the red zone when it is switched. */
#ifndef SINGLE_STEP_H
#define SINGLE_STEP_H

static inline __attribute__((always_inline)) void step_on(void)
{
	__asm__ volatile(
		"leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::
			: "memory", "cc");
}

static inline __attribute__((always_inline)) void step_off(void)
{
	__asm__ volatile(
		"leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::
			: "memory", "cc");
}
#endif
