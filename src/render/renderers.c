/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of output formats, and the output buffer.
 *
 * A renderer appends to the output's buffer and calls render_flush between rows, and at the end once
 * more with `all`. So the memory for output is bounded, regardless of the size of the result.
 */
#include "render/renderers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/text/printable.h"

enum { FLUSH_BYTES = 256 * 1024 };

const struct renderer renderers[] = {
	{ "text", "for people", render_text, 20, true },
	{ "markdown", "for issues, chats and coding agents", render_markdown, 5, true },
	{ "json", "for programs, with exact numbers", render_json, SIZE_MAX, false },
	{ "json-line", "the same on one line", render_json_line, SIZE_MAX, false },
	{ "csv", "for spreadsheets and databases: only the table", render_csv, SIZE_MAX, false },
	{ "html", "a self-contained web page with all views", NULL, SIZE_MAX, false },
	{ NULL, NULL, NULL, 0, false },
};

const struct renderer *renderer_find(const char *name)
{
	for (const struct renderer *r = renderers; r->name; r++)
		if (strcmp(r->name, name) == 0)
			return r;
	return NULL;
}

int render_flush(struct render_output *out, bool all, struct error *error)
{
	if (out->buffer.failed)
		return error_set(error, "out of memory");
	if (out->buffer.size == 0 || (!all && out->buffer.size < FLUSH_BYTES))
		return 0;
	struct buffer shown = BUFFER_INIT;

	if (out->printable)
		buffer_printable_lines(&shown, buffer_span(&out->buffer));
	int status = shown.failed ? error_set(error, "out of memory")
				  : out->write(out->context,
					       buffer_span(out->printable ? &shown : &out->buffer),
					       error);

	buffer_release(&shown);
	buffer_clear(&out->buffer);
	return status;
}

bool *render_estimated(const struct result_table *t)
{
	bool *ret = calloc(t->column_count + 1, sizeof *ret);

	for (size_t i = 0; ret && i < t->row_count * t->column_count; i++) {
		const struct result_value *v = &t->values[i];

		ret[i % t->column_count] |=
			v->error > 0 || (v->unit == UNIT_SERIES && v->numbers.errors);
	}
	return ret;
}
