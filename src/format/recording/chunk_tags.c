/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's tags, and how often each was entered. A name is stored once, with the first tag that has it: a program with a
 * tag per request has many tags but few names. Pure functions; any thread.
 */
#include <stdlib.h>
#include <string.h>

#include "format/recording/chunks.h"

/* doc: chunk_tags. Distances to the tag's own number. */
struct tag_columns {
	uint32_t parent, name, kind;
	uint64_t pools, most_bytes;
};
static const struct field tag_fields[] = {
	FIELD(struct tag_columns, parent),     FIELD(struct tag_columns, name),
	FIELD(struct tag_columns, kind),       FIELD(struct tag_columns, pools),
	FIELD(struct tag_columns, most_bytes),
};
static const struct field visits_fields[] = {
	FIELD(struct visits_row, tag),
	FIELD(struct visits_row, slot),
	FIELD(struct visits_row, count),
};

void chunk_tags_put(struct payload *out, const struct process_rows *rows)
{
	size_t count = rows->tag_count ? rows->tag_count - 1 : 0;
	struct tag_columns *columns = columns_new(out, count, sizeof *columns);

	for (size_t i = 0; columns && i < count; i++) {
		const struct tag_row *tag = &rows->tags[i + 1];

		columns[i] = (struct tag_columns){ (uint32_t)(i + 1) - tag->parent,
						   (uint32_t)(i + 1) - tag->name, tag->kind,
						   tag->pools, tag->most_bytes };
	}
	table_put(out, TABLE_SHAPE(struct tag_columns, tag_fields), columns, count);
	free(columns);
	for (size_t i = 1; i <= count; i++) {
		if (rows->tags[i].name == i)
			bytes_put_text(&out->bytes, rows->tags[i].text);
	}
	table_put(out, TABLE_SHAPE(struct visits_row, visits_fields), rows->visits,
		  rows->visits_count);
	payload_cost(out, count + 1, sizeof *rows->tags);
}

/* Fills in tags[1..count]; on return, those that own a text have it, even after a failure. */
static void get_tags(struct source *in, const struct tag_columns *columns, size_t count,
		     struct tag_row *tags)
{
	for (size_t i = 1; i <= count && !in->cursor.failed; i++) {
		const struct tag_columns *c = &columns[i - 1];
		struct tag_row *tag = &tags[i];

		if (c->parent == 0 || c->parent > i || c->name >= i || c->kind >= LIVE_TAG_KINDS) {
			cursor_fail(&in->cursor);
			return;
		}
		tag->parent = (uint32_t)i - c->parent;
		tag->name = (uint32_t)i - c->name;
		tag->kind = c->kind;
		tag->pools = c->pools;
		tag->most_bytes = c->most_bytes;
		if (c->name == 0)
			tag->text = source_text(in);
		else if (tags[tag->name].name == tag->name)
			tag->text = tags[tag->name].text;
		else
			cursor_fail(&in->cursor);
	}
}

void chunk_tags_get(struct source *in, struct process_rows *rows)
{
	size_t count;
	struct tag_columns *columns =
		table_get(in, TABLE_SHAPE(struct tag_columns, tag_fields), &count);

	rows->tags = source_alloc(in, count + 1, sizeof *rows->tags);
	if (!in->cursor.failed) {
		rows->tag_count = count + 1;
		get_tags(in, columns, count, rows->tags);
	}
	free(columns);
	rows->visits =
		table_get(in, TABLE_SHAPE(struct visits_row, visits_fields), &rows->visits_count);
	for (size_t i = 0; i < rows->visits_count; i++) {
		if (rows->visits[i].tag >= rows->tag_count ||
		    rows->visits[i].slot >= LIVE_SLOTS_MAX)
			cursor_fail(&in->cursor);
	}
}
