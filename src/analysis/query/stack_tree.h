/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a selection as the recording has them: each below the one of its caller, with what it has itself and what all
 * have that begin with it. Trees of calls by name, and sums by function, are made of these.
 */
#ifndef ANALYSIS_QUERY_STACK_TREE_H
#define ANALYSIS_QUERY_STACK_TREE_H

#include "analysis/query/selection.h"
#include "util/vector.h"

/* What a stack has; sums of these are made. Numbers are as selection_raw gives them. */
struct stack_amount {
	int64_t value;	 /* the cost asked for */
	int64_t also[2]; /* whatever else is wanted */
	uint64_t weight; /* how much it is worth to be shown: without a sign */
	float variance, also_variance[2];
};
typedef struct stack_amount stack_amount_of(const struct selection *selection,
					    const struct entry *entry);

void stack_amount_add(struct stack_amount *sum, const struct stack_amount *part);

/* What most want: the cost, and beside it blocks and calls. */
enum { ALSO_BLOCKS, ALSO_CALLS };
struct stack_amount stack_amount_of_measures(const struct selection *selection,
					     const struct measures *measures);
/* As numbers that are shown. */
struct result_value stack_amount_value(const struct selection *selection,
				       const struct stack_amount *amount);
struct result_value stack_amount_also(const struct selection *selection,
				      const struct stack_amount *amount, unsigned also);

/* Of one process; all by a stack's number. */
struct stack_tree {
	const struct profile_process *process;
	struct stack_amount *own;     /* of the stack itself */
	struct stack_amount *through; /* and of those that begin with it; NULL: not wanted */
	uint32_t *first_child,
		*next_sibling; /* 0: none; of stacks with some weight; NULL: not wanted */
};

struct stack_trees {
	VECTOR(struct stack_tree) of;
	uint64_t weight; /* of all */
};

/* `linked`: with callers. False if out of memory; to be released in any case. */
bool stack_trees_build(struct stack_trees *trees, const struct selection *selection,
		       stack_amount_of *amount_of, bool linked);
void stack_trees_release(struct stack_trees *trees);

#endif
