/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the rows of chunk_page_map to regions, tiles and blocks. The decoder has checked that they add up and stay in their bounds. Sites
 * that are merged are one here too. Pure.
 */
#include "model/memory/page_map.h"

#include <stdlib.h>

#include "base/checked.h"
#include "format/recording/rows.h"
#include "model/same_sites.h"
#include "util/cleanup.h"

static const char *const kinds[REGION_KINDS] = {
	[REGION_HEAP] = "heap",	    [REGION_ARENA] = "arena",	[REGION_MAPPED] = "mapped",
	[REGION_OTHER] = "other",   [REGION_STATIC] = "static", [REGION_STACK] = "stack",
	[REGION_SHARED] = "shared", [REGION_FILES] = "files",	[REGION_OWN] = "recorder",
};

bool profile_map(const struct profile_process *p, struct profile_map *ret)
{
	const struct pages_rows *pages = &p->rows->pages;

	*ret = (struct profile_map){ 0 };
	if (pages->map_count == 0)
		return false;
	*ret = (struct profile_map){ .tile_bytes = pages->map->tile_bytes,
				     .left_out_bytes = pages->map->left_out_bytes,
				     .region_count = pages->region_count };
	for (size_t i = 0; i < pages->region_count; i++)
		ret->blocks = saturating_add(ret->blocks, pages->regions[i].blocks);
	ret->knows_blocks = ret->blocks == pages->block_count;
	return true;
}

static uint32_t shown_site(const struct profile_process *p, uint64_t site)
{
	return site ? same_site(p, (uint32_t)site) : 0;
}

static int64_t shown_age(uint64_t age_ms)
{
	return age_ms == UINT32_MAX ? -1 : (int64_t)age_ms;
}

/* The site with the most used bytes in tiles that it leads. `bytes` is zero by site, and is so again. */
static uint32_t main_site(const struct profile_process *p, const struct map_region *r,
			  uint64_t *bytes)
{
	uint32_t best = 0;

	for (size_t i = 0; i < r->tiles; i++) {
		struct map_tile tile = profile_map_tile(p, r->first_tile + i);

		bytes[tile.site] = saturating_add(bytes[tile.site], tile.used_bytes);
		if (tile.site && (!best || bytes[tile.site] > bytes[best]))
			best = tile.site;
	}
	for (size_t i = 0; i < r->tiles; i++)
		bytes[profile_map_tile(p, r->first_tile + i).site] = 0;
	return best;
}

bool profile_map_regions(const struct profile_process *p, struct map_region *ret)
{
	const struct pages_rows *pages = &p->rows->pages;
	AUTO_FREE uint64_t *bytes = calloc(p->rows->site_count + 1, sizeof *bytes);
	size_t tiles = 0, blocks = 0;

	if (!bytes)
		return false;
	for (size_t i = 0; i < pages->region_count; i++) {
		const struct region_row *row = &pages->regions[i];

		ret[i] = (struct map_region){ .kind = kinds[row->kind],
					      .start = row->start,
					      .size_bytes = row->size_bytes,
					      .resident_bytes = row->resident_bytes,
					      .swapped_bytes = row->swapped_bytes,
					      .used_bytes = row->used_bytes,
					      .blocks = row->blocks,
					      .first_tile = tiles,
					      .tiles = row->tiles,
					      .first_block = blocks };
		ret[i].site = main_site(p, &ret[i], bytes);
		tiles += row->tiles;
		blocks += pages->block_count ? row->blocks : 0;
	}
	return true;
}

struct map_tile profile_map_tile(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->pages.tile_count);
	const struct tile_row *row = &p->rows->pages.tiles[index];

	return (struct map_tile){
		row->start,	 row->resident_bytes,	   row->swapped_bytes,
		row->used_bytes, shown_site(p, row->site), shown_age(row->age_ms)
	};
}

struct map_block profile_map_block(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->pages.block_count);
	const struct map_block_row *row = &p->rows->pages.blocks[index];

	return (struct map_block){ row->start, row->size_bytes, shown_site(p, row->site),
				   shown_age(row->age_ms) };
}
