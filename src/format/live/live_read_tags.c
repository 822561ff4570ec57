/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live profile -> rows of tags and visits, which are untrusted like the rest of format/live_read. A tag whose parent is not
 * older than itself is moved below the root; one whose name is not older gets its own text.
 */
#include <stdlib.h>
#include <string.h>

#include "format/live/live_read_parts.h"

static void read_pool(const struct live_view *view, uint32_t unit, struct tag_row *row)
{
	const struct live_pool *pool =
		live_view_pool(view, live_view_used(view, LIVE_POOL), unit, sizeof *pool);

	if (!pool)
		return;
	row->pools = LIVE_LOAD(pool->pools);
	row->most_bytes = (uint64_t)MAX(LIVE_LOAD(pool->most_bytes), (int64_t)0);
}

static int read_visits(const struct live_view *view, struct process_rows *rows)
{
	const struct live_visits *visits = live_view_at(view, LIVE_VISITS);
	size_t count = live_view_used(view, LIVE_VISITS);

	rows->visits = calloc(count + 1, sizeof *rows->visits);
	if (!rows->visits)
		return -1;
	for (size_t i = 1; i < count; i++) {
		struct visits_row row = { __atomic_load_n(&visits[i].tag, __ATOMIC_ACQUIRE),
					  LIVE_LOAD(visits[i].thread), LIVE_LOAD(visits[i].count) };

		if (row.tag != 0 && row.tag < rows->tag_count && row.slot < LIVE_SLOTS_MAX &&
		    row.count != 0)
			rows->visits[rows->visits_count++] = row;
	}
	return 0;
}

int live_read_tags(const struct live_view *view, struct process_rows *rows)
{
	const struct live_tag *tags = live_view_at(view, LIVE_TAGS);
	size_t count = live_view_used(view, LIVE_TAGS);

	if (count < 2)
		return 0;
	rows->tags = calloc(count, sizeof *rows->tags);
	if (!rows->tags)
		return -1;
	rows->tag_count = count;
	for (size_t i = 1; i < count; i++) {
		struct live_tag from;
		struct tag_row *row = &rows->tags[i];
		char text[LIVE_TAG_TEXT_MAX + 1];

		memcpy(&from, &tags[i], sizeof from);
		row->parent = from.parent < i ? from.parent : 0;
		row->name = (uint32_t)i;
		row->kind = from.kind < LIVE_TAG_KINDS ? from.kind : LIVE_TAG_SCOPE;
		if (row->kind == LIVE_TAG_POOL && from.pool)
			read_pool(view, from.pool, row);
		if (from.name > 0 && from.name < i && rows->tags[from.name].name == from.name) {
			row->name = from.name;
			row->text = rows->tags[from.name].text;
		} else {
			live_view_tag_text(view, &from, text);
			row->text = strdup(text);
			if (!row->text)
				return -1;
		}
	}
	return read_visits(view, rows);
}
