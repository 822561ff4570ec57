/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <heapgauge/profile.h>: tables.
 *
 * A table is a list of columns and a function that fills the cells of a row; there is one such function for the
 * rows of a view and one for each shape of a value. A value with parts (a stack, a distribution, a record) is a
 * nested table in its cell, made in the result's arena when the row is read. Columns have the names and order of
 * render/json.c and docs/json.md.
 */
#include "reader/table.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "render/renderers.h"
#include "util/cleanup.h"

static int fill_value(struct arena *arena, const struct result_value *value, struct hg_cell *ret);

/* The words that the header documents. */
static const char *unit_word(enum result_unit unit)
{
	static const char *const words[] = {
		[UNIT_TEXT] = "text",
		[UNIT_ID] = "id",
		[UNIT_COUNT] = "count",
		[UNIT_BYTES] = "bytes",
		[UNIT_NS] = "ns",
		[UNIT_RATE] = "per second",
		[UNIT_COUNT_CHANGE] = "count",
		[UNIT_BYTES_CHANGE] = "bytes",
		[UNIT_NS_CHANGE] = "ns",
		[UNIT_BYTES_RATE] = "bytes per second",
		[UNIT_FLAG] = "flag",
		[UNIT_PERCENT] = "", /* only for people: in no named column */
		[UNIT_BAR] = "",
		[UNIT_FRAMES] = "stack",
		[UNIT_SIZES] = "distribution",
		[UNIT_LIFETIMES] = "distribution",
		[UNIT_FIELDS] = "record",
		[UNIT_SERIES] = "series",
		[UNIT_PATH] = "text",
	};

	return words[unit];
}

/* ---- cells ---- */

static struct hg_cell cell_text(const char *text)
{
	return text ? (struct hg_cell){ .type = HG_CELL_TEXT, .as.text = text }
		    : (struct hg_cell){ .type = HG_CELL_UNKNOWN };
}

static struct hg_cell cell_unsigned(uint64_t number)
{
	return (struct hg_cell){ .type = HG_CELL_UNSIGNED, .as.number = number };
}

static struct hg_cell cell_signed(int64_t change)
{
	return (struct hg_cell){ .type = HG_CELL_SIGNED, .as.change = change };
}

static struct hg_cell cell_double(double real)
{
	return (struct hg_cell){ .type = HG_CELL_DOUBLE, .as.real = real };
}

static struct hg_cell cell_flag(bool flag)
{
	return (struct hg_cell){ .type = HG_CELL_FLAG, .as.number = flag };
}

static int fill_table(struct hg_table *table, struct hg_cell *ret)
{
	if (!table)
		return -1;
	*ret = (struct hg_cell){ .type = HG_CELL_TABLE, .as.table = table };
	return 0;
}

/* Returns a nested table without columns. NULL if out of memory. */
static struct hg_table *new_table(struct arena *arena, const char *name, size_t row_count,
				  int (*fill)(const struct hg_table *, size_t, struct hg_cell *))
{
	struct hg_table *made = ARENA_NEW(arena, struct hg_table);

	if (made)
		*made = (struct hg_table){
			.name = name, .arena = arena, .row_count = row_count, .fill = fill
		};
	return made;
}

/* ---- stacks ---- */

static const struct table_column frame_columns[] = {
	{ "function", "text", 0, false },
	{ "file", "text", 0, false },
	{ "line", "id", 0, false },
	{ "module", "text", 0, false },
	{ "offset", "id", 0, false },
	{ "inlined", "flag", 0, false },
	{ "address_exact", "flag", 0, false },
	{ "runtime_frame", "flag", 0, false },
	{ "own", "flag", 0, false },
	{ "language", "text", 0, false },
};

static int fill_frame(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	const struct result_frame *frame = table->of.frames.at[row];

	cells[0] = cell_text(frame->function);
	cells[1] = cell_text(frame->file);
	cells[2] = cell_unsigned(frame->line);
	cells[3] = cell_text(frame->module);
	cells[4] = cell_unsigned(frame->offset);
	cells[5] = cell_flag(frame->inlined);
	cells[6] = cell_flag(frame->address_exact);
	cells[7] = cell_flag(frame->runtime_frame);
	cells[8] = cell_flag(frame->own);
	cells[9] = cell_text(frame->language);
	return 0;
}

static int fill_frames(struct arena *arena, struct result_frames frames, struct hg_cell *ret)
{
	struct hg_table *made = new_table(arena, "stack", frames.count, fill_frame);

	if (made) {
		made->of.frames = frames;
		made->columns = frame_columns;
		made->column_count = ARRAY_SIZE(frame_columns);
	}
	return fill_table(made, ret);
}

/* ---- distributions ---- */

static const struct table_column size_columns[] = {
	{ "low_bytes", "bytes", 0, false },
	{ "high_bytes", "bytes", 0, false },
	{ "count", "count", 0, false },
	{ "count_error", "count", 0, true },
};
static const struct table_column lifetime_columns[] = {
	{ "low_ms", "ms", 0, false },
	{ "high_ms", "ms", 0, false },
	{ "count", "count", 0, false },
	{ "count_error", "count", 0, true },
};

