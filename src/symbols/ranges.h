/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which item covers an address: a table of half-open ranges, filled in any order, sorted once, then
 * queried by binary search. Ranges may nest; the innermost wins.
 */
#ifndef SYMBOLS_RANGES_H
#define SYMBOLS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t low, high; /* [low, high) */
	uint64_t reach;	    /* the largest `high` so far: where a backward search may stop */
	uint32_t item;	    /* defined by the caller */
	uint32_t rank;	    /* among equal ranges the highest wins */
};

struct ranges {
	struct range *at;
	size_t count, capacity;
	bool sorted;
};

#define RANGES_INIT ((struct ranges){ 0 })

void ranges_release(struct ranges *ranges);
/* Empty ranges are ignored. False if out of memory. */
bool ranges_add(struct ranges *ranges, uint64_t low, uint64_t high, uint32_t item, uint32_t rank);
/* Must be called after the last add and before the first find. */
void ranges_sort(struct ranges *ranges);
/* The innermost range that covers the address, or NULL. */
const struct range *ranges_find(const struct ranges *ranges, uint64_t address);
/* The range with the highest rank of those that cover the address, or NULL. */
const struct range *ranges_find_highest(const struct ranges *ranges, uint64_t address);

#endif
