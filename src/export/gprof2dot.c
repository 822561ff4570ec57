/* SPDX-License-Identifier: Apache-2.0 */
/* gprof2dot's JSON: functions, and for each stack its call chain, innermost first, with the cost. */
#include "export/stacks.h"

#include "base/compiler.h"
#include "util/text/json.h"

static int write_events(const struct export_input *in, struct json *j,
			struct function_numbers *functions, FILE *out)
{
	struct stack_scratch scratch = { 0 };
	struct location_chain stack;
	int status = 0;

	json_key(j, "events");
	json_array(j);
	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];
		int64_t value = selection_cost(in->selection, &e->m);

		if (value == 0)
			continue;
		status = entry_stack(in, e, &scratch, &stack);
		json_object(j);
		json_key(j, "callchain");
		json_array(j);
		/* gprof2dot does not expect an empty chain: NULL is the function for the empty stack. */
		for (size_t k = 0; status == 0 && k < MAX(stack.count, (size_t)1); k++) {
			const struct location *function = stack.count ? stack.at[k] : NULL;
			size_t number = function_number(functions, function);

			status = number == SIZE_MAX ? -1 : 0;
			json_u64(j, number);
		}
		json_end_array(j);
		json_key(j, "cost");
		json_array(j);
		json_i64(j, value);
		json_end_array(j);
		json_end_object(j);
		flush_buffer(j->out, out, 1);
	}
	json_end_array(j);
	stack_scratch_release(&scratch);
	return status;
}

int export_gprof2dot(const struct export_input *in, FILE *out, struct error *error)
{
	struct buffer buffer = BUFFER_INIT;
	struct json j = json_to(&buffer, JSON_COMPACT);
	struct function_numbers functions = { 0 };

	json_object(&j);
	json_field_u64(&j, "version", 0);
	json_key(&j, "costs");
	json_array(&j);
	json_object(&j);
	char description[256];

	snprintf(description, sizeof description, "%s%s", in->selection->cost_word,
		 estimate_words(in).text);
	json_field_string(&j, "description", description);
	json_field_string(&j, "unit", cost_unit_word(in->selection->cost));
	json_end_object(&j);
	json_end_array(&j);
	int status = write_events(in, &j, &functions, out);

	json_key(&j, "functions");
	json_array(&j);
	for (size_t i = 0; i < functions.items.count; i++) {
		const struct location *p = functions.items.at[i];

		json_object(&j);
		json_field_string(&j, "name", p ? p->frame.function : "[no stack]");
		json_field_string(&j, "module", p ? p->frame.module : "");
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	buffer_char(&buffer, '\n');
	if (buffer.failed)
		status = -1;
	flush_buffer(&buffer, out, 1);
	buffer_release(&buffer);
	function_numbers_release(&functions);
	return status < 0 ? no_memory(error) : 0;
}
