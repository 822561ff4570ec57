/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speedscope's file format: a table of frames and one sampled profile for each question, so that its
 * selector switches between peak, leaks, churn and calls.
 */
#include "export/stacks.h"

#include "base/compiler.h"
#include "util/json.h"

enum { FLUSH_BYTES = 1 << 16 };

struct question {
	const char *name, *unit;
	enum cost_id cost;
};

static void flush(struct buffer *b, FILE *out, bool all)
{
	if (b->size && (all || b->size >= FLUSH_BYTES)) {
		fwrite(b->data, 1, b->size, out);
		buffer_clear(b);
	}
}

static int write_samples(const struct export_input *in, struct json *j, struct numbering *frames,
			 enum cost_id cost, FILE *out)
{
	struct stack_scratch scratch = { 0 };
	struct place_chain stack;
	int status = 0;

	json_key(j, "samples");
	json_array(j);
	for (size_t i = 0; i < in->selection->count && status == 0; i++) {
		const struct entry *e = &in->selection->entries[i];

		if (cost_of(cost, &e->m, in->selection->duration_ns) <= 0)
			continue;
		status = entry_stack(in, e, &scratch, &stack);
		json_array(j);
		for (size_t k = status == 0 ? stack.count : 0; k > 0; k--) {
			size_t number = number_of(frames, stack.at[k - 1]);

			status = number == SIZE_MAX ? -1 : status;
			json_u64(j, number);
		}
		json_end_array(j);
		flush(j->out, out, false);
	}
	json_end_array(j);
	stack_scratch_release(&scratch);
	return status;
}

static int64_t write_weights(const struct export_input *in, struct json *j, enum cost_id cost,
			     FILE *out)
{
	int64_t sum = 0;

	json_key(j, "weights");
	json_array(j);
	for (size_t i = 0; i < in->selection->count; i++) {
		int64_t value =
			cost_of(cost, &in->selection->entries[i].m, in->selection->duration_ns);

		if (value <= 0)
			continue;
		json_i64(j, value);
		sum += value;
		flush(j->out, out, false);
	}
	json_end_array(j);
	return sum;
}

static void write_frames(struct json *j, const struct numbering *frames, FILE *out)
{
	json_key(j, "shared");
	json_object(j);
	json_key(j, "frames");
	json_array(j);
	for (size_t i = 0; i < frames->items.count; i++) {
		const struct place *p = frames->items.at[i];

		json_object(j);
		json_field_string(j, "name", p->frame.function);
		if (p->frame.file) {
			json_field_string(j, "file", p->frame.file);
			json_field_u64(j, "line", p->frame.line);
		}
		json_end_object(j);
		flush(j->out, out, false);
	}
	json_end_array(j);
	json_end_object(j);
}

int export_speedscope(const struct export_input *in, FILE *out, struct error *error)
{
	const struct question questions[] = {
		{ in->selection->moment, "bytes", COST_LIVE },
		{ "total bytes", "bytes", COST_TOTAL },
		{ "allocations", "none", COST_CALLS },
		{ "temporary allocations", "none", COST_TEMPORARY },
	};
	struct buffer buffer = BUFFER_INIT;
	struct json j = json_to(&buffer, JSON_COMPACT);
	struct numbering frames = { 0 };
	int status = 0;

	json_object(&j);
	json_field_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_field_string(&j, "name", in->profile->command);
	json_field_string(&j, "exporter", "heapgauge");
	json_field_u64(&j, "activeProfileIndex", 0);
	json_key(&j, "profiles");
	json_array(&j);
	for (size_t i = 0; i < ARRAY_SIZE(questions) && status == 0; i++) {
		json_object(&j);
		json_field_string(&j, "type", "sampled");
		json_field_string(&j, "name", questions[i].name);
		json_field_string(&j, "unit", questions[i].unit);
		json_field_u64(&j, "startValue", 0);
		status = write_samples(in, &j, &frames, questions[i].cost, out);
		json_field_i64(&j, "endValue", write_weights(in, &j, questions[i].cost, out));
		json_end_object(&j);
	}
	json_end_array(&j);
	write_frames(&j, &frames, out);
	json_end_object(&j);
	buffer_char(&buffer, '\n');
	if (buffer.failed)
		status = -1;
	flush(&buffer, out, true);
	buffer_release(&buffer);
	numbering_release(&frames);
	return status < 0 ? no_memory(error) : 0;
}
