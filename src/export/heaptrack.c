/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack's text format (version 3, as read by heaptrack 1.3 to 1.5), as a synthetic event sequence in
 * three phases with the right peak and the right live memory at exit: everything live at the peak is
 * allocated, then freed, then everything that was not freed is allocated. A recording does not have the
 * single calls in between. A site with the same numbers at both moments keeps its blocks in between.
 *
 * Strings, instruction pointers, traces and allocation sizes are numbered from 1 (sizes from 0) in the
 * order they are written; all numbers are hexadecimal.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "export/stacks.h"

struct writer {
	const struct export_input *in;
	FILE *out;
	struct numbering strings, pointers; /* pointers: location chains */
	uint32_t **traces;		    /* by process: trace of a node; 0: not written */
	uint32_t trace_count;
	uint32_t size_count;
	struct buffer text;
	bool failed;
};

/* Blocks of one site at one moment: `count` of `size` bytes, `larger` of them with a byte more. */
struct blocks {
	uint64_t count, size, larger;
};

static struct blocks blocks_of(uint64_t bytes, uint64_t count)
{
	if (bytes && !count)
		count = 1; /* with several threads, their moments may differ slightly */
	if (count == 0)
		return (struct blocks){ 0 };
	return (struct blocks){ count, bytes / count, bytes % count };
}

static size_t put_string(struct writer *w, const char *text)
{
	size_t known = w->strings.count;
	size_t number = number_of(&w->strings, text);

	w->failed |= number == SIZE_MAX;
	if (number == known) {
		buffer_clear(&w->text);
		buffer_safe(&w->text, text);
		w->failed |= w->text.failed;
		fprintf(w->out, "s %zx ", w->text.size);
		fwrite(w->text.data, 1, w->text.size, w->out);
		fputc('\n', w->out);
	}
	return number + 1;
}

static size_t put_pointer(struct writer *w, struct location_chain chain)
{
	enum { CHAIN_MAX = 128 };
	size_t known = w->pointers.count, module, names[CHAIN_MAX][2];
	size_t number = number_of(&w->pointers, chain.at),
	       count = MIN(chain.count, (size_t)CHAIN_MAX);

	w->failed |= number == SIZE_MAX;
	if (number != known)
		return number + 1;
	module = put_string(w, chain.at[0]->frame.module);
	for (size_t i = 0; i < count; i++) {
		const struct result_frame *f = &chain.at[i]->frame;

		names[i][0] = put_string(w, f->function);
		names[i][1] = put_string(w, f->file ? f->file : "");
	}
	fprintf(w->out, "i %" PRIx64 " %zx", chain.at[0]->frame.offset, module);
	for (size_t i = 0; i < count; i++) {
		const struct result_frame *f = &chain.at[i]->frame;

		fprintf(w->out, " %zx", names[i][0]);
		if (f->file)
			fprintf(w->out, " %zx %" PRIx32, names[i][1], f->line);
		else if (count > 1)
			fputs(" 0 0", w->out);
	}
	fputc('\n', w->out);
	return number + 1;
}

/* Writes the trace of a stack, preceded by those of its callers that are not yet written. */
static uint32_t put_trace(struct writer *w, const struct profile_process *p, node_id node)
{
	uint32_t *traces = w->traces[p - w->in->profile->processes];
	VECTOR(uint32_t) path = { 0 };
	uint32_t at = 0;

	for (; node.v && !traces[node.v]; node = profile_parent(p, node))
		w->failed |= !vector_push(&path, node.v);
	if (node.v)
		at = traces[node.v];
	for (size_t i = path.count; i > 0 && !w->failed; i--) {
		struct location_chain chain =
			locations_of(w->in->locations, p, (node_id){ path.at[i - 1] });

		w->failed |= !chain.at;
		if (w->failed)
			break;
		size_t pointer = put_pointer(w, chain);

		fprintf(w->out, "t %zx %" PRIx32 "\n", pointer, at);
		at = traces[path.at[i - 1]] = ++w->trace_count;
	}
	vector_release(&path);
	return at;
}

static void put_calls(struct writer *w, char what, uint32_t size, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		fprintf(w->out, "%c %" PRIx32 "\n", what, size);
}

enum act { RISE, FALL, LEAK };

/* Sizes are numbered in the first phase and freed in the same order. */
static void play(struct writer *w, enum act act)
{
	uint32_t at = act == LEAK ? w->size_count : 0;

	for (size_t i = 0; i < w->in->selection->count && !w->failed; i++) {
		const struct entry *e = &w->in->selection->entries[i];
		const struct site_numbers n = selection_numbers(w->in->selection, e);
		struct blocks b = act == LEAK ? blocks_of(n.live_bytes, n.live_blocks)
					      : blocks_of(n.peak_bytes, n.peak_blocks);
		bool stays = n.peak_bytes == n.live_bytes && n.peak_blocks == n.live_blocks;

		if (b.count == 0 || (act == LEAK && stays))
			continue;
		if (act != FALL) {
			uint32_t trace = put_trace(w, e->process, e->site->node);

			fprintf(w->out, "a %" PRIx64 " %" PRIx32 "\na %" PRIx64 " %" PRIx32 "\n",
				b.size + 1, trace, b.size, trace);
			w->size_count += 2;
		}
		if (act != FALL || !stays) {
			put_calls(w, act == FALL ? '-' : '+', at, b.larger);
			put_calls(w, act == FALL ? '-' : '+', at + 1, b.count - b.larger);
		}
		at += 2;
	}
}

static bool make_traces(struct writer *w)
{
	const struct profile *profile = w->in->profile;

	w->traces = calloc(profile->process_count + 1, sizeof *w->traces);
	for (size_t i = 0; w->traces && i < profile->process_count; i++) {
		w->traces[i] = calloc(profile->processes[i].node_count, sizeof **w->traces);
		if (!w->traces[i])
			return false;
	}
	return w->traces != NULL;
}

static void release(struct writer *w)
{
	for (size_t i = 0; w->traces && i < w->in->profile->process_count; i++)
		free(w->traces[i]);
	free(w->traces);
	buffer_release(&w->text);
	numbering_release(&w->strings);
	numbering_release(&w->pointers);
}

int export_heaptrack(const struct export_input *in, FILE *out, struct error *error)
{
	struct writer w = { .in = in, .out = out };

	if (export_wants_peak(in, error) < 0)
		return -1;
	if (make_traces(&w)) {
		fputs("v 10400 3\nX ", out);
		write_safe(out, in->profile->command, "", '?');
		fprintf(out, "%s\nI 1000 0\n", estimate_words(in).text);
		play(&w, RISE);
		fprintf(out, "c %" PRIx64 "\n", in->profile->peak_at_ns / 1000000);
		play(&w, FALL);
		play(&w, LEAK);
		fprintf(out, "c %" PRIx64 "\n", in->profile->duration_ns / 1000000);
	} else {
		w.failed = true;
	}
	release(&w);
	return w.failed ? no_memory(error) : 0;
}
