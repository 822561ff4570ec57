/* SPDX-License-Identifier: Apache-2.0 */
/* Shortest paths from roots to single blocks, with the places of the pointers, which are looked for again only for these. */
#ifndef COLLECT_IMAGE_PATHS_H
#define COLLECT_IMAGE_PATHS_H

#include "collect/image/references.h"

#define PATH_NO_OFFSET UINT64_MAX

/* One reference. */
struct path_step {
	uint32_t from;	 /* a node of the graph; GRAPH_NONE: steps that are left out */
	uint32_t to;	 /* a block; or how many are left out */
	uint64_t offset; /* of the pointer in `from`; PATH_NO_OFFSET: not known, as of registers */
	bool at_start;	 /* the pointer is to the start of the block */
};
struct path {
	size_t first, count; /* steps, from the root on; the first is from the root itself */
	uint32_t root;	     /* a root group; GRAPH_NONE: it is not reachable, or not known */
};
struct paths {
	const struct references *references;
	const struct graph_reach *reach;
	uint64_t walked; /* in all of them */
	VECTOR(struct path_step) steps;
	VECTOR(struct path) list;
};

/* The root group at the start of the path to a block; GRAPH_NONE as above. */
uint32_t paths_root(struct paths *paths, uint32_t block);
/* Appends the path to a block, without offsets. Only its both ends are kept of a long one. False: out of memory. */
bool paths_add(struct paths *paths, uint32_t block);
/* Finds the offsets of all steps. Reads no memory twice. False: out of memory. */
bool paths_find_offsets(struct paths *paths, struct scanner *scanner,
			const struct live_blocks *blocks);
void paths_release(struct paths *paths);

#endif
