/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results for people: the sentences, then the table, then notes on what is missing, marked by "!".
 *
 *   headline
 *
 *     label   words            more words, in a column of their own
 *
 *     HEADING   HEADING
 *      number    number
 *       a stack, one frame per line, if the table has one
 *
 *     ! note
 *
 * Numbers are right-aligned, texts left-aligned. Every omission is stated in a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "render/bar.h"
#include "render/branches.h"
#include "render/renderers.h"
#include "util/cleanup.h"
#include "util/files.h"
#include "util/text/printable.h"
#include "util/text/units.h"
#include "util/text/utf8.h"

enum {
	INDENT = 2,
	STACK_INDENT = 6,
	COLUMNS_MAX = 64,
	MORE_COLUMN_MAX = 56, /* `more` starts at most here; else it follows immediately */
	LAST_COLUMN_MAX = 80, /* the last text of a row is cut here, or at the screen's edge */
	LAST_COLUMN_MIN = 20,
};

/* Counts characters, not bytes: names may be any UTF-8. */
static size_t text_width(const char *text, size_t bytes)
{
	size_t width = 0;

	for (size_t at = 0; at < bytes; width++) {
		size_t step = utf8_sequence(span_of(text + at, bytes - at));

		at += step ? step : 1;
	}
	return width;
}

/* Names come from untrusted binaries. */
static void append_safe(struct buffer *b, const char *text, const struct render_options *o)
{
	buffer_printable(b, text, o->terminal && !o->utf8);
}

static void append_sign(struct buffer *b, int64_t change)
{
	if (change)
		buffer_char(b, change < 0 ? '-' : '+');
}

static void append_value(struct buffer *b, const struct result_value *v,
			 const struct render_options *o)
{
	switch (v->unit) {
	case UNIT_TEXT:
		append_safe(b, v->text ? v->text : "-", o);
		break;
	case UNIT_ID:
		buffer_printf(b, "%llu", (unsigned long long)v->number);
		break;
	case UNIT_COUNT:
		buffer_text(b, units_count(v->number).text);
		break;
	case UNIT_BYTES:
		if (o->exact_bytes)
			buffer_printf(b, "%s B", units_count(v->number).text);
		else
			buffer_text(b, units_bytes(v->number).text);
		break;
	case UNIT_NS:
		buffer_text(b, units_duration(v->number).text);
		break;
	case UNIT_RATE:
		buffer_printf(b, "%s/s", units_count_short(v->number).text);
		break;
	case UNIT_COUNT_CHANGE:
		append_sign(b, v->change);
		buffer_text(b, units_count(magnitude(v->change)).text);
		break;
	case UNIT_BYTES_CHANGE:
		if (o->exact_bytes) {
			append_sign(b, v->change);
			buffer_printf(b, "%s B", units_count(magnitude(v->change)).text);
		} else {
			buffer_text(b, units_bytes_change(v->change).text);
		}
		break;
	case UNIT_NS_CHANGE:
		append_sign(b, v->change);
		buffer_text(b, units_duration(magnitude(v->change)).text);
		break;
	case UNIT_BYTES_RATE:
		append_sign(b, v->change);
		if (o->exact_bytes)
			buffer_printf(b, "%s B/s", units_count(magnitude(v->change)).text);
		else
			buffer_printf(b, "%s/s", units_bytes(magnitude(v->change)).text);
		break;
	case UNIT_FLAG:
		buffer_text(b, v->flag ? "yes" : "no");
		break;
	case UNIT_PERCENT:
		buffer_text(b, units_percent(v->share.part, v->share.whole).text);
		break;
	case UNIT_BAR:
		bar_append(b, v->share, o);
		break;
	case UNIT_SERIES:
		series_append(b, v->numbers, o);
		break;
	case UNIT_FRAMES:
	case UNIT_SIZES:
	case UNIT_LIFETIMES:
	case UNIT_FIELDS:
	case UNIT_PATH:
		break; /* not shown in a line */
	}
}

