/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that connect the rows of a tree:
 *
 *	main
 *	├ serve
 *	│ parse          an only child is not indented
 *	└ load
 *
 * Rows are in preorder; only their depths are known. A level is indented only where it branches, so that a chain of
 * forty calls stays on the screen.
 */
#ifndef RENDER_BRANCHES_H
#define RENDER_BRANCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/result/result.h"
#include "util/buffer.h"

struct branches {
	uint8_t *rows;	 /* by row: only child, one of several, or last of several */
	uint8_t *levels; /* the same for the row and its ancestors, by depth */
	size_t level_count;
	bool utf8;
};

/* Pre: the table is a tree. -1 if out of memory. */
int branches_init(struct branches *branches, const struct result_table *table, bool utf8);
void branches_release(struct branches *branches);

/* Appends the lines before the row's name. Call in row order; restarting at the first row is allowed. */
void branches_append(struct branches *branches, const struct result_table *table, size_t row,
		     struct buffer *out);

#endif
