/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dominators by the semi-NCA algorithm (Georgiadis), over a virtual root that refers to all root groups: block A dominates B if every
 * path from a root to B goes through A, so freeing A would make B unreachable. A node's number is its place in a depth-first preorder;
 * number 0 is the virtual root.
 *
 * Iterative throughout, as graph.c. Pure functions; any thread.
 * Invariant: after the numbering, all arrays but `number_of` are indexed by numbers and hold numbers. Four arrays suffice, of 20 bytes a
 * node, since some have a second use when the first one ends: at 10^8 blocks each number would be 400 MB.
 *
 * References lead anywhere, so nearly each access to a node misses the caches. What is needed some edges later is prefetched,
 * by functions that must be inlined: gcc removes calls of those that only prefetch.
 */
#include "collect/image/graph.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/huge_pages.h"

enum {
	AHEAD = 16,	/* edges: about as many memory accesses as a core has under way */
	AHEAD_NODE = 4, /* edges of one node */
};

/* Together, because the searches need both. */
struct link {
	uint32_t parent; /* in the depth-first tree; path compression shortens it later */
	/* First: the next edge. Then the least semi-dominator on the path up to the parent; of a node that is not processed itself. At last
	 * the node of each number. */
	uint32_t label;
};

struct numbering {
	const struct graph *graph;
	uint32_t *number_of; /* by node; 0: unreachable. At last the result */
	struct link *links;
	uint32_t *semi;		      /* first: the node of each number; [0] is unused */
	uint32_t *pred_first, *preds; /* without the virtual root */
	uint32_t *dominator;	      /* pred_first + 1, where the lists of predecessors are done */
	uint32_t count;
};

static void numbering_release(struct numbering *n)
{
	free(n->number_of);
	free(n->links);
	free(n->semi);
	free(n->pred_first);
	free(n->preds);
}

/* ---- the depth-first numbering ---- */

static ALWAYS_INLINE void prefetch_target(const struct numbering *n, uint32_t edge)
{
	uint32_t to = graph_target(n->graph->to[edge]);

	__builtin_prefetch(&n->number_of[to]);
	__builtin_prefetch(&n->graph->first[to]);
}

static void number(struct numbering *n, uint32_t *node_of, uint32_t node, uint32_t parent)
{
	const uint32_t first = n->graph->first[node], end = n->graph->first[node + 1];

	n->number_of[node] = n->count;
	node_of[n->count] = node;
	n->links[n->count++] = (struct link){ parent, first };
	for (uint32_t e = first; e < end && e < first + AHEAD_NODE; e++)
		prefetch_target(n, e);
}

/* A link's label is the next edge of its node; a tree's parent is its stack. */
static void number_from(struct numbering *n, uint32_t root, uint32_t *node_of)
{
	const struct graph *g = n->graph;
	uint32_t at = n->count;

	number(n, node_of, root, 0);
	while (at != 0) {
		uint32_t edge = n->links[at].label++, end = g->first[node_of[at] + 1];

		if (edge == end) {
			at = n->links[at].parent;
			continue;
		}
		uint32_t to = graph_target(g->to[edge]);

		if (end - edge > AHEAD_NODE)
			prefetch_target(n, edge + AHEAD_NODE);
		if (n->number_of[to] == 0) {
			number(n, node_of, to, at);
			at = n->count - 1;
		}
	}
}

static bool make_numbers(struct numbering *n)
{
	const struct graph *g = n->graph;
	size_t count = (size_t)g->node_count + 2;

	n->number_of = huge_calloc(count, sizeof *n->number_of);
	n->links = huge_calloc(count, sizeof *n->links);
	n->semi = huge_malloc(count * sizeof *n->semi);
	if (!n->number_of || !n->links || !n->semi)
		return false;
	n->count = 1;
	for (uint32_t root = g->block_count; root < g->node_count; root++)
		number_from(n, root, n->semi);
	return true;
}

/* ---- predecessors ---- */

