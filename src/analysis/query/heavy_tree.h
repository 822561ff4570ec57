/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree of a selection, as far as it is worth to be shown: the heaviest nodes of all, and of each what its other
 * children have together. A million stacks cost what is shown of them.
 */
#ifndef ANALYSIS_QUERY_HEAVY_TREE_H
#define ANALYSIS_QUERY_HEAVY_TREE_H

#include "analysis/result/locations.h"
#include "analysis/query/stack_tree.h"

/* More than any picture has pixels, and less than a browser chokes on. */
enum { HEAVY_TREE_MAX_NODES = 1000000 };

struct heavy_node {
	const struct location *location; /* one of those that are this node; NULL: the root */
	uint32_t key;			 /* on the axis */
	uint32_t parent, first_child,
		next_sibling;	    /* 0: none; 0 is the root. The heaviest child first */
	uint32_t depth;		    /* of the root 0 */
	uint32_t folded_count;	    /* children that are not nodes ... */
	struct stack_amount folded; /* ... and what they have */
	struct stack_amount amount; /* through here */
	int64_t self;		    /* ending here, of the cost */
	float self_variance;
	bool many_lines; /* not all its locations are on the same line */
};

struct heavy_tree {
	struct heavy_node *nodes;
	size_t count;
	size_t key_count; /* keys are below */
};

struct heavy_options {
	stack_amount_of *amount_of;
	enum axis_id by;	  /* an axis of frames */
	bool callees_first;	  /* the root's children are where memory was asked for */
	bool fold_recursion;	  /* a node is never its own child */
	size_t depth;		  /* of the deepest nodes; 0: any */
	size_t most_nodes;	  /* never more than the maximum */
	double threshold_percent; /* of all weight: nodes below are none */
};

/* Those of a query; `threshold_percent`: where it says none. -1 with the error set if it is by no axis of frames. */
int heavy_options_of(const struct query *query, stack_amount_of *amount_of,
		     double threshold_percent, struct heavy_options *ret, struct error *error);

/* -1 if out of memory. */
int heavy_tree_grow(struct heavy_tree *tree, const struct selection *selection,
		    struct locations *locations, struct heavy_options options);
void heavy_tree_release(struct heavy_tree *tree);

/* Preorder, the root first: each node when it is come to, and again, with `leaves`, when all below it has been visited. */
typedef void heavy_visit(void *context, uint32_t node, bool leaves);
void heavy_tree_walk(const struct heavy_tree *tree, heavy_visit *visit, void *context);

#endif
