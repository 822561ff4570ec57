/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as Markdown: the sentences as a list, the table as a table, notes as quotes. Names may come from a hostile file:
 * whatever Markdown or HTML would interpret is escaped.
 */
#include <ctype.h>
#include <string.h>

#include "render/renderers.h"
#include "util/text/printable.h"

/* Appends a value in one line, escaped. */
static void append_escaped(struct buffer *b, const struct result_value *value,
			   const struct render_options *o)
{
	struct buffer plain = BUFFER_INIT;

	render_value(&plain, value, o);
	for (size_t i = 0; i < plain.size; i++) {
		char c = (char)plain.data[i];
		bool inside = i > 0 && isalnum(plain.data[i - 1]) && i + 1 < plain.size &&
			      isalnum(plain.data[i + 1]);

		/* "_" inside a word is not interpreted, but __init__ would be bold. */
		if (c && (strchr("\\`*|[<~&", c) || (c == '_' && !inside)))
			buffer_char(b, '\\');
		buffer_char(b, c == '\n' ? ' ' : c);
	}
	b->failed |= plain.failed;
	buffer_release(&plain);
}

static void append_all(struct buffer *b, const struct result_value *values, size_t count,
		       const struct render_options *o)
{
	for (size_t i = 0; i < count; i++)
		append_escaped(b, &values[i], o);
}

/* A sentence without a label is a heading; one with an empty label continues the list of the one before. */
static void append_sentence(struct buffer *b, const struct result_sentence *s,
			    const struct render_options *o)
{
	if (s->label && s->label[0])
		buffer_printf(b, "- **%s**: ", s->label);
	else
		buffer_text(b, s->label ? "  - " : "**");
	append_all(b, s->values, s->value_count, o);
	if (s->more_count) {
		buffer_text(b, "; ");
		append_all(b, s->more, s->more_count, o);
	}
	buffer_text(b, s->label ? "\n" : "**\n\n");
}

/* The last cell of a tree's row is indented by its depth. */
static void append_row(struct buffer *b, const struct result_table *t, size_t row, size_t last,
		       const struct render_options *o)
{
	const struct result_value *values = &t->values[row * t->column_count];

	for (size_t i = 0; i < t->column_count; i++) {
		if (!render_in_line(&t->columns[i]))
			continue;
		buffer_text(b, "| ");
		for (uint64_t depth = 0;
		     t->shape == RESULT_TREE && i == last && depth < values[0].number; depth++)
			buffer_text(b, "- ");
		append_escaped(b, &values[i], o);
		buffer_char(b, ' ');
	}
	buffer_text(b, "|\n");
}

/* Written piece by piece, unless it may have to be cut. */
static int append_table(struct render_output *out, const struct result_table *t,
			const struct render_options *o, struct error *error)
{
	struct buffer *b = &out->buffer;
	size_t shown = 0, last = 0;

	buffer_char(b, '\n');
	for (size_t i = 0; i < t->column_count; i++)
		if (render_in_line(&t->columns[i])) {
			buffer_printf(b, "| %s ", t->columns[i].title);
			last = i;
			shown++;
		}
	buffer_text(b, "|\n");
	for (size_t i = 0; i < shown; i++)
		buffer_text(b, "|---");
	buffer_text(b, "|\n");
	for (size_t row = 0; row < t->row_count; row++) {
		append_row(b, t, row, last, o);
		if (!o->max_bytes && render_flush(out, false, error) < 0)
			return -1;
	}
	return 0;
}

/* Keeps whole lines, and says that there were more. */
static void cut_to(struct buffer *b, size_t most)
{
	static const char note[] = "\n(cut: raise --max-tokens)\n";
	size_t keep = most > sizeof note ? most - sizeof note : 0;

	if (b->size <= most)
		return;
	while (keep > 0 && b->data[keep - 1] != '\n')
		keep--;
	b->size = keep;
	buffer_text(b, note);
}

int render_markdown(const struct result *result, const struct render_options *options,
		    struct render_output *out, struct error *error)
{
	struct render_options plain = *options;
	struct buffer *b = &out->buffer;

	plain.colours = false;
	out->printable = true;
	for (size_t i = 0; i < result->sentence_count; i++)
		append_sentence(b, &result->sentences[i], &plain);
	if (result->table.row_count && !result->table.machines_only &&
	    append_table(out, &result->table, &plain, error) < 0)
		return -1;
	for (size_t i = 0; i < result->note_count; i++) {
		buffer_text(b, "\n> ");
		if (result->notes[i].count)
			append_escaped(
				b,
				&(struct result_value){ .unit = UNIT_COUNT,
							.number = (int64_t)result->notes[i].count },
				&plain);
		buffer_text(b, result->notes[i].count ? " " : "");
		append_escaped(
			b,
			&(struct result_value){ .unit = UNIT_TEXT, .text = result->notes[i].text },
			&plain);
		buffer_char(b, '\n');
	}
	if (options->max_bytes)
		cut_to(b, options->max_bytes);
	return render_flush(out, true, error);
}
