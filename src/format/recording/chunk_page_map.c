/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the resident memory was: regions, their tiles, and their blocks. The reader accepts only maps that add up, so that nobody after it
 * has to check bounds: counts are limited, addresses ascend and stay in their region, sums are those of the tiles. Pure functions; any
 * thread.
 */
#include "base/checked.h"
#include "format/recording/chunks.h"

#define MAP_SHAPE U64_SHAPE(struct page_map_row, sizeof(struct page_map_row))
#define REGION_SHAPE U64_SHAPE(struct region_row, sizeof(struct region_row))
#define TILE_SHAPE U64_SHAPE(struct tile_row, sizeof(struct tile_row))
#define BLOCK_SHAPE U64_SHAPE(struct map_block_row, sizeof(struct map_block_row))

enum { TILE_LEAST = 4096 };

/* doc: chunk_page_map */
void chunk_page_map_put(struct payload *out, const struct process_rows *rows)
{
	const struct pages_rows *pages = &rows->pages;

	table_put(out, MAP_SHAPE, pages->map, pages->map_count);
	table_put(out, REGION_SHAPE, pages->regions, pages->region_count);
	table_put(out, TILE_SHAPE, pages->tiles, pages->tile_count);
	table_put(out, BLOCK_SHAPE, pages->blocks, pages->block_count);
}

static bool is_map(const struct page_map_row *map, size_t count)
{
	return count == 1 && map->tile_bytes >= TILE_LEAST &&
	       (map->tile_bytes & (map->tile_bytes - 1)) == 0;
}

/* Whether the numbers of a region are possible by themselves. */
static bool is_region(const struct region_row *r, uint64_t after)
{
	uint64_t end, pages;

	return r->size_bytes > 0 && r->start >= after &&
	       !__builtin_add_overflow(r->start, r->size_bytes, &end) &&
	       !__builtin_add_overflow(r->resident_bytes, r->swapped_bytes, &pages) &&
	       pages <= r->size_bytes && r->used_bytes <= r->resident_bytes;
}

static bool is_tile(const struct tile_row *c, const struct region_row *r, uint64_t tile_bytes,
		    size_t site_count)
{
	uint64_t pages;

	return c->start >= r->start && c->start - r->start < r->size_bytes &&
	       (c->start == r->start || c->start % tile_bytes == 0) &&
	       !__builtin_add_overflow(c->resident_bytes, c->swapped_bytes, &pages) &&
	       pages <= tile_bytes && c->used_bytes <= c->resident_bytes && c->site < site_count &&
	       c->age_ms <= UINT32_MAX;
}

/* Checks the tiles of a region from `first` on; they exist. */
static bool are_tiles(const struct pages_rows *pages, const struct region_row *r, size_t first,
		      size_t site_count)
{
	uint64_t resident = 0, swapped = 0, used = 0;

	for (size_t i = first; i < first + r->tiles; i++) {
		const struct tile_row *c = &pages->tiles[i];

		if (!is_tile(c, r, pages->map->tile_bytes, site_count) ||
		    (i > first && c->start <= c[-1].start))
			return false;
		/* No overflow: at most MAP_TILES_MAX tiles, each within a region of the address space. */
		resident = saturating_add(resident, c->resident_bytes);
		swapped = saturating_add(swapped, c->swapped_bytes);
		used = saturating_add(used, c->used_bytes);
	}
	return r->tiles == 0 || (resident == r->resident_bytes && swapped == r->swapped_bytes &&
				 used == r->used_bytes);
}

static bool are_regions(struct pages_rows *pages, size_t site_count)
{
	uint64_t after = 0, blocks = 0;
	size_t tiles = 0;

	if (pages->region_count > MAP_REGIONS_MAX || pages->tile_count > MAP_TILES_MAX)
		return false;
	for (size_t i = 0; i < pages->region_count; i++) {
		struct region_row *r = &pages->regions[i];

		if (!is_region(r, after) || r->tiles > pages->tile_count - tiles ||
		    !are_tiles(pages, r, tiles, site_count))
			return false;
		if (r->kind >= REGION_KINDS)
			r->kind = REGION_OTHER;
		tiles += r->tiles;
		blocks = saturating_add(blocks, r->blocks);
		after = r->start + r->size_bytes;
	}
	return tiles == pages->tile_count &&
	       (pages->block_count == 0 || blocks == pages->block_count);
}

/* Blocks lie in their regions by number, and in order. */
static bool are_blocks(const struct pages_rows *pages, size_t site_count)
{
	const struct map_block_row *b = pages->blocks;

	if (pages->block_count == 0)
		return true;
	if (pages->block_count > MAP_BLOCKS_MAX)
		return false;
	for (size_t i = 0; i < pages->region_count; i++) {
		const struct region_row *r = &pages->regions[i];
		uint64_t after = r->start, end;

		for (uint64_t k = 0; k < r->blocks; k++, b++) {
			if (b->start < after || b->start - r->start >= r->size_bytes ||
			    b->site == 0 || b->site >= site_count || b->age_ms > UINT32_MAX ||
			    __builtin_add_overflow(b->start, b->size_bytes, &end))
				return false;
			after = end;
		}
	}
	return true;
}

void chunk_page_map_get(struct source *in, struct process_rows *rows)
{
	struct pages_rows *pages = &rows->pages;

	pages->map = table_get(in, MAP_SHAPE, &pages->map_count);
	pages->regions = table_get(in, REGION_SHAPE, &pages->region_count);
	pages->tiles = table_get(in, TILE_SHAPE, &pages->tile_count);
	pages->blocks = table_get(in, BLOCK_SHAPE, &pages->block_count);
	if (!in->cursor.failed && is_map(pages->map, pages->map_count) &&
	    are_regions(pages, rows->site_count) && are_blocks(pages, rows->site_count))
		return;
	cursor_fail(&in->cursor);
}
