/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as JSON: the head's fields, then the table as a list of objects under its name. Keys are
 * the names of fields and columns; a column without a name is for people only and left out, and so
 * are the sentences. Numbers are integers with all their digits.
 */
#include "base/compiler.h"
#include "render/renderers.h"
#include "util/json.h"

/* More rows than this are for programs only: no spaces between them. */
enum { PRETTY_ROWS = 200 };

static void write_value(struct json *j, const struct result_value *value);

static void write_frames(struct json *j, struct result_frames frames)
{
	json_array(j);
	for (size_t i = 0; i < frames.count; i++) {
		const struct result_frame *f = &frames.at[i];

		json_object(j);
		json_field_string(j, "function", f->function);
		json_field_string(j, "file", f->file);
		json_field_u64(j, "line", f->line);
		json_field_string(j, "module", f->module);
		json_field_u64(j, "offset", f->offset);
		json_field_bool(j, "inlined", f->inlined);
		json_field_bool(j, "address_exact", f->address_exact);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_bars(struct json *j, struct result_bars bars, const char *low, const char *high)
{
	json_array(j);
	for (size_t i = 0; i < bars.count; i++) {
		json_object(j);
		json_field_u64(j, low, bars.at[i].low);
		json_field_u64(j, high, bars.at[i].high);
		json_field_u64(j, "count", bars.at[i].count);
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_fields(struct json *j, struct result_fields fields)
{
	json_object(j);
	for (size_t i = 0; i < fields.count; i++) {
		json_key(j, fields.at[i].name);
		write_value(j, &fields.at[i].value);
	}
	json_end_object(j);
}

static void write_value(struct json *j, const struct result_value *value)
{
	switch (value->unit) {
	case UNIT_TEXT:
		json_string(j, value->text);
		break;
	case UNIT_ID:
	case UNIT_COUNT:
	case UNIT_BYTES:
	case UNIT_NS:
		json_u64(j, value->number);
		break;
	case UNIT_FLAG:
		json_bool(j, value->flag);
		break;
	case UNIT_PERCENT: /* columns of it have no name; part and whole are elsewhere */
		json_null(j);
		break;
	case UNIT_FRAMES:
		write_frames(j, value->frames);
		break;
	case UNIT_SIZES:
		write_bars(j, value->bars, "low", "high");
		break;
	case UNIT_LIFETIMES:
		write_bars(j, value->bars, "low_ms", "high_ms");
		break;
	case UNIT_FIELDS:
		write_fields(j, value->fields);
		break;
	}
}

static int write_table(struct json *j, const struct result_table *t, struct render_output *out,
		       struct error *error)
{
	json_key(j, t->name);
	json_array(j);
	for (size_t row = 0; row < t->row_count; row++) {
		json_object(j);
		for (size_t i = 0; i < t->column_count; i++) {
			if (!t->columns[i].name)
				continue;
			json_key(j, t->columns[i].name);
			write_value(j, &t->values[row * t->column_count + i]);
		}
		json_end_object(j);
		if (render_flush(out, false, error) < 0)
			return -1;
	}
	json_end_array(j);
	return 0;
}

int render_json(const struct result *result, const struct render_options *options,
		struct render_output *out, struct error *error)
{
	bool pretty = result->table.row_count <= PRETTY_ROWS;
	struct json j = json_to(&out->buffer, pretty ? JSON_PRETTY : JSON_COMPACT);

	(void)options;
	json_object(&j);
	for (size_t i = 0; i < result->head.count; i++) {
		json_key(&j, result->head.at[i].name);
		write_value(&j, &result->head.at[i].value);
	}
	if (write_table(&j, &result->table, out, error) < 0)
		return -1;
	json_end_object(&j);
	if (!pretty)
		buffer_char(&out->buffer, '\n');
	return render_flush(out, true, error);
}
