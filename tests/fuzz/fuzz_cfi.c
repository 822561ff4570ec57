/* SPDX-License-Identifier: Apache-2.0 */
/* links: base */
/* Unwind tables of a loaded object, any bytes: nothing outside of the object is read. The code under test is compiled in,
 * because the recorder itself is never sanitized. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/unwind/cfi.c"
#include "recorder/unwind/expression.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For code without tables, which is not what is tried here. */
bool libc_musl;
enum scan_result arch_scan(uintptr_t pc, bool exact, struct cfi_scratch *scratch)
{
	(void)pc, (void)exact, (void)scratch;
	return SCAN_UNKNOWN;
}

static bool load(void *context, uintptr_t address, uint64_t *ret_word)
{
	(void)context;
	*ret_word = address * 3;
	return address % 7 != 0;
}

static void evaluate(struct cfi_scratch *scratch)
{
	static const uint64_t registers[DW_REGISTERS] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const struct cfi_state *state = &scratch->state;
	struct expression expression = { registers, scratch->stack, load, NULL };
	uint64_t value;

	if (state->cfa_by_expression)
		expression_evaluate(&expression, state->cfa_expression, false, 0, &value);
	for (int r = 0; r < DW_REGISTERS; r++)
		if (state->kind[r] == CFI_EXPRESSION || state->kind[r] == CFI_VAL_EXPRESSION)
			expression_evaluate(&expression,
					    (const uint8_t *)(uintptr_t)state->value[r], true, 4096,
					    &value);
}

/* Two bytes say where the header is, four where the code is; the rest is the object. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct cfi_scratch scratch;
	uint16_t header_at;
	int32_t code_at;

	if (size < sizeof header_at + sizeof code_at)
		return 0;
	memcpy(&header_at, data, sizeof header_at);
	memcpy(&code_at, data + sizeof header_at, sizeof code_at);
	size -= sizeof header_at + sizeof code_at;
	if (header_at > size)
		return 0;
	uint8_t *object = malloc(size ? size : 1);

	if (!object)
		return 0;
	memcpy(object, data + sizeof header_at + sizeof code_at, size);
	const struct cfi_table table = { object + header_at, object, object + size };
	uintptr_t pc = (uintptr_t)object + (uintptr_t)(intptr_t)code_at;
	struct cfi_entry entry;

	if (cfi_find(&table, pc, &entry) && cfi_run(&entry, pc, &scratch))
		evaluate(&scratch);
	free(object);
	return 0;
}