/* Appends the standard error of an estimate: absolute for a difference, else relative to the number. */
static void append_error(struct buffer *b, const struct result_value *v,
			 const struct render_options *o)
{
	struct result_value error = { .unit = v->unit, .number = saturating_u64(v->error + 0.5) };

	if (!(v->error > 0))
		return;
	buffer_text(b, o->utf8 ? " \u00b1" : " +-");
	switch (v->unit) {
	case UNIT_COUNT_CHANGE:
		error.unit = UNIT_COUNT;
		break;
	case UNIT_BYTES_CHANGE:
		error.unit = UNIT_BYTES;
		break;
	case UNIT_NS_CHANGE:
		error.unit = UNIT_NS;
		break;
	case UNIT_BYTES_RATE:
		error.unit = UNIT_BYTES;
		break;
	default:
		if (v->number)
			buffer_printf(b, "%.*f %%", v->error < 0.1 * (double)v->number ? 1 : 0,
				      100.0 * v->error / (double)v->number);
		if (v->number)
			return;
	}
	append_value(b, &error, o);
}

/* A number in a sentence, with its standard error. */
void render_value(struct buffer *b, const struct result_value *v, const struct render_options *o)
{
	append_value(b, v, o);
	append_error(b, v, o);
}

static void append_values(struct buffer *b, const struct result_value *values, size_t count,
			  const struct render_options *o)
{
	for (size_t i = 0; i < count; i++)
		render_value(b, &values[i], o);
}

static size_t line_width(const struct buffer *b, size_t from)
{
	return text_width((const char *)b->data + from, b->size - from);
}

static void pad_to(struct buffer *b, size_t from, size_t width)
{
	size_t now = b->failed || b->size == from ? 0 : line_width(b, from);

	if (now < width)
		buffer_fill(b, ' ', width - now);
}

static size_t label_width(const struct result *r)
{
	size_t width = 0;

	for (size_t i = 0; i < r->sentence_count; i++)
		if (r->sentences[i].label)
			width = MAX(width, strlen(r->sentences[i].label));
	return width;
}

/* The column where `more` begins: after the longest sentence that has one. */
static size_t more_column(const struct result *r, const struct render_options *o)
{
	struct buffer line = BUFFER_INIT;
	size_t widest = 0;

	for (size_t i = 0; i < r->sentence_count; i++) {
		const struct result_sentence *s = &r->sentences[i];

		if (!s->more_count)
			continue;
		buffer_clear(&line);
		append_values(&line, s->values, s->value_count, o);
		if (line.size)
			widest = MAX(widest, line_width(&line, 0));
	}
	buffer_release(&line);
	return MIN(widest, (size_t)MORE_COLUMN_MAX);
}

/* The width of the numbers of aligned sentences. */
static size_t aligned_width(const struct result *r, const struct render_options *o)
{
	struct buffer number = BUFFER_INIT;
	size_t widest = 0;

	for (size_t i = 0; i < r->sentence_count; i++) {
		if (!r->sentences[i].aligned || !r->sentences[i].value_count)
			continue;
		buffer_clear(&number);
		render_value(&number, &r->sentences[i].values[0], o);
		if (number.size)
			widest = MAX(widest, line_width(&number, 0));
	}
	buffer_release(&number);
	return widest;
}

static void append_aligned(struct buffer *b, const struct result_value *value, size_t width,
			   const struct render_options *o)
{
	struct buffer number = BUFFER_INIT;

	render_value(&number, value, o);
	size_t own = number.size ? line_width(&number, 0) : 0;

	if (own < width)
		buffer_fill(b, ' ', width - own);
	buffer_append(b, number.data, number.size);
	buffer_release(&number);
}

/* Colours carry no information: bold for headings and labels, yellow for what is missing. */
static void begin_style(struct buffer *b, const struct render_options *o, const char *code)
{
	if (o->colours)
		buffer_printf(b, "\033[%sm", code);
}

