/* SPDX-License-Identifier: Apache-2.0 */
/* The call graph of a selection: functions, callers and callees, with inclusive costs. */
#ifndef EXPORT_EDGES_H
#define EXPORT_EDGES_H

#include "export/stacks.h"

struct graph_function {
	const struct location *location;
	int64_t self, total; /* recursion counts once per stack */
	double self_variance, total_variance;
};

/* A call from a line of one function to another function. */
struct graph_edge {
	uint32_t caller, callee; /* function numbers */
	uint32_t caller_line;	 /* 0 if lines were not requested */
	int64_t total;		 /* over the stacks with this edge */
	int64_t entering;	 /* over those that enter the callee for the first time here */
	int64_t calls;
	double total_variance, entering_variance;
};

/* The self cost of a function, by line. */
struct graph_line {
	uint32_t function, line;
	int64_t self;
	double variance;
};

struct graph {
	VECTOR(struct graph_function)
	functions; /* by location_key(AXIS_FUNCTION); location NULL: not in the graph */
	VECTOR(struct graph_edge) edges; /* by caller, line, callee */
	VECTOR(struct graph_line) lines; /* by function, line */
	int64_t whole;
	double whole_variance;
};

/* -1 if out of memory. */
int graph_build(struct graph *graph, const struct export_input *input, bool lines);
void graph_release(struct graph *graph);

#endif
