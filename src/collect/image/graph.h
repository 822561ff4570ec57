/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The references between blocks, as arrays: pure algorithms, which know nothing of processes. Nodes 0 to block_count - 1 are blocks, the
 * following are root groups (a global variable, the stacks), which nothing refers to.
 */
#ifndef COLLECT_IMAGE_GRAPH_H
#define COLLECT_IMAGE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/reach.h"

/* An edge is a node with this bit, if it points inside the block and not at its start. */
#define GRAPH_INTERIOR 0x80000000u
#define GRAPH_NODES_MAX 0x7ffffff0u
#define GRAPH_NONE UINT32_MAX

static inline uint32_t graph_target(uint32_t edge)
{
	return edge & ~GRAPH_INTERIOR;
}

struct graph {
	uint32_t block_count, node_count;
	uint32_t *first;     /* node_count + 1: where the edges of a node begin in `to` */
	uint32_t *to;	     /* edges; their target is a block */
	uint8_t *root_class; /* of root groups: enum reach_class */
};

/* What graph_reach finds out about the blocks. */
struct graph_reach {
	uint8_t *class;	      /* block_count: enum reach_class */
	uint8_t *is_interior; /* block_count: every path to it goes through an interior pointer */
	/* block_count: the node before it on a shortest path from a root of its class; GRAPH_NONE: none. Through pointers to the start of
	 * blocks if there is one; else the shortest way on from a block that has one. */
	uint32_t *holder;
};

/* Finds the class of each block: by the roots that reach it, in the order of enum reach_class; or how it is unreachable.
 * False: out of memory. Release it in either case. */
bool graph_reach(const struct graph *graph, struct graph_reach *ret);
void graph_reach_release(struct graph_reach *reach);

/* The immediate dominator of each node, GRAPH_NONE if it is unreachable or only the roots together dominate it. malloc'd, NULL if
 * out of memory. 20 bytes for each node and 4 for each edge while it works, 4 for each node of them the result. */
uint32_t *graph_dominators(const struct graph *graph);

/* Adds to each node the weights of all that it dominates. weights: node_count. False: out of memory. */
bool graph_retained(const struct graph *graph, const uint32_t *dominators, uint64_t *weights);
typedef uint32_t graph_group(const void *context, uint32_t block);
/* Sums the retained bytes of the blocks of each group, without those that another block of the same group dominates: freeing the group
 * would free them once. group_of is below group_count; sums: group_count, zero. False: out of memory. */
bool graph_retained_by_group(const struct graph *graph, const uint32_t *dominators,
			     const uint64_t *retained, graph_group *group_of, const void *context,
			     uint32_t group_count, uint64_t *sums);

#endif
