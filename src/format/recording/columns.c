/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One column of numbers as bytes: a mode, a scale, then varints. The writer tries all candidate modes and keeps the one that
 * zstd compresses best, because the shortest encoding is not always the most regular one.
 *
 * The reader treats the bytes as untrusted: the number of rows is limited by the allowance, which grows with the bytes that the
 * file really contains. Pure functions over memory of the caller; any thread.
 * Invariant: column_get(column_put(values)) == values for every array of 64-bit numbers.
 */
#include "format/recording/columns.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/checked.h"
#include "base/varint.h"
#include "format/recording/pack.h"

/* doc: column */
enum column_mode {
	COLUMN_ZERO = 0,   /* all zero: nothing follows */
	COLUMN_RAMP = 1,   /* first value and constant step */
	COLUMN_PLAIN = 2,  /* one varint each */
	COLUMN_DELTA = 3,  /* zigzag difference to the previous value */
	COLUMN_DELTA2 = 4, /* zigzag difference of the differences */
	COLUMN_SPARSE = 5, /* number of nonzero values, the zeros before each, the values */
};

enum { TABLE_COLUMNS_MAX = 255, TRIED_VALUES = 1 << 12, FEW_BYTES = 64 };

static uint64_t common_divisor(const uint64_t *values, size_t count)
{
	uint64_t divisor = 0;

	for (size_t i = 0; i < count && divisor != 1; i++) {
		uint64_t a = values[i];

		while (a != 0) {
			uint64_t rest = divisor % a;

			divisor = a;
			a = rest;
		}
	}
	return divisor;
}

static bool is_ramp(const uint64_t *values, size_t count)
{
	for (size_t i = 2; i < count; i++) {
		if (values[i] - values[i - 1] != values[1] - values[0])
			return false;
	}
	return true;
}

static uint64_t zigzag_between(uint64_t from, uint64_t to)
{
	return zigzag_encode((int64_t)(to - from));
}

/* Same as varint_put, optimized for numbers of one byte. */
static uint8_t *put_number(uint8_t *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*out++ = (uint8_t)(value | 0x80);
	*out++ = (uint8_t)value;
	return out;
}

static void put_sparse(struct bytes *out, const uint64_t *values, size_t count)
{
	size_t filled = 0, zeros = 0;

	for (size_t i = 0; i < count; i++)
		filled += values[i] != 0;
	uint8_t *start = bytes_reserve(out, (1 + 2 * filled) * VARINT_MAX_BYTES), *at = start;

	if (!start)
		return;
	at = put_number(at, filled);
	for (size_t i = 0; i < count; i++) {
		if (values[i] == 0) {
			zeros++;
			continue;
		}
		at = put_number(at, zeros);
		zeros = 0;
	}
	for (size_t i = 0; i < count; i++) {
		if (values[i] != 0)
			at = put_number(at, values[i]);
	}
	out->size += (size_t)(at - start);
}

static void put_values(struct bytes *out, enum column_mode mode, const uint64_t *values,
		       size_t count)
{
	uint64_t last = 0, last_step = 0;
	uint8_t *start = bytes_reserve(out, count * VARINT_MAX_BYTES), *at = start;

	if (!start)
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t value = values[i], step = value - last;

		if (mode == COLUMN_PLAIN)
			at = put_number(at, value);
		else if (mode == COLUMN_DELTA)
			at = put_number(at, zigzag_encode((int64_t)step));
		else
			at = put_number(at, zigzag_between(last_step, step));
		last = value;
		last_step = step;
	}
	out->size += (size_t)(at - start);
}

static void put_mode(struct bytes *out, enum column_mode mode, const uint64_t *values, size_t count)
{
	if (mode == COLUMN_SPARSE)
		put_sparse(out, values, count);
	else
		put_values(out, mode, values, count);
}

/* The approximate compressed size. Not computed for a few bytes. */
static size_t packed_size(const struct bytes *bytes)
{
	if (bytes->size <= FEW_BYTES)
		return bytes->size;
	size_t bound = ZSTD_compressBound(bytes->size);
	uint8_t *packed = malloc(bound);
	size_t size = packed ? pack_zstd(packed, bound, bytes->data, bytes->size, 1) : bytes->size;

	free(packed);
	return ZSTD_isError(size) ? bytes->size : size;
}

/* The mode that compresses best, tried on the middle of a long column. */
static enum column_mode best_mode(const uint64_t *values, size_t count)
{
	static const enum column_mode modes[] = { COLUMN_PLAIN, COLUMN_DELTA, COLUMN_DELTA2,
						  COLUMN_SPARSE };
	size_t tried = MIN(count, (size_t)TRIED_VALUES), from = (count - tried) / 2;
	enum column_mode best = COLUMN_PLAIN;
	size_t best_size = SIZE_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct bytes one = { 0 };
		size_t size;