static void end_style(struct buffer *b, const struct render_options *o)
{
	if (o->colours)
		buffer_text(b, "\033[0m");
}

/* Appends text in lines of at most `columns`, broken at spaces; the first one begins at column `indent`, like the others. */
static void append_wrapped(struct buffer *b, const char *text, size_t indent, size_t columns)
{
	size_t at = indent;

	for (bool first = true; *text; first = false) {
		size_t bytes = strcspn(text, " "), width = text_width(text, bytes);

		if (!first && at + 1 + width > columns) {
			buffer_char(b, '\n');
			buffer_fill(b, ' ', indent);
			at = indent;
		} else if (!first) {
			buffer_char(b, ' ');
			at++;
		}
		buffer_append(b, text, bytes);
		at += width;
		text += bytes;
		text += strspn(text, " ");
	}
}

/* Whether a sentence is wrapped: not one with a command, which people copy. */
static bool is_too_wide(const struct buffer *b, size_t from, const struct render_options *o,
			size_t indent)
{
	return o->terminal && o->columns && !b->failed && b->size > from &&
	       indent + line_width(b, from) > o->columns && indent < o->columns / 2 &&
	       !memmem(b->data + from, b->size - from, "-> ", 3);
}

/* Breaks the sentence that begins at `from`. */
static void wrap_sentence(struct buffer *b, size_t from, size_t indent,
			  const struct render_options *o)
{
	/* The padding before `more` becomes one space, too. */
	AUTO_FREE char *text = strndup((const char *)b->data + from, b->size - from);

	if (!text)
		return;
	b->size = from;
	append_wrapped(b, text, indent, o->columns);
}

static void append_sentences(struct buffer *b, const struct result *r,
			     const struct render_options *o)
{
	size_t label = label_width(r), more = more_column(r, o), aligned = aligned_width(r, o);

	for (size_t i = 0; i < r->sentence_count; i++) {
		const struct result_sentence *s = &r->sentences[i];

		if (s->label) {
			buffer_fill(b, ' ', INDENT);
			begin_style(b, o, "1");
			append_safe(b, s->label, o);
			end_style(b, o);
			buffer_fill(b, ' ', label + 2 - strlen(s->label));
		}
		size_t words = b->size, first = s->aligned && s->value_count ? 1 : 0;

		if (first)
			append_aligned(b, s->values, aligned, o);
		append_values(b, s->values + first, s->value_count - first, o);
		if (s->more_count) {
			pad_to(b, words, more);
			buffer_text(b, "   ");
			append_values(b, s->more, s->more_count, o);
		}
		if (s->label && is_too_wide(b, words, o, INDENT + label + 2))
			wrap_sentence(b, words, INDENT + label + 2, o);
		buffer_char(b, '\n');
		if (!s->label && i + 1 < r->sentence_count)
			buffer_char(b, '\n');
	}
}

bool render_in_line(const struct result_column *c)
{
	return c->title && c->unit != UNIT_FRAMES && c->unit != UNIT_SIZES &&
	       c->unit != UNIT_LIFETIMES && c->unit != UNIT_FIELDS && c->unit != UNIT_PATH;
}

/* The width of a column's cells, and of the errors in them, which are aligned. */
struct widths {
	size_t whole, error;
};

/* A command or a name at the end of a row may be wider than the screen. */
static void limit_last(const struct result_table *t, const struct render_options *o,
		       struct widths widths[COLUMNS_MAX])
{
	size_t last = t->column_count, before = 0, room = LAST_COLUMN_MAX;

	for (size_t i = 0; i < t->column_count; i++) {
		if (!render_in_line(&t->columns[i]))
			continue;
		if (last < t->column_count)
			before += widths[last].whole + INDENT;
		last = i;
	}
	if (last == t->column_count || t->columns[last].unit != UNIT_TEXT)
		return;
	if (o->columns)
		room = o->columns > before + INDENT + LAST_COLUMN_MIN ? o->columns - before - INDENT
								      : LAST_COLUMN_MIN;
	widths[last].whole = MIN(widths[last].whole, room);
}