static int fill_bar(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	const struct result_bar *bar = &table->of.bars.at[row];

	cells[0] = cell_unsigned(bar->low);
	cells[1] = cell_unsigned(bar->high);
	cells[2] = cell_unsigned(bar->count);
	if (table->column_count > 3)
		cells[3] = cell_double((double)bar->error);
	return 0;
}

static int fill_bars(struct arena *arena, struct result_bars bars,
		     const struct table_column *columns, struct hg_cell *ret)
{
	struct hg_table *made = new_table(arena, "distribution", bars.count, fill_bar);
	bool estimated = false;

	for (size_t i = 0; i < bars.count; i++)
		estimated |= bars.at[i].error > 0;
	if (made) {
		made->of.bars = bars;
		made->columns = columns;
		made->column_count = estimated ? 4 : 3;
	}
	return fill_table(made, ret);
}

/* ---- series, and their standard errors ---- */

static const struct table_column number_columns[] = { { "value", "count", 0, false } };

static int fill_number(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	cells[0] = cell_signed(table->of.numbers.at[row]);
	return 0;
}

static int fill_number_error(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	cells[0] = cell_double((double)table->of.numbers.errors[row]);
	return 0;
}

static int fill_numbers(struct arena *arena, struct result_numbers numbers, bool errors,
			struct hg_cell *ret)
{
	size_t count = errors && !numbers.errors ? 0 : numbers.count;
	struct hg_table *made =
		new_table(arena, "series", count, errors ? fill_number_error : fill_number);

	if (made) {
		made->of.numbers = numbers;
		made->columns = number_columns;
		made->column_count = ARRAY_SIZE(number_columns);
	}
	return fill_table(made, ret);
}

static bool has_error(const struct result_value *value)
{
	return value->unit == UNIT_SERIES ? value->numbers.errors != NULL : value->error > 0;
}

static int fill_error(struct arena *arena, const struct result_value *value, struct hg_cell *ret)
{
	if (value->unit == UNIT_SERIES)
		return fill_numbers(arena, value->numbers, true, ret);
	*ret = cell_double((double)value->error);
	return 0;
}

/* ---- records ---- */

/* Adds a column, followed by one for the standard error if the value is an estimate. Returns false if out of
 * memory. */
static bool add_column(struct arena *arena, struct table_column *columns, size_t *count,
		       struct table_column column, bool estimated)
{
	columns[(*count)++] = column;
	if (!estimated)
		return true;
	column.name = arena_printf(arena, "%s_error", column.name);
	column.error = true;
	columns[(*count)++] = column;
	return column.name != NULL;
}

static int fill_field(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	(void)row;
	for (size_t i = 0; i < table->column_count; i++) {
		const struct table_column *column = &table->columns[i];
		const struct result_value *value = &table->of.fields.at[column->source].value;

		if ((column->error ? fill_error : fill_value)(table->arena, value, &cells[i]) < 0)
			return -1;
	}
	return 0;
}

static int init_fields(struct hg_table *table, struct arena *arena, const char *name,
		       struct result_fields fields)
{
	struct table_column *columns =
		ARENA_ARRAY(arena, struct table_column, fields.count * 2 + 1);

	*table = (struct hg_table){
		.name = name, .arena = arena, .row_count = 1, .fill = fill_field
	};
	table->columns = columns;
	table->of.fields = fields;
	for (size_t i = 0; columns && i < fields.count; i++) {
		const struct result_value *value = &fields.at[i].value;
		const struct table_column column = { fields.at[i].name, unit_word(value->unit), i,
						     false };

		if (!add_column(arena, columns, &table->column_count, column, has_error(value)))
			return -1;
	}
	return columns ? 0 : -1;
}

static int fill_fields(struct arena *arena, struct result_fields fields, struct hg_cell *ret)
{
	struct hg_table *made = ARENA_NEW(arena, struct hg_table);

	if (made && init_fields(made, arena, "record", fields) < 0)
		return -1;
	return fill_table(made, ret);
}

/* ---- values ---- */

static int fill_value(struct arena *arena, const struct result_value *value, struct hg_cell *ret)
{
	switch (value->unit) {
	case UNIT_TEXT:
		*ret = cell_text(value->text);
		return 0;
	case UNIT_ID:
	case UNIT_COUNT:
	case UNIT_BYTES:
	case UNIT_NS:
	case UNIT_RATE:
		*ret = cell_unsigned(value->number);
		return 0;
	case UNIT_COUNT_CHANGE:
	case UNIT_BYTES_CHANGE:
	case UNIT_NS_CHANGE:
	case UNIT_BYTES_RATE:
		*ret = cell_signed(value->change);
		return 0;
	case UNIT_FLAG:
		*ret = cell_flag(value->flag);
		return 0;
	case UNIT_FRAMES:
		return fill_frames(arena, value->frames, ret);
	case UNIT_SIZES:
		return fill_bars(arena, value->bars, size_columns, ret);
	case UNIT_LIFETIMES:
		return fill_bars(arena, value->bars, lifetime_columns, ret);
	case UNIT_FIELDS:
		return fill_fields(arena, value->fields, ret);
	case UNIT_SERIES:
		return fill_numbers(arena, value->numbers, false, ret);
	case UNIT_PATH:
		*ret = cell_text(value->path.text);
		return 0;
	case UNIT_BAR:
	case UNIT_PERCENT: /* only for people: part and whole have columns of their own */
		break;
	}
	*ret = cell_text(NULL);
	return 0;
}

