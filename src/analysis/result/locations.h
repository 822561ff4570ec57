/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolized frames, shared by all views of one profile or of several compared profiles.
 *
 * A location is one function at one address; each inlined call is a location of its own. Functions,
 * lines, files and modules have dense numbers, so views can sum into arrays; equal names have equal
 * numbers across processes and profiles. Not thread-safe.
 *
 * The owner of a stack is the frame to blame for it: the innermost one of the project's own code (model/frames/own_code.h), or else
 * of the installed package that the program is (entry.h); if there is none, the innermost informative one. Frames of libc, of the language's runtime and containers, and allocation
 * wrappers such as xmalloc are neither.
 */
#ifndef ANALYSIS_RESULT_PLACES_H
#define ANALYSIS_RESULT_PLACES_H

#include "analysis/result/result.h"
#include "analysis/result/vocabulary.h"
#include "model/frames/names.h"
#include "model/profile.h"

struct location {
	struct result_frame frame; /* frame.id is the location's number, counted from 0 */
	const char *arguments;	   /* see model/frames/names.h; NULL: none */
	struct span name; /* the function without its arguments; of a nameless frame, all of it */
	uint32_t function, line, file, module;
	uint32_t generic;      /* number of the function; all instances of a template are one */
	bool runtime_frame;    /* libc, runtimes, containers, wrappers with a known name */
	bool wrapper;	       /* of malloc, by its name, its source file or its shape */
	bool wrapper_name;     /* by its name */
	bool allocator_source; /* in a source file that is named for an allocator */
	bool own;	       /* the project's own code */
	bool home;     /* ... as part of the installed package that the program is: entry.h */
	bool nameless; /* a sentinel frame, or module+offset */
};

/* Sets what its names say: name, wrapper_name, allocator_source, runtime_frame, nameless. */
void location_classify(struct location *location);

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
/* From this call on frames only have names and numbers: nothing is said of whose code they are or of their part in the stack. For
 * exports that show all frames. */
void locations_only_name(struct locations *locations);

/* The locations of the stack's innermost frame. The first call for a process names the innermost functions of all its stacks, since
 * their callers say which are wrappers. Count 0 and `at` NULL only if out of memory or node is 0. */
struct location_chain locations_of(struct locations *locations,
				   const struct profile_process *process, node_id node);

/* All frames of a stack, innermost first, in the arena. -1 if out of memory. */
int locations_stack(struct locations *locations, const struct profile_process *process,
		    node_id node, struct arena *arena, struct location_chain *ret);

/* Finds the owner of a stack whose locations are visited from the outermost to the innermost. */
struct owner_search {
	const struct location *own, *informative, *any; /* the innermost of each */
};
void owner_visit(struct owner_search *search, const struct location *location);
/* The owner, and the innermost informative frame, whoever's code it is: the function that allocates. NULL: none. */
const struct location *owner_found(const struct owner_search *search);
const struct location *owner_informative(const struct owner_search *search);

/* Returns the owner of a stack; its innermost location if no frame qualifies; NULL for the empty stack. */
const struct location *locations_owner(struct location_chain stack);
/* Returns the innermost informative location; the innermost if there is none; NULL for the empty stack. */
const struct location *locations_informative(struct location_chain stack);
/* Returns what the owner called to allocate, if that is a wrapper or a library; NULL: it allocated itself. */
const struct location *locations_via(struct location_chain stack, const struct location *owner);

/* The location's number on an axis of frames. */
uint32_t location_key(const struct location *location, enum axis_id axis);
/* Returns any location with that number; its frame has the names. */
const struct location *locations_example(const struct locations *locations, enum axis_id axis,
					 uint32_t key);

#endif