/* The last text column, which in a tree follows the branch lines; column_count: none. */
static size_t name_column(const struct result_table *t)
{
	size_t name = t->column_count;

	for (size_t i = 0; i < t->column_count; i++)
		if (render_in_line(&t->columns[i]) && t->columns[i].unit == UNIT_TEXT)
			name = i;
	return name;
}

static size_t error_width(const struct result_value *v, const struct render_options *o)
{
	struct buffer b = BUFFER_INIT;

	append_error(&b, v, o);
	size_t width = b.size ? line_width(&b, 0) : 0;

	buffer_release(&b);
	return width;
}

static void append_table_value(struct buffer *b, const struct result_table *t, size_t row,
			       size_t column, struct branches *branches, size_t error,
			       const struct render_options *o)
{
	const struct result_value *v = &t->values[row * t->column_count + column];

	if (branches && column == name_column(t))
		branches_append(branches, t, row, b);
	append_value(b, v, o);
	if (error) {
		append_error(b, v, o);
		buffer_fill(b, ' ', error - error_width(v, o));
	}
}

/* Computes the width of every column that is shown in a line. */
static void measure(const struct result_table *t, struct branches *branches,
		    const struct render_options *o, struct widths widths[COLUMNS_MAX])
{
	struct buffer cell = BUFFER_INIT;

	for (size_t i = 0; i < t->column_count; i++) {
		struct widths *w = &widths[i];
		bool shown = render_in_line(&t->columns[i]);

		*w = (struct widths){ .whole = shown ? strlen(t->columns[i].title) : 0 };
		for (size_t row = 0; shown && row < t->row_count; row++) {
			const struct result_value *v = &t->values[row * t->column_count + i];

			w->error = MAX(w->error, v->error > 0 ? error_width(v, o) : 0);
		}
		for (size_t row = 0; shown && row < t->row_count; row++) {
			buffer_clear(&cell);
			append_table_value(&cell, t, row, i, branches, w->error, o);
			if (cell.size)
				w->whole = MAX(w->whole, line_width(&cell, 0));
		}
	}
	buffer_release(&cell);
	limit_last(t, o, widths);
}

/* Removes trailing spaces. */
static void take_back_spaces(struct buffer *b)
{
	while (b->size && b->data[b->size - 1] == ' ')
		b->size--;
}

static void end_line(struct buffer *b)
{
	take_back_spaces(b);
	buffer_char(b, '\n');
}

static void append_cell(struct buffer *b, const char *text, enum result_unit unit, size_t width)
{
	size_t own = text_width(text, strlen(text));
	bool left = unit == UNIT_TEXT || unit == UNIT_BAR || unit == UNIT_SERIES;

	buffer_fill(b, ' ', INDENT);
	if (!left && own < width)
		buffer_fill(b, ' ', width - own);
	buffer_text(b, text);
	if (left && own < width)
		buffer_fill(b, ' ', width - own);
}

/* Shortens a path from the left: the program's name is at its end. */
static void cut_folders(struct buffer *cell, size_t width)
{
	const char *text = buffer_string(cell);
	const char *tail = text && width > 3 ? path_tail(text, width - 3) : text;
	size_t cut = text ? (size_t)(tail - text) : 0;

	if (cut < 3)
		return;
	memmove(cell->data + 3, tail, cell->size - cut);
	memcpy(cell->data, "...", 3);
	cell->size -= cut - 3;
}

/* Cuts the cell to `width` characters, ending in "...". */
static void cut_cell(struct buffer *cell, size_t width)
{
	size_t at = 0;

	if (cell->size == 0 || line_width(cell, 0) <= width)
		return;
	cut_folders(cell, width);
	if (line_width(cell, 0) <= width)
		return;
	for (size_t i = 0; i + 3 < width; i++) {
		size_t step = utf8_sequence(span_of(cell->data + at, cell->size - at));

		at += step ? step : 1;
	}
	cell->size = at;
	buffer_text(cell, "...");
}

