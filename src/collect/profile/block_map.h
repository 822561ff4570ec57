/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The location of a process' recorded memory: its larger blocks, the mappings it made itself, and whether a range contains
 * small blocks. Read from the live profile in pieces, while the process runs. Small blocks are not listed, which would take as
 * long as copying the block map.
 */
#ifndef COLLECT_PROFILE_BLOCK_MAP_H
#define COLLECT_PROFILE_BLOCK_MAP_H

#include "collect/profile/live_profile.h"
#include "util/vector.h"

struct recorded_range {
	uint64_t start, end;
	uint64_t weight;   /* number of blocks it represents */
	uint32_t counters; /* of a mapping: its site counters */
};
/* A mebibyte that has contained small blocks at some time. */
struct small_window {
	uint64_t start;
	uint32_t leaf; /* its number; 0: none */
	uint32_t tiny; /* the table of tiny leaves of its 256 MiB; 0: none */
};

struct block_map {
	VECTOR(struct recorded_range)
	blocks; /* those of at least LIVE_SMALL_LIMIT bytes, and all samples; by address */
	VECTOR(struct recorded_range) maps;  /* by address */
	VECTOR(struct small_window) windows; /* by address */
	struct live_profile reader;
	uint64_t tiny_left; /* tiny leaves that may still be read */
	int pagemap;	    /* open if the profile is read from the process; else -1 */
};

/* False: it cannot be read, or out of memory. Release it in either case. */
bool block_map_read(const struct live_profile *profile, struct block_map *ret);
/* Only the mappings that the process made itself. */
bool block_map_read_mappings(const struct live_profile *profile, struct block_map *ret);
void block_map_release(struct block_map *map);

/* Returns true if a small block starts in [start, end) now, which are whole pages. */
bool block_map_has_small(struct block_map *map, uint64_t start, uint64_t end);

#endif
