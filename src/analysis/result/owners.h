/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners of many stacks: what was found for a caller is reused for all stacks above it, so that a stack costs one step
 * instead of its depth. For loops over the stacks of one process after another.
 *
 *	AUTO(owners_release) struct owners owners = { .locations = locations };
 *	const char *label = owners_label(&owners, process, node, result);
 */
#ifndef ANALYSIS_RESULT_OWNERS_H
#define ANALYSIS_RESULT_OWNERS_H

#include "analysis/result/locations.h"
#include "util/numbering.h"
#include "util/vector.h"

struct result;
struct stack_owners;

struct owners {
	struct locations *locations;
	const struct profile_process *process; /* of the last call */
	struct stack_owners *of;	       /* by node of that process */
	VECTOR(node_id) path;
	struct numbering labelled;   /* locations */
	VECTOR(const char *) labels; /* by number */
};
void owners_release(struct owners *owners);

/* Finds the owner and the informative frame of a stack, as locations_owner and locations_informative do. False if out of
 * memory. */
bool owners_find(struct owners *owners, const struct profile_process *process, node_id node,
		 struct owner_search *ret);

/* location_label of the stack's owner: the same pointer for the same location. NULL if out of memory. */
const char *owners_label(struct owners *owners, const struct profile_process *process, node_id node,
			 struct result *result);

#endif
