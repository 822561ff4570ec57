/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF expressions, as far as call frame information uses them. */
#ifndef RECORDER_UNWIND_EXPRESSION_H
#define RECORDER_UNWIND_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/unwind/cfi.h"

struct expression {
	const uint64_t *registers; /* DW_REGISTERS of them */
	uint64_t *stack;	   /* EXPRESSION_DEPTH words */
	bool (*load)(void *context, uintptr_t address, uint64_t *ret_word);
	void *context;
};
enum { EXPRESSION_DEPTH = 32 };

/* Evaluates ULEB length + code, with `first` on the stack if push_first (the CFA, for register rules). False: an
 * unknown operation, or unreadable memory. */
bool expression_evaluate(const struct expression *expression, const uint8_t *code, bool push_first,
			 uint64_t first, uint64_t *ret);
#endif
