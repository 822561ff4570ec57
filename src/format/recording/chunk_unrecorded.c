/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a process had loaded and that may hide memory from the recorder. Present only if there are any. Pure functions;
 * any thread.
 */
#include "format/recording/chunks.h"
#include "format/unrecorded.h"

/* doc: chunk_unrecorded */
static const struct field unrecorded_fields[] = {
	FIELD(struct unrecorded_row, found),
	FIELD(struct unrecorded_row, zeroed_bytes),
};

void chunk_unrecorded_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, TABLE_SHAPE(struct unrecorded_row, unrecorded_fields), rows->unrecorded,
		  rows->unrecorded_count);
	for (size_t i = 0; i < rows->unrecorded_count; i++)
		bytes_put_text(&out->bytes, rows->unrecorded[i].path);
}

void chunk_unrecorded_get(struct source *in, struct process_rows *rows)
{
	rows->unrecorded = table_get(in, TABLE_SHAPE(struct unrecorded_row, unrecorded_fields),
				     &rows->unrecorded_count);
	/* Limited, since each file is compared with each stack that maps memory. */
	if (rows->unrecorded_count > UNRECORDED_FILES_MAX)
		cursor_fail(&in->cursor);
	for (size_t i = 0; i < rows->unrecorded_count && !in->cursor.failed; i++)
		rows->unrecorded[i].path = source_text(in);
}
