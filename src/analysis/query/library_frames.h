/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames of a call tree to leave out, so that it leads with the project's own code.
 *
 * From main down, these are the frames of libraries that lead to own code (the C runtime before main, a sort that calls
 * back), and what is inside of a function that own code calls. That function stays. From the allocating functions up, all
 * frames of libraries are left out. A stack without own code keeps all its frames.
 */
#ifndef ANALYSIS_QUERY_LIBRARY_FRAMES_H
#define ANALYSIS_QUERY_LIBRARY_FRAMES_H

#include "analysis/query/stack_tree.h"
#include "analysis/result/locations.h"

/* Where there is own code, for each stack of a process. All zero: nowhere. */
struct own_stacks {
	uint8_t *marks; /* by node; NULL: the process has no own code */
};

/* Finds own code on the stacks of the tree that have a weight. -1 if out of memory. */
int own_stacks_find(struct own_stacks *own, const struct stack_tree *stacks,
		    struct locations *locations);
void own_stacks_release(struct own_stacks *own);

/* Whether the location is the project's own code, and not a container that was inlined into it. */
bool location_is_own(const struct location *location);

/* A frame, and the node of the call tree that it would be a child of. */
struct library_frame {
	struct location_chain chain; /* of the stack's innermost frame, which has inlined calls */
	size_t at;		     /* in the chain */
	uint32_t stack;		     /* a node of the stack tree */
	bool allocates;		     /* the stack ends there */
	bool parent_is_own, below_own;
};
/* Whether to leave it out, from main down and from the allocating functions up. */
bool library_frame_leads_in(const struct own_stacks *own, const struct library_frame *frame);
bool library_frame_leads_out(const struct own_stacks *own, const struct library_frame *frame);

#endif
