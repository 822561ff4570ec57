/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of blocks by what reaches them. Reachable blocks are found by one breadth-first search for each class of roots, first through
 * pointers to the start of blocks alone, then through all. Among the others, Tarjan's algorithm finds the cycles.
 *
 * Everything is iterative: a list of a million blocks must not be a million stack frames. Pure functions; any thread.
 * Invariant: edges lead to blocks; whoever builds the graph has checked that.
 */
#include "collect/image/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"
#include "util/huge_pages.h"
#include "util/vector.h"

enum {
	AHEAD = 16,	/* about as many memory accesses as a core has under way */
	AHEAD_NODE = 4, /* references of one node */
};
/* Before a block is found. */
#define NOT_REACHED REACH_CLASSES

struct search {
	const struct graph *graph;
	struct graph_reach *found;
	uint32_t *queue; /* each block enters it at most once in all searches */
	size_t head, tail;
	VECTOR(uint32_t)
	skipping; /* nodes with interior pointers, which the first search of a class does not follow */
	bool failed;
};

static void reach_block(struct search *s, uint32_t edge, uint32_t from, unsigned class,
			bool through_interior)
{
	uint32_t block = graph_target(edge);

	if (s->found->class[block] != NOT_REACHED)
		return;
	s->found->class[block] = (uint8_t) class;
	s->found->is_interior[block] = through_interior;
	s->found->holder[block] = from;
	s->queue[s->tail++] = block;
}

/* Inlined, since gcc removes calls of functions that only prefetch. */
static ALWAYS_INLINE void prefetch_class(const struct search *s, uint32_t edge)
{
	__builtin_prefetch(&s->found->class[graph_target(s->graph->to[edge])], 1);
}

/* References lead anywhere: of blocks that are walked soon, brings the first classes that are needed, for which the references are needed,
 * and where they begin. */
static ALWAYS_INLINE void prefetch_queue(const struct search *s)
{
	const struct graph *g = s->graph;
	const uint32_t *queue = s->queue + s->head;

	if (s->tail - s->head <= 3 * AHEAD)
		return;
	__builtin_prefetch(&g->first[queue[3 * AHEAD]]);
	__builtin_prefetch(&g->to[g->first[queue[2 * AHEAD]]]);
	uint32_t edge = g->first[queue[AHEAD]], end = g->first[queue[AHEAD] + 1];

	for (; edge < end && edge < g->first[queue[AHEAD]] + AHEAD_NODE; edge++)
		prefetch_class(s, edge);
}

static void follow_edges(struct search *s, uint32_t node, unsigned class, bool interior)
{
	const struct graph *g = s->graph;
	bool skips = false;

	for (uint32_t i = g->first[node], end = g->first[node + 1]; i < end; i++) {
		if (end - i > AHEAD)
			prefetch_class(s, i + AHEAD);
		if (!interior && g->to[i] & GRAPH_INTERIOR)
			skips = true;
		else
			reach_block(s, g->to[i], node, class, interior);
	}
	if (skips && !vector_push(&s->skipping, node))
		s->failed = true;
}

static void follow_queue(struct search *s, unsigned class, bool interior)
{
	for (; s->head < s->tail; s->head++) {
		prefetch_queue(s);
		follow_edges(s, s->queue[s->head], class, interior);
	}
}

/* One class of roots. Nodes from which the first search left pointers out are walked again by the second, through all pointers. */
static void search_class(struct search *s, unsigned class)
{
	const struct graph *g = s->graph;

	for (uint32_t root = g->block_count; root < g->node_count; root++)
		if (g->root_class[root - g->block_count] == class)
			follow_edges(s, root, class, false);
	follow_queue(s, class, false);
	for (size_t i = 0; i < s->skipping.count; i++)
		follow_edges(s, s->skipping.at[i], class, true);
	s->skipping.count = 0;
	follow_queue(s, class, true);
}

/* ---- unreachable blocks ---- */

struct cycles {
	const struct graph *graph;
	uint8_t *class;
	uint32_t *number, *low; /* 0: not visited; low UINT32_MAX: its component is complete */
	uint32_t *pending;	/* of incomplete components */
	uint32_t *path, *next;	/* the walk: a block, and its next edge */
	size_t pending_count, depth;
	uint32_t visited;
};

static bool is_lost(const struct cycles *c, uint32_t block)
{
	return c->class[block] >= REACH_DIRECT;
}

