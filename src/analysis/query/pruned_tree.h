/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree of a selection, pruned to the heaviest nodes overall. Each node also has the sum of its omitted
 * children. The cost is proportional to the nodes shown, even for a million stacks.
 */
#ifndef ANALYSIS_QUERY_PRUNED_TREE_H
#define ANALYSIS_QUERY_PRUNED_TREE_H

#include "analysis/result/locations.h"
#include "analysis/query/stack_tree.h"

/* More nodes than a screen has pixels, and few enough for a browser. */
enum { PRUNED_TREE_MAX_NODES = 1000000 };

struct pruned_node {
	const struct location *location; /* any location merged into this node; NULL: the root */
	uint32_t key;			 /* on the axis */
	uint32_t parent, first_child,
		next_sibling;	    /* 0: none (0 is the root); heaviest child first */
	uint32_t depth;		    /* 0 for the root */
	uint32_t folded_count;	    /* number of omitted children ... */
	struct stack_amount folded; /* ... and their sum */
	struct stack_amount amount; /* total */
	int64_t self;		    /* self, of the cost */
	float self_variance;
	bool many_lines; /* its locations are on more than one line */
	bool below_own;	 /* it or one of its ancestors is the project's own code */
};

struct pruned_tree {
	struct pruned_node *nodes;
	size_t count;
	size_t key_count; /* upper bound: all keys are smaller */
	bool skipped;	  /* frames of libraries were left out */
};

struct pruned_options {
	stack_amount_of *amount_of;
	enum axis_id by;     /* an axis of frames */
	bool callees_first;  /* the root's children are the allocating functions */
	bool fold_recursion; /* merge direct recursion into one node */
	bool own_code_first; /* leave out the frames of libraries around own code: see library_frames.h */
	size_t depth;	     /* maximum depth of nodes; 0: unlimited */
	size_t most_nodes;	  /* capped at PRUNED_TREE_MAX_NODES */
	double threshold_percent; /* of the total weight; lighter nodes are omitted */
};

/* The options of a query; `threshold_percent` is the default. -1 with the error set if its axis is not one of frames. */
int pruned_options_of(const struct query *query, stack_amount_of *amount_of,
		      double threshold_percent, struct pruned_options *ret, struct error *error);
/* Whether the frames of libraries can be left out. */
bool own_code_can_lead(const struct profile *profile, enum axis_id by);

/* -1 if out of memory. */
int pruned_tree_grow(struct pruned_tree *tree, const struct selection *selection,
		     struct locations *locations, struct pruned_options options);
void pruned_tree_release(struct pruned_tree *tree);

/* Walks in preorder from the root. Visits each node on entry and again, with `leaves` set, after its descendants. */
typedef void pruned_visit(void *context, uint32_t node, bool leaves);
void pruned_tree_walk(const struct pruned_tree *tree, pruned_visit *visit, void *context);

#endif
