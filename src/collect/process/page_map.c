/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the map of a process' resident memory. Regions are cut into tiles of one size, the smallest with which there are not too many;
 * empty ones have no row. What occupies them, blocks and mappings of the program, comes in one pass by address.
 *
 * Pure; any thread. Invariant: the tiles of a region add up to it, and regions with what is left out to the RSS.
 */
#include "collect/process/page_map.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

void page_map_release(struct page_map *map)
{
	vector_release(&map->regions);
	vector_release(&map->mapped);
}

static bool has_tiles(const struct region_row *r)
{
	return r->kind != REGION_FILES && r->kind != REGION_OWN;
}

static uint64_t region_end(const struct region_row *r)
{
	return r->start + r->size_bytes;
}

/* ---- regions ---- */

/* Heaps are shown one by one. */
static bool continues(const struct region_row *before, const struct region_row *r)
{
	return before->kind == r->kind && region_end(before) == r->start &&
	       r->kind != REGION_HEAP && r->kind != REGION_ARENA;
}

bool page_map_add(struct page_map *map, const struct pages_input *in, struct region_row r)
{
	struct region_row *last =
		map->regions.count ? &map->regions.at[map->regions.count - 1] : NULL;

	for (size_t i = has_tiles(&r) ? run_after(in, r.start) : in->runs->count;
	     i < in->runs->count && in->runs->at[i].start < region_end(&r); i++) {
		const struct page_run *run = &in->runs->at[i];
		uint64_t bytes = MIN(run->end, region_end(&r)) - MAX(run->start, r.start);

		r.resident_bytes += run->state & PAGE_RESIDENT ? bytes : 0;
		r.swapped_bytes +=
			!(run->state & PAGE_RESIDENT) && run->state & PAGE_SWAPPED ? bytes : 0;
	}
	if (r.resident_bytes + r.swapped_bytes == 0)
		return true;
	if (!last || !continues(last, &r))
		return vector_push(&map->regions, r);
	last->size_bytes += r.size_bytes;
	last->resident_bytes += r.resident_bytes;
	last->swapped_bytes += r.swapped_bytes;
	return true;
}

static int compare_resident(const void *left, const void *right)
{
	const struct region_row *a = left, *b = right;

	if (a->resident_bytes != b->resident_bytes)
		return a->resident_bytes < b->resident_bytes ? 1 : -1;
	return a->start < b->start ? -1 : 1;
}

