/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All live blocks of a profile by address, for analyses of what lies where. block_map.h lists only the larger ones, and reads
 * them in pieces; this reads a copy of the whole block map (PROFILE_COPY_ALL), or a mapped profile while it is written.
 *
 * Memory: sizeof(struct live_block) = 24 bytes for each block, up to half as much again while the list grows, and one byte for
 * each leaf of the map. Samples are not listed: a sampled block says nothing about its neighbours.
 */
#ifndef COLLECT_PROFILE_BLOCKS_H
#define COLLECT_PROFILE_BLOCKS_H

#include "format/live/live.h"
#include "util/error.h"
#include "util/vector.h"

#define BLOCK_AGE_UNKNOWN UINT32_MAX

struct live_block {
	uint64_t address;
	uint64_t size_bytes; /* requested; may be 0 */
	uint32_t site;	     /* as in LIVE_SITES; never 0 */
	uint32_t age_ms;     /* at now_ms, at most 49 days */
};
_Static_assert(sizeof(struct live_block) == 24, "the memory of a list");

struct live_blocks {
	VECTOR(struct live_block)
	list;		  /* by address; no two have the same, and none reaches into the next */
	uint64_t dropped; /* entries whose site is unknown, or with the address of another */
	uint64_t
		cut; /* blocks that reached into the next one: the free of one of the two was missed */
	uint32_t site_count;
	bool has_parents; /* there are others, from before a fork; set by who knows */
};

/* now_ms: the clock of the profile. -1 with error set: not a profile, or out of memory, or more than 2^32 - 1 blocks. Release it
 * in either case. */
int live_blocks_read(const void *memory, uint64_t mapped_bytes, uint64_t now_ms,
		     struct live_blocks *ret, struct error *error);

/* Leaves the blocks that a later state of the profile has, too, with the same size, site and age; now_ms must be that of the list.
 * *ret_changed: how many only one of the two has. -1 with error set: as above, and the list is of no use. */
int live_blocks_leave_same(struct live_blocks *blocks, const void *memory, uint64_t mapped_bytes,
			   uint64_t now_ms, uint64_t *ret_changed, struct error *error);
void live_blocks_release(struct live_blocks *blocks);

/* The number of blocks that start below the address: the index of the first one at or after it. */
size_t live_blocks_before(const struct live_blocks *blocks, uint64_t address);

/* The bytes that glibc gives for a request outside of a mapping of its own: the least; a block that could not be split off may
 * have 16 more. */
static inline uint64_t block_glibc_usable_bytes(uint64_t size_bytes)
{
	return size_bytes <= 24 ? 24 : ((size_bytes + 7) & ~UINT64_C(15)) + 8;
}

#endif
