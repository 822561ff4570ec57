/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites for databases: every number of a site, its owner and its stack, as CSV or as one JSON object
 * to a line. The columns are the same in both, and so are their names everywhere else.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/stacks.h"
#include "model/estimates.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/json.h"

enum {
	CALLS,
	TOTAL_BYTES,
	FREES,
	FREED_BYTES,
	LIVE_BYTES,
	LIVE_BLOCKS,
	LEAKED_BYTES,
	LEAKED_BLOCKS,
	PEAK_BYTES,
	PEAK_BLOCKS,
	MAX_BYTES,
	TEMPORARY_CALLS,
	WASTE_BYTES,
	LIFETIME_NS,
	REALLOC_CALLS,
	MOVED_CALLS,
	COPIED_BYTES,
	NUMBERS,
};

/* The names are those of report's view sites. */
static const char *const number_names[NUMBERS] = {
	[CALLS] = "calls",
	[TOTAL_BYTES] = "total_bytes",
	[FREES] = "frees",
	[FREED_BYTES] = "freed_bytes",
	[LIVE_BYTES] = "live_bytes", /* at the moment asked for */
	[LIVE_BLOCKS] = "live_blocks",
	[LEAKED_BYTES] = "not_freed_bytes",
	[LEAKED_BLOCKS] = "not_freed_blocks",
	[PEAK_BYTES] = "peak_bytes",
	[PEAK_BLOCKS] = "peak_blocks",
	[MAX_BYTES] = "max_bytes",
	[TEMPORARY_CALLS] = "temporary_calls",
	[WASTE_BYTES] = "internal_fragmentation_bytes",
	[LIFETIME_NS] = "lifetime_ns",
	[REALLOC_CALLS] = "realloc_calls",
	[MOVED_CALLS] = "moved_calls",
	[COPIED_BYTES] = "copied_bytes",
};

struct numbers {
	int64_t at[NUMBERS];
	double errors[NUMBERS]; /* standard errors of estimates */
	bool unknown[NUMBERS];	/* not measured for the threads asked for */
};

/* What each is a part of; the others are of the selection. */
static const enum variance_rule rules[NUMBERS] = {
	[CALLS] = VARIANCE_CALLS,
	[TOTAL_BYTES] = VARIANCE_BYTES,
	[FREES] = VARIANCE_FREES,
	[FREED_BYTES] = VARIANCE_FREED_BYTES,
	[LEAKED_BYTES] = VARIANCE_LIVE_BYTES,
	[LEAKED_BLOCKS] = VARIANCE_LIVE_BLOCKS,
	[PEAK_BYTES] = VARIANCE_PEAK_BYTES,
	[PEAK_BLOCKS] = VARIANCE_PEAK_BLOCKS,
	[MAX_BYTES] = VARIANCE_BYTES,
	[TEMPORARY_CALLS] = VARIANCE_CALLS,
	[WASTE_BYTES] = VARIANCE_WASTE,
	[REALLOC_CALLS] = VARIANCE_CALLS,
	[MOVED_CALLS] = VARIANCE_CALLS,
	[COPIED_BYTES] = VARIANCE_BYTES,
};

static void fill_errors(struct numbers *numbers, const struct selection *s, const struct entry *e,
			const struct site_numbers *n)
{
	for (size_t i = 0; i < NUMBERS; i++) {
		double variance = estimate_variance(n, rules[i], (uint64_t)numbers->at[i]);

		if (i == LIVE_BYTES)
			variance = e->m.variance.live_bytes;
		else if (i == LIVE_BLOCKS)
			variance = e->m.variance.live_blocks;
		else if (i == LIFETIME_NS)
			variance = cost_variance(COST_LIFETIME, &e->m, s->duration_ns);
		numbers->errors[i] = sqrt(fabs(variance));
	}
}

static struct numbers numbers_of(const struct selection *s, const struct entry *e)
{
	const struct site_numbers n = selection_numbers(s, e);

	struct numbers numbers = { .at = {
					   [CALLS] = (int64_t)n.calls,
					   [TOTAL_BYTES] = (int64_t)n.bytes,
					   [FREES] = (int64_t)n.frees,
					   [FREED_BYTES] = (int64_t)n.freed_bytes,
					   [LIVE_BYTES] = e->m.live_bytes,
					   [LIVE_BLOCKS] = e->m.live_blocks,
					   [LEAKED_BYTES] = (int64_t)n.live_bytes,
					   [LEAKED_BLOCKS] = (int64_t)n.live_blocks,
					   [PEAK_BYTES] = (int64_t)n.peak_bytes,
					   [PEAK_BLOCKS] = (int64_t)n.peak_blocks,
					   [MAX_BYTES] = (int64_t)n.max_bytes,
					   [TEMPORARY_CALLS] = (int64_t)n.temporary_calls,
					   [WASTE_BYTES] = (int64_t)n.slack_bytes,
					   [LIFETIME_NS] =
						   cost_of(COST_LIFETIME, &e->m, s->duration_ns),
					   [REALLOC_CALLS] = (int64_t)n.reallocs.calls,
					   [MOVED_CALLS] = (int64_t)n.reallocs.moved_calls,
					   [COPIED_BYTES] = (int64_t)n.reallocs.moved_bytes,
				   } };