/* ---- the rows of a view ---- */

static int fill_row(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	const struct result_table *of = table->of.table;

	for (size_t i = 0; i < table->column_count; i++) {
		const struct table_column *column = &table->columns[i];
		const struct result_value *value =
			&of->values[row * of->column_count + column->source];

		if ((column->error ? fill_error : fill_value)(table->arena, value, &cells[i]) < 0)
			return -1;
	}
	return 0;
}

static const struct table_column node_columns[] = {
	{ "parent", "id", 0, false },	     { "value", "count", 0, false },
	{ "self", "count", 0, false },	     { "function", "text", 0, false },
	{ "module", "text", 0, false },	     { "file", "text", 0, false },
	{ "line", "id", 0, false },	     { "inlined", "flag", 0, false },
	{ "own", "flag", 0, false },	     { "language", "text", 0, false },
	{ "value_error", "count", 0, true }, { "self_error", "count", 0, true },
};
enum { NODE_ERRORS = 2 };

/* A row that stands for several nodes has no name. */
static int fill_node(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	const struct result_nodes *nodes = table->of.nodes;
	const struct result_frame *frame =
		nodes->name[row] < 0 ? NULL : &nodes->names[nodes->name[row]];

	cells[0] = nodes->parent[row] < 0 ? cell_text(NULL)
					  : cell_unsigned((uint64_t)nodes->parent[row]);
	cells[1] = cell_signed(nodes->value[row]);
	cells[2] = cell_signed(nodes->self[row]);
	cells[3] = cell_text(frame ? frame->function : NULL);
	cells[4] = cell_text(frame ? frame->module : NULL);
	cells[5] = cell_text(frame ? frame->file : NULL);
	cells[6] = cell_unsigned(frame ? frame->line : 0);
	cells[7] = cell_flag(frame && frame->inlined);
	cells[8] = cell_flag(frame && frame->own);
	cells[9] = cell_text(frame ? frame->language : NULL);
	if (nodes->value_error) {
		cells[10] = cell_double((double)nodes->value_error[row]);
		cells[11] = cell_double((double)nodes->self_error[row]);
	}
	return 0;
}

static int init_rows(struct hg_table *ret, struct arena *arena, const struct result_table *of)
{
	AUTO_FREE bool *estimated = render_estimated(of);
	struct table_column *columns =
		ARENA_ARRAY(arena, struct table_column, of->column_count * 2 + 1);

	*ret = (struct hg_table){
		.name = of->name, .arena = arena, .row_count = of->row_count, .fill = fill_row
	};
	ret->columns = columns;
	ret->of.table = of;
	if (!estimated || !columns)
		return -1;
	for (size_t i = 0; i < of->column_count; i++) {
		const struct result_column *c = &of->columns[i];
		const struct table_column column = { c->name, unit_word(c->unit), i, false };

		if (c->name &&
		    !add_column(arena, columns, &ret->column_count, column, estimated[i]))
			return -1;
	}
	return 0;
}

int table_of_rows(struct hg_table *ret, struct result *result)
{
	const struct result_table *of = &result->table;

	if (!of->nodes)
		return init_rows(ret, &result->arena, of);
	*ret = (struct hg_table){ .name = of->name,
				  .arena = &result->arena,
				  .row_count = of->nodes->count,
				  .fill = fill_node };
	ret->columns = node_columns;
	ret->column_count =
		ARRAY_SIZE(node_columns) - (of->nodes->value_error ? 0 : (size_t)NODE_ERRORS);
	ret->of.nodes = of->nodes;
	return 0;
}

int table_of_head(struct hg_table *ret, struct result *result)
{
	return init_fields(ret, &result->arena, "head", result->head);
}

/* ---- public functions ---- */

const char *hg_table_name(const struct hg_table *table)
{
	return table->name;
}

size_t hg_table_row_count(const struct hg_table *table)
{
	return table->row_count;
}

size_t hg_table_column_count(const struct hg_table *table)
{
	return table->column_count;
}

const char *hg_table_column_name(const struct hg_table *table, size_t column)
{
	return column < table->column_count ? table->columns[column].name : NULL;
}

const char *hg_table_column_unit(const struct hg_table *table, size_t column)
{
	return column < table->column_count ? table->columns[column].unit : NULL;
}

int hg_table_row(const struct hg_table *table, size_t row, struct hg_cell *cells)
{
	return row < table->row_count ? table->fill(table, row, cells) : -1;
}
