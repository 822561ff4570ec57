/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names stored with a recording: those of its frames, and lines of their sources. Bundled recordings have this chunk, and those
 * with Python frames. All texts are one run of bytes, each text once and NUL-terminated, so that a row is a few numbers. Pure
 * functions; any thread.
 */
#include <string.h>

#include "format/recording/chunks.h"

/* doc: chunk_names */
static const struct field name_fields[] = {
	FIELD(struct name_row, frame),	 FIELD(struct name_row, function),
	FIELD(struct name_row, file),	 FIELD(struct name_row, line),
	FIELD(struct name_row, inlined), FIELD(struct name_row, arguments),
};
static const struct field source_fields[] = {
	FIELD(struct source_row, file),
	FIELD(struct source_row, line),
	FIELD(struct source_row, text),
};

void chunk_names_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, TABLE_SHAPE(struct name_row, name_fields), rows->names, rows->name_count);
	table_put(out, TABLE_SHAPE(struct source_row, source_fields), rows->sources,
		  rows->source_count);
	bytes_put_varint(&out->bytes, rows->text_bytes);
	bytes_put(&out->bytes, rows->texts, rows->text_bytes);
	payload_cost(out, rows->text_bytes, 1);
}

/* The first text is empty, so that 0 can mean none; the last one is terminated. */
static bool texts_are_good(const struct process_rows *rows)
{
	return rows->text_bytes == 0 || (rows->text_bytes <= UINT32_MAX && rows->texts[0] == 0 &&
					 rows->texts[rows->text_bytes - 1] == 0);
}

static bool is_text(const struct process_rows *rows, uint32_t at)
{
	return at == 0 || at < rows->text_bytes;
}

static bool names_are_good(const struct process_rows *rows)
{
	for (size_t i = 0; i < rows->name_count; i++) {
		const struct name_row *n = &rows->names[i];

		if (n->frame >= rows->frame_count || (i > 0 && n->frame < n[-1].frame) ||
		    !is_text(rows, n->function) || !is_text(rows, n->file) ||
		    !is_text(rows, n->arguments) || n->inlined > 1)
			return false;
	}
	return true;
}

static bool sources_are_good(const struct process_rows *rows)
{
	for (size_t i = 0; i < rows->source_count; i++) {
		const struct source_row *s = &rows->sources[i];

		if (!is_text(rows, s->file) || !is_text(rows, s->text))
			return false;
		if (i > 0 &&
		    (s->file < s[-1].file || (s->file == s[-1].file && s->line <= s[-1].line)))
			return false;
	}
	return true;
}

void chunk_names_get(struct source *in, struct process_rows *rows)
{
	struct span texts;

	rows->names = table_get(in, TABLE_SHAPE(struct name_row, name_fields), &rows->name_count);
	rows->sources =
		table_get(in, TABLE_SHAPE(struct source_row, source_fields), &rows->source_count);
	texts = cursor_counted(&in->cursor);
	rows->texts = source_alloc(in, texts.size, 1);
	if (!in->cursor.failed && texts.size) {
		memcpy(rows->texts, texts.data, texts.size);
		rows->text_bytes = texts.size;
	}
	if (!in->cursor.failed &&
	    (!texts_are_good(rows) || !names_are_good(rows) || !sources_are_good(rows)))
		cursor_fail(&in->cursor);
}
