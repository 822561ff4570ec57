/* SPDX-License-Identifier: Apache-2.0 */
/* See library_frames.h. A caller has a smaller number than its callees: one pass goes inwards, one outwards. */
#include "analysis/query/library_frames.h"

#include <stdlib.h>

/* Where a stack has own code: in its innermost frame, in its callers, or in stacks that it leads to. */
enum { HAS_WEIGHT = 1, OWN_HERE = 2, OWN_OUTSIDE = 4, OWN_INSIDE = 8 };

bool location_is_own(const struct location *location)
{
	return location->own && !location->runtime_frame;
}

static bool some_is_own(struct location_chain chain, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (location_is_own(chain.at[i]))
			return true;
	return false;
}

/* Own code further in; returns -1 if out of memory, else whether there is any. */
static int look_inwards(uint8_t *marks, const struct stack_tree *s, struct locations *locations)
{
	bool some = false;

	for (uint32_t at = (uint32_t)s->process->node_count; at-- > 1;) {
		uint32_t parent = profile_parent(s->process, (node_id){ at }).v;

		if (!s->own[at].weight && !(marks[at] & HAS_WEIGHT))
			continue;
		struct location_chain chain = locations_of(locations, s->process, (node_id){ at });

		if (!chain.at)
			return -1;
		if (some_is_own(chain, 0, chain.count))
			marks[at] |= OWN_HERE;
		marks[parent] |= HAS_WEIGHT;
		if (marks[at] & (OWN_HERE | OWN_INSIDE))
			marks[parent] |= OWN_INSIDE;
		some |= (marks[at] & OWN_HERE) != 0;
	}
	return some;
}

int own_stacks_find(struct own_stacks *own, const struct stack_tree *s, struct locations *locations)
{
	*own = (struct own_stacks){ calloc(s->process->node_count + 1, sizeof *own->marks) };
	int found = own->marks ? look_inwards(own->marks, s, locations) : -1;

	if (found <= 0) {
		own_stacks_release(own);
		return found;
	}
	for (uint32_t at = 1; at < s->process->node_count; at++)
		if (own->marks[profile_parent(s->process, (node_id){ at }).v] &
		    (OWN_HERE | OWN_OUTSIDE))
			own->marks[at] |= OWN_OUTSIDE;
	return 0;
}

void own_stacks_release(struct own_stacks *own)
{
	free(own->marks);
	own->marks = NULL;
}

/* Sentinel frames say why a stack is not complete. */
static bool is_library(const struct own_stacks *own, const struct library_frame *f)
{
	const struct location *location = f->chain.at[f->at];

	return own->marks && !location_is_own(location) && location->frame.function[0] != '[';
}

bool library_frame_leads_in(const struct own_stacks *own, const struct library_frame *f)
{
	if (!is_library(own, f))
		return false;
	if (f->below_own && !f->parent_is_own)
		return true;
	/* What a frame allocates itself is not its parent's. */
	return !f->allocates &&
	       ((own->marks[f->stack] & OWN_INSIDE) || some_is_own(f->chain, 0, f->at));
}

bool library_frame_leads_out(const struct own_stacks *own, const struct library_frame *f)
{
	return is_library(own, f) && (f->below_own || (own->marks[f->stack] & OWN_OUTSIDE) ||
				      some_is_own(f->chain, f->at + 1, f->chain.count));
}
