/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DHAT's JSON (version 2) for dh_view.html: one program point per stack. Time is in microseconds,
 * because the page computes rates per million units and labels that "s". Lifetimes are those of
 * freed blocks. A site's maximum number of blocks is not recorded, only its maximum bytes: the
 * blocks are computed with the mean size.
 *
 * The page rejects a file with duplicate stacks. Frames are therefore numbered by their text, and
 * points with equal frames (of several processes, or of heap and mappings) are merged.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "export/stacks.h"
#include "model/estimates.h"
#include "util/intern.h"
#include "util/text/json.h"

struct point {
	struct site_numbers numbers;
	uint32_t at, count; /* range of frames, innermost first */
};

struct points {
	VECTOR(struct point) list;
	VECTOR(uint32_t) frames;
	struct numbering texts; /* interned texts; the page's number is one more: 0 is its root */
	struct numbering locations; /* each location once, so that its text is formatted once ... */
	VECTOR(uint32_t) text_of;   /* ... and its number in `texts` */
	struct intern intern;
};

static bool number_text(struct points *p, const struct location *location, uint32_t *ret)
{
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (!memory)
		return false;
	if (location)
		write_valgrind_frame(memory, location, "");
	else
		fputs("[no stack]", memory);
	bool written = fclose(memory) == 0;
	const char *kept = written ? intern_text(&p->intern, text) : NULL;
	size_t number = kept ? number_of(&p->texts, kept) : SIZE_MAX;

	free(text);
	*ret = (uint32_t)number + 1;
	return number < UINT32_MAX;
}

static bool push_frame(struct points *p, const struct location *location)
{
	size_t known = p->locations.count, number = number_of(&p->locations, location);
	uint32_t text = 0;

	if (number == known &&
	    (!number_text(p, location, &text) || !vector_push(&p->text_of, text)))
		return false;
	return number != SIZE_MAX && vector_push(&p->frames, p->text_of.at[number]);
}

static bool add_point(struct points *p, const struct site_numbers *numbers,
		      struct location_chain stack)
{
	struct point added = { *numbers, (uint32_t)p->frames.count, (uint32_t)stack.count };

	for (size_t i = 0; i < stack.count; i++)
		if (!push_frame(p, stack.at[i]))
			return false;
	if (stack.count == 0) {
		added.count = 1;
		if (!push_frame(p, NULL))
			return false;
	}
	return p->frames.count < UINT32_MAX && vector_push(&p->list, added);
}

static bool collect(struct points *p, const struct export_input *in)
{
	struct stack_scratch scratch = { 0 };
	bool done = true;

	for (size_t i = 0; i < in->selection->count && done; i++) {
		const struct entry *e = &in->selection->entries[i];
		struct site_numbers numbers = selection_numbers(in->selection, e);
		struct location_chain stack;

		if (numbers.calls)
			done = entry_stack(in, e, &scratch, &stack) == 0 &&
			       add_point(p, &numbers, stack);
	}
	stack_scratch_release(&scratch);
	return done;
}

