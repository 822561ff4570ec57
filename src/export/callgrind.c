/* SPDX-License-Identifier: Apache-2.0 */
/*
 * callgrind's profile format: for each function its self cost by line, then its calls with their
 * inclusive cost. Names are written once and then referred to by number.
 *
 * callgrind_annotate computes a function's inclusive cost from the cost of calls into it. A
 * recursive call, into a function already on the stack, is therefore written with no cost: the
 * outermost call has it.
 */
#include <inttypes.h>

#include "base/compiler.h"
#include "export/edges.h"
#include "util/files.h"

static const char unknown[] = "???";

struct writer {
	FILE *out;
	const struct graph *graph;
	struct numbering files, modules;
	VECTOR(bool) named; /* functions whose name has been written */
	bool estimated, failed;
};

static void put_name(struct writer *w, const char *key, struct numbering *names, const char *name)
{
	size_t known = names->count;
	size_t number = number_of(names, name);

	w->failed |= number == SIZE_MAX;
	fprintf(w->out, "%s=(%zu)", key, number + 1);
	if (number == known) {
		fputc(' ', w->out);
		write_safe(w->out, name[0] ? name : unknown, "", '?');
	}
	fputc('\n', w->out);
}

static void put_function(struct writer *w, const char *key, uint32_t function)
{
	fprintf(w->out, "%s=(%" PRIu32 ")", key, function + 1);
	if (!w->named.at[function]) {
		fputc(' ', w->out);
		write_safe(w->out, w->graph->functions.at[function].location->frame.function, "",
			   '?');
		w->named.at[function] = true;
	}
	fputc('\n', w->out);
}

static const char *file_of(const struct writer *w, uint32_t function)
{
	const char *file = w->graph->functions.at[function].location->frame.file;

	return file ? file : unknown;
}

static const char *module_of(const struct writer *w, uint32_t function)
{
	return w->graph->functions.at[function].location->frame.module;
}

/* In a sampled recording, the second event is the variance, which is additive like the first. */
static void put_cost(struct writer *w, uint32_t line, int64_t cost, double variance)
{
	fprintf(w->out, "%" PRIu32 " %" PRId64, line, cost);
	if (w->estimated)
		fprintf(w->out, " %" PRId64, whole_variance(variance));
	fputc('\n', w->out);
}

static void put_call(struct writer *w, const struct graph_edge *e)
{
	/* Written only if different: callgrind_annotate shortens file names, but not those of callees. */
	if (module_of(w, e->callee) != module_of(w, e->caller))
		put_name(w, "cob", &w->modules, module_of(w, e->callee));
	if (file_of(w, e->callee) != file_of(w, e->caller))
		put_name(w, "cfi", &w->files, file_of(w, e->callee));
	put_function(w, "cfn", e->callee);
	/* A cost with 0 calls would count as the caller's self cost. */
	fprintf(w->out, "calls=%" PRId64 " 0\n", MAX(e->calls, (int64_t)1));
	put_cost(w, e->caller_line, e->entering, e->entering_variance);
}

static void put_functions(struct writer *w)
{
	const struct graph *g = w->graph;
	size_t line = 0, edge = 0;

	for (uint32_t i = 0; i < g->functions.count && !w->failed; i++) {
		if (!g->functions.at[i].location)
			continue;
		put_name(w, "ob", &w->modules, module_of(w, i));
		put_name(w, "fl", &w->files, file_of(w, i));
		put_function(w, "fn", i);
		for (; line < g->lines.count && g->lines.at[line].function == i; line++)
			put_cost(w, g->lines.at[line].line, g->lines.at[line].self,
				 g->lines.at[line].variance);
		for (; edge < g->edges.count && g->edges.at[edge].caller == i; edge++)
			put_call(w, &g->edges.at[edge]);
		fputc('\n', w->out);
	}
}

int export_callgrind(const struct export_input *in, FILE *out, struct error *error)
{
	struct graph graph;

	if (graph_build(&graph, in, true) < 0)
		return no_memory(error);
	struct writer w = { .out = out, .graph = &graph, .estimated = is_estimated(in) };
	const char *key = cost_rows[in->selection->cost].key;

	for (size_t i = 0; i < graph.functions.count && !w.failed; i++)
		w.failed = !vector_push(&w.named, false);
	fprintf(out, "# callgrind format\nversion: 1\ncreator: heapgauge\npid: %u\ncmd: ",
		in->profile->process_count ? in->profile->processes[0].pid : 0);
	write_safe(out, in->profile->command, "", '?');
	fprintf(out, "\npositions: line\nevents: %s", key);
	if (w.estimated)
		fprintf(out, " %s_variance\nsummary: %" PRId64 " %" PRId64 "\n\n", key, graph.whole,
			whole_variance(graph.whole_variance));
	else
		fprintf(out, "\nsummary: %" PRId64 "\n\n", graph.whole);
	put_functions(&w);
	fprintf(out, "totals: %" PRId64, graph.whole);
	if (w.estimated)
		fprintf(out, " %" PRId64, whole_variance(graph.whole_variance));
	fputc('\n', out);
	numbering_release(&w.files);
	numbering_release(&w.modules);
	vector_release(&w.named);
	graph_release(&graph);
	return w.failed ? no_memory(error) : 0;
}