static void append_row(struct buffer *b, const struct result_table *t, size_t row,
		       struct branches *branches, const struct widths widths[COLUMNS_MAX],
		       const struct render_options *o)
{
	struct buffer cell = BUFFER_INIT;

	for (size_t i = 0; i < t->column_count; i++) {
		if (!render_in_line(&t->columns[i]))
			continue;
		buffer_clear(&cell);
		append_table_value(&cell, t, row, i, branches, widths[i].error, o);
		if (t->columns[i].unit == UNIT_TEXT)
			cut_cell(&cell, widths[i].whole);
		const char *text = buffer_string(&cell);

		append_cell(b, text ? text : "", t->columns[i].unit, widths[i].whole);
	}
	buffer_release(&cell);
	end_line(b);
}

static void append_frame(struct buffer *b, const struct result_frame *f,
			 const struct render_options *o)
{
	size_t start = b->size;

	buffer_fill(b, ' ', STACK_INDENT);
	append_safe(b, f->function, o);
	/* The source location matters most: a very long name must not hide it. */
	if (o->columns > 40 && b->size - start > o->columns - 30) {
		b->size = start + o->columns - 33;
		while (b->size > start && (b->data[b->size] & 0xc0) == 0x80)
			b->size--;
		buffer_text(b, "...");
	}
	if (f->inlined)
		buffer_text(b, "  (inlined)");
	if (f->file) {
		buffer_text(b, "  ");
		append_safe(b, path_base(f->file), o);
		if (f->line)
			buffer_printf(b, ":%u", f->line);
	} else if (f->module[0] && !strstr(f->function, "+0x")) {
		buffer_text(b, "  ");
		append_safe(b, path_base(f->module), o);
	}
	buffer_char(b, '\n');
}

/* Own code, and neither the start of its executable nor an allocation wrapper. */
static bool is_own(const struct result_frame *f)
{
	return f->own && !f->runtime_frame;
}

/* The end of the run of library frames that begins at `from`; sentinel frames belong to none. */
static size_t end_of_libraries(struct result_frames frames, size_t from)
{
	size_t at = from;

	while (at < frames.count && !is_own(frames.at[at]) && frames.at[at]->function[0] != '[')
		at++;
	return at;
}

static bool has_own(struct result_frames frames)
{
	for (size_t i = 0; i < frames.count; i++)
		if (is_own(frames.at[i]))
			return true;
	return false;
}

/* One line for several frames of libraries; the first of them names the option. */
static void append_libraries(struct buffer *b, size_t count, bool *ret_told)
{
	buffer_fill(b, ' ', STACK_INDENT);
	buffer_printf(b, "... %s library frames%s\n", units_count(count).text,
		      *ret_told ? "" : " (--no-own shows them)");
	*ret_told = true;
}

/*
 * Around the project's own code, frames of libraries are counted instead of shown, except for the function that own code called
 * to allocate. One more frame takes no more space than the line about it.
 */
static void append_stack(struct buffer *b, struct result_frames frames,
			 const struct render_options *o, bool *ret_told)
{
	bool own = has_own(frames);
	size_t lines = 0, at = 0;

	while (at < frames.count && (!o->stack_frames || lines < o->stack_frames ||
				     (lines == o->stack_frames && at + 1 == frames.count))) {
		size_t end = own ? end_of_libraries(frames, at) : at;
		size_t hidden = end - at - (at == 0 && end > at ? 1 : 0);

		if (end > at && hidden > 1) {
			append_libraries(b, hidden, ret_told);
			at += hidden;
		} else {
			append_frame(b, frames.at[at++], o);
		}
		lines++;
	}
	if (at < frames.count) {
		buffer_fill(b, ' ', STACK_INDENT);
		buffer_printf(b, "... %s more frames\n", units_count(frames.count - at).text);
	}
}

