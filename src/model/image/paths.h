/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the program still reaches a site, in a recording with an image: the shortest path from a root to the block of the site that retains
 * most. And the types of its blocks, as far as they are C++ objects with virtual functions.
 */
#ifndef MODEL_IMAGE_PATHS_H
#define MODEL_IMAGE_PATHS_H

#include "format/reach.h"
#include "model/profile.h"
#include "util/arena.h"

#define PROFILE_NO_TYPE UINT32_MAX

/* Blocks that refer to one another in the same way. */
struct profile_path_step {
	const struct profile_site *site; /* NULL: not known, or of several */
	uint32_t type;			 /* PROFILE_NO_TYPE: unknown */
	bool has_offset;
	uint64_t offset; /* of the pointer to the next, in each of them */
	uint64_t blocks;
};
struct profile_path {
	uint32_t
		root; /* 1 + its number; 0: the site cannot be reached, or it is not known from where */
	enum reach_class root_class;
	bool is_named; /* the root */
	bool has_offset;
	uint64_t offset;     /* of the pointer in the root */
	size_t first, count; /* its steps */
};
struct profile_path profile_site_path(const struct profile_process *process, site_id site);
struct profile_path_step profile_path_step(const struct profile_process *process, size_t index);
/* A root of a path as "variable (module)", demangled, with its offset if it is known: "variable+0x10 (module)". In the arena; NULL: out of
 * memory. */
const char *profile_root_name(const struct profile_process *process,
			      const struct profile_path *path, bool with_offset,
			      struct arena *arena);

/* The roots that retain most, in that order: what would be freed if the root did not refer to it. Names as above. */
size_t profile_root_count(const struct profile_process *process);
uint64_t profile_root_retained_bytes(const struct profile_process *process, size_t index);
const char *profile_root_at(const struct profile_process *process, size_t index,
			    struct arena *arena);

/* Types are numbered from 0. */
size_t profile_type_count(const struct profile_process *process);
uint64_t profile_type_retained_bytes(const struct profile_process *process, uint32_t type);
/* Demangled; in the arena; NULL: out of memory. */
const char *profile_type_name(const struct profile_process *process, uint32_t type,
			      struct arena *arena);
/* The blocks of a site with a type. */
struct profile_site_type {
	uint32_t type;
	uint64_t blocks, bytes, unreachable_bytes;
};
/* The next one of the site; zero the cursor first. False at the end; a type may come more than once. */
struct profile_type_cursor {
	uint32_t part;
	size_t row;
};
bool profile_site_type_next(const struct profile_process *process, site_id site,
			    struct profile_type_cursor *at, struct profile_site_type *ret);

#endif
