/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as JSON: the fields of the head, then the table as a list of objects under its name. Keys
 * are the names of fields and columns; a column without a name is for people only and omitted, and
 * so are the sentences. Numbers are exact integers; the standard error of an estimate follows it as
 * NAME_error, in every row of a column that has any estimate.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "render/renderers.h"
#include "util/cleanup.h"
#include "util/text/json.h"
#include "util/vector.h"

/*
 * A stack is a list of numbers, and each frame is written once, after the table: a hundred thousand
 * stacks share about ten thousand frames.
 */
struct writer {
	struct json json;
	uint32_t *numbers; /* by frame id: its index in "frames" + 1 */
	size_t number_count;
	VECTOR(const struct result_frame *) frames;
	bool failed;
};

/* Larger tables are for programs only and written without spaces. */
enum { PRETTY_ROWS = 200 };

static void write_value(struct writer *w, const struct result_value *value);

static bool make_room(struct writer *w, uint32_t id)
{
	size_t wanted = MAX((size_t)id + 1, w->number_count * 2);

	if (id < w->number_count)
		return true;
	uint32_t *grown = reallocarray(w->numbers, wanted, sizeof *grown);

	if (!grown)
		return false;
	memset(grown + w->number_count, 0, (wanted - w->number_count) * sizeof *grown);
	w->numbers = grown;
	w->number_count = wanted;
	return true;
}

static void write_frames(struct writer *w, struct result_frames frames)
{
	json_array(&w->json);
	for (size_t i = 0; i < frames.count && !w->failed; i++) {
		const struct result_frame *f = frames.at[i];

		if (!make_room(w, f->id)) {
			w->failed = true;
			break;
		}
		if (w->numbers[f->id] == 0) {
			w->failed = !vector_push(&w->frames, f);
			w->numbers[f->id] = (uint32_t)w->frames.count;
		}
		json_u64(&w->json, w->numbers[f->id] - 1);
	}
	json_end_array(&w->json);
}

static int write_frame_table(struct writer *w, struct render_output *out, struct error *error)
{
	struct json *j = &w->json;

	json_key(j, "frames");
	json_array(j);
	for (size_t i = 0; i < w->frames.count; i++) {
		const struct result_frame *f = w->frames.at[i];

		json_object(j);
		json_field_string(j, "function", f->function);
		json_field_string(j, "file", f->file);
		json_field_u64(j, "line", f->line);
		json_field_string(j, "module", f->module);
		json_field_u64(j, "offset", f->offset);
		json_field_bool(j, "inlined", f->inlined);
		json_field_bool(j, "address_exact", f->address_exact);
		json_field_bool(j, "runtime_frame", f->runtime_frame);
		json_field_bool(j, "own", f->own);
		json_field_string(j, "language", f->language);
		json_end_object(j);
		if (render_flush(out, false, error) < 0)
			return -1;
	}
	json_end_array(j);
	return 0;
}

/* Three digits are enough for a standard error. */
static void write_error(struct json *j, double error)
{
	char text[32];

	snprintf(text, sizeof text, error >= 1000 ? "%.0f" : "%.3g", error);
	json_double(j, strtod(text, NULL));
}

static void write_error_of(struct writer *w, const char *name, const struct result_value *value);

static bool has_error(const struct result_value *v)
{
	return v->unit == UNIT_SERIES ? v->numbers.errors != NULL : v->error > 0;
}

