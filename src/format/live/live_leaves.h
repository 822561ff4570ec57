/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block map of a live profile: its areas, leaves and tiny leaves, by the numbers that refer to them (docs/format.md).
 *
 * The map is untrusted memory that may be written to concurrently: each area, each unit of a leaf and each tiny leaf is returned at most
 * once, however often it is referenced, so that the work of a walk is bounded by the size of the memory. One thread.
 */
#ifndef FORMAT_LIVE_LIVE_LEAVES_H
#define FORMAT_LIVE_LIVE_LEAVES_H

#include "format/live/live_view.h"

enum {
	LIVE_LEAVES_GRANULE_MAX = 12
}; /* shift; from 8 bytes to a page: a recorder writes no other value */

struct live_leaves {
	const struct live_view *view;
	size_t area_count, leaf_count, era_unit_count,
		era_count; /* published when the walk began */
	unsigned granule_shift;
	uint8_t *seen_area, *seen_leaf, *seen_page; /* one byte per entry */
};

/* False: out of memory. Release it in either case. The view must outlive it. */
bool live_leaves_init(struct live_leaves *leaves, const struct live_view *view);
void live_leaves_release(struct live_leaves *leaves);

/* Whether words of small leaves can be understood. */
bool live_leaves_has_granules(const struct live_leaves *leaves);

/* NULL: it is not published, or was returned before. */
const struct live_area *live_leaves_area(struct live_leaves *leaves, uint32_t number);
/* Of a leaf with so many bytes, all units must be. */
const void *live_leaves_leaf(struct live_leaves *leaves, uint32_t number, size_t bytes);
/* A tiny leaf: a page of a published unit. */
const uint64_t *live_leaves_page(struct live_leaves *leaves, uint32_t number);

/* The eras of words of one unit of a leaf. */
struct live_eras {
	const uint16_t *at; /* as many as words; NULL: all are 0 */
	bool known;	    /* false: created after the walk began */
};
struct live_eras live_leaves_eras(const struct live_leaves *leaves, const uint64_t *words);

/* When the block of a word was allocated. */
static inline uint64_t live_eras_birth(const struct live_eras *eras, size_t index, uint64_t word)
{
	if (!eras->known)
		return LIVE_BIRTH_UNKNOWN;
	return live_birth(eras->at ? LIVE_LOAD(eras->at[index]) : 0, live_small_birth(word));
}

#endif
