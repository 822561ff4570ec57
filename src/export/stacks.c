/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the exporters, independent of any format. */
#include "export/stacks.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/result/imported.h"
#include "base/checked.h"
#include "model/estimates.h"
#include "util/files.h"
#include "util/text/units.h"
#include "util/text/utf8.h"

int no_memory(struct error *error)
{
	return error_set(error, "out of memory");
}

size_t function_number(struct function_numbers *functions, const struct location *location)
{
	size_t key = location ? (size_t)location->function + 1 : 0;

	while (functions->numbers.count <= key)
		if (!vector_push(&functions->numbers, 0))
			return SIZE_MAX;
	if (functions->numbers.at[key] == 0) {
		if (!vector_push(&functions->items, location))
			return SIZE_MAX;
		functions->numbers.at[key] = (uint32_t)functions->items.count;
	}
	return functions->numbers.at[key] - 1;
}

void function_numbers_release(struct function_numbers *functions)
{
	vector_release(&functions->items);
	vector_release(&functions->numbers);
}

int entry_stack(const struct export_input *in, const struct entry *e, struct stack_scratch *scratch,
		struct location_chain *ret)
{
	scratch->locations.count = 0;
	for (node_id n = e->site->node; n.v; n = profile_parent(e->process, n)) {
		struct location_chain chain = locations_of(in->locations, e->process, n);

		if (!chain.at || !vector_reserve(&scratch->locations, chain.count))
			return -1;
		for (size_t i = 0; i < chain.count; i++)
			scratch->locations.at[scratch->locations.count++] = chain.at[i];
	}
	*ret = (struct location_chain){ scratch->locations.at, scratch->locations.count };
	return 0;
}

void stack_scratch_release(struct stack_scratch *scratch)
{
	vector_release(&scratch->locations);
}

ptrdiff_t entry_labels(const struct entry *entry, struct arena *arena,
		       struct export_label ret[PROFILE_LABELS_MAX])
{
	const char *labels[PROFILE_LABELS_MAX];
	size_t count = profile_tag_label_list(entry->process, entry->site->tag, labels);
	ptrdiff_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		size_t length = strcspn(labels[i], "=");
		const char *key = arena_string(arena, span_of(labels[i], length));

		if (!key)
			return -1;
		if (*key)
			ret[kept++] =
				(struct export_label){ key, labels[i] + length +
								    (labels[i][length] == '=') };
	}
	return kept;
}

size_t safe_step(const char *text, const char **ret)
{
	enum { SEQUENCE_MAX = 4 };
	unsigned char c = (unsigned char)*text;
	size_t length = utf8_sequence(span_of(text, strnlen(text, SEQUENCE_MAX)));

	*ret = text;
	if (length == 0)
		*ret = UTF8_REPLACEMENT;
	else if (c < 0x20 || c == 0x7f)
		*ret = "?";
	return length ? length : 1;
}

void buffer_safe(struct buffer *out, const char *text)
{
	const char *step;

	for (size_t length; *text; text += length) {
		length = safe_step(text, &step);
		buffer_append(out, step, step == text ? length : strlen(step));
	}
}

size_t plain_run(const char *text, const char *bad)
{
	size_t length = 0;

	while (text[length] >= 0x20 && text[length] < 0x7f &&
	       !(bad[0] && strchr(bad, text[length])))
		length++;
	return length;
}

void write_safe(FILE *out, const char *text, const char *bad, char instead)
{
	for (;;) {
		size_t run = plain_run(text, bad);
		const char *step;

		fwrite(text, 1, run, out);
		text += run;
		if (!*text)
			return;
		size_t length = safe_step(text, &step);

		if (strchr(bad, *text))
			fputc(instead, out);
		else
			fwrite(step, 1, step == text ? length : strlen(step), out);
		text += length;
	}
}

void flush_buffer(struct buffer *b, FILE *out, size_t least)
{
	if (b->size < least || b->size == 0)
		return;
	fwrite(b->data, 1, b->size, out);
	buffer_clear(b);
}

const char *live_moment(const struct selection *s)
{
	return cost_rows[s->cost].time == COST_OF_MOMENT || s->window ? s->moment : "at the end";
}

const char *cost_unit_word(enum cost_id cost)
{
	switch (cost_rows[cost].unit) {
	case UNIT_BYTES:
		return "bytes";
	case UNIT_NS:
		return "nanoseconds";
	default:
		return "count";
	}
}

void write_valgrind_frame(FILE *out, const struct location *location, const char *bad)
{
	const struct result_frame *f = &location->frame;

	fprintf(out, "0x%" PRIX64 ": ", f->offset);
	write_safe(out, f->function, bad, '\'');
	fputs(f->file && f->line ? " (" : " (in ", out);
	if (f->file && f->line) {
		write_safe(out, path_base(f->file), bad, '\'');
		fprintf(out, ":%" PRIu32, f->line);
	} else {
		write_safe(out, f->module[0] ? f->module : "unknown", bad, '\'');
	}
	fputc(')', out);
}

/* In any process: equal paths are the same file. */
static struct span build_id_of(const struct profile *profile, const char *path)
{
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 1; j < p->module_count; j++)
			if (p->modules[j].build_id.size && strcmp(p->modules[j].path, path) == 0)
				return p->modules[j].build_id;
	}
	return (struct span){ 0 };
}

void buffer_build_id(struct buffer *out, const struct profile *profile, const char *path)
{
	struct span id = build_id_of(profile, path);

	for (size_t i = 0; i < id.size; i++)
		buffer_printf(out, "%02x", id.data[i]);
}

bool is_estimated(const struct export_input *in)
{
	return in->selection->sum.variance.samples > 0;
}

double entry_variance(const struct export_input *in, const struct measures *measures)
{
	return fabs(cost_variance(in->selection->cost, measures, in->selection->duration_ns));
}

int64_t whole_variance(double variance)
{
	return saturating_i64(round(variance));
}

static double percent(double variance, uint64_t number)
{
	return number ? 100 * sqrt(fabs(variance)) / (double)number : 0;
}

struct estimate_words estimate_words(const struct export_input *in)
{
	struct estimate_words words = { "" };
	struct site_numbers sum = { 0 };

	if (!is_estimated(in))
		return words;
	for (size_t i = 0; i < in->selection->count; i++) {
		const struct site_numbers n =
			selection_numbers(in->selection, &in->selection->entries[i]);

		estimates_add(&sum, &n);
	}
	if (profile_is_imported(in->profile)) {
		snprintf(words.text, sizeof words.text,
			 " (estimates from %" PRIu64 " samples; standard error of what is live: "
			 "%.1f %%)",
			 sum.samples, percent(sum.live_bytes_variance, sum.live_bytes));
		return words;
	}
	snprintf(words.text, sizeof words.text,
		 " (estimates from %" PRIu64
		 " samples; standard errors: total %.1f %%, peak %.1f %%, left %.1f %%; "
		 "the peak is too high on average, by %s at most)",
		 sum.samples, percent(sum.bytes_variance, sum.bytes),
		 percent(sum.peak_bytes_variance, sum.peak_bytes),
		 percent(sum.live_bytes_variance, sum.live_bytes),
		 units_bytes(estimate_peak_bias(&sum)).text);
	return words;
}

int export_wants_peak(const struct export_input *in, struct error *error)
{
	if (!in->selection->has_remote_frees)
		return 0;
	return error_set(error,
			 "the format needs what these threads held at the peak, which is not "
			 "known: others freed some of their blocks, or they freed blocks of "
			 "others; export csv or jsonl, or without --thread");
}