static void enter(struct cycles *c, uint32_t block)
{
	c->number[block] = c->low[block] = ++c->visited;
	c->pending[c->pending_count++] = block;
	c->path[c->depth] = block;
	c->next[c->depth++] = c->graph->first[block];
}

/* A component is a cycle if it has several blocks. One that refers to itself is none: an empty list or a short std::string does. */
static void leave(struct cycles *c, uint32_t block)
{
	uint32_t popped;
	bool ring = c->pending[c->pending_count - 1] != block;

	c->depth--;
	if (c->depth > 0) {
		uint32_t parent = c->path[c->depth - 1];

		c->low[parent] = MIN(c->low[parent], c->low[block]);
	}
	if (c->low[block] != c->number[block])
		return;
	do {
		popped = c->pending[--c->pending_count];
		c->low[popped] = UINT32_MAX;
		if (ring)
			c->class[popped] = REACH_RING;
	} while (popped != block);
}

static void walk_component(struct cycles *c, uint32_t start)
{
	const struct graph *g = c->graph;

	enter(c, start);
	while (c->depth > 0) {
		uint32_t block = c->path[c->depth - 1];

		if (c->next[c->depth - 1] == g->first[block + 1]) {
			leave(c, block);
			continue;
		}
		uint32_t to = graph_target(g->to[c->next[c->depth - 1]++]);

		if (c->number[to] == 0)
			enter(c, to);
		else if (c->low[to] != UINT32_MAX)
			c->low[block] = MIN(c->low[block], c->number[to]);
	}
}

/* A walk may meet reachable blocks, since unreachable ones may refer to them: those are visited and complete beforehand. */
static void find_cycles(struct cycles *c)
{
	const struct graph *g = c->graph;

	for (uint32_t i = 0; i < g->block_count; i++)
		if (!is_lost(c, i)) {
			c->number[i] = 1;
			c->low[i] = UINT32_MAX;
		}
	c->visited = 1;
	for (uint32_t i = 0; i < g->block_count; i++)
		if (c->number[i] == 0)
			walk_component(c, i);
	for (uint32_t i = 0; i < g->block_count; i++)
		for (uint32_t e = g->first[i]; is_lost(c, i) && e < g->first[i + 1]; e++) {
			uint32_t to = graph_target(g->to[e]);

			if (to != i && c->class[to] == REACH_DIRECT)
				c->class[to] = REACH_INDIRECT;
		}
}

static bool classify_unreachable(const struct graph *g, uint8_t *class)
{
	size_t count = (size_t)g->block_count + 1;
	AUTO_FREE uint32_t *number = calloc(count, sizeof *number);
	AUTO_FREE uint32_t *low = calloc(count, sizeof *low);
	AUTO_FREE uint32_t *pending = malloc(count * sizeof *pending);
	AUTO_FREE uint32_t *path = malloc(count * sizeof *path);
	AUTO_FREE uint32_t *next = malloc(count * sizeof *next);
	struct cycles c = { .graph = g,
			    .class = class,
			    .number = number,
			    .low = low,
			    .pending = pending,
			    .path = path,
			    .next = next };

	if (!number || !low || !pending || !path || !next)
		return false;
	find_cycles(&c);
	return true;
}

bool graph_reach(const struct graph *graph, struct graph_reach *ret)
{
	size_t count = (size_t)graph->block_count + 1;
	AUTO_FREE uint32_t *queue = huge_malloc(count * sizeof *queue);
	struct search s = { .graph = graph, .found = ret, .queue = queue };

	ASSERT(graph->node_count <= GRAPH_NODES_MAX);
	*ret = (struct graph_reach){ huge_malloc(count), huge_calloc(count, 1),
				     huge_malloc(count * sizeof *ret->holder) };
	if (!queue || !ret->class || !ret->is_interior || !ret->holder)
		return false;
	memset(ret->class, NOT_REACHED, count);
	memset(ret->holder, 0xff, count * sizeof *ret->holder);
	for (unsigned class = 0; class < REACH_ROOT_CLASSES; class ++)
		search_class(&s, class);
	vector_release(&s.skipping);
	if (s.failed || s.tail == graph->block_count)
		return !s.failed;
	for (uint32_t i = 0; i < graph->block_count; i++)
		if (ret->class[i] == NOT_REACHED)
			ret->class[i] = REACH_DIRECT;
	return classify_unreachable(graph, ret->class);
}

void graph_reach_release(struct graph_reach *reach)
{
	free(reach->class);
	free(reach->is_interior);
	free(reach->holder);
	*reach = (struct graph_reach){ 0 };
}
