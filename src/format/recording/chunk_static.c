/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the global variables of a process are: the writable data of its loaded files, and which pages of it were resident. Names and
 * sizes of the variables are in the files. Pure functions; any thread.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "format/recording/chunks.h"

enum { STATIC_FILES_MAX = 1 << 16 };

/* doc: chunk_static */
struct file_columns {
	uint64_t tls_bytes;
	uint32_t build_id_bytes;
};
static const struct field file_fields[] = {
	FIELD(struct file_columns, tls_bytes),
	FIELD(struct file_columns, build_id_bytes),
};

struct range_columns {
	uint32_t file, resident;
	uint64_t gap, bytes;
};
static const struct field range_fields[] = {
	FIELD(struct range_columns, file),
	FIELD(struct range_columns, gap),
	FIELD(struct range_columns, bytes),
	FIELD(struct range_columns, resident),
};

static void put_files(struct payload *out, const struct process_rows *rows)
{
	struct file_columns *columns = columns_new(out, rows->globals.file_count, sizeof *columns);

	for (size_t i = 0; columns && i < rows->globals.file_count; i++) {
		columns[i].tls_bytes = rows->globals.files[i].tls_bytes;
		columns[i].build_id_bytes = rows->globals.files[i].build_id_bytes;
	}
	if (columns)
		table_put(out, TABLE_SHAPE(struct file_columns, file_fields), columns,
			  rows->globals.file_count);
	free(columns);
	for (size_t i = 0; i < rows->globals.file_count; i++) {
		const struct static_file_row *row = &rows->globals.files[i];

		bytes_put_text(&out->bytes, row->path);
		bytes_put(&out->bytes, row->build_id, row->build_id_bytes);
	}
	payload_cost(out, rows->globals.file_count, sizeof *rows->globals.files);
}

static void put_ranges(struct payload *out, const struct process_rows *rows)
{
	struct range_columns *columns =
		columns_new(out, rows->globals.range_count, sizeof *columns);
	uint64_t end = 0;

	for (size_t i = 0; columns && i < rows->globals.range_count; i++) {
		const struct static_range_row *row = &rows->globals.ranges[i];

		if (i == 0 || row->file != row[-1].file)
			end = 0;
		columns[i] = (struct range_columns){ row->file, row->resident, row->start - end,
						     row->bytes };
		end = row->start + row->bytes;
	}
	if (columns)
		table_put(out, TABLE_SHAPE(struct range_columns, range_fields), columns,
			  rows->globals.range_count);
	free(columns);
	payload_cost(out, rows->globals.range_count, sizeof *rows->globals.ranges);
}

void chunk_static_put(struct payload *out, const struct process_rows *rows)
{
	bytes_put_varint(&out->bytes, rows->globals.at_ns);
	bytes_put_varint(&out->bytes, rows->globals.threads);
	put_files(out, rows);
	put_ranges(out, rows);
}

static void get_files(struct source *in, struct process_rows *rows)
{
	size_t count;
	struct file_columns *columns =
		table_get(in, TABLE_SHAPE(struct file_columns, file_fields), &count);

	if (count > STATIC_FILES_MAX)
		cursor_fail(&in->cursor);
	rows->globals.files = source_alloc(in, count, sizeof *rows->globals.files);
	rows->globals.file_count = rows->globals.files ? count : 0;
	for (size_t i = 0; i < rows->globals.file_count && !in->cursor.failed; i++) {
		struct static_file_row *row = &rows->globals.files[i];

		row->path = source_text(in);
		row->tls_bytes = columns[i].tls_bytes;
		row->build_id_bytes = columns[i].build_id_bytes;
		if (row->build_id_bytes > sizeof row->build_id)
			cursor_fail(&in->cursor);
		else
			cursor_copy(&in->cursor, row->build_id, row->build_id_bytes);
	}
	free(columns);
}

static void get_ranges(struct source *in, struct process_rows *rows)
{
	size_t count;
	struct range_columns *columns =
		table_get(in, TABLE_SHAPE(struct range_columns, range_fields), &count);
	uint64_t end = 0;

	rows->globals.ranges = source_alloc(in, count, sizeof *rows->globals.ranges);
	rows->globals.range_count = rows->globals.ranges ? count : 0;
	for (size_t i = 0; i < rows->globals.range_count && !in->cursor.failed; i++) {
		struct static_range_row *row = &rows->globals.ranges[i];
		const struct range_columns *from = &columns[i];

		if (i == 0 || from->file != row[-1].file)
			end = 0;
		*row = (struct static_range_row){ from->file, from->resident, 0, from->bytes };
		if (from->file >= rows->globals.file_count ||
		    (i > 0 && from->file < row[-1].file) || from->resident > STATIC_UNKNOWN ||
		    !checked_add(end, from->gap, &row->start) ||
		    !checked_add(row->start, row->bytes, &end))
			cursor_fail(&in->cursor);
	}
	free(columns);
}

void chunk_static_get(struct source *in, struct process_rows *rows)
{
	rows->globals.at_ns = cursor_varint(&in->cursor);
	rows->globals.threads = cursor_varint(&in->cursor);
	get_files(in, rows);
	get_ranges(in, rows);
}