		put_mode(&one, modes[i], values + from, tried);
		size = one.failed ? SIZE_MAX : packed_size(&one);
		bytes_release(&one);
		if (size < best_size) {
			best = modes[i];
			best_size = size;
		}
	}
	return best;
}

/* May scale the values in place. */
static void column_put(struct bytes *out, uint64_t *values, size_t count)
{
	uint64_t scale = common_divisor(values, count);
	enum column_mode mode;

	if (scale == 0) {
		bytes_put_u8(out, COLUMN_ZERO);
		return;
	}
	for (size_t i = 0; i < count && scale != 1; i++)
		values[i] /= scale;
	if (is_ramp(values, count)) {
		bytes_put_u8(out, COLUMN_RAMP);
		bytes_put_varint(out, scale);
		bytes_put_varint(out, values[0]);
		bytes_put_varint(out, count > 1 ? zigzag_between(values[0], values[1]) : 0);
		return;
	}
	mode = best_mode(values, count);
	bytes_put_u8(out, (uint8_t)mode);
	bytes_put_varint(out, scale);
	put_mode(out, mode, values, count);
}

static void get_sparse(struct cursor *c, uint64_t *values, size_t count)
{
	uint64_t filled = cursor_varint(c);
	uint64_t next = 0;

	if (filled > count) {
		cursor_fail(c);
		return;
	}
	/* Marks the positions first, because the values follow all the gaps. */
	for (uint64_t i = 0; i < filled && !c->failed; i++) {
		if (!checked_add(next, cursor_varint(c), &next) || next >= count) {
			cursor_fail(c);
			return;
		}
		values[next++] = 1;
	}
	for (size_t i = 0; i < count && !c->failed; i++) {
		if (values[i] != 0)
			values[i] = cursor_varint(c);
	}
}

static void get_values(struct cursor *c, uint8_t mode, uint64_t *values, size_t count)
{
	uint64_t last = 0, step = 0;

	for (size_t i = 0; i < count && !c->failed; i++) {
		uint64_t number = cursor_varint(c);

		if (mode == COLUMN_PLAIN) {
			values[i] = number;
			continue;
		}
		if (mode == COLUMN_DELTA2)
			step += (uint64_t)zigzag_decode(number);
		else
			step = (uint64_t)zigzag_decode(number);
		last += step;
		values[i] = last;
	}
}

/* False: all are zero, and `values` is unchanged. On failure their content is undefined. */
static bool column_get(struct cursor *c, uint64_t *values, size_t count)
{
	uint8_t mode = cursor_u8(c);
	uint64_t scale, step;

	if (mode == COLUMN_ZERO || c->failed)
		return false;
	scale = cursor_varint(c);
	switch (mode) {
	case COLUMN_RAMP:
		values[0] = cursor_varint(c);
		step = (uint64_t)cursor_zigzag(c);
		for (size_t i = 1; i < count && !c->failed; i++)
			values[i] = values[i - 1] + step;
		break;
	case COLUMN_PLAIN:
	case COLUMN_DELTA:
	case COLUMN_DELTA2:
		get_values(c, mode, values, count);
		break;
	case COLUMN_SPARSE:
		memset(values, 0, count * sizeof *values);
		get_sparse(c, values, count);
		break;
	default:
		cursor_fail(c);
		return false;
	}
	for (size_t i = 0; i < count && scale != 1 && !c->failed; i++)
		values[i] *= scale;
	return true;
}

void payload_cost(struct payload *out, size_t count, size_t row_bytes)
{
	out->cost_bytes += (uint64_t)count * row_bytes;
}

void *source_alloc(struct source *in, size_t count, size_t row_bytes)
{
	uint64_t cost;
	void *memory;

	if (in->cursor.failed || count == 0)
		return NULL;
	if (!checked_mul(count, row_bytes, &cost) || cost > in->allowance) {
		cursor_fail(&in->cursor);
		return NULL;
	}
	in->allowance -= cost;
	memory = calloc(count, row_bytes);
	if (!memory)
		cursor_fail(&in->cursor);
	return memory;
}

char *source_text(struct source *in)
{
	struct span text = cursor_counted(&in->cursor);
	char *copy = in->cursor.failed ? NULL : malloc(text.size + 1);

	if (!copy) {
		cursor_fail(&in->cursor);
		return NULL;
	}
	if (text.size)
		memcpy(copy, text.data, text.size);
	copy[text.size] = '\0';
	return copy;
}

/* Constant sizes: memcpy with a variable size would be a call. */
static void copy_number(void *to, const void *from, size_t bytes)
{
	if (bytes == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, 8);
}

