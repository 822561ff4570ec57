/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a selection as one tree: equal callers (or callees) are one node, with the sums of
 * all stacks that go through it.
 */
#ifndef ANALYSIS_CALL_TREE_H
#define ANALYSIS_CALL_TREE_H

#include "analysis/places.h"
#include "analysis/selection.h"

struct call_node {
	uint32_t parent, first_child, next_sibling; /* 0: none; 0 is the root */
	uint32_t key;				    /* on the axis */
	uint32_t depth : 31;			    /* of the root 0 */
	uint32_t many_lines : 1;   /* not all places of this node are on the same line */
	const struct place *place; /* one of those; NULL: the root */
};

/* Parents come before their children. */
struct call_tree {
	struct call_node *nodes;
	size_t count, capacity;
	struct measures *total, *self; /* by node: through it, and ending there; NULL: not wanted */
	struct call_slot *slots;       /* hash of (parent, key) */
	size_t slot_count;
};

struct call_tree_options {
	enum axis_id by;       /* an axis of frames */
	bool callees_first;    /* the root's children are where memory was asked for */
	bool fold_recursion;   /* a node is never its own child */
	uint32_t *entry_nodes; /* gets the node of each entry, and no sums are made; NULL: sums */
};

/* -1 if out of memory. */
int call_tree_build(struct call_tree *tree, const struct selection *selection,
		    struct places *places, struct call_tree_options options);
void call_tree_release(struct call_tree *tree);

#endif
