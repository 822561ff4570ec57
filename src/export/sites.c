/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites for databases: every number of a site, its owner and its stack, as CSV or as one JSON object
 * to a line. The columns are the same in both, and so are their names everywhere else.
 */
#include <inttypes.h>
#include <string.h>

#include "base/compiler.h"
#include "export/stacks.h"
#include "util/json.h"

#define NUMBER(name) offsetof(struct site_numbers, name)

static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{ "calls", NUMBER(calls) },
	{ "total_bytes", NUMBER(bytes) },
	{ "frees", NUMBER(frees) },
	{ "live_bytes", NUMBER(live_bytes) },
	{ "live_blocks", NUMBER(live_blocks) },
	{ "peak_bytes", NUMBER(peak_bytes) },
	{ "peak_blocks", NUMBER(peak_blocks) },
	{ "max_bytes", NUMBER(max_bytes) },
	{ "temporary_calls", NUMBER(temporary_calls) },
	{ "waste_bytes", NUMBER(slack_bytes) },
	{ "lifetime_ms", NUMBER(lifetime_ms_sum) },
	{ "realloc_calls", NUMBER(reallocs.calls) },
	{ "copied_bytes", NUMBER(reallocs.moved_bytes) },
};

static uint64_t number_at(const struct site_numbers *n, size_t i)
{
	uint64_t value;

	memcpy(&value, (const char *)n + numbers[i].offset, sizeof value);
	return value;
}

static void put_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (; text && *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void put_csv_row(FILE *out, const struct entry *e, struct place_chain stack)
{
	const struct place *owner = places_owner(stack);
	const struct result_frame *f = owner ? &owner->frame : NULL;

	fprintf(out, "%u,%u,%s", e->process->pid, e->site->id.v, profile_kind_name(e->site->kind));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		fprintf(out, ",%" PRIu64, number_at(&e->site->numbers, i));
	fputc(',', out);
	put_quoted(out, f ? f->function : "");
	fputc(',', out);
	put_quoted(out, f && f->file ? f->file : "");
	fprintf(out, ",%" PRIu32 ",", f ? f->line : 0);
	put_quoted(out, f ? f->module : "");
	fputs(",\"", out);
	for (size_t i = stack.count; i > 0; i--) {
		for (const char *c = stack.at[i - 1]->frame.function; *c; c++) {
			if (*c == '"')
				fputc('"', out);
			fputc(*c == ';' ? ':' : *c, out);
		}
		if (i > 1)
			fputc(';', out);
	}
	fputs("\"\n", out);
}

int export_csv(const struct export_input *in, FILE *out, struct error *error)
{
	struct stack_scratch scratch = { 0 };
	struct place_chain stack;
	int status = 0;

	fputs("process,site,kind", out);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		fprintf(out, ",%s", numbers[i].name);
	fputs(",function,file,line,module,stack\n", out);
	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		status = entry_stack(in, &in->selection->entries[i], &scratch, &stack);
		if (status == 0)
			put_csv_row(out, &in->selection->entries[i], stack);
	}
	stack_scratch_release(&scratch);
	return status < 0 ? no_memory(error) : 0;
}

static void put_object(struct json *j, const struct entry *e, struct place_chain stack)
{
	const struct place *owner = places_owner(stack);
	const struct result_frame *f = owner ? &owner->frame : NULL;

	json_object(j);
	json_field_u64(j, "process", e->process->pid);
	json_field_u64(j, "site", e->site->id.v);
	json_field_string(j, "kind", profile_kind_name(e->site->kind));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_field_u64(j, numbers[i].name, number_at(&e->site->numbers, i));
	json_field_string(j, "function", f ? f->function : NULL);
	json_field_string(j, "file", f ? f->file : NULL);
	json_field_u64(j, "line", f ? f->line : 0);
	json_field_string(j, "module", f ? f->module : NULL);
	json_key(j, "stack");
	json_array(j);
	for (size_t i = stack.count; i > 0; i--)
		json_string(j, stack.at[i - 1]->frame.function);
	json_end_array(j);
	json_end_object(j);
}

int export_jsonl(const struct export_input *in, FILE *out, struct error *error)
{
	struct stack_scratch scratch = { 0 };
	struct buffer buffer = BUFFER_INIT;
	struct place_chain stack;
	int status = 0;

	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		struct json j = json_to(&buffer, JSON_COMPACT);

		status = entry_stack(in, &in->selection->entries[i], &scratch, &stack);
		if (status < 0)
			break;
		put_object(&j, &in->selection->entries[i], stack);
		buffer_char(&buffer, '\n');
		status = buffer.failed ? -1 : 0;
		fwrite(buffer.data, 1, buffer.size, out);
		buffer_clear(&buffer);
	}
	buffer_release(&buffer);
	stack_scratch_release(&scratch);
	return status < 0 ? no_memory(error) : 0;
}
