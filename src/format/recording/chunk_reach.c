/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What still refers to the blocks: only in a recording with an image of the process. Site numbers are checked against the sites read
 * before; classes of a newer version become unknown memory. Pure functions; any thread.
 */
#include "format/recording/chunks.h"

/* doc: chunk_reach */
static const struct field site_fields[] = {
	FIELD(struct reach_site_row, site),
	FIELD(struct reach_site_row, class),
	FIELD(struct reach_site_row, blocks),
	FIELD(struct reach_site_row, bytes),
	FIELD(struct reach_site_row, interior_blocks),
};

static const struct field retained_fields[] = {
	FIELD(struct retained_row, site),
	FIELD(struct retained_row, holder),
	FIELD(struct retained_row, offset),
	FIELD(struct retained_row, bytes),
};

static const struct field holder_fields[] = {
	FIELD(struct holder_row, class),
	FIELD(struct holder_row, blocks),
	FIELD(struct holder_row, bytes),
};

static const struct field path_fields[] = {
	FIELD(struct path_row, site),	FIELD(struct path_row, from),
	FIELD(struct path_row, type),	FIELD(struct path_row, offset),
	FIELD(struct path_row, blocks),
};

static const struct field type_fields[] = {
	FIELD(struct reach_type_row, retained_bytes),
};

static const struct field site_type_fields[] = {
	FIELD(struct site_type_row, site),
	FIELD(struct site_type_row, type),
	FIELD(struct site_type_row, blocks),
	FIELD(struct site_type_row, bytes),
	FIELD(struct site_type_row, unreachable_bytes),
};

#define REACH_SHAPE U64_SHAPE(struct reach_row, sizeof(struct reach_row))

void chunk_reach_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, REACH_SHAPE, rows->image.reach, rows->image.reach_count);
	table_put(out, TABLE_SHAPE(struct reach_site_row, site_fields), rows->image.reach_sites,
		  rows->image.reach_site_count);
	table_put(out, TABLE_SHAPE(struct retained_row, retained_fields), rows->image.retained,
		  rows->image.retained_count);
	table_put(out, TABLE_SHAPE(struct holder_row, holder_fields), rows->image.holders,
		  rows->image.holder_count);
	for (size_t i = 0; i < rows->image.holder_count; i++)
		bytes_put_text(&out->bytes, rows->image.holders[i].name);
	table_put(out, TABLE_SHAPE(struct path_row, path_fields), rows->image.paths,
		  rows->image.path_count);
	table_put(out, TABLE_SHAPE(struct reach_type_row, type_fields), rows->image.types,
		  rows->image.type_count);
	for (size_t i = 0; i < rows->image.type_count; i++)
		bytes_put_text(&out->bytes, rows->image.types[i].name);
	table_put(out, TABLE_SHAPE(struct site_type_row, site_type_fields), rows->image.site_types,
		  rows->image.site_type_count);
}

static void get_sites(struct source *in, struct process_rows *rows)
{
	rows->image.reach_sites = table_get(in, TABLE_SHAPE(struct reach_site_row, site_fields),
					    &rows->image.reach_site_count);
	for (size_t i = 0; i < rows->image.reach_site_count; i++) {
		struct reach_site_row *row = &rows->image.reach_sites[i];

		if (row->site >= rows->site_count)
			cursor_fail(&in->cursor);
		if (row->class >= REACH_CLASSES)
			row->class = REACH_UNKNOWN;
	}
}

static void get_retained(struct source *in, struct process_rows *rows)
{
	rows->image.retained = table_get(in, TABLE_SHAPE(struct retained_row, retained_fields),
					 &rows->image.retained_count);
	for (size_t i = 0; i < rows->image.retained_count; i++)
		if (rows->image.retained[i].site >= rows->site_count)
			cursor_fail(&in->cursor);
}

static void get_holders(struct source *in, struct process_rows *rows)
{
	rows->image.holders = table_get(in, TABLE_SHAPE(struct holder_row, holder_fields),
					&rows->image.holder_count);
	for (size_t i = 0; i < rows->image.holder_count && !in->cursor.failed; i++) {
		if (rows->image.holders[i].class >= REACH_ROOT_CLASSES)
			rows->image.holders[i].class = REACH_UNKNOWN;
		rows->image.holders[i].name = source_text(in);
	}
	for (size_t i = 0; i < rows->image.retained_count; i++)
		if (rows->image.retained[i].holder > rows->image.holder_count)
			rows->image.retained[i].holder = 0;
}

static void get_types(struct source *in, struct process_rows *rows)
{
	rows->image.types = table_get(in, TABLE_SHAPE(struct reach_type_row, type_fields),
				      &rows->image.type_count);
	for (size_t i = 0; i < rows->image.type_count && !in->cursor.failed; i++)
		rows->image.types[i].name = source_text(in);
	if (in->cursor.failed)
		return;
	rows->image.site_types = table_get(in, TABLE_SHAPE(struct site_type_row, site_type_fields),
					   &rows->image.site_type_count);
	for (size_t i = 0; i < rows->image.site_type_count; i++)
		if (rows->image.site_types[i].site >= rows->site_count ||
		    rows->image.site_types[i].type >= rows->image.type_count)
			cursor_fail(&in->cursor);
}

static void get_paths(struct source *in, struct process_rows *rows)
{
	rows->image.paths =
		table_get(in, TABLE_SHAPE(struct path_row, path_fields), &rows->image.path_count);
	for (size_t i = 0; i < rows->image.path_count; i++)
		if (rows->image.paths[i].site >= rows->site_count ||
		    rows->image.paths[i].from >= rows->site_count)
			cursor_fail(&in->cursor);
	if (!in->cursor.failed)
		get_types(in, rows);
	for (size_t i = 0; i < rows->image.path_count; i++)
		if (rows->image.paths[i].type > rows->image.type_count)
			rows->image.paths[i].type = 0;
}

void chunk_reach_get(struct source *in, struct process_rows *rows)
{
	rows->image.reach = table_get(in, REACH_SHAPE, &rows->image.reach_count);
	if (rows->image.reach_count != 1)
		cursor_fail(&in->cursor);
	if (!in->cursor.failed)
		get_sites(in, rows);
	if (!in->cursor.failed)
		get_retained(in, rows);
	if (!in->cursor.failed)
		get_holders(in, rows);
	if (!in->cursor.failed)
		get_paths(in, rows);
}
