/* SPDX-License-Identifier: Apache-2.0 */
/* Where the resident memory of a process was when its pages were read: regions by address, their tiles, and their blocks. */
#ifndef MODEL_MEMORY_PAGE_MAP_H
#define MODEL_MEMORY_PAGE_MAP_H

#include "model/profile.h"

struct profile_map {
	uint64_t tile_bytes;
	uint64_t left_out_bytes; /* resident, of regions that are not listed */
	size_t region_count;
	uint64_t blocks;   /* in all regions */
	bool knows_blocks; /* false: there were too many to list */
};

struct map_region {
	const char *kind; /* "heap", "arena", ... */
	uint64_t start, size_bytes;
	uint64_t resident_bytes, swapped_bytes;
	uint64_t used_bytes; /* resident and in blocks, or in mappings of the program */
	uint64_t blocks;
	uint32_t site; /* the one that leads the most used bytes of tiles; 0: none */
	/* Its parts: numbers for profile_map_tile and profile_map_block. */
	size_t first_tile, tiles, first_block;
};

struct map_tile {
	uint64_t start, resident_bytes, swapped_bytes, used_bytes;
	uint32_t site;	/* with the most used bytes; 0: none */
	int64_t age_ms; /* of blocks on average; -1: none */
};
struct map_block {
	uint64_t start, size_bytes;
	uint32_t site;
	int64_t age_ms; /* -1: unknown */
};

/* False: there is no map of this process. */
bool profile_map(const struct profile_process *process, struct profile_map *ret);
/* Fills the region_count regions. False: out of memory. */
bool profile_map_regions(const struct profile_process *process, struct map_region *ret);
struct map_tile profile_map_tile(const struct profile_process *process, size_t index);
/* Pre: knows_blocks. */
struct map_block profile_map_block(const struct profile_process *process, size_t index);

#endif