static int compare_points(const void *left, const void *right, void *context)
{
	const struct points *p = context;
	const struct point *a = left, *b = right;

	for (uint32_t i = 0; i < a->count && i < b->count; i++) {
		uint32_t x = p->frames.at[a->at + i], y = p->frames.at[b->at + i];

		if (x != y)
			return x < y ? -1 : 1;
	}
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static bool same_frames(const struct points *p, const struct point *a, const struct point *b)
{
	return a->count == b->count && memcmp(&p->frames.at[a->at], &p->frames.at[b->at],
					      a->count * sizeof *p->frames.at) == 0;
}

static void add_numbers(struct site_numbers *sum, const struct site_numbers *n)
{
	estimates_add(sum, n);
	sum->lifetime_ms_sum += n->lifetime_ms_sum;
	sum->max_bytes += n->max_bytes;
}

static void merge_points(struct points *p)
{
	size_t kept = 0;

	if (p->list.count)
		qsort_r(p->list.at, p->list.count, sizeof *p->list.at, compare_points, p);
	for (size_t i = 0; i < p->list.count; i++) {
		struct point *last = &p->list.at[kept ? kept - 1 : 0];

		if (kept && same_frames(p, &p->list.at[i], last))
			add_numbers(&last->numbers, &p->list.at[i].numbers);
		else
			p->list.at[kept++] = p->list.at[i];
	}
	p->list.count = kept;
}

static uint64_t most_blocks(const struct site_numbers *n)
{
	double mean = n->calls ? (double)n->bytes / (double)n->calls : 0;
	uint64_t blocks = mean > 0 ? (uint64_t)((double)n->max_bytes / mean + 0.5) : 0;
	uint64_t known = MAX(n->peak_blocks, n->live_blocks);

	blocks = MIN(blocks, n->calls);
	blocks = MAX(blocks, known);
	return MAX(blocks, (uint64_t)1);
}

static void put_numbers(struct json *j, const struct site_numbers *n)
{
	uint64_t kept = MAX(n->peak_bytes, n->live_bytes);

	json_field_u64(j, "tb", n->bytes);
	json_field_u64(j, "tbk", n->calls);
	json_field_u64(j, "tl", n->lifetime_ms_sum * 1000);
	json_field_u64(j, "mb", MAX(n->max_bytes, kept));
	json_field_u64(j, "mbk", most_blocks(n));
	json_field_u64(j, "gb", n->peak_bytes);
	json_field_u64(j, "gbk", n->peak_blocks);
	json_field_u64(j, "eb", n->live_bytes);
	json_field_u64(j, "ebk", n->live_blocks);
}

static void put_points(struct json *j, const struct points *p, FILE *out)
{
	json_key(j, "pps");
	json_array(j);
	for (size_t i = 0; i < p->list.count; i++) {
		const struct point *point = &p->list.at[i];

		json_object(j);
		put_numbers(j, &point->numbers);
		json_key(j, "fs");
		json_array(j);
		for (uint32_t k = 0; k < point->count; k++)
			json_u64(j, p->frames.at[point->at + k]);
		json_end_array(j);
		json_end_object(j);
		flush_buffer(j->out, out, FLUSH_BYTES);
	}
	json_end_array(j);
	json_key(j, "ftbl");
	json_array(j);
	json_string(j, "[root]");
	for (size_t i = 0; i < p->texts.count; i++)
		json_string(j, numbered(&p->texts, i));
	json_end_array(j);
}

static void put_head(struct json *j, const struct export_input *in, struct buffer *command)
{
	const struct profile *profile = in->profile;

	buffer_printf(command, "%s%s", profile->command, estimate_words(in).text);
	json_field_u64(j, "dhatFileVersion", 2);
	json_field_string(j, "mode", "heap");
	json_field_string(j, "verb", "Allocated");
	json_field_bool(j, "bklt", true);
	json_field_bool(j, "bkacc", false);
	json_field_string(j, "tu", "µs");
	json_field_string(j, "Mtu", "s");
	json_field_u64(j, "tuth", 10);
	json_field_string(j, "cmd", buffer_string(command));
	json_field_u64(j, "pid", profile->process_count ? profile->processes[0].pid : 0);
	json_field_u64(j, "tg", profile->peak_at_ns / 1000);
	json_field_u64(j, "te", profile->duration_ns / 1000);
}

int export_dhat(const struct export_input *in, FILE *out, struct error *error)
{
	struct buffer buffer = BUFFER_INIT, command = BUFFER_INIT;
	struct json j = json_to(&buffer, JSON_COMPACT);
	struct points points = { 0 };

	if (export_wants_peak(in, error) < 0)
		return -1;
	bool done = collect(&points, in);

	if (done) {
		merge_points(&points);
		json_object(&j);
		put_head(&j, in, &command);
		put_points(&j, &points, out);
		json_end_object(&j);
		buffer_char(&buffer, '\n');
		done = !buffer.failed && !command.failed;
		flush_buffer(&buffer, out, 1);
	}
	buffer_release(&buffer);
	buffer_release(&command);
	vector_release(&points.list);
	vector_release(&points.frames);
	vector_release(&points.text_of);
	numbering_release(&points.texts);
	numbering_release(&points.locations);
	intern_release(&points.intern);
	return done ? 0 : no_memory(error);
}