/* Brings the number of the target of an edge AHEAD edges later, and with it the list of that target. */
static ALWAYS_INLINE void prefetch_list(const struct numbering *n, uint32_t edge, uint32_t edges)
{
	const struct graph *g = n->graph;

	if (edges - edge <= 2 * AHEAD)
		return;
	__builtin_prefetch(&n->number_of[graph_target(g->to[edge + 2 * AHEAD])]);
	__builtin_prefetch(&n->pred_first[n->number_of[graph_target(g->to[edge + AHEAD])] + 1], 1);
}

static bool find_predecessors(struct numbering *n)
{
	const struct graph *g = n->graph;
	const uint32_t edges = g->first[g->node_count];
	uint32_t *first = n->pred_first = huge_calloc((size_t)n->count + 2, sizeof *n->pred_first);

	if (!first)
		return false;
	n->dominator = first + 1;
	for (uint32_t node = 0; node < g->node_count; node++)
		for (uint32_t e = g->first[node]; n->number_of[node] && e < g->first[node + 1];
		     e++) {
			prefetch_list(n, e, edges);
			first[n->number_of[graph_target(g->to[e])] + 2]++;
		}
	for (uint32_t i = 2; i <= n->count + 1; i++)
		first[i] += first[i - 1];
	n->preds = huge_malloc(((size_t)first[n->count + 1] + 1) * sizeof *n->preds);
	if (!n->preds)
		return false;
	for (uint32_t node = 0; node < g->node_count; node++)
		for (uint32_t e = g->first[node]; n->number_of[node] && e < g->first[node + 1];
		     e++) {
			prefetch_list(n, e, edges);
			n->preds[first[n->number_of[graph_target(g->to[e])] + 1]++] =
				n->number_of[node];
		}
	return true;
}

/* ---- semi-dominators ---- */

/* The least semi-dominator on the path from v to the processed part of the tree, which starts at `last`; shortens the path. On the way up
 * `parent` points back down: a path may be as long as the heap has blocks. */
static uint32_t evaluate(struct link *links, uint32_t v, uint32_t last)
{
	uint32_t below = 0, at = v;

	while (links[at].parent >= last) {
		uint32_t above = links[at].parent;

		links[at].parent = below;
		below = at;
		at = above;
	}
	uint32_t top = links[at].parent, best = links[at].label;

	while (below != 0) {
		at = below;
		below = links[at].parent;
		links[at].parent = top;
		best = links[at].label = MIN(best, links[at].label);
	}
	return best;
}

/* The predecessors that are evaluated later, and the next two nodes on their paths. */
static ALWAYS_INLINE void prefetch_path(const struct numbering *n, uint32_t pred)
{
	const struct link *links = n->links;

	if (pred < 3 * AHEAD)
		return;
	__builtin_prefetch(&links[n->preds[pred - 3 * AHEAD]], 1);
	__builtin_prefetch(&links[links[n->preds[pred - 2 * AHEAD]].parent], 1);
	__builtin_prefetch(&links[links[links[n->preds[pred - AHEAD]].parent].parent], 1);
}

/* Downwards, so that the list of predecessors ends where the next higher one began: its end is not needed any more and keeps the tree's
 * parent, the first guess of the dominator, before paths over it are shortened. */
static void find_dominators(struct numbering *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		n->links[i].label = i;
	for (uint32_t i = n->count - 1; i >= 1; i--) {
		uint32_t semi = n->links[i].parent;

		for (uint32_t e = n->pred_first[i + 1]; e-- > n->pred_first[i];) {
			prefetch_path(n, e);
			semi = MIN(semi, evaluate(n->links, n->preds[e], i + 1));
		}
		n->semi[i] = n->links[i].label = semi;
		n->dominator[i] = n->links[i].parent;
	}
	for (uint32_t i = 1; i < n->count; i++) {
		if (n->count - i > AHEAD)
			__builtin_prefetch(&n->dominator[n->dominator[i + AHEAD]]);
		while (n->dominator[i] > n->semi[i])
			n->dominator[i] = n->dominator[n->dominator[i]];
	}
}

