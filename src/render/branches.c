/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Siblings are found in one pass from the last row to the first: a row has a later sibling if the
 * same depth occurs again before a smaller one. A second pass from the first to the last finds
 * earlier siblings in the same way.
 */
#include "render/branches.h"

#include <stdlib.h>

#include "base/compiler.h"

enum branch { BRANCH_ONLY, BRANCH_MORE, BRANCH_LAST };

static size_t depth_of(const struct result_table *t, size_t row)
{
	return (size_t)t->values[row * t->column_count].number;
}

int branches_init(struct branches *b, const struct result_table *t, bool utf8)
{
	size_t levels = 1;

	for (size_t row = 0; row < t->row_count; row++)
		levels = MAX(levels, depth_of(t, row) + 2);
	*b = (struct branches){ .utf8 = utf8,
				.level_count = levels,
				.rows = calloc(t->row_count + 1, 1),
				.levels = calloc(levels, 1) };
	bool *met = calloc(levels, sizeof *met);

	if (!b->rows || !b->levels || !met) {
		free(met);
		branches_release(b);
		return -1;
	}
	for (size_t row = t->row_count, open = 0; row > 0; row--) {
		size_t depth = depth_of(t, row - 1);

		for (size_t d = depth + 1; d <= open; d++)
			met[d] = false;
		b->rows[row - 1] = met[depth] ? BRANCH_MORE : BRANCH_ONLY;
		met[depth] = true;
		open = depth;
	}
	for (size_t d = 0; d < levels; d++)
		met[d] = false;
	for (size_t row = 0, open = 0; row < t->row_count; row++) {
		size_t depth = depth_of(t, row);

		for (size_t d = depth + 1; d <= open; d++)
			met[d] = false;
		if (b->rows[row] == BRANCH_ONLY && met[depth])
			b->rows[row] = BRANCH_LAST;
		met[depth] = true;
		open = depth;
	}
	free(met);
	return 0;
}

void branches_release(struct branches *b)
{
	free(b->rows);
	free(b->levels);
	*b = (struct branches){ 0 };
}

void branches_append(struct branches *b, const struct result_table *t, size_t row,
		     struct buffer *out)
{
	static const char *const through[2][3] = { { "", "| ", "  " }, { "", "│ ", "  " } };
	static const char *const own[2][3] = { { "", "|-", "`-" }, { "", "├ ", "└ " } };
	size_t depth = depth_of(t, row), top = depth_of(t, 0);

	b->levels[depth] = b->rows[row];
	for (size_t d = top; d < depth; d++)
		buffer_text(out, through[b->utf8][b->levels[d]]);
	buffer_text(out, own[b->utf8][b->rows[row]]);
}
