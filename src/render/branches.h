/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that lead to the rows of a tree:
 *
 *	main
 *	├ serve
 *	│ parse          an only child goes on below its parent
 *	└ load
 *
 * Rows come in preorder; only their depths are known. A level is indented only where it branches, so that forty calls
 * in a row do not leave the screen.
 */
#ifndef RENDER_BRANCHES_H
#define RENDER_BRANCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/result/result.h"
#include "util/buffer.h"

struct branches {
	uint8_t *rows;	 /* one for each row: only child, one of several, the last of several */
	uint8_t *levels; /* the same of the row's ancestors and itself, by depth */
	size_t level_count;
	bool utf8;
};

/* Pre: the table is a tree. -1 if out of memory. */
int branches_init(struct branches *branches, const struct result_table *table, bool utf8);
void branches_release(struct branches *branches);

/* What stands before the row's name. Rows must be asked for in order; any number of times from the first. */
void branches_append(struct branches *branches, const struct result_table *table, size_t row,
		     struct buffer *out);

#endif
