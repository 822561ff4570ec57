/* SPDX-License-Identifier: Apache-2.0 */
/* Results as tables of plain cells: the implementation of struct hg_table. Everything is in the result's arena
 * and is freed with it. */
#ifndef READER_TABLE_H
#define READER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <heapgauge/profile.h>

#include "analysis/result/result.h"

struct table_column {
	const char *name;
	const char *unit;
	size_t source; /* index in the data that the table shows */
	bool error;    /* this column is the standard error of that value */
};

struct hg_table {
	const char *name;
	struct arena *arena;
	const struct table_column *columns;
	size_t column_count, row_count;
	/* Returns -1 if out of memory. */
	int (*fill)(const struct hg_table *table, size_t row, struct hg_cell *cells);
	union {
		const struct result_table *table;
		const struct result_nodes *nodes;
		struct result_fields fields;
		struct result_frames frames;
		struct result_bars bars;
		struct result_numbers numbers;
	} of;
};

/* Makes the tables of a result's rows and of its header. Returns -1 if out of memory. */
int table_of_rows(struct hg_table *ret, struct result *result);
int table_of_head(struct hg_table *ret, struct result *result);

#endif
