/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* Unwinding by code alone (arch/scan.h), compared with the unwind information of code that has both: for every call in every function
 * of glibc, the frame is the same or unknown, but for a few: docs/internals/stack-walk.md. */
#include "unit.h"

#include <gnu/libc-version.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "recorder/arch/scan.h"
#include "recorder/arch/x86_64/instruction.h"
#include "recorder/libc/libc.h"
#include "recorder/unwind/cfi.h"

struct counts {
	unsigned same, unknown, different, outermost;
};

static struct cfi_scratch told, derived;

static bool is_same(const struct cfi_state *a, const struct cfi_state *b)
{
	static const unsigned kept[] = { 3, DW_FP, 12, 13, 14, 15 };

	if (a->cfa_register != b->cfa_register || a->cfa_offset != b->cfa_offset)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		unsigned r = kept[i];

		if (a->kind[r] == CFI_OFFSET &&
		    (b->kind[r] != CFI_OFFSET || a->value[r] != b->value[r]))
			return false;
	}
	return true;
}

static void compare_at(const struct cfi_table *table, uintptr_t pc, struct counts *counts)
{
	struct cfi_entry entry;

	/* In a function that never returns from here, the next instruction is another one's. */
	if (!cfi_find(table, pc, &entry) || !cfi_find(table, pc - 1, &entry) ||
	    !cfi_run(&entry, pc - 1, &told) || told.state.cfa_by_expression)
		return;
	enum scan_result result = arch_scan(pc, false, &derived);

	if (result != SCAN_FRAME)
		counts->unknown++;
	else if (derived.state.kind[DW_PC] == CFI_UNDEFINED)
		counts->outermost++;
	else if (is_same(&told.state, &derived.state))
		counts->same++;
	else if (counts->different++ < 10)
		print_message("%p: cfa r%d%+ld by unwind information, r%d%+ld by code\n",
			      (void *)pc, told.state.cfa_register, (long)told.state.cfa_offset,
			      derived.state.cfa_register, (long)derived.state.cfa_offset);
}

static void compare_function(const struct cfi_table *table, const struct cfi_entry *function,
			     struct counts *counts)
{
	struct instruction instruction;

	for (uintptr_t pc = function->start; pc + INSTRUCTION_BYTES_READ < function->end;
	     pc += instruction.bytes) {
		instruction = instruction_decode((const uint8_t *)pc, pc);
		if (instruction.kind == INSTRUCTION_UNKNOWN)
			return;
		if (instruction.kind == INSTRUCTION_CALL)
			compare_at(table, pc + instruction.bytes, counts);
	}
}

static struct counts compare_object(uintptr_t inside)
{
	struct libc_found object;
	struct counts counts = { 0 };

	libc_find_start();
	assert_true(libc_find(inside, &object));
	struct cfi_table table = { object.unwind_header, (const uint8_t *)object.start,
				   (const uint8_t *)object.end };
	/* version, encodings, then pointer, number of rows, rows of (pc, entry), relative to the header */
	const int32_t *header = (const int32_t *)(const void *)object.unwind_header;

	for (int32_t i = 0; i < header[2]; i++) {
		uintptr_t pc =
			(uintptr_t)object.unwind_header + (uintptr_t)(intptr_t)header[3 + 2 * i];
		struct cfi_entry function;

		if (cfi_find(&table, pc, &function))
			compare_function(&table, &function, &counts);
	}
	print_message("same %u, unknown %u, outermost %u, different %u\n", counts.same,
		      counts.unknown, counts.outermost, counts.different);
	return counts;
}

static void nearly_every_call_of_libc_has_the_frame_of_its_unwind_information(void **state)
{
	(void)state;
	struct counts counts = compare_object(
		(uintptr_t)&gnu_get_libc_version) /* sanitizers have none of their own */;

	/* Bounds, not a proof: glibc 2.36 has 21 that differ and 693 unknown. Most of the 21 follow a call that never returns. */
	assert_true(counts.same > 1000);
	assert_in_range(counts.different, 0, counts.same / 400);
	assert_in_range(counts.unknown, 0, counts.same / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearly_every_call_of_libc_has_the_frame_of_its_unwind_information),
	};

	arch_scan_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
