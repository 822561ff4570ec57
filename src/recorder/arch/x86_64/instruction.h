/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes an x86-64 instruction as far as its length and what it does to the stack pointer and to callee-saved registers. */
#ifndef RECORDER_ARCH_X86_64_INSTRUCTION_H
#define RECORDER_ARCH_X86_64_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

enum instruction_kind {
	INSTRUCTION_UNKNOWN, /* not decoded, or invalid */
	INSTRUCTION_OTHER,
	INSTRUCTION_PUSH,     /* `reg`, or something else if -1, and sp -= 8 */
	INSTRUCTION_POP,      /* `reg`, or memory if -1, and sp += 8 */
	INSTRUCTION_ADD_SP,   /* sp += value */
	INSTRUCTION_SP_IS,    /* sp = base + value */
	INSTRUCTION_FP_IS_SP, /* fp = sp */
	INSTRUCTION_LOST_SP,  /* sp = something else */
	INSTRUCTION_LEAVE,    /* sp = fp, then pop fp */
	INSTRUCTION_LOAD,     /* reg = *(sp + value) */
	INSTRUCTION_CALL,     /* to value */
	INSTRUCTION_JUMP,     /* to value */
	INSTRUCTION_BRANCH,   /* to value, or not */
	INSTRUCTION_RETURN,
	INSTRUCTION_TAIL_CALL, /* a jump by a pointer in memory at a fixed address */
	INSTRUCTION_LOST_JUMP, /* to an unknown place */
	INSTRUCTION_END,       /* a trap */
};

/* Registers have the numbers of the instruction set. */
enum { REG_SP = 4, REG_FP = 5 };

struct instruction {
	enum instruction_kind kind;
	int8_t reg;
	bool base_is_fp;
	bool by_pointer; /* of calls and tail calls: value is where the address is stored */
	int64_t value;	 /* of jumps the absolute address; 0: unknown */
	uint32_t bytes;
};

enum { INSTRUCTION_BYTES_READ = 32 };

/* `code` has INSTRUCTION_BYTES_READ readable bytes, those at `pc`: more than a valid instruction has. */
struct instruction instruction_decode(const uint8_t *code, uintptr_t pc);
#endif
