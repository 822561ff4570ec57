/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables as columns: encodes and decodes the rows of a recording. doc: column, doc: table
 *
 * A table is its number of rows, its number of columns, and the columns. A reader uses the columns it knows, in order: it skips
 * columns appended by a newer writer, and columns missing from an older one are zero.
 */
#ifndef FORMAT_RECORDING_COLUMNS_H
#define FORMAT_RECORDING_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/cursor.h"
#include "format/recording/bytes.h"

/* One column: a member of 4 or 8 bytes of the row's struct. */
struct field {
	uint16_t at, bytes;
};
#define FIELD(type, member)                                                                        \
	{                                                                                          \
		offsetof(type, member), sizeof(((type *)0)->member)                                \
	}

struct table_shape {
	size_t row_bytes;
	const struct field *fields; /* NULL: the members, all uint64_t, in their order */
	size_t field_count;
};
#define TABLE_SHAPE(type, fields) ((struct table_shape){ sizeof(type), fields, ARRAY_SIZE(fields) })
/* The members in the first `bytes` of a row. Their order is that of the file: new ones come last. */
#define U64_SHAPE(type, bytes)                                                                     \
	((struct table_shape){ sizeof(type), NULL, (bytes) / sizeof(uint64_t) })

/* A payload being written. `cost_bytes` is the memory that its rows take when read. */
struct payload {
	struct bytes bytes;
	uint64_t cost_bytes;
};

/* A payload being read. `allowance` bounds the memory that its rows may take; doc: allowance. */
struct source {
	struct cursor cursor;
	uint64_t allowance;
};

/* Allocates zeroed rows of columns for the caller to fill, put and free; NULL: the payload has failed. */
void *columns_new(struct payload *out, size_t count, size_t row_bytes);
void table_put(struct payload *out, struct table_shape shape, const void *rows, size_t count);

/* Returns malloc'd rows (NULL if there are none), *ret_count of them; on failure NULL, and the cursor has failed. */
void *table_get(struct source *in, struct table_shape shape, size_t *ret_count);

/* Deducts count * row_bytes from the allowance and returns zeroed memory, NULL for none; or fails the cursor. */
void *source_alloc(struct source *in, size_t count, size_t row_bytes);
/* The writer's counterpart. */
void payload_cost(struct payload *out, size_t count, size_t row_bytes);

/* Reads a counted text as a malloc'd string; never NULL unless the cursor failed. */
char *source_text(struct source *in);

#endif
