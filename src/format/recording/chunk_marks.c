/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named events: marks of the program, and snapshots that it, a user or a condition requested. The numbers of a snapshot are in
 * the chunk of snapshots, by index. Pure functions; any thread.
 */
#include "format/recording/chunks.h"

/* doc: chunk_marks */
static const struct field mark_fields[] = {
	FIELD(struct mark_row, at_ns),
	FIELD(struct mark_row, kind),
	FIELD(struct mark_row, snapshot),
};

void chunk_marks_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, TABLE_SHAPE(struct mark_row, mark_fields), rows->marks, rows->mark_count);
	for (size_t i = 0; i < rows->mark_count; i++)
		bytes_put_text(&out->bytes, rows->marks[i].name);
}

void chunk_marks_get(struct source *in, struct process_rows *rows)
{
	rows->marks = table_get(in, TABLE_SHAPE(struct mark_row, mark_fields), &rows->mark_count);
	for (size_t i = 0; i < rows->mark_count && !in->cursor.failed; i++) {
		struct mark_row *mark = &rows->marks[i];

		if (mark->kind >= LIVE_MARK_KINDS)
			mark->kind = LIVE_MARK_POINT; /* from a newer version */
		if (mark->snapshot > rows->snapshot_count)
			mark->snapshot = 0; /* that chunk was lost */
		mark->name = source_text(in);
	}
}