void *columns_new(struct payload *out, size_t count, size_t row_bytes)
{
	void *columns = calloc(count + 1, row_bytes);

	if (!columns)
		out->bytes.failed = true;
	return columns;
}

static struct field field_of(struct table_shape shape, size_t index)
{
	if (shape.fields)
		return shape.fields[index];
	return (struct field){ (uint16_t)(index * sizeof(uint64_t)), sizeof(uint64_t) };
}

/* Columns that are gathered or scattered in one pass over the rows: rows are far apart, and every pass fetches them again. */
enum { GROUP = 4 };
struct group {
	struct field fields[GROUP];
	uint64_t *values[GROUP];
	size_t count;
};

static void gather(const struct group *group, size_t row_bytes, const uint8_t *row, size_t count)
{
	for (size_t i = 0; i < count; i++, row += row_bytes) {
		for (size_t k = 0; k < group->count; k++) {
			uint64_t value = 0;

			copy_number(&value, row + group->fields[k].at, group->fields[k].bytes);
			group->values[k][i] = value;
		}
	}
}

/* False: a number does not fit. Zeros are skipped, since new rows are zeroed. */
static bool scatter(const struct group *group, size_t row_bytes, uint8_t *row, size_t count)
{
	for (size_t i = 0; i < count; i++, row += row_bytes) {
		for (size_t k = 0; k < group->count; k++) {
			const struct field field = group->fields[k];
			uint64_t value = group->values[k][i];

			if (value == 0)
				continue;
			if (field.bytes == 4 && value > UINT32_MAX)
				return false;
			copy_number(row + field.at, &value, field.bytes);
		}
	}
	return true;
}

static void group_fields(struct group *group, struct table_shape shape, size_t first)
{
	group->count = MIN(shape.field_count - first, (size_t)GROUP);
	for (size_t k = 0; k < group->count; k++) {
		group->fields[k] = field_of(shape, first + k);
		ASSERT(group->fields[k].bytes == 4 || group->fields[k].bytes == 8);
	}
}

/* Allocates the values of a group, which the caller frees; NULL: out of memory. */
static uint64_t *group_begin(struct group *group, size_t count)
{
	uint64_t *values = reallocarray(NULL, count, GROUP * sizeof *values);

	for (size_t k = 0; values && k < GROUP; k++)
		group->values[k] = values + k * count;
	return values;
}

void table_put(struct payload *out, struct table_shape shape, const void *rows, size_t count)
{
	struct group group;
	uint64_t *values;

	ASSERT(shape.field_count <= TABLE_COLUMNS_MAX);
	bytes_put_varint(&out->bytes, count);
	bytes_put_varint(&out->bytes, shape.field_count);
	payload_cost(out, count, shape.row_bytes);
	if (count == 0 || out->bytes.failed)
		return;
	values = group_begin(&group, count);
	out->bytes.failed |= !values;
	for (size_t f = 0; values && f < shape.field_count; f += GROUP) {
		group_fields(&group, shape, f);
		gather(&group, shape.row_bytes, rows, count);
		for (size_t k = 0; k < group.count; k++)
			column_put(&out->bytes, group.values[k], count);
	}
	free(values);
}

static void flush(struct source *in, struct group *group, size_t row_bytes, uint8_t *rows,
		  size_t count)
{
	if (!in->cursor.failed && !scatter(group, row_bytes, rows, count))
		cursor_fail(&in->cursor);
	group->count = 0;
}

/* Reads the columns of a file, which may have more or fewer than we know. */
static void get_columns(struct source *in, struct table_shape shape, size_t columns, uint8_t *rows,
			struct group *group, size_t count)
{
	group->count = 0;
	for (size_t f = 0; f < columns && !in->cursor.failed; f++) {
		if (!column_get(&in->cursor, group->values[group->count], count) ||
		    f >= shape.field_count)
			continue;
		group->fields[group->count++] = field_of(shape, f);
		if (group->count == GROUP)
			flush(in, group, shape.row_bytes, rows, count);
	}
	flush(in, group, shape.row_bytes, rows, count);
}

void *table_get(struct source *in, struct table_shape shape, size_t *ret_count)
{
	uint64_t count = cursor_varint(&in->cursor);
	uint64_t columns = cursor_varint(&in->cursor);
	struct group group;
	uint8_t *rows;
	uint64_t *values;

	*ret_count = 0;
	if (columns > TABLE_COLUMNS_MAX)
		cursor_fail(&in->cursor);
	rows = source_alloc(in, count, shape.row_bytes);
	if (!rows)
		return NULL;
	values = group_begin(&group, count);
	if (!values)
		cursor_fail(&in->cursor);
	else
		get_columns(in, shape, columns, rows, &group, count);
	free(values);
	if (in->cursor.failed) {
		free(rows);
		return NULL;
	}
	*ret_count = count;
	return rows;
}
