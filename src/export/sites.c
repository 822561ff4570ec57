/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites for databases: all numbers of a site, its owner and its stack, as CSV or as one JSON object
 * per line. The columns are the same in both, with the same names as everywhere else.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "export/stacks.h"
#include "model/entries.h"
#include "model/estimates.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/text/json.h"

/* For a subset of threads, a number may be unknown: after remote frees, or if live blocks were not counted. */
enum availability {
	ALWAYS_KNOWN,
	UNKNOWN_IF_REMOTE_FREES,
	UNKNOWN_IF_LIVE_UNKNOWN,
	UNKNOWN_IF_UNAGED, /* mappings have no birth */
};

#define NUMBER(member, variance) offsetof(struct site_numbers, member), VARIANCE_##variance

/* The numbers of a site, named as in the view sites of report. */
static const struct {
	const char *name;
	enum availability availability;
	size_t offset;		 /* in struct site_numbers */
	enum variance_rule rule; /* for its standard error */
	bool is_cost;		 /* it is a cost of the selection instead */
	enum cost_id cost;
} columns[] = {
	{ "calls", ALWAYS_KNOWN, NUMBER(calls, CALLS) },
	{ "total_bytes", ALWAYS_KNOWN, NUMBER(bytes, BYTES) },
	{ "frees", UNKNOWN_IF_LIVE_UNKNOWN, NUMBER(frees, FREES) },
	{ "freed_bytes", UNKNOWN_IF_LIVE_UNKNOWN, NUMBER(freed_bytes, FREED_BYTES) },
	{ "live_bytes", UNKNOWN_IF_LIVE_UNKNOWN, .is_cost = true,
	  .cost = COST_LIVE }, /* at the selected moment */
	{ "live_blocks", UNKNOWN_IF_LIVE_UNKNOWN, .is_cost = true, .cost = COST_BLOCKS },
	{ "not_freed_bytes", UNKNOWN_IF_LIVE_UNKNOWN, NUMBER(live_bytes, LIVE_BYTES) },
	{ "not_freed_blocks", UNKNOWN_IF_LIVE_UNKNOWN, NUMBER(live_blocks, LIVE_BLOCKS) },
	{ "peak_bytes", UNKNOWN_IF_REMOTE_FREES, NUMBER(peak_bytes, PEAK_BYTES) },
	{ "peak_blocks", UNKNOWN_IF_REMOTE_FREES, NUMBER(peak_blocks, PEAK_BLOCKS) },
	{ "max_bytes", ALWAYS_KNOWN, NUMBER(max_bytes, BYTES) },
	{ "temporary_calls", ALWAYS_KNOWN, NUMBER(temporary_calls, CALLS) },
	{ "internal_fragmentation_bytes", ALWAYS_KNOWN, NUMBER(fragmentation_bytes, WASTE) },
	{ "lifetime_ns", UNKNOWN_IF_UNAGED, .is_cost = true, .cost = COST_LIFETIME },
	{ "realloc_calls", ALWAYS_KNOWN, NUMBER(reallocs.calls, CALLS) },
	{ "moved_calls", ALWAYS_KNOWN, NUMBER(reallocs.moved_calls, CALLS) },
	{ "copied_bytes", ALWAYS_KNOWN, NUMBER(reallocs.moved_bytes, BYTES) },
};

/* The data written for a site. */
struct site {
	const struct selection *selection;
	const struct entry *entry;
	struct site_numbers numbers;
	const char *tag, *pool;
	struct location_chain stack;
	const struct result_frame *owner; /* NULL: none */
};

struct number {
	bool known; /* else it was not measured for the selected threads */
	int64_t value;
	double error; /* the standard error of an estimate */
};

static struct number number_at(const struct site *site, size_t column)
{
	const struct site_numbers *n = &site->numbers;
	const struct measures *m = &site->entry->m;
	uint64_t duration_ns = site->selection->duration_ns, part;
	enum availability availability = columns[column].availability;
	const bool known[] = { [ALWAYS_KNOWN] = true,
			       [UNKNOWN_IF_REMOTE_FREES] = !n->has_remote_frees,
			       [UNKNOWN_IF_LIVE_UNKNOWN] = !n->live_unknown,
			       [UNKNOWN_IF_UNAGED] =
				       !n->has_remote_frees && (!n->frees || n->aged_frees) };
	struct number number = { .known = known[availability] };

	if (columns[column].is_cost) {
		number.value = cost_of(columns[column].cost, m, duration_ns);
		number.error = sqrt(fabs(cost_variance(columns[column].cost, m, duration_ns)));
	} else {
		memcpy(&part, (const char *)n + columns[column].offset, sizeof part);
		number.value = (int64_t)part;
		number.error = sqrt(fabs(estimate_variance(n, columns[column].rule, part)));
	}
	return number;
}