	numbers.unknown[PEAK_BYTES] = numbers.unknown[PEAK_BLOCKS] = numbers.unknown[LIFETIME_NS] =
		n.passed;
	numbers.unknown[LIVE_BYTES] = numbers.unknown[LIVE_BLOCKS] = numbers.unknown[LEAKED_BYTES] =
		numbers.unknown[LEAKED_BLOCKS] = numbers.unknown[FREES] =
			numbers.unknown[FREED_BYTES] = n.live_unknown;
	fill_errors(&numbers, s, e, &n);
	return numbers;
}

/* Inside quotes: a quote is two of them. A ; is what separates the frames of a stack. */
static void put_text(FILE *out, const char *text, bool in_stack)
{
	while (*text) {
		size_t length = plain_run(text, "\";");
		const char *step = text;

		if (length == 0)
			length = safe_step(text, &step);
		if (*text == '"')
			fputs("\"\"", out);
		else if (*text == ';' && in_stack)
			fputc(':', out);
		else
			fwrite(step, 1, step == text ? length : strlen(step), out);
		text += length;
	}
}

static void put_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	put_text(out, text, false);
	fputc('"', out);
}

static void put_csv_row(FILE *out, const struct selection *s, const struct entry *e,
			const char *tag, struct location_chain stack)
{
	const struct numbers numbers = numbers_of(s, e);
	const struct location *owner = locations_owner(stack);
	const struct result_frame *f = owner ? &owner->frame : NULL;
	bool estimated = s->sum.variance.samples > 0;

	fprintf(out, "%u,%u,%s,", e->process->pid, e->site->id.v, profile_kind_name(e->site->kind));
	put_quoted(out, tag);
	fputc(',', out);
	put_quoted(out, profile_tag_pool(e->process, e->site->tag));
	for (size_t i = 0; i < NUMBERS; i++) {
		if (numbers.unknown[i]) {
			fputs(estimated ? ",," : ",", out);
			continue;
		}
		fprintf(out, ",%" PRId64, numbers.at[i]);
		if (estimated)
			fprintf(out, ",%.0f", numbers.errors[i]);
	}
	fputc(',', out);
	put_quoted(out, f ? f->function : "");
	fputc(',', out);
	put_quoted(out, f && f->file ? f->file : "");
	fprintf(out, ",%" PRIu32 ",", f ? f->line : 0);
	put_quoted(out, f ? f->module : "");
	fputs(",\"", out);
	for (size_t i = stack.count; i > 0; i--) {
		put_text(out, stack.at[i - 1]->frame.function, true);
		if (i > 1)
			fputc(';', out);
	}
	fputs("\"\n", out);
}

int export_csv(const struct export_input *in, FILE *out, struct error *error)
{
	struct stack_scratch scratch = { 0 };
	struct location_chain stack;
	int status = 0;

	fputs("pid,site,kind,tag,pool", out);
	for (size_t i = 0; i < NUMBERS; i++)
		fprintf(out, is_estimated(in) ? ",%s,%s_error" : ",%s", number_names[i],
			number_names[i]);
	fputs(",function,file,line,module,stack\n", out);
	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];
		AUTO(arena_release) struct arena arena = ARENA_INIT;
		const char *tag = profile_tag_path(e->process, e->site->tag, &arena);

		status = tag ? entry_stack(in, e, &scratch, &stack) : -1;
		if (status == 0)
			put_csv_row(out, in->selection, e, tag, stack);
	}
	stack_scratch_release(&scratch);
	return status < 0 ? no_memory(error) : 0;
}

static void put_object(struct json *j, const struct selection *s, const struct entry *e,
		       const char *tag, struct location_chain stack)
{
	const struct numbers numbers = numbers_of(s, e);
	const char *pool = profile_tag_pool(e->process, e->site->tag);
	const struct location *owner = locations_owner(stack);
	const struct result_frame *f = owner ? &owner->frame : NULL;

	json_object(j);
	json_field_schema(j);
	json_field_u64(j, "pid", e->process->pid);
	json_field_u64(j, "site", e->site->id.v);
	json_field_string(j, "kind", profile_kind_name(e->site->kind));
	json_field_string(j, "tag", *tag ? tag : NULL);
	json_field_string(j, "pool", *pool ? pool : NULL);
	for (size_t i = 0; i < NUMBERS; i++) {
		char key[80];

		if (numbers.unknown[i]) {
			json_key(j, number_names[i]);
			json_null(j);
			continue;
		}
		json_field_i64(j, number_names[i], numbers.at[i]);
		snprintf(key, sizeof key, "%s_error", number_names[i]);
		if (s->sum.variance.samples > 0)
			json_field_double(j, key, round(numbers.errors[i]));
	}
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
	struct location_chain stack;
	int status = 0;

	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		struct json j = json_to(&buffer, JSON_COMPACT);
		const struct entry *e = &in->selection->entries[i];
		AUTO(arena_release) struct arena arena = ARENA_INIT;
		const char *tag = profile_tag_path(e->process, e->site->tag, &arena);

		status = tag ? entry_stack(in, e, &scratch, &stack) : -1;
		if (status < 0)
			break;
		put_object(&j, in->selection, e, tag, stack);
		buffer_char(&buffer, '\n');
		status = buffer.failed ? -1 : 0;
		fwrite(buffer.data, 1, buffer.size, out);
		buffer_clear(&buffer);
	}
	buffer_release(&buffer);
	stack_scratch_release(&scratch);
	return status < 0 ? no_memory(error) : 0;
}
