/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the block that an address points into: a table of the pages that have small blocks, and binary search among the few large ones.
 * Nearly every word of a heap is compared with the limits, few are addresses. Those lead anywhere, so a lookup has two halves: while the
 * first half of other lookups is done, the memory that the second one needs arrives.
 */
#ifndef COLLECT_IMAGE_BLOCK_INDEX_H
#define COLLECT_IMAGE_BLOCK_INDEX_H

#include <stdbool.h>

#include "collect/image/graph.h"
#include "collect/profile/blocks.h"

struct block_index {
	const struct live_block *blocks; /* by address; not owned */
	size_t count;
	uint64_t low, high; /* all blocks are in [low, high) */
	struct block_group *groups;
	size_t mask;
	uint32_t *large; /* ascending */
	size_t large_count;
};

/* The blocks must outlive it. False: out of memory. Release it in either case. */
bool block_index_make(const struct live_blocks *blocks, struct block_index *ret);
void block_index_release(struct block_index *index);

/* Whether the address can be one of a block. */
static inline bool block_index_covers(const struct block_index *index, uint64_t address)
{
	return address - index->low < index->high - index->low;
}

/* The blocks among which the one with the address is, and which it probably is. */
struct block_guess {
	uint32_t first, last, probable;
};
/* The first half; prefetches the probable block. Pre: the index covers the address. */
struct block_guess block_index_guess(const struct block_index *index, uint64_t address);
/* The second half; the same as block_index_find. */
uint32_t block_index_settle(const struct block_index *index, uint64_t address,
			    struct block_guess guess);

/* The block with the address in its requested bytes, as an edge of a graph; GRAPH_NONE: none. A block of 0 bytes has its address. */
uint32_t block_index_find(const struct block_index *index, uint64_t address);

static inline uint64_t block_end(const struct live_block *block)
{
	return block->address + (block->size_bytes ? block->size_bytes : 1);
}

#endif
