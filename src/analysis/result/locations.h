/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolized frames, shared by all views of one profile or of several compared profiles.
 *
 * A location is one function at one address; each inlined call is a location of its own. Functions,
 * lines, files and modules have dense numbers, so views can sum into arrays; equal names have equal
 * numbers across processes and profiles. Not thread-safe.
 *
 * The owner of a stack is the innermost informative frame: one outside libc, the language runtime and
 * its containers.
 */
#ifndef ANALYSIS_RESULT_PLACES_H
#define ANALYSIS_RESULT_PLACES_H

#include "analysis/result/result.h"
#include "analysis/result/vocabulary.h"
#include "model/names.h"
#include "model/profile.h"

struct location {
	struct result_frame frame; /* frame.id is the location's number, counted from 0 */
	const char *arguments;	   /* see model/names.h; NULL: none */
	uint32_t function, line, file, module;
	bool runtime_frame; /* libc, runtimes, containers */
	bool nameless;	    /* a sentinel frame, or module+offset */
};

/* Innermost first; never empty, except for the empty stack. */
struct location_chain {
	const struct location *const *at;
	size_t count;
};

struct locations;

/* `names` must outlive it. NULL if out of memory. */
struct locations *locations_new(struct names *names);
void locations_free(struct locations *locations);
struct names *locations_names(struct locations *locations);
/* From this call on, lines, files and modules are equal if their base names are, and functions if their names and
 * modules are. For comparing builds. */
void locations_match_by_base(struct locations *locations);

/* The locations of the stack's innermost frame. Count 0 and `at` NULL only if out of memory or node is 0. */
struct location_chain locations_of(struct locations *locations,
				   const struct profile_process *process, node_id node);

/* All frames of a stack, innermost first, in the arena. -1 if out of memory. */
int locations_stack(struct locations *locations, const struct profile_process *process,
		    node_id node, struct arena *arena, struct location_chain *ret);

/* Whether the location can own a stack; the owner is the innermost one with a name. */
bool location_can_own(const struct location *location);
/* Returns the owner of a stack; its innermost location if no frame qualifies; NULL for the empty stack. */
const struct location *locations_owner(struct location_chain stack);

/* The location's number on an axis of frames. */
uint32_t location_key(const struct location *location, enum axis_id axis);
/* Returns any location with that number; its frame has the names. */
const struct location *locations_example(const struct locations *locations, enum axis_id axis,
					 uint32_t key);

#endif
