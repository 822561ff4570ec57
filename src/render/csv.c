/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as CSV (RFC 4180 with plain newlines): only the table, a line of names, then a line per row. Lists and
 * records become one cell: a stack from the outermost frame inwards separated by ';', bars as low-high:count, records
 * as name=value. Numbers are exact. A column of estimates is followed by one of their standard errors, NAME_error;
 * that of a bar follows a '~'.
 */
#include <inttypes.h>
#include <string.h>

#include "base/compiler.h"
#include "render/renderers.h"
#include "util/cleanup.h"

/* Quotes a text if necessary; quotes inside are doubled. */
static void append_quoted(struct buffer *b, const char *text)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		buffer_text(b, text);
		return;
	}
	buffer_char(b, '"');
	for (; *text; text++) {
		if (*text == '"')
			buffer_char(b, '"');
		buffer_char(b, *text);
	}
	buffer_char(b, '"');
}

static void append_frames(struct buffer *b, struct result_frames frames)
{
	for (size_t i = frames.count; i > 0; i--) {
		/* A ';' in a name would end the frame. */
		for (const char *c = frames.at[i - 1]->function; *c; c++)
			buffer_char(b, *c == ';' ? ':' : *c);
		if (i > 1)
			buffer_char(b, ';');
	}
}

static void append_bars(struct buffer *b, struct result_bars bars)
{
	for (size_t i = 0; i < bars.count; i++) {
		buffer_printf(b, "%s%" PRIu64 "-%" PRIu64 ":%" PRIu64, i ? ";" : "", bars.at[i].low,
			      bars.at[i].high, bars.at[i].count);
		if (bars.at[i].error > 0)
			buffer_printf(b, "~%.3g", (double)bars.at[i].error);
	}
}

static void append_error(struct buffer *b, float error)
{
	buffer_printf(b, error >= 1000 ? "%.0f" : "%.3g", (double)error);
}

static void append_errors(struct buffer *b, const struct result_value *v)
{
	if (v->unit != UNIT_SERIES) {
		append_error(b, v->error);
		return;
	}
	for (size_t i = 0; v->numbers.errors && i < v->numbers.count; i++) {
		buffer_text(b, i ? ";" : "");
		append_error(b, v->numbers.errors[i]);
	}
}

static void append_plain(struct buffer *b, const struct result_value *v)
{
	switch (v->unit) {
	case UNIT_TEXT:
		buffer_text(b, v->text ? v->text : "");
		break;
	case UNIT_ID:
	case UNIT_COUNT:
	case UNIT_BYTES:
	case UNIT_NS:
	case UNIT_RATE:
		buffer_printf(b, "%" PRIu64, v->number);
		break;
	case UNIT_COUNT_CHANGE:
	case UNIT_BYTES_CHANGE:
	case UNIT_NS_CHANGE:
	case UNIT_BYTES_RATE:
		buffer_printf(b, "%" PRId64, v->change);
		break;
	case UNIT_FLAG:
		buffer_text(b, v->flag ? "true" : "false");
		break;
	case UNIT_FRAMES:
		append_frames(b, v->frames);
		break;
	case UNIT_SIZES:
	case UNIT_LIFETIMES:
		append_bars(b, v->bars);
		break;
	case UNIT_FIELDS:
		for (size_t i = 0; i < v->fields.count; i++) {
			buffer_printf(b, "%s%s=", i ? ";" : "", v->fields.at[i].name);
			append_plain(b, &v->fields.at[i].value);
			if (v->fields.at[i].value.error > 0) {
				buffer_printf(b, ";%s_error=", v->fields.at[i].name);
				append_error(b, v->fields.at[i].value.error);
			}
		}
		break;
	case UNIT_SERIES:
		for (size_t i = 0; i < v->numbers.count; i++)
			buffer_printf(b, "%s%" PRId64, i ? ";" : "", v->numbers.at[i]);
		break;
	case UNIT_PATH:
		buffer_text(b, v->path.text ? v->path.text : "");
		break;
	case UNIT_BAR:
	case UNIT_PERCENT: /* for people only: part and whole are other columns */
		break;
	}
}

/* One line per node, with its index and its parent's: the data of a flame graph, for other tools. */
static int render_nodes(const struct result_nodes *n, struct render_output *out,
			struct error *error)
{
	struct buffer *b = &out->buffer;

	buffer_text(b, "node,parent,value,self,");
	buffer_text(b, n->value_error ? "value_error,self_error," : "");
	buffer_text(b, "function,file,line,module\n");
	for (size_t i = 0; i < n->count; i++) {
		const struct result_frame *f = n->name[i] < 0 ? NULL : &n->names[n->name[i]];

		buffer_printf(b, "%zu,%" PRId32 ",%" PRId64 ",%" PRId64 ",", i, n->parent[i],
			      n->value[i], n->self[i]);
		if (n->value_error) {
			append_error(b, n->value_error[i]);
			buffer_char(b, ',');
			append_error(b, n->self_error[i]);
			buffer_char(b, ',');
		}
		append_quoted(b, f ? f->function : "");
		buffer_char(b, ',');
		append_quoted(b, f && f->file ? f->file : "");
		buffer_printf(b, ",%" PRIu32 ",", f ? f->line : 0);
		append_quoted(b, f ? f->module : "");
		buffer_char(b, '\n');
		if (render_flush(out, false, error) < 0)
			return -1;
	}
	return render_flush(out, true, error);
}

static void append_names(struct buffer *b, const struct result_table *t, const bool *estimated)
{
	for (size_t i = 0, shown = 0; i < t->column_count; i++) {
		const char *name = t->columns[i].name;

		if (name)
			buffer_printf(b, "%s%s", shown++ ? "," : "", name);
		if (name && estimated[i])
			buffer_printf(b, ",%s_error", name);
	}
	buffer_char(b, '\n');
}

/* `cell` is scratch space for one value at a time. */
static void append_row(struct buffer *b, const struct result_table *t, size_t row,
		       const bool *estimated, struct buffer *cell)
{
	for (size_t i = 0, shown = 0; i < t->column_count; i++) {
		const struct result_value *value = &t->values[row * t->column_count + i];

		if (!t->columns[i].name)
			continue;
		buffer_clear(cell);
		append_plain(cell, value);
		const char *text = buffer_string(cell);

		if (shown++)
			buffer_char(b, ',');
		append_quoted(b, text ? text : "");
		if (estimated[i]) {
			buffer_char(b, ',');
			append_errors(b, value);
		}
	}
	buffer_char(b, '\n');
}

int render_csv(const struct result *result, const struct render_options *options,
	       struct render_output *out, struct error *error)
{
	const struct result_table *t = &result->table;
	struct buffer *b = &out->buffer, cell = BUFFER_INIT;
	int status = 0;

	out->printable = options->terminal;
	if (t->nodes)
		return render_nodes(t->nodes, out, error);
	AUTO_FREE bool *estimated = render_estimated(t);

	if (!estimated)
		return error_set(error, "out of memory");
	append_names(b, t, estimated);
	for (size_t row = 0; row < t->row_count && status == 0; row++) {
		append_row(b, t, row, estimated, &cell);
		status = render_flush(out, false, error);
	}
	if (cell.failed)
		b->failed = true;
	buffer_release(&cell);
	return status < 0 ? status : render_flush(out, true, error);
}
