/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the call graph from stacks. Each stack adds its cost only once to every function and edge on
 * it, even with recursion: a graph cannot distinguish recursion levels, and adding them up would make
 * the part larger than the whole. The costs entering a function add up to its total: each stack
 * enters it once, by its outermost call.
 *
 * Edges and lines are appended as found, and merged by sorting.
 */
#include "export/edges.h"

#include <stdlib.h>

static int compare_edges(const void *left, const void *right)
{
	const struct graph_edge *a = left, *b = right;

	if (a->caller != b->caller)
		return a->caller < b->caller ? -1 : 1;
	if (a->caller_line != b->caller_line)
		return a->caller_line < b->caller_line ? -1 : 1;
	return a->callee < b->callee ? -1 : a->callee > b->callee;
}

static int compare_lines(const void *left, const void *right)
{
	const struct graph_line *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

static void merge_edges(struct graph *g)
{
	size_t kept = 0;

	if (g->edges.count)
		qsort(g->edges.at, g->edges.count, sizeof *g->edges.at, compare_edges);
	for (size_t i = 0; i < g->edges.count; i++) {
		struct graph_edge *e = &g->edges.at[i], *last = &g->edges.at[kept ? kept - 1 : 0];

		if (kept && compare_edges(e, last) == 0) {
			last->total += e->total;
			last->entering += e->entering;
			last->calls += e->calls;
			last->total_variance += e->total_variance;
			last->entering_variance += e->entering_variance;
		} else {
			g->edges.at[kept++] = *e;
		}
	}
	g->edges.count = kept;
}

static void merge_lines(struct graph *g)
{
	size_t kept = 0;

	if (g->lines.count)
		qsort(g->lines.at, g->lines.count, sizeof *g->lines.at, compare_lines);
	for (size_t i = 0; i < g->lines.count; i++) {
		struct graph_line *l = &g->lines.at[i], *last = &g->lines.at[kept ? kept - 1 : 0];

		if (kept && compare_lines(l, last) == 0) {
			last->self += l->self;
			last->variance += l->variance;
		} else {
			g->lines.at[kept++] = *l;
		}
	}
	g->lines.count = kept;
}

/* State needed only while building. */
struct builder {
	struct graph *graph;
	bool lines;
	uint32_t stack;		/* number of the current stack */
	VECTOR(uint32_t) met;	/* by function: the last stack that contained it */
	VECTOR(bool) recursive; /* by frame of the stack: its function also occurs further out */
};

/* The cost of a stack. */
struct amount {
	int64_t value, calls;
	double variance;
};

/* Called from the outermost frame inwards. */
static bool add_function(struct builder *b, const struct location *location, bool innermost,
			 const struct amount *amount, bool *ret_recursive)
{
	static const struct graph_function none = { 0 };
	struct graph *g = b->graph;

	while (g->functions.count <= location->function)
		if (!vector_push(&g->functions, none))
			return false;
	while (b->met.count <= location->function)
		if (!vector_push(&b->met, 0))
			return false;
	struct graph_function *f = &g->functions.at[location->function];
	uint32_t *met = &b->met.at[location->function];

	*ret_recursive = *met == b->stack;
	*met = b->stack;
	if (!f->location)
		f->location = location;
	f->self += innermost ? amount->value : 0;
	f->self_variance += innermost ? amount->variance : 0;
	f->total += *ret_recursive ? 0 : amount->value;
	f->total_variance += *ret_recursive ? 0 : amount->variance;
	return true;
}

/* The edge from the caller of frame `at` to that frame. */
static struct graph_edge edge_at(struct location_chain stack, size_t at, bool lines)
{
	return (struct graph_edge){
		.caller = stack.at[at + 1]->function,
		.callee = stack.at[at]->function,
		.caller_line = lines ? stack.at[at + 1]->frame.line : 0,
	};
}

static bool edge_before(struct location_chain stack, size_t at, bool lines)
{
	const struct graph_edge edge = edge_at(stack, at, lines);

	for (size_t i = at + 1; i + 1 < stack.count; i++) {
		const struct graph_edge other = edge_at(stack, i, lines);

		if (compare_edges(&edge, &other) == 0)
			return true;
	}
	return false;
}

static bool add_edges(struct builder *b, struct location_chain stack, const struct amount *amount)
{
	for (size_t i = 0; i + 1 < stack.count; i++) {
		struct graph_edge edge = edge_at(stack, i, b->lines);
		bool recursive = b->recursive.at[i];

		if (recursive && edge_before(stack, i, b->lines))
			continue;
		edge.total = amount->value;
		edge.total_variance = amount->variance;
		edge.entering = recursive ? 0 : amount->value;
		edge.entering_variance = recursive ? 0 : amount->variance;
		edge.calls = amount->calls;
		if (!vector_push(&b->graph->edges, edge))
			return false;
	}
	return true;
}

static bool add_stack(struct builder *b, struct location_chain stack, const struct amount *amount)
{
	b->graph->whole += amount->value;
	b->graph->whole_variance += amount->variance;
	b->stack++;
	if (stack.count == 0)
		return true;
	const struct graph_line line = { stack.at[0]->function, stack.at[0]->frame.line,
					 amount->value, amount->variance };

	b->recursive.count = 0;
	if (!vector_push(&b->graph->lines, line) || !vector_reserve(&b->recursive, stack.count))
		return false;
	for (size_t i = stack.count; i-- > 0;)
		if (!add_function(b, stack.at[i], i == 0, amount, &b->recursive.at[i]))
			return false;
	return add_edges(b, stack, amount);
}

int graph_build(struct graph *g, const struct export_input *in, bool lines)
{
	enum { MERGE_AT = 1 << 22 };
	struct stack_scratch scratch = { 0 };
	struct builder b = { .graph = g, .lines = lines };
	bool done = true;

	*g = (struct graph){ 0 };
	for (size_t i = 0; i < in->selection->count && done; i++) {
		const struct entry *e = &in->selection->entries[i];
		const struct amount amount = { selection_cost(in->selection, &e->m), e->m.calls,
					       entry_variance(in, &e->m) };
		struct location_chain stack;

		if (amount.value == 0)
			continue;
		done = entry_stack(in, e, &scratch, &stack) == 0 && add_stack(&b, stack, &amount);
		if (g->edges.count > MERGE_AT)
			merge_edges(g);
	}
	stack_scratch_release(&scratch);
	vector_release(&b.met);
	vector_release(&b.recursive);
	if (!done) {
		graph_release(g);
		return -1;
	}
	merge_edges(g);
	merge_lines(g);
	return 0;
}

void graph_release(struct graph *g)
{
	vector_release(&g->functions);
	vector_release(&g->edges);
	vector_release(&g->lines);
}
