/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a process had loaded and that may hide memory from the recorder. Present only if there are any. Pure functions;
 * any thread.
 */
#include "format/recording/chunks.h"
#include "format/unseen.h"

/* doc: chunk_unseen */
static const struct field unseen_fields[] = {
	FIELD(struct unseen_row, found),
	FIELD(struct unseen_row, zeroed_bytes),
};

void chunk_unseen_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, TABLE_SHAPE(struct unseen_row, unseen_fields), rows->unseen,
		  rows->unseen_count);
	for (size_t i = 0; i < rows->unseen_count; i++)
		bytes_put_text(&out->bytes, rows->unseen[i].path);
}

void chunk_unseen_get(struct source *in, struct process_rows *rows)
{
	rows->unseen =
		table_get(in, TABLE_SHAPE(struct unseen_row, unseen_fields), &rows->unseen_count);
	/* Limited, since each file is compared with each stack that maps memory. */
	if (rows->unseen_count > UNSEEN_FILES_MAX)
		cursor_fail(&in->cursor);
	for (size_t i = 0; i < rows->unseen_count && !in->cursor.failed; i++)
		rows->unseen[i].path = source_text(in);
}
