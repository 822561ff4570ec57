/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joint distributions of the process: of reallocs, of sizes and lifetimes, and of live sizes over time. Present only if there are any. Pure functions; any thread.
 */
#include "format/recording/chunks.h"

/* doc: chunk_pairs */
static const struct field pair_fields[] = {
	FIELD(struct pair_row, kind),
	FIELD(struct pair_row, first),
	FIELD(struct pair_row, second),
	FIELD(struct pair_row, count),
};

static const struct field size_moment_fields[] = {
	FIELD(struct size_moment_row, at_ns),
	FIELD(struct size_moment_row, size_class),
	FIELD(struct size_moment_row, blocks),
	FIELD(struct size_moment_row, bytes),
};

void chunk_pairs_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, TABLE_SHAPE(struct pair_row, pair_fields), rows->pairs, rows->pair_count);
	table_put(out, TABLE_SHAPE(struct size_moment_row, size_moment_fields), rows->size_moments,
		  rows->size_moment_count);
}

void chunk_pairs_get(struct source *in, struct process_rows *rows)
{
	rows->pairs = table_get(in, TABLE_SHAPE(struct pair_row, pair_fields), &rows->pair_count);
	/* A kind that is not known is read over by those who look for another. */
	for (size_t i = 0; i < rows->pair_count; i++)
		if (rows->pairs[i].first >= LIVE_PAIR_CLASSES ||
		    rows->pairs[i].second >= LIVE_PAIR_CLASSES)
			cursor_fail(&in->cursor);
	rows->size_moments = table_get(in, TABLE_SHAPE(struct size_moment_row, size_moment_fields),
				       &rows->size_moment_count);
	for (size_t i = 0; i < rows->size_moment_count; i++)
		if (rows->size_moments[i].size_class >= LIVE_PAIR_CLASSES)
			cursor_fail(&in->cursor);
}
