/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks: "main;serve;insert 4096", outermost first, one line per stack with a non-zero
 * cost. Equal lines are not merged, because readers add them up anyway.
 *
 * Two numbers at the end of a line mean a difference: so a name that ends in a number is separated
 * from the cost.
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "export/stacks.h"

static bool ends_in_number(const char *text)
{
	size_t at = strlen(text);

	while (at > 0 && isdigit((unsigned char)text[at - 1]))
		at--;
	return text[at] && at > 0 && text[at - 1] == ' ';
}

int export_folded(const struct export_input *in, FILE *out, struct error *error)
{
	struct stack_scratch scratch = { 0 };
	int status = 0;

	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];
		int64_t value = selection_cost(in->selection, &e->m);
		struct location_chain stack;

		if (value == 0)
			continue;
		if (entry_stack(in, e, &scratch, &stack) < 0) {
			status = no_memory(error);
			break;
		}
		for (size_t j = stack.count; j > 0; j--) {
			write_safe(out, stack.at[j - 1]->frame.function, ";", ':');
			if (j > 1)
				fputc(';', out);
		}
		if (stack.count == 0)
			fputs("[no stack]", out);
		else if (ends_in_number(stack.at[0]->frame.function))
			fputc('_', out);
		fprintf(out, " %" PRId64 "\n", value);
	}
	stack_scratch_release(&scratch);
	return status;
}
