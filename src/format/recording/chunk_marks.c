/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments that have a name: marks of the program, and snapshots that it, a person or a condition asked for. A snapshot's
 * numbers are in the chunk of snapshots, by number. Pure functions; any thread.
 */
#include <stdlib.h>

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
	size_t count;
	struct mark_row *marks = table_get(in, TABLE_SHAPE(struct mark_row, mark_fields), &count);

	for (size_t i = 0; i < count && !in->cursor.failed; i++) {
		if (marks[i].kind >= LIVE_MARK_KINDS)
			marks[i].kind = LIVE_MARK_POINT; /* a newer version's */
		if (marks[i].snapshot > rows->snapshot_count)
			marks[i].snapshot = 0; /* that chunk was lost */
		marks[i].name = source_text(in);
	}
	if (in->cursor.failed) {
		for (size_t i = 0; i < count; i++)
			free(marks[i].name);
		free(marks);
		return;
	}
	rows->marks = marks;
	rows->mark_count = count;
}