static void append_headings(struct buffer *b, const struct result_table *t,
			    const struct widths widths[COLUMNS_MAX], const struct render_options *o)
{
	buffer_char(b, '\n');
	begin_style(b, o, "1");
	for (size_t i = 0; i < t->column_count; i++) {
		struct buffer title = BUFFER_INIT;

		if (!render_in_line(&t->columns[i]))
			continue;
		append_safe(&title, t->columns[i].title, o);
		const char *text = buffer_string(&title);

		append_cell(b, text ? text : "", t->columns[i].unit, widths[i].whole);
		buffer_release(&title);
	}
	take_back_spaces(b);
	end_style(b, o);
	buffer_char(b, '\n');
}

/* "held by  cache+0x10 (app) > insert (cache.c:8) +0x8", under the row. */
static void append_path(struct buffer *b, const struct result_column *column,
			const struct result_value *v, const struct render_options *o)
{
	if (column->unit != UNIT_PATH || !column->title || v->unit != UNIT_PATH || !v->path.text)
		return;
	buffer_fill(b, ' ', (size_t)3 * INDENT);
	buffer_printf(b, "%s  ", v->path.title ? v->path.title : column->title);
	append_safe(b, v->path.text, o);
	buffer_char(b, '\n');
}

static int append_rows(struct render_output *out, const struct result_table *t,
		       struct branches *branches, const struct render_options *o,
		       struct error *error)
{
	struct buffer *b = &out->buffer;
	struct widths widths[COLUMNS_MAX];
	bool told = false;

	ASSERT(t->column_count <= COLUMNS_MAX);
	measure(t, branches, o, widths);
	append_headings(b, t, widths, o);
	for (size_t row = 0; row < t->row_count; row++) {
		append_row(b, t, row, branches, widths, o);
		for (size_t i = 0; i < t->column_count; i++) {
			const struct result_value *v = &t->values[row * t->column_count + i];

			append_path(b, &t->columns[i], v, o);
			if (t->columns[i].unit != UNIT_FRAMES || !t->columns[i].title)
				continue;
			append_stack(b, v->frames, o, &told);
			if (row + 1 < t->row_count || t->left_out_count)
				buffer_char(b, '\n');
		}
		if (render_flush(out, false, error) < 0)
			return -1;
	}
	return 0;
}

static int append_table(struct render_output *out, const struct result_table *t,
			const struct render_options *o, struct error *error)
{
	struct branches branches = { 0 };
	bool is_tree = t->shape == RESULT_TREE;

	if (t->machines_only || t->row_count == 0)
		return 0;
	if (is_tree && branches_init(&branches, t, o->utf8) < 0)
		return error_set(error, "out of memory");
	int status = append_rows(out, t, is_tree ? &branches : NULL, o, error);

	branches_release(&branches);
	if (status == 0 && t->left_out_count) {
		buffer_fill(&out->buffer, ' ', INDENT);
		buffer_text(&out->buffer, "... ");
		append_values(&out->buffer, t->left_out, t->left_out_count, o);
		buffer_char(&out->buffer, '\n');
	}
	return status;
}

static void append_notes(struct buffer *b, const struct result *r, const struct render_options *o)
{
	if (r->note_count && (r->sentence_count || r->table.row_count))
		buffer_char(b, '\n');
	for (size_t i = 0; i < r->note_count; i++) {
		buffer_fill(b, ' ', INDENT);
		begin_style(b, o, "33");
		buffer_text(b, "! ");
		if (r->notes[i].count)
			buffer_printf(b, "%s ", units_count(r->notes[i].count).text);
		append_safe(b, r->notes[i].text, o);
		end_style(b, o);
		buffer_char(b, '\n');
	}
}

int render_text(const struct result *result, const struct render_options *options,
		struct render_output *out, struct error *error)
{
	append_sentences(&out->buffer, result, options);
	if (append_table(out, &result->table, options, error) < 0)
		return -1;
	append_notes(&out->buffer, result, options);
	return render_flush(out, true, error);
}
