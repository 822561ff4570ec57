/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See live_leaves.h. Owns a byte for each area, unit and tiny leaf that says whether it was returned. Invariant: what is returned lies
 * within what was published when the walk began.
 */
#include "format/live/live_leaves.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { UNIT_PAGES = LIVE_LEAF_UNIT / LIVE_PAGE };

bool live_leaves_init(struct live_leaves *l, const struct live_view *view)
{
	*l = (struct live_leaves){
		.view = view,
		.area_count = live_view_used(view, LIVE_AREAS),
		.leaf_count = live_view_used(view, LIVE_LEAVES),
		.era_unit_count = live_view_used(view, LIVE_LEAF_ERAS),
		.era_count = live_view_used(view, LIVE_ERAS),
		.granule_shift = LIVE_LOAD(view->header->granule_shift),
	};
	l->seen_area = calloc(l->area_count + 1, 1);
	l->seen_leaf = calloc(l->leaf_count + 1, 1);
	l->seen_page = calloc(l->leaf_count + 1, UNIT_PAGES);
	return l->seen_area && l->seen_leaf && l->seen_page;
}

void live_leaves_release(struct live_leaves *l)
{
	free(l->seen_area);
	free(l->seen_leaf);
	free(l->seen_page);
}

bool live_leaves_has_granules(const struct live_leaves *l)
{
	return l->granule_shift >= LIVE_TINY_GRANULE_SHIFT &&
	       l->granule_shift <= LIVE_LEAVES_GRANULE_MAX;
}

const struct live_area *live_leaves_area(struct live_leaves *l, uint32_t number)
{
	if (number == 0 || number > l->area_count || l->seen_area[number - 1])
		return NULL;
	l->seen_area[number - 1] = 1;
	return (const struct live_area *)live_view_at(l->view, LIVE_AREAS) + (number - 1);
}

static const void *unit_at(const struct live_leaves *l, size_t index)
{
	return (const char *)live_view_at(l->view, LIVE_LEAVES) + index * LIVE_LEAF_UNIT;
}

const void *live_leaves_leaf(struct live_leaves *l, uint32_t number, size_t bytes)
{
	size_t units = (bytes + LIVE_LEAF_UNIT - 1) / LIVE_LEAF_UNIT;

	if (number == 0 || !range_within(number - 1, units, l->leaf_count) ||
	    memchr(l->seen_leaf + number - 1, 1, units))
		return NULL;
	memset(l->seen_leaf + number - 1, 1, units);
	return unit_at(l, number - 1);
}

const uint64_t *live_leaves_page(struct live_leaves *l, uint32_t number)
{
	if (number == 0 || (number - 1) / UNIT_PAGES >= l->leaf_count || l->seen_page[number - 1])
		return NULL;
	l->seen_page[number - 1] = 1;
	return (const uint64_t *)(const void *)((const char *)unit_at(l, 0) +
						(size_t)(number - 1) * LIVE_PAGE);
}

struct live_eras live_leaves_eras(const struct live_leaves *l, const uint64_t *words)
{
	size_t offset = (size_t)((const char *)words - (const char *)unit_at(l, 0));
	size_t unit = offset / LIVE_LEAF_UNIT;
	const uint32_t *units = live_view_at(l->view, LIVE_LEAF_ERAS);
	const uint16_t *eras = live_view_at(l->view, LIVE_ERAS);
	uint32_t number = unit < l->era_unit_count ? LIVE_LOAD(units[unit]) : 0;

	if (number == 0 || number > l->era_count)
		return (struct live_eras){ NULL, number == 0 };
	return (struct live_eras){ eras + (size_t)(number - 1) * (LIVE_ERA_UNIT / sizeof *eras) +
					   offset % LIVE_LEAF_UNIT / sizeof *words,
				   true };
}
