/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges sorted by start address: see ranges.h.
 *
 * Invariant once sorted: low ascends; among ranges with the same low the wider come first, and among
 * equal ones the lower ranks. So walking backwards from the last range that begins at or before an
 * address finds the innermost cover first. `reach` tells when no earlier range can cover it.
 */
#include "symbols/ranges.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "util/search.h"
#include "util/vector.h"

void ranges_release(struct ranges *ranges)
{
	vector_release(ranges);
	ranges->sorted = false;
}

bool ranges_add(struct ranges *ranges, uint64_t low, uint64_t high, uint32_t item, uint32_t rank)
{
	ASSERT(!ranges->sorted);
	if (low >= high)
		return true;
	return vector_push(
		ranges, ((struct range){ .low = low, .high = high, .item = item, .rank = rank }));
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	int order = compare_u64(a->low, b->low);

	if (!order)
		order = compare_u64(b->high, a->high);
	if (!order)
		order = compare_u64(a->rank, b->rank);
	/* qsort is not stable: comparing the item makes the order total and deterministic. */
	return order ? order : compare_u64(b->item, a->item);
}

void ranges_sort(struct ranges *ranges)
{
	uint64_t reach = 0;

	if (ranges->count)
		qsort(ranges->at, ranges->count, sizeof *ranges->at, compare_ranges);
	for (size_t i = 0; i < ranges->count; i++) {
		reach = MAX(reach, ranges->at[i].high);
		ranges->at[i].reach = reach;
	}
	ranges->sorted = true;
}

/* The number of ranges that begin at or before the address. */
static size_t begun_at(const struct ranges *ranges, uint64_t address)
{
	ASSERT(ranges->sorted || ranges->count == 0);
	return FIRST_WHERE(i, ranges->count, ranges->at[i].low > address);
}

const struct range *ranges_find(const struct ranges *ranges, uint64_t address)
{
	for (size_t i = begun_at(ranges, address); i-- > 0;) {
		const struct range *r = &ranges->at[i];

		if (r->reach <= address)
			return NULL;
		if (r->high > address)
			return r;
	}
	return NULL;
}

const struct range *ranges_find_highest(const struct ranges *ranges, uint64_t address)
{
	const struct range *best = NULL;

	for (size_t i = begun_at(ranges, address); i-- > 0;) {
		const struct range *r = &ranges->at[i];

		if (r->reach <= address)
			break;
		if (r->high > address && (!best || r->rank > best->rank))
			best = r;
	}
	return best;
}