static int compare_start(const void *left, const void *right)
{
	const struct region_row *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Leaves the largest regions; returns the resident bytes of the others. */
static uint64_t leave_largest(struct page_map *map)
{
	uint64_t left_out = 0;

	if (map->regions.count <= MAP_REGIONS_MAX)
		return 0;
	qsort(map->regions.at, map->regions.count, sizeof *map->regions.at, compare_resident);
	for (size_t i = MAP_REGIONS_MAX; i < map->regions.count; i++)
		left_out += map->regions.at[i].resident_bytes;
	map->regions.count = MAP_REGIONS_MAX;
	qsort(map->regions.at, map->regions.count, sizeof *map->regions.at, compare_start);
	return left_out;
}

/* ---- tiles ---- */

static bool is_shown(const struct page_run *run)
{
	return run->state & (PAGE_RESIDENT | PAGE_SWAPPED);
}

static size_t count_tiles(const struct pages_input *in, const struct region_row *r,
			  uint64_t tile_bytes)
{
	uint64_t next = 0; /* 1 + the last tile */
	size_t count = 0;

	for (size_t i = run_after(in, r->start);
	     i < in->runs->count && in->runs->at[i].start < region_end(r); i++) {
		const struct page_run *run = &in->runs->at[i];
		uint64_t first = MAX(run->start, r->start) / tile_bytes;
		uint64_t last = (MIN(run->end, region_end(r)) - 1) / tile_bytes;

		if (!is_shown(run))
			continue;
		count += last + 1 - MIN(MAX(first, next), last + 1);
		next = last + 1;
	}
	return count;
}

/* At least one page: then there are not more tiles than regions. */
static uint64_t choose_tile_bytes(const struct page_map *map, const struct pages_input *in,
				  size_t *ret_count)
{
	for (uint64_t bytes = in->page_bytes;; bytes *= 2) {
		*ret_count = 0;
		for (size_t i = 0; i < map->regions.count; i++)
			if (has_tiles(&map->regions.at[i]))
				*ret_count += count_tiles(in, &map->regions.at[i], bytes);
		if (*ret_count <= MAP_TILES_MAX)
			return bytes;
	}
}

struct drawing {
	const struct pages_input *in;
	struct page_map *map;
	struct pages_rows *ret;
	uint64_t tile_bytes;
	/* where the pass by address is */
	size_t run, region, tile;
	size_t region_tiles;	/* tiles of the regions before */
	uint64_t *site_bytes;	/* by site: used bytes of the current tile */
	VECTOR(uint32_t) sites; /* that have any */
	uint64_t aged_bytes, age_sum;
	bool failed;
};

/* Adds the pages of a run to the tiles of a region. */
static void add_pages(struct drawing *d, struct region_row *r, const struct page_run *run)
{
	uint64_t end = MIN(run->end, region_end(r));

	for (uint64_t at = MAX(run->start, r->start), next; at < end; at = next) {
		uint64_t floor = at & ~(d->tile_bytes - 1);
		struct tile_row *tile = &d->ret->tiles[d->ret->tile_count];

		next = MIN(end, floor + d->tile_bytes);
		if (r->tiles == 0 || tile[-1].start < floor) {
			*tile = (struct tile_row){ .start = MAX(floor, r->start),
						   .age_ms = BLOCK_AGE_UNKNOWN };
			d->ret->tile_count++;
			r->tiles++;
		} else {
			tile--;
		}
		*(run->state & PAGE_RESIDENT ? &tile->resident_bytes : &tile->swapped_bytes) +=
			next - at;
	}
}

static void add_tiles(struct drawing *d)
{
	for (size_t i = 0; i < d->map->regions.count; i++) {
		struct region_row *r = &d->map->regions.at[i];
		size_t run = has_tiles(r) ? run_after(d->in, r->start) : d->in->runs->count;

		for (; run < d->in->runs->count && d->in->runs->at[run].start < region_end(r);
		     run++)
			if (is_shown(&d->in->runs->at[run]))
				add_pages(d, r, &d->in->runs->at[run]);
	}
}

/* ---- what occupies them ---- */

/* Sets the site and the age of the current tile. */
static void end_tile(struct drawing *d)
{
	struct tile_row *tile = d->ret->tiles + d->tile;
	uint64_t most = 0;

	for (size_t i = 0; i < d->sites.count; i++) {
		uint32_t site = d->sites.at[i];

		if (d->site_bytes[site] > most) {
			most = d->site_bytes[site];
			tile->site = site;
		}
		d->site_bytes[site] = 0;
	}
	if (d->aged_bytes > 0)
		tile->age_ms = d->age_sum / d->aged_bytes;
	d->sites.count = 0;
	d->aged_bytes = d->age_sum = 0;
}

struct piece {
	uint64_t start, end;
	uint32_t site, age_ms;
};

/* Adds resident bytes to the tiles that they lie in; addresses ascend. */
static void add_used(struct drawing *d, const struct piece *p, uint64_t start, uint64_t end)
{
	const size_t region_count = d->map->regions.count;

	for (uint64_t at = start, next; at < end; at = next) {
		struct region_row *r = &d->map->regions.at[d->region];

		if (d->region == region_count)
			return;
		if (region_end(r) <= at) {
			d->region_tiles += r->tiles;
			d->region++;
			next = at;
			continue;
		}
		if (at < r->start || r->tiles == 0) {
			next = MIN(end, at < r->start ? r->start : region_end(r));
			continue;
		}
		size_t tile = MAX(d->tile, d->region_tiles);

		while (tile + 1 < d->region_tiles + r->tiles && d->ret->tiles[tile + 1].start <= at)
			tile++;
		if (tile != d->tile)
			end_tile(d);
		d->tile = tile;
		next = MIN(region_end(r), (at & ~(d->tile_bytes - 1)) + d->tile_bytes);
		next = MIN(next, end);
		d->ret->tiles[tile].used_bytes += next - at;
		r->used_bytes += next - at;
		if (d->site_bytes[p->site] == 0 && !vector_push(&d->sites, p->site))
			d->failed = true;
		d->site_bytes[p->site] += next - at;
		if (p->age_ms != BLOCK_AGE_UNKNOWN) {
			d->aged_bytes += next - at;
			d->age_sum =
				saturating_add(d->age_sum, saturating_mul(next - at, p->age_ms));
		}
	}
}

static void add_piece(struct drawing *d, const struct piece *p)
{
	const page_runs *runs = d->in->runs;

	while (d->run < runs->count && runs->at[d->run].end <= p->start)
		d->run++;
	for (size_t i = d->run; i < runs->count && runs->at[i].start < p->end; i++)
		if (runs->at[i].state & PAGE_RESIDENT)
			add_used(d, p, MAX(runs->at[i].start, p->start),
				 MIN(runs->at[i].end, p->end));
}

/* Neighbours that look the same are one piece. */
static bool continues_piece(const struct piece *before, const struct piece *p)
{
	return before->end == p->start && before->site == p->site && before->age_ms == p->age_ms;
}

/* Blocks and mappings of the program, by address. */
static void add_pieces(struct drawing *d)
{
	const struct live_blocks *blocks = d->in->blocks;
	struct piece last = { 0 };
	size_t i = 0, k = 0;

	while (i < blocks->list.count || k < d->map->mapped.count) {
		const struct live_block *b = &blocks->list.at[i];
		const struct mapped_pages *m = &d->map->mapped.at[k];
		struct piece piece;

		if (k == d->map->mapped.count ||
		    (i < blocks->list.count && b->address < m->start)) {
			struct extent e = block_extent(d->in, i++);

			piece = (struct piece){ e.start, e.end, b->site, b->age_ms };
		} else {
			piece = (struct piece){ m->start, m->end, m->site, BLOCK_AGE_UNKNOWN };
			k++;
		}
		if (continues_piece(&last, &piece)) {
			last.end = piece.end;
			continue;
		}
		add_piece(d, &last);
		last = piece;
	}
	add_piece(d, &last);
	if (d->ret->tile_count > 0)
		end_tile(d);
}

/* The number of blocks that begin below the address, with what they occupy. */
static size_t blocks_from_below(const struct pages_input *in, uint64_t address)
{
	size_t count = live_blocks_before(in->blocks, address);

	/* The head of a chunk is before its block. */
	while (count < in->blocks->list.count && block_extent(in, count).start < address)
		count++;
	return count;
}

/* Counts the blocks of each region; lists them if they are not too many. */
static bool add_blocks(struct drawing *d)
{
	size_t sum = 0;

	for (size_t k = 0; k < d->map->regions.count; k++) {
		struct region_row *r = &d->map->regions.at[k];

		r->blocks = blocks_from_below(d->in, region_end(r)) -
			    blocks_from_below(d->in, r->start);
		sum += r->blocks;
	}
	if (sum == 0 || sum > MAP_BLOCKS_MAX)
		return true;
	d->ret->blocks = calloc(sum, sizeof *d->ret->blocks);
	if (!d->ret->blocks)
		return false;
	for (size_t k = 0; k < d->map->regions.count; k++) {
		const struct region_row *r = &d->map->regions.at[k];
		size_t first = blocks_from_below(d->in, r->start);

		for (size_t i = first; i < first + r->blocks; i++) {
			const struct live_block *b = &d->in->blocks->list.at[i];
			struct extent e = block_extent(d->in, i);

			d->ret->blocks[d->ret->block_count++] =
				(struct map_block_row){ e.start, e.end - e.start, b->site,
							b->age_ms };
		}
	}
	return true;
}

static void drawing_release(struct drawing *d)
{
	free(d->site_bytes);
	vector_release(&d->sites);
}

bool page_map_build(struct page_map *map, const struct pages_input *in, struct pages_rows *ret)
{
	AUTO(drawing_release) struct drawing d = { .in = in, .map = map, .ret = ret };
	size_t tile_count;
	uint64_t left_out = leave_largest(map);

	d.tile_bytes = choose_tile_bytes(map, in, &tile_count);
	ret->map = calloc(1, sizeof *ret->map);
	ret->tiles = calloc(tile_count + 1, sizeof *ret->tiles);
	d.site_bytes = calloc((size_t)in->blocks->site_count + 1, sizeof *d.site_bytes);
	if (!ret->map || !ret->tiles || !d.site_bytes)
		return false;
	*ret->map = (struct page_map_row){ d.tile_bytes, left_out };
	ret->map_count = 1;
	add_tiles(&d);
	ASSERT(ret->tile_count == tile_count);
	add_pieces(&d);
	if (d.failed || !add_blocks(&d))
		return false;
	ret->regions = map->regions.at;
	ret->region_count = map->regions.count;
	map->regions.at = NULL;
	map->regions.count = 0;
	return true;
}
