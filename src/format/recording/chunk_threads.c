/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread log, and the remote frees by owner. A name is stored as two numbers of eight characters each, so that a thousand
 * threads with one name cost as much as one. Pure functions; any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "format/recording/chunks.h"

/* doc: chunk_threads */
struct thread_columns {
	struct thread_row row;
	uint64_t name[2];
};
static const struct field thread_fields[] = {
	FIELD(struct thread_columns, row.tid),
	FIELD(struct thread_columns, row.slot),
	FIELD(struct thread_columns, row.started_ns),
	FIELD(struct thread_columns, row.calls),
	FIELD(struct thread_columns, row.bytes),
	FIELD(struct thread_columns, row.frees),
	FIELD(struct thread_columns, row.freed_bytes),
	FIELD(struct thread_columns, name[0]),
	FIELD(struct thread_columns, name[1]),
	FIELD(struct thread_columns, row.all_calls), /* since 1.7 */
	FIELD(struct thread_columns, row.all_bytes),
	FIELD(struct thread_columns, row.stack_reserved_bytes), /* since 1.10 */
	FIELD(struct thread_columns, row.stack_used_bytes),
	FIELD(struct thread_columns, row.stack_most_bytes),
};

void chunk_threads_put(struct payload *out, const struct process_rows *rows)
{
	struct thread_columns *columns = columns_new(out, rows->thread_count, sizeof *columns);

	for (size_t i = 0; columns && i < rows->thread_count; i++) {
		struct thread_row *row = &columns[i].row;
		size_t length;

		*row = rows->threads[i];
		/* Bytes after the end of a name must not leak into the file. */
		length = strnlen(row->name, sizeof row->name - 1);
		memset(row->name + length, 0, sizeof row->name - length);
		memcpy(columns[i].name, row->name, sizeof row->name);
	}
	table_put(out, TABLE_SHAPE(struct thread_columns, thread_fields), columns,
		  rows->thread_count);
	payload_cost(out, rows->thread_count, sizeof *rows->threads);
	free(columns);
}

void chunk_threads_get(struct source *in, struct process_rows *rows)
{
	struct thread_columns *columns = table_get(
		in, TABLE_SHAPE(struct thread_columns, thread_fields), &rows->thread_count);

	rows->threads = source_alloc(in, rows->thread_count, sizeof *rows->threads);
	for (size_t i = 0; i < rows->thread_count && !in->cursor.failed; i++) {
		struct thread_row *row = &rows->threads[i];

		*row = columns[i].row;
		memcpy(row->name, columns[i].name, sizeof row->name);
		if (row->name[sizeof row->name - 1] != '\0' || row->slot >= LIVE_SLOTS_MAX)
			cursor_fail(&in->cursor);
	}
	free(columns);
}

/* doc: chunk_remote_frees */
static const struct field remote_frees_fields[] = {
	FIELD(struct remote_frees_row, freer),	FIELD(struct remote_frees_row, owner),
	FIELD(struct remote_frees_row, blocks), FIELD(struct remote_frees_row, bytes),
	FIELD(struct remote_frees_row, kind),
};

void chunk_remote_frees_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, TABLE_SHAPE(struct remote_frees_row, remote_frees_fields),
		  rows->remote_frees, rows->remote_frees_count);
}

void chunk_remote_frees_get(struct source *in, struct process_rows *rows)
{
	rows->remote_frees =
		table_get(in, TABLE_SHAPE(struct remote_frees_row, remote_frees_fields),
			  &rows->remote_frees_count);
	for (size_t i = 0; i < rows->remote_frees_count; i++) {
		const struct remote_frees_row *row = &rows->remote_frees[i];

		if (row->freer >= LIVE_SLOTS_MAX || row->kind >= LIVE_MEMORY_KINDS ||
		    (row->owner >= LIVE_SLOTS_MAX && row->owner != UINT32_MAX))
			cursor_fail(&in->cursor);
	}
}
