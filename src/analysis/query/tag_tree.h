/* SPDX-License-Identifier: Apache-2.0 */
/* The tags of a selection as a tree: tags with the same path in several processes are merged. */
#ifndef ANALYSIS_QUERY_TAG_TREE_H
#define ANALYSIS_QUERY_TAG_TREE_H

#include "analysis/query/selection.h"
#include "model/tags.h"

/* The numbers of a tag's blocks, in addition to the selection's cost. */
struct tag_numbers {
	struct measures m;
	uint64_t freed_bytes;
	uint64_t peak_bytes, leaked_bytes;
	float freed_variance, peak_variance, leaked_variance;
};

void tag_numbers_add(struct tag_numbers *sum, const struct tag_numbers *part);

struct tag_node {
	uint32_t parent, first_child, next_sibling; /* 0: none (node 0 is the root) */
	uint32_t depth;				    /* 0 for the root */
	enum profile_tag_kind kind;
	const char *name;
	uint64_t visits;
	struct tag_numbers self, total;
};

struct tag_tree {
	struct tag_node *nodes; /* parents come before their children */
	size_t count;		/* at least 1: the root, whose self is untagged memory */
};

/* Includes the tags that pass the filters, and their ancestors. Pre: the selection is of one recording and unsorted. -1
 * if out of memory. */
int tag_tree_build(struct tag_tree *tree, const struct selection *selection,
		   const struct query *query);
void tag_tree_release(struct tag_tree *tree);

/* "server/parser"; in the arena, NULL if out of memory. */
const char *tag_tree_path(const struct tag_tree *tree, uint32_t node, struct arena *arena);

#endif