uint32_t *graph_dominators(const struct graph *graph)
{
	AUTO(numbering_release) struct numbering n = { .graph = graph };

	ASSERT(graph->node_count <= GRAPH_NODES_MAX);
	if (!make_numbers(&n) || !find_predecessors(&n))
		return NULL;
	find_dominators(&n);
	uint32_t *node_of = n.semi;

	for (uint32_t node = 0; node < graph->node_count; node++)
		node_of[n.number_of[node]] = node;
	for (uint32_t node = 0; node < graph->node_count; node++) {
		uint32_t number = n.number_of[node], dominator = number ? n.dominator[number] : 0;

		n.number_of[node] = dominator ? node_of[dominator] : GRAPH_NONE;
	}
	return TAKE(n.number_of);
}

/* ---- retained bytes ---- */

/* The dominator tree as lists of children. */
struct tree {
	uint32_t *child, *sibling; /* child[node_count] is the list of those without a dominator */
};

static bool tree_make(const struct graph *g, const uint32_t *dominators, struct tree *ret)
{
	size_t count = (size_t)g->node_count + 1;

	ret->child = huge_malloc(count * sizeof *ret->child);
	ret->sibling = huge_malloc(count * sizeof *ret->sibling);
	if (!ret->child || !ret->sibling)
		return false;
	for (size_t i = 0; i < count; i++)
		ret->child[i] = GRAPH_NONE;
	for (uint32_t i = 0; i < g->node_count; i++) {
		uint32_t *list =
			&ret->child[dominators[i] == GRAPH_NONE ? g->node_count : dominators[i]];

		ret->sibling[i] = *list;
		*list = i;
	}
	return true;
}

static void tree_release(struct tree *tree)
{
	free(tree->child);
	free(tree->sibling);
}

/* The next node of a walk that visits each node twice: when it enters it, and, *ret_leaves set, when it leaves it. `at` is the node before;
 * node_count starts and ends the walk. */
static uint32_t walk_next(const struct graph *g, const struct tree *tree,
			  const uint32_t *dominators, uint32_t at, bool *leaves)
{
	if (!*leaves && tree->child[at] != GRAPH_NONE)
		return tree->child[at];
	if (!*leaves && at != g->node_count) {
		*leaves = true;
		return at;
	}
	if (at == g->node_count)
		return at;
	if (tree->sibling[at] != GRAPH_NONE) {
		*leaves = false;
		return tree->sibling[at];
	}
	return dominators[at] == GRAPH_NONE ? g->node_count : dominators[at];
}

bool graph_retained(const struct graph *graph, const uint32_t *dominators, uint64_t *weights)
{
	AUTO(tree_release) struct tree tree = { 0 };
	bool leaves = false;

	if (!tree_make(graph, dominators, &tree))
		return false;
	for (uint32_t at = walk_next(graph, &tree, dominators, graph->node_count, &leaves);
	     at != graph->node_count; at = walk_next(graph, &tree, dominators, at, &leaves))
		if (leaves && dominators[at] != GRAPH_NONE)
			weights[dominators[at]] += weights[at];
	return true;
}

bool graph_retained_by_group(const struct graph *graph, const uint32_t *dominators,
			     const uint64_t *retained, graph_group *group_of, const void *context,
			     uint32_t group_count, uint64_t *sums)
{
	AUTO(tree_release) struct tree tree = { 0 };
	AUTO_FREE uint32_t *open = calloc((size_t)group_count + 1, sizeof *open);
	bool leaves = false;

	if (!open || !tree_make(graph, dominators, &tree))
		return false;
	for (uint32_t at = walk_next(graph, &tree, dominators, graph->node_count, &leaves);
	     at != graph->node_count; at = walk_next(graph, &tree, dominators, at, &leaves)) {
		if (at >= graph->block_count)
			continue;
		uint32_t group = group_of(context, at);

		ASSERT(group < group_count);
		if (leaves)
			open[group]--;
		else if (open[group]++ == 0)
			sums[group] += retained[at];
	}
	return true;
}
