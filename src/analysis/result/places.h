/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames with their names, shared by all views of one profile, or of several that are compared.
 *
 * A place is one function at one address, inlined ones each for themselves. Functions, lines, files
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

struct place {
	struct result_frame frame; /* frame.id is the place's number, from 0 */
	const char *arguments;	   /* see model/names.h; NULL: none */
	uint32_t function, line, file, module;
	bool runtime_frame; /* libc, runtimes, containers */
	bool nameless;	    /* a mark, or module+offset */
};

/* Innermost first; at least one, except of the empty stack. */
struct place_chain {
	const struct place *const *at;
	size_t count;
};

struct places;

/* `names` must outlive it. NULL if out of memory. */
struct places *places_new(struct names *names);
void places_free(struct places *places);
struct names *places_names(struct places *places);
/* From here on lines, files and modules are equal if their base names are, and functions if their names and modules
 * are: for comparing builds. */
void places_match_by_base(struct places *places);

/* What is at the stack's innermost frame. Count 0 and at NULL only if out of memory or node is 0. */
struct place_chain places_of(struct places *places, const struct profile_process *process,
			     node_id node);

/* All frames of a stack, innermost first, in the arena. -1 if out of memory. */
int places_stack(struct places *places, const struct profile_process *process, node_id node,
		 struct arena *arena, struct place_chain *ret);

/* Whether it can be an owner; of several the innermost with a name is. */
bool place_can_own(const struct place *place);
/* The owner of a stack; its innermost place if none says anything; NULL for the empty stack. */
const struct place *places_owner(struct place_chain stack);

/* The number of the place on an axis of frames. */
uint32_t place_key(const struct place *place, enum axis_id axis);
/* Some place with that number: its frame has the names. */
const struct place *places_example(const struct places *places, enum axis_id axis, uint32_t key);

#endif
