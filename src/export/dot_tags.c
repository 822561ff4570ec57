/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of tags for Graphviz: a box per tag with its total cost, the bytes requested, the number of visits and the bytes per
 * visit; warmer with a larger cost. Tags below the threshold are omitted with all nested tags, and the graph's label has their sum.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/query/tag_tree.h"
#include "export/graphviz.h"
#include "export/stacks.h"
#include "util/cleanup.h"
#include "util/text/units.h"

/* A tag is shown only if its ancestors are: a parent comes before its children and weighs at least as much. */
static bool *choose(const struct tag_tree *tree, const struct export_input *in, int64_t whole)
{
	double percent = in->query->has_threshold ? in->query->threshold_percent : 0;
	bool *shown = calloc(tree->count + 1, sizeof *shown);
	size_t count = 0;

	for (size_t i = 0; shown && i < tree->count; i++) {
		const struct tag_node *n = &tree->nodes[i];
		int64_t cost = selection_cost(in->selection, &n->total.m);

		shown[i] = i == 0 || (shown[n->parent] && count < in->query->limit &&
				      100 * graphviz_share(llabs(cost), llabs(whole)) >= percent);
		count += shown[i];
	}
	return shown;
}

static void put_tag(FILE *out, const struct export_input *in, const struct tag_tree *tree,
		    uint32_t i, int64_t whole)
{
	const struct tag_node *n = &tree->nodes[i];
	int64_t total = selection_cost(in->selection, &n->total.m);
	int64_t self = selection_cost(in->selection, &n->self.m);
	uint64_t asked = n->total.m.total_bytes > 0 ? (uint64_t)n->total.m.total_bytes : 0;

	fprintf(out, "  t%" PRIu32 " [label=\"", i);
	write_safe(out, i ? n->name : in->profile->command, "\"\\", '\'');
	fputs("\\n", out);
	graphviz_value(out, in, total, entry_variance(in, &n->total.m));
	fprintf(out, " (%.1f%%)", 100 * graphviz_share(total, whole));
	if (self) {
		fputs(i ? "\\nself " : "\\nno tag ", out);
		graphviz_value(out, in, self, entry_variance(in, &n->self.m));
	}
	fprintf(out, "\\ntotal %s in %s calls", units_bytes(asked).text,
		units_count(n->total.m.calls > 0 ? (uint64_t)n->total.m.calls : 0).text);
	if (n->visits)
		fprintf(out, "\\n%s visits, %s each", units_count(n->visits).text,
			units_bytes(asked / n->visits).text);
	fprintf(out,
		"\", tooltip=\"%s %" PRId64 ", self %" PRId64 ", visits %" PRIu64
		", total_bytes %" PRIu64 "\", fillcolor=",
		cost_rows[in->selection->cost].key, total, self, n->visits, asked);
	graphviz_colour(out, graphviz_share(total, whole));
	fputs("]\n", out);
	if (i) {
		fprintf(out, "  t%" PRIu32 " -> t%" PRIu32 " [penwidth=%.1f]\n", n->parent, i,
			1 + 5 * graphviz_share(llabs(total), llabs(whole)));
	}
}

int export_dot_tags(const struct export_input *in, FILE *out, struct error *error)
{
	struct tag_tree tree;

	if (tag_tree_build(&tree, in->selection, in->query) < 0)
		return no_memory(error);
	int64_t whole = selection_cost(in->selection, &tree.nodes[0].total.m), left_out = 0;
	double left_variance = 0;
	AUTO_FREE bool *shown = choose(&tree, in, whole);

	for (uint32_t i = 0; shown && i < tree.count; i++) {
		left_out += shown[i] ? 0 : selection_cost(in->selection, &tree.nodes[i].self.m);
		left_variance += shown[i] ? 0 : entry_variance(in, &tree.nodes[i].self.m);
	}
	if (shown) {
		graphviz_begin(out, in, whole, entry_variance(in, &tree.nodes[0].total.m), left_out,
			       left_variance);
		for (uint32_t i = 0; i < tree.count; i++)
			if (shown[i])
				put_tag(out, in, &tree, i, whole);
		fputs("}\n", out);
	}
	tag_tree_release(&tree);
	return shown ? 0 : no_memory(error);
}
