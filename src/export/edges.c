/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks -> call graph. Each stack adds its cost once to every function and every edge on it, however
 * often they are there: a graph cannot tell the rounds of a recursion apart, and adding them up would
 * make the part larger than the whole. What enters a function adds up to its total: each stack enters
 * it once, by its outermost call.
 *
 * Edges and lines are collected as they come and merged by sorting.
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

		if (kept && compare_lines(l, last) == 0)
			last->self += l->self;
		else
			g->lines.at[kept++] = *l;
	}
	g->lines.count = kept;
}

static bool add_function(struct graph *g, const struct place *place, int64_t self, int64_t total)
{
	static const struct graph_function none = { 0 };

	while (g->functions.count <= place->function)
		if (!vector_push(&g->functions, none))
			return false;
	struct graph_function *f = &g->functions.at[place->function];

	if (!f->place)
		f->place = place;
	f->self += self;
	f->total += total;
	return true;
}

/* Whether the function is on the stack further out. */
static bool called_before(struct place_chain stack, size_t at)
{
	for (size_t i = at + 1; i < stack.count; i++)
		if (stack.at[i]->function == stack.at[at]->function)
			return true;
	return false;
}

/* The edge from the frame behind `at` to the one there. */
static struct graph_edge edge_at(struct place_chain stack, size_t at, bool lines)
{
	return (struct graph_edge){
		.caller = stack.at[at + 1]->function,
		.callee = stack.at[at]->function,
		.caller_line = lines ? stack.at[at + 1]->frame.line : 0,
	};
}

static bool edge_before(struct place_chain stack, size_t at, bool lines)
{
	const struct graph_edge edge = edge_at(stack, at, lines);

	for (size_t i = at + 1; i + 1 < stack.count; i++) {
		const struct graph_edge other = edge_at(stack, i, lines);

		if (compare_edges(&edge, &other) == 0)
			return true;
	}
	return false;
}

static bool add_edges(struct graph *g, struct place_chain stack, int64_t value, int64_t calls,
		      bool lines)
{
	for (size_t i = 0; i + 1 < stack.count; i++) {
		struct graph_edge edge = edge_at(stack, i, lines);
		bool recursion = called_before(stack, i);

		if (recursion && edge_before(stack, i, lines))
			continue;
		edge.total = value;
		edge.entering = recursion ? 0 : value;
		edge.calls = calls;
		if (!vector_push(&g->edges, edge))
			return false;
	}
	return true;
}

static bool add_stack(struct graph *g, struct place_chain stack, int64_t value, int64_t calls,
		      bool lines)
{
	g->whole += value;
	if (stack.count == 0)
		return true;
	const struct graph_line line = { stack.at[0]->function, stack.at[0]->frame.line, value };

	if (!vector_push(&g->lines, line))
		return false;
	for (size_t i = 0; i < stack.count; i++)
		if (!add_function(g, stack.at[i], i == 0 ? value : 0,
				  called_before(stack, i) ? 0 : value))
			return false;
	return add_edges(g, stack, value, calls, lines);
}

int graph_build(struct graph *g, const struct export_input *in, bool lines)
{
	enum { MERGE_AT = 1 << 22 };
	struct stack_scratch scratch = { 0 };
	bool done = true;

	*g = (struct graph){ 0 };
	for (size_t i = 0; i < in->selection->count && done; i++) {
		const struct entry *e = &in->selection->entries[i];
		int64_t value = selection_cost(in->selection, &e->m);
		struct place_chain stack;

		if (value == 0)
			continue;
		done = entry_stack(in, e, &scratch, &stack) == 0 &&
		       add_stack(g, stack, value, e->m.calls, lines);
		if (g->edges.count > MERGE_AT)
			merge_edges(g);
	}
	stack_scratch_release(&scratch);
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