typedef void site_writer(void *context, const struct site *site);

static int write_sites(const struct export_input *in, site_writer *write, void *context,
		       struct error *error)
{
	struct stack_scratch scratch = { 0 };
	int status = 0;

	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];
		AUTO(arena_release) struct arena arena = ARENA_INIT;
		struct site site = { .selection = in->selection,
				     .entry = e,
				     .numbers = selection_numbers(in->selection, e),
				     .tag = profile_tag_path(e->process, e->site->tag, &arena),
				     .pool = profile_tag_pool(e->process, e->site->tag) };

		status = site.tag ? entry_stack(in, e, &scratch, &site.stack) : -1;
		if (status < 0)
			break;
		const struct location *owner = locations_owner(site.stack);

		site.owner = owner ? &owner->frame : NULL;
		write(context, &site);
	}
	stack_scratch_release(&scratch);
	return status < 0 ? no_memory(error) : 0;
}

/* CSV quoting: quotes are doubled. In a stack, ';' separates frames. */
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

static void put_csv_row(void *context, const struct site *site)
{
	FILE *out = context;
	const struct entry *e = site->entry;
	const struct result_frame *f = site->owner;
	bool estimated = site->selection->sum.variance.samples > 0;

	fprintf(out, "%u,%u,%s,", e->process->pid, e->site->id.v, profile_kind_name(e->site->kind));
	put_quoted(out, site->tag);
	fputc(',', out);
	put_quoted(out, site->pool);
	fprintf(out, ",%s", profile_entry_name(e->site));
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		struct number number = number_at(site, i);

		if (!number.known) {
			fputs(estimated ? ",," : ",", out);
			continue;
		}
		fprintf(out, ",%" PRId64, number.value);
		if (estimated)
			fprintf(out, ",%.0f", number.error);
	}
	fputc(',', out);
	put_quoted(out, f ? f->function : "");
	fputc(',', out);
	put_quoted(out, f && f->file ? f->file : "");
	fprintf(out, ",%" PRIu32 ",", f ? f->line : 0);
	put_quoted(out, f ? f->module : "");
	fputs(",\"", out);
	for (size_t i = site->stack.count; i > 0; i--) {
		put_text(out, site->stack.at[i - 1]->frame.function, true);
		if (i > 1)
			fputc(';', out);
	}
	fputs("\"\n", out);
}

int export_csv(const struct export_input *in, FILE *out, struct error *error)
{
	fputs("pid,site,kind,tag,pool,entry", out);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		fprintf(out, is_estimated(in) ? ",%s,%s_error" : ",%s", columns[i].name,
			columns[i].name);
	fputs(",function,file,line,module,stack\n", out);
	return write_sites(in, put_csv_row, out, error);
}

struct lines {
	struct buffer buffer;
	FILE *out;
};

static void put_object(void *context, const struct site *site)
{
	struct lines *lines = context;
	struct json json = json_to(&lines->buffer, JSON_COMPACT), *j = &json;
	const struct entry *e = site->entry;
	const struct result_frame *f = site->owner;
	const char *called = profile_entry_name(e->site);

	json_object(j);
	json_field_schema(j);
	json_field_u64(j, "pid", e->process->pid);
	json_field_u64(j, "site", e->site->id.v);
	json_field_string(j, "kind", profile_kind_name(e->site->kind));
	json_field_string(j, "tag", *site->tag ? site->tag : NULL);
	json_field_string(j, "pool", *site->pool ? site->pool : NULL);
	json_field_string(j, "entry", *called ? called : NULL);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		struct number number = number_at(site, i);
		char key[80];

		if (!number.known) {
			json_key(j, columns[i].name);
			json_null(j);
			continue;
		}
		json_field_i64(j, columns[i].name, number.value);
		snprintf(key, sizeof key, "%s_error", columns[i].name);
		if (site->selection->sum.variance.samples > 0)
			json_field_double(j, key, round(number.error));
	}
	json_field_string(j, "function", f ? f->function : NULL);
	json_field_string(j, "file", f ? f->file : NULL);
	json_field_u64(j, "line", f ? f->line : 0);
	json_field_string(j, "module", f ? f->module : NULL);
	json_key(j, "stack");
	json_array(j);
	for (size_t i = site->stack.count; i > 0; i--)
		json_string(j, site->stack.at[i - 1]->frame.function);
	json_end_array(j);
	json_end_object(j);
	buffer_char(&lines->buffer, '\n');
	flush_buffer(&lines->buffer, lines->out, 1);
}

int export_jsonl(const struct export_input *in, FILE *out, struct error *error)
{
	struct lines lines = { .out = out };
	int status = write_sites(in, put_object, &lines, error);
	bool failed = lines.buffer.failed;

	buffer_release(&lines.buffer);
	return status == 0 && failed ? no_memory(error) : status;
}
