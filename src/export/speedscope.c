/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's file format: a table of frames and one sampled profile per cost, so that its selector switches
 * between peak, memory not freed, total and calls. The selected cost is shown first. A frame is a function:
 * separate lines would split its box in the flame graph.
 */
#include "export/stacks.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "util/text/json.h"

enum { TYPES_MAX = 6 };

struct sample_type {
	const char *name;
	enum cost_id cost;
	enum moment_kind at; /* DEFAULT: the moment of the selection */
};

static int64_t value_of(const struct export_input *in, const struct sample_type *type,
			const struct entry *e)
{
	if (type->at == MOMENT_DEFAULT)
		return cost_of(type->cost, &e->m, in->selection->duration_ns);
	const struct site_numbers n = selection_numbers(in->selection, e);

	return (int64_t)(type->at == MOMENT_PEAK ? n.peak_bytes : n.live_bytes);
}

static double variance_of(const struct export_input *in, const struct sample_type *type,
			  const struct entry *e)
{
	if (type->at == MOMENT_DEFAULT)
		return cost_variance(type->cost, &e->m, in->selection->duration_ns);
	const struct site_numbers n = selection_numbers(in->selection, e);

	return type->at == MOMENT_PEAK ? n.peak_bytes_variance : n.live_bytes_variance;
}

/* "peak", with the standard error of the sum for estimates: "peak +-1.2 %". */
static void write_name(const struct export_input *in, struct json *j,
		       const struct sample_type *type)
{
	char name[128];
	double sum = 0, variance = 0;

	for (size_t i = 0; i < in->selection->count; i++) {
		int64_t value = value_of(in, type, &in->selection->entries[i]);

		sum += value > 0 ? (double)value : 0;
		variance += fabs(variance_of(in, type, &in->selection->entries[i]));
	}
	snprintf(name, sizeof name, "%s", type->name);
	if (variance > 0 && sum > 0)
		snprintf(name, sizeof name, "%s \u00b1%.1f %%", type->name,
			 100 * sqrt(variance) / sum);
	json_field_string(j, "name", name);
}

static int write_samples(const struct export_input *in, struct json *j,
			 struct function_numbers *frames, const struct sample_type *type, FILE *out)
{
	struct stack_scratch scratch = { 0 };
	struct location_chain stack;
	int status = 0;

	json_key(j, "samples");
	json_array(j);
	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];

		if (value_of(in, type, e) <= 0)
			continue;
		status = entry_stack(in, e, &scratch, &stack);
		json_array(j);
		for (size_t k = status == 0 ? stack.count : 0; k > 0; k--) {
			size_t number = function_number(frames, stack.at[k - 1]);

			status = number == SIZE_MAX ? -1 : status;
			json_u64(j, number);
		}
		json_end_array(j);
		flush_buffer(j->out, out, FLUSH_BYTES);
	}
	json_end_array(j);
	stack_scratch_release(&scratch);
	return status;
}

static int64_t write_weights(const struct export_input *in, struct json *j,
			     const struct sample_type *type, FILE *out)
{
	int64_t sum = 0;

	json_key(j, "weights");
	json_array(j);
	for (size_t i = 0; i < in->selection->count; i++) {
		int64_t value = value_of(in, type, &in->selection->entries[i]);

		if (value <= 0)
			continue;
		json_i64(j, value);
		sum += value;
		flush_buffer(j->out, out, FLUSH_BYTES);
	}
	json_end_array(j);
	return sum;
}

static void write_frames(struct json *j, const struct function_numbers *frames, FILE *out)
{
	json_key(j, "shared");
	json_object(j);
	json_key(j, "frames");
	json_array(j);
	for (size_t i = 0; i < frames->items.count; i++) {
		const struct location *p = frames->items.at[i];

		json_object(j);
		json_field_string(j, "name", p->frame.function);
		if (p->frame.file)
			json_field_string(j, "file", p->frame.file);
		json_end_object(j);
		flush_buffer(j->out, out, FLUSH_BYTES);
	}
	json_end_array(j);
	json_end_object(j);
}

/* Lists the costs to export; *ret_selected: the index of the selected one. */
static size_t list_types(const struct selection *s, struct sample_type *types, size_t *ret_selected)
{
	const struct sample_type all[] = {
		{ "peak", COST_LIVE, MOMENT_PEAK },
		{ "not freed at exit", COST_LIVE, MOMENT_END },
		{ "total", COST_TOTAL, MOMENT_DEFAULT },
		{ "calls", COST_CALLS, MOMENT_DEFAULT },
		{ "temporary", COST_TEMPORARY, MOMENT_DEFAULT },
	};
	size_t begin = s->has_remote_frees; /* the peak is unknown for these threads */
	size_t count = ARRAY_SIZE(all) - begin;

	memcpy(types, all + begin, count * sizeof *all);
	*ret_selected = count;
	for (size_t i = 0; i < count; i++)
		if (types[i].cost == s->cost && types[i].at == s->asked.kind && !s->change)
			*ret_selected = i;
	if (*ret_selected == count)
		types[count++] =
			(struct sample_type){ s->cost == COST_LIVE ? s->moment : s->cost_word,
					      s->cost, MOMENT_DEFAULT };
	return count;
}

static const char *unit_of(enum cost_id cost)
{
	const char *word = cost_unit_word(cost);

	return strcmp(word, "count") == 0 ? "none" : word;
}

static int write_profiles(const struct export_input *in, struct json *j,
			  struct function_numbers *frames, FILE *out)
{
	struct sample_type types[TYPES_MAX];
	size_t selected, count = list_types(in->selection, types, &selected);
	int status = 0;

	json_field_u64(j, "activeProfileIndex", selected);
	json_key(j, "profiles");
	json_array(j);
	for (size_t i = 0; i < count && status == 0; i++) {
		const struct sample_type *type = &types[i];

		json_object(j);
		json_field_string(j, "type", "sampled");
		write_name(in, j, type);
		json_field_string(j, "unit", unit_of(type->cost));
		json_field_u64(j, "startValue", 0);
		status = write_samples(in, j, frames, type, out);
		json_field_i64(j, "endValue", write_weights(in, j, type, out));
		json_end_object(j);
	}
	json_end_array(j);
	return status;
}

int export_speedscope(const struct export_input *in, FILE *out, struct error *error)
{
	struct buffer buffer = BUFFER_INIT;
	struct json j = json_to(&buffer, JSON_COMPACT);
	struct function_numbers frames = { 0 };

	json_object(&j);
	json_field_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_field_string(&j, "name", in->profile->command);
	json_field_string(&j, "exporter", "heapgauge");
	int status = write_profiles(in, &j, &frames, out);

	write_frames(&j, &frames, out);
	json_end_object(&j);
	buffer_char(&buffer, '\n');
	if (buffer.failed)
		status = -1;
	flush_buffer(&buffer, out, 1);
	buffer_release(&buffer);
	function_numbers_release(&frames);
	return status < 0 ? no_memory(error) : 0;
}
