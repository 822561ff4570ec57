/* SPDX-License-Identifier: Apache-2.0 */
/* The call graph of a selection: functions, callers and callees, with inclusive numbers. */
#ifndef EXPORT_EDGES_H
#define EXPORT_EDGES_H

#include "export/stacks.h"

struct graph_function {
	const struct location *location;
	int64_t self, total; /* a recursion is counted once for each stack */
	double self_variance, total_variance;
};

/* From a line of one function into another. */
struct graph_edge {
	uint32_t caller, callee; /* functions */
	uint32_t caller_line;	 /* 0 if lines were not asked for */
	int64_t total;		 /* of the stacks that go along it */
	int64_t entering;	 /* of those among them that were not in the callee already */
	int64_t calls;
	double total_variance, entering_variance;
};

/* What a function asked for itself, by line. */
struct graph_line {
	uint32_t function, line;
	int64_t self;
	double variance;
};

struct graph {
	VECTOR(struct graph_function)
	functions; /* by location_key(AXIS_FUNCTION); location NULL: not in it */
	VECTOR(struct graph_edge) edges; /* by caller, line, callee */
	VECTOR(struct graph_line) lines; /* by function, line */
	int64_t whole;
	double whole_variance;
};

/* -1 if out of memory. */
int graph_build(struct graph *graph, const struct export_input *input, bool lines);
void graph_release(struct graph *graph);

#endif
