/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames with their names, shared by all views of one profile, or of several that are compared.
 *
 * A location is one function at one address, inlined ones each for themselves. Functions, lines, files
 * and modules have dense numbers, so that views can add up in arrays; equal names have equal numbers
 * whichever process or profile they come from. One thread at a time.
 *
 * The owner of a stack is the innermost frame that says something: outside libc, the language's
 * runtime and its containers.
 */
#ifndef ANALYSIS_RESULT_PLACES_H
#define ANALYSIS_RESULT_PLACES_H

#include "analysis/result/result.h"
#include "analysis/result/vocabulary.h"
#include "model/names.h"
#include "model/profile.h"

struct location {
	struct result_frame frame; /* frame.id is the location's number, from 0 */
	const char *arguments;	   /* see model/names.h; NULL: none */
	uint32_t function, line, file, module;
	bool runtime_frame; /* libc, runtimes, containers */
	bool nameless;	    /* a mark, or module+offset */
};

/* Innermost first; at least one, except of the empty stack. */
struct location_chain {
	const struct location *const *at;
	size_t count;
};

struct locations;

/* `names` must outlive it. NULL if out of memory. */
struct locations *locations_new(struct names *names);
void locations_free(struct locations *locations);
struct names *locations_names(struct locations *locations);
/* From here on lines, files and modules are equal if their base names are, and functions if their names and modules
 * are: for comparing builds. */
void locations_match_by_base(struct locations *locations);

/* What is at the stack's innermost frame. Count 0 and at NULL only if out of memory or node is 0. */
struct location_chain locations_of(struct locations *locations,
				   const struct profile_process *process, node_id node);

/* All frames of a stack, innermost first, in the arena. -1 if out of memory. */
int locations_stack(struct locations *locations, const struct profile_process *process,
		    node_id node, struct arena *arena, struct location_chain *ret);

/* Whether it can be an owner; of several the innermost with a name is. */
bool location_can_own(const struct location *location);
/* The owner of a stack; its innermost location if none says anything; NULL for the empty stack. */
const struct location *locations_owner(struct location_chain stack);

/* The number of the location on an axis of frames. */
uint32_t location_key(const struct location *location, enum axis_id axis);
/* Some location with that number: its frame has the names. */
const struct location *locations_example(const struct locations *locations, enum axis_id axis,
					 uint32_t key);

#endif
