/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a selection as the recording's tree: each stack is a child of its caller, with its self amount and the total
 * over all stacks that it is a prefix of. Call trees by name and sums by function are computed from these.
 */
#ifndef ANALYSIS_QUERY_STACK_TREE_H
#define ANALYSIS_QUERY_STACK_TREE_H

#include "analysis/query/selection.h"
#include "util/vector.h"

/* The amount of a stack, which can be summed. Numbers are those of selection_raw. */
struct stack_amount {
	int64_t value;	 /* the selection's cost */
	int64_t also[2]; /* further numbers that the view wants */
	uint64_t weight; /* magnitude for ranking, unsigned */
	float variance, also_variance[2];
};
typedef struct stack_amount stack_amount_of(const struct selection *selection,
					    const struct entry *entry);

void stack_amount_add(struct stack_amount *sum, const struct stack_amount *part);
/* A stack whose cost is 0 may have calls. */
bool stack_amount_is_zero(const struct stack_amount *amount);

/* The common case: the cost, with blocks or the query's second cost, and calls. */
enum { ALSO_BLOCKS, ALSO_CALLS };
struct stack_amount stack_amount_of_measures(const struct selection *selection,
					     const struct measures *measures);
/* Converts amounts for display. */
struct result_value stack_amount_value(const struct selection *selection,
				       const struct stack_amount *amount);
struct result_value stack_amount_also(const struct selection *selection,
				      const struct stack_amount *amount, unsigned also);

/* The stacks of one process; arrays are indexed by stack number. */
struct stack_tree {
	const struct profile_process *process;
	struct stack_amount *own;     /* self */
	struct stack_amount *through; /* total; NULL: not requested */
	uint32_t *first_child,
		*next_sibling; /* 0: none; only stacks whose total is not zero; NULL: not requested */
};

struct stack_trees {
	VECTOR(struct stack_tree) of;
	uint64_t weight; /* sum over all */
};

/* `linked`: also computes totals and child links. False if out of memory; must be released in either case. */
bool stack_trees_build(struct stack_trees *trees, const struct selection *selection,
		       stack_amount_of *amount_of, bool linked);
void stack_trees_release(struct stack_trees *trees);

#endif
