/* SPDX-License-Identifier: Apache-2.0 */
/* Call frame information: from .eh_frame to the rules that lead from a frame to its caller.
 *
 * The tables belong to loaded objects and are not trusted: a program may never have used its own. Every read stays inside
 * the object, and inside its entry. No allocation, no recursion; state is in a scratch area of the calling slot. */
#ifndef RECORDER_UNWIND_CFI_H
#define RECORDER_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/arch/arch.h"

/* The unwind information of an object. */
struct cfi_table {
	const uint8_t *header;	    /* .eh_frame_hdr; NULL: none */
	const uint8_t *start, *end; /* the object */
};

struct cfi_entry {
	uintptr_t start, end; /* code range that it describes */
	uint64_t code_factor;
	int64_t data_factor;
	const uint8_t *initial, *initial_end; /* instructions of the CIE */
	const uint8_t *program, *program_end; /* instructions of the FDE */
	unsigned return_register;
	uint8_t encoding;
	bool signal; /* a signal frame: the caller's pc is the interrupted instruction, not a return address */
};

enum cfi_kind {
	CFI_SAME = 0,
	CFI_UNDEFINED,
	CFI_OFFSET,	/* saved at CFA + value */
	CFI_VAL_OFFSET, /* is CFA + value */
	CFI_REGISTER,	/* is in register `value` */
	CFI_EXPRESSION, /* saved at the address the expression yields; value = pointer to length and code */
	CFI_VAL_EXPRESSION, /* is what the expression yields */
};

struct cfi_state {
	int64_t value[DW_REGISTERS];
	uint8_t kind[DW_REGISTERS]; /* enum cfi_kind */
	uint8_t cfa_register;
	bool cfa_by_expression;
	int64_t cfa_offset;
	const uint8_t *cfa_expression; /* ULEB length, then code */
};

enum { CFI_LENGTH_BYTES = 10 }; /* maximum size of an expression's length */
enum { CFI_REMEMBERED = 8 };
struct cfi_scratch {
	struct cfi_state state, initial, remembered[CFI_REMEMBERED];
	uint64_t stack[32]; /* of the expression evaluator */
	uint64_t registers[2][DW_REGISTERS];
};

/* Finds the entry for pc by binary search in the table. False: none, or an unsupported form. */
bool cfi_find(const struct cfi_table *table, uintptr_t pc, struct cfi_entry *ret);

/* Runs the entry's instructions up to pc; the result is scratch->state. False: unsupported. */
bool cfi_run(const struct cfi_entry *entry, uintptr_t pc, struct cfi_scratch *scratch);

/* The rules at pc, a return address unless `exact`: by its entry, or, in a program with musl, without one by the code (arch/scan.h).
 * The result is scratch->state. False: unknown. */
bool cfi_state_at(const struct cfi_table *table, uintptr_t pc, bool exact, struct cfi_entry *ret,
		  struct cfi_scratch *scratch);

/* Reads the next ULEB128/SLEB128 below `end`. */
uint64_t cfi_uleb(const uint8_t **at, const uint8_t *end);
int64_t cfi_sleb(const uint8_t **at, const uint8_t *end);
#endif