static void write_bars(struct json *j, struct result_bars bars, const char *low, const char *high)
{
	json_array(j);
	for (size_t i = 0; i < bars.count; i++) {
		json_object(j);
		json_field_u64(j, low, bars.at[i].low);
		json_field_u64(j, high, bars.at[i].high);
		json_field_u64(j, "count", bars.at[i].count);
		if (bars.at[i].error > 0) {
			json_key(j, "count_error");
			write_error(j, bars.at[i].error);
		}
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_path(struct json *j, struct result_path path)
{
	json_array(j);
	for (size_t i = 0; i < path.count; i++) {
		const struct result_step *step = &path.at[i];

		json_object(j);
		json_key(j, "name");
		json_string(j, step->name);
		json_key(j, "offset_bytes");
		if (step->offset != UINT64_MAX)
			json_u64(j, step->offset);
		else
			json_null(j);
		if (step->blocks) {
			json_key(j, "site");
			if (step->site)
				json_u64(j, step->site);
			else
				json_null(j);
			json_key(j, "type");
			json_string(j, step->type);
			json_field_u64(j, "blocks", step->blocks);
		}
		json_end_object(j);
	}
	json_end_array(j);
}

static void write_fields(struct writer *w, struct result_fields fields)
{
	for (size_t i = 0; i < fields.count; i++) {
		json_key(&w->json, fields.at[i].name);
		write_value(w, &fields.at[i].value);
		if (has_error(&fields.at[i].value))
			write_error_of(w, fields.at[i].name, &fields.at[i].value);
	}
}

static void write_value(struct writer *w, const struct result_value *value)
{
	struct json *j = &w->json;

	switch (value->unit) {
	case UNIT_TEXT:
		json_string(j, value->text);
		break;
	case UNIT_ID:
	case UNIT_COUNT:
	case UNIT_BYTES:
	case UNIT_NS:
	case UNIT_RATE:
		json_u64(j, value->number);
		break;
	case UNIT_COUNT_CHANGE:
	case UNIT_BYTES_CHANGE:
	case UNIT_NS_CHANGE:
	case UNIT_BYTES_RATE:
		json_i64(j, value->change);
		break;
	case UNIT_FLAG:
		json_bool(j, value->flag);
		break;
	case UNIT_BAR:
	case UNIT_PERCENT: /* such columns have no name; part and whole are elsewhere */
		json_null(j);
		break;
	case UNIT_FRAMES:
		write_frames(w, value->frames);
		break;
	case UNIT_SIZES:
		write_bars(j, value->bars, "low_bytes", "high_bytes");
		break;
	case UNIT_LIFETIMES:
		write_bars(j, value->bars, "low_ms", "high_ms");
		break;
	case UNIT_FIELDS:
		json_object(j);
		write_fields(w, value->fields);
		json_end_object(j);
		break;
	case UNIT_SERIES:
		json_array(j);
		for (size_t i = 0; i < value->numbers.count; i++)
			json_i64(j, value->numbers.at[i]);
		json_end_array(j);
		break;
	case UNIT_PATH:
		write_path(j, value->path);
		break;
	}
}

/* Writes the error under the key NAME_error of this object. */
static void write_error_of(struct writer *w, const char *name, const struct result_value *value)
{
	struct json *j = &w->json;
	char key[80];

	snprintf(key, sizeof key, "%s_error", name);
	json_key(j, key);
	if (value->unit != UNIT_SERIES) {
		write_error(j, value->error);
		return;
	}
	json_array(j);
	for (size_t i = 0; i < value->numbers.count && value->numbers.errors; i++)
		write_error(j, value->numbers.errors[i]);
	json_end_array(j);
}

static bool has_frames(const struct result_table *t)
{
	for (size_t i = 0; i < t->column_count; i++)
		if (t->columns[i].name && t->columns[i].unit == UNIT_FRAMES)
			return true;
	return false;
}

static int write_table(struct writer *w, const struct result_table *t, struct render_output *out,
		       struct error *error)
{
	struct json *j = &w->json;
	AUTO_FREE bool *estimated = render_estimated(t);

	if (!estimated)
		return error_set(error, "out of memory");
	json_key(j, t->name);
	json_array(j);
	for (size_t row = 0; row < t->row_count; row++) {
		json_object(j);
		for (size_t i = 0; i < t->column_count; i++) {
			if (!t->columns[i].name)
				continue;
			json_key(j, t->columns[i].name);
			write_value(w, &t->values[row * t->column_count + i]);
			if (estimated[i])
				write_error_of(w, t->columns[i].name,
					       &t->values[row * t->column_count + i]);
		}
		json_end_object(j);
		if (w->failed)
			return error_set(error, "out of memory");
		if (render_flush(out, false, error) < 0)
			return -1;
	}
	json_end_array(j);
	return has_frames(t) ? write_frame_table(w, out, error) : 0;
}

static void write_names(struct json *j, const struct result_nodes *n)
{
	json_key(j, "names");
	json_array(j);
	for (size_t i = 0; i < n->name_count; i++) {
		const struct result_frame *f = &n->names[i];

		json_object(j);
		json_field_string(j, "function", f->function);
		json_field_string(j, "module", f->module);
		json_field_string(j, "file", f->file);
		json_field_u64(j, "line", f->line);
		json_field_bool(j, "inlined", f->inlined);
		json_field_bool(j, "own", f->own);
		json_field_string(j, "language", f->language);
		json_end_object(j);
	}
	json_end_array(j);
}

static int write_errors(struct writer *w, const char *key, const float *errors, size_t count,
			struct render_output *out, struct error *error)
{
	if (!errors)
		return 0;
	json_key(&w->json, key);
	json_array(&w->json);
	for (size_t i = 0; i < count; i++) {
		write_error(&w->json, errors[i]);
		if (i % 1024 == 0 && render_flush(out, false, error) < 0)
			return -1;
	}
	json_end_array(&w->json);
	return 0;
}

/* Writes whichever array is not NULL, by node. */
static int write_numbers(struct writer *w, const char *key, const int32_t *small,
			 const int64_t *large, size_t count, struct render_output *out,
			 struct error *error)
{
	ASSERT(small || large);
	json_key(&w->json, key);
	json_array(&w->json);
	for (size_t i = 0; i < count; i++) {
		json_i64(&w->json, small ? small[i] : large ? large[i] : 0);
		if (i % 1024 == 0 && render_flush(out, false, error) < 0)
			return -1;
	}
	json_end_array(&w->json);
	return 0;
}

static int write_nodes(struct writer *w, const struct result_table *t, struct render_output *out,
		       struct error *error)
{
	const struct result_nodes *n = t->nodes;

	write_names(&w->json, n);
	json_key(&w->json, t->name);
	json_object(&w->json);
	if (write_numbers(w, "name", n->name, NULL, n->count, out, error) < 0 ||
	    write_numbers(w, "parent", n->parent, NULL, n->count, out, error) < 0 ||
	    write_numbers(w, "value", NULL, n->value, n->count, out, error) < 0 ||
	    write_numbers(w, "self", NULL, n->self, n->count, out, error) < 0 ||
	    (n->before && write_numbers(w, "before", NULL, n->before, n->count, out, error) < 0) ||
	    write_errors(w, "value_error", n->value_error, n->count, out, error) < 0 ||
	    write_errors(w, "self_error", n->self_error, n->count, out, error) < 0)
		return -1;
	json_end_object(&w->json);
	return 0;
}

static int write_result(struct writer *w, const struct result *result, struct render_output *out,
			struct error *error)
{
	struct json *j = &w->json;

	json_object(j);
	json_field_schema(j);
	write_fields(w, result->head);
	const struct result_table *t = &result->table;

	if ((t->nodes ? write_nodes(w, t, out, error) : write_table(w, t, out, error)) < 0)
		return -1;
	json_end_object(j);
	return 0;
}

static int render(const struct result *result, bool pretty, struct render_output *out,
		  struct error *error)
{
	struct writer w = { .json = json_to(&out->buffer, pretty ? JSON_PRETTY : JSON_COMPACT) };

	int status = write_result(&w, result, out, error);

	free(w.numbers);
	vector_release(&w.frames);
	if (status < 0)
		return -1;
	if (!pretty)
		buffer_char(&out->buffer, '\n');
	return render_flush(out, true, error);
}

int render_json(const struct result *result, const struct render_options *options,
		struct render_output *out, struct error *error)
{
	const struct result_table *t = &result->table;

	(void)options;
	return render(result, t->row_count <= PRETTY_ROWS && !t->nodes, out, error);
}

int render_json_line(const struct result *result, const struct render_options *options,
		     struct render_output *out, struct error *error)
{
	(void)options;
	return render(result, false, out, error);
}
