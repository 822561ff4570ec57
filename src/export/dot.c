/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call graph for Graphviz: a box per function with its self and total, an arrow per call, warmer
 * and thicker with a larger cost. Functions below the threshold are omitted, and the graph's label
 * has their sum.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "export/edges.h"
#include "export/graphviz.h"
#include "util/cleanup.h"
#include "util/files.h"

static void put_function(FILE *out, const struct export_input *in, const struct graph *g,
			 uint32_t i)
{
	const struct graph_function *f = &g->functions.at[i];
	const struct result_frame *frame = &f->location->frame;

	fprintf(out, "  f%" PRIu32 " [label=\"", i);
	write_safe(out, frame->function, "\"\\", '\'');
	if (frame->file) {
		fputs("\\n", out);
		write_safe(out, path_base(frame->file), "\"\\", '\'');
	}
	fputs("\\n", out);
	graphviz_value(out, in, f->total, f->total_variance);
	fprintf(out, " (%.1f%%)", 100 * graphviz_share(f->total, g->whole));
	if (f->self) {
		fputs("\\nself ", out);
		graphviz_value(out, in, f->self, f->self_variance);
	}
	fputs("\", tooltip=\"", out);
	write_safe(out, frame->full, "\"\\", '\'');
	fprintf(out, "\\n%s %" PRId64 ", self %" PRId64 "\", fillcolor=",
		cost_rows[in->selection->cost].key, f->total, f->self);
	graphviz_colour(out, graphviz_share(f->total, g->whole));
	fputs("]\n", out);
}

static int compare_totals(const void *left, const void *right, void *context)
{
	const struct graph *g = context;
	int64_t a = llabs(g->functions.at[*(const uint32_t *)left].total);
	int64_t b = llabs(g->functions.at[*(const uint32_t *)right].total);

	if (a != b)
		return a < b ? 1 : -1;
	return *(const uint32_t *)left < *(const uint32_t *)right ? -1 : 1;
}

/* Selects the functions within the threshold and the limit. NULL if out of memory. */
static bool *choose(const struct graph *g, const struct query *q)
{
	double percent = q->has_threshold ? q->threshold_percent : 1.0;
	bool *shown = calloc(g->functions.count + 1, sizeof *shown);
	AUTO_FREE uint32_t *order = calloc(g->functions.count + 1, sizeof *order);
	size_t count = 0;

	for (uint32_t i = 0; shown && order && i < g->functions.count; i++)
		if (g->functions.at[i].location &&
		    100 * graphviz_share(llabs(g->functions.at[i].total), llabs(g->whole)) >=
			    percent)
			order[count++] = i;
	if (order && count)
		qsort_r(order, count, sizeof *order, compare_totals, (void *)(uintptr_t)g);
	for (size_t i = 0; shown && order && i < count && i < q->limit; i++)
		shown[order[i]] = true;
	if (!order) {
		free(shown);
		shown = NULL;
	}
	return shown;
}

static void put_edges(FILE *out, const struct export_input *in, const struct graph *g,
		      const bool *shown)
{
	for (size_t i = 0; i < g->edges.count; i++) {
		const struct graph_edge *e = &g->edges.at[i];

		if (!shown[e->caller] || !shown[e->callee])
			continue;
		double hot = graphviz_share(e->total, g->whole);

		fprintf(out, "  f%" PRIu32 " -> f%" PRIu32 " [label=\"", e->caller, e->callee);
		graphviz_value(out, in, e->total, e->total_variance);
		fprintf(out, "\", tooltip=\"%" PRId64 "\", penwidth=%.1f, color=", e->total,
			1 + 5 * (hot < 0 ? 0 : hot));
		graphviz_colour(out, hot);
		fputs("]\n", out);
	}
}

int export_dot(const struct export_input *in, FILE *out, struct error *error)
{
	struct graph g;

	if (graph_build(&g, in, false) < 0)
		return no_memory(error);
	AUTO_FREE bool *shown = choose(&g, in->query);

	if (shown) {
		int64_t left_out = 0;
		double left_variance = 0;

		for (uint32_t i = 0; i < g.functions.count; i++) {
			left_out += shown[i] ? 0 : g.functions.at[i].self;
			left_variance += shown[i] ? 0 : g.functions.at[i].self_variance;
		}
		graphviz_begin(out, in, g.whole, g.whole_variance, left_out, left_variance);
		for (uint32_t i = 0; i < g.functions.count; i++)
			if (shown[i])
				put_function(out, in, &g, i);
		put_edges(out, in, &g, shown);
		fputs("}\n", out);
	}
	graph_release(&g);
	return shown ? 0 : no_memory(error);
}
