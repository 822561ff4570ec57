/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Pages divided among sites: a few pages laid out by hand, and a thousand layouts whose parts must add up. */
#include "collect/process/page_map.h"
#include "collect/process/pages.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "unit.h"

enum { PAGE = 4096, SITES = 5 };
#define BASE (UINT64_C(64) << 30)

struct layout {
	struct live_blocks blocks;
	page_runs runs;
	struct smaps smaps;
	struct recorded_range maps[4];
	size_t map_count;
	uint64_t life_ms[SITES];
	bool is_glibc;
};

static void add_block(struct layout *l, uint64_t address, uint64_t bytes, uint32_t site,
		      uint32_t age)
{
	struct live_block block = { address, bytes, site, age };

	assert_true(vector_push(&l->blocks.list, block));
}

static void add_run(struct layout *l, uint64_t first, uint64_t pages, uint64_t state)
{
	struct page_run run = { BASE + first * PAGE, BASE + (first + pages) * PAGE, state };

	assert_true(vector_push(&l->runs, run));
}

static void add_mapping(struct layout *l, uint64_t first, uint64_t pages, enum mapping_kind kind)
{
	struct mapping m = { BASE + first * PAGE, BASE + (first + pages) * PAGE, kind, 0, 0 };

	assert_true(vector_push(&l->smaps.list, m));
}

static bool odd_pages_are_zero(void *context, uint64_t page)
{
	(void)context;
	return page / PAGE % 2;
}

static struct pages_input input_of(const struct layout *l)
{
	return (struct pages_input){ .blocks = &l->blocks,
				     .runs = &l->runs,
				     .smaps = &l->smaps,
				     .maps = l->maps,
				     .map_count = l->map_count,
				     .life_ms = l->life_ms,
				     .is_glibc = l->is_glibc,
				     .usable = l->is_glibc ? usable_size_of("glibc") : NULL,
				     .page_bytes = PAGE,
				     .is_zero = odd_pages_are_zero };
}

static void measure(struct layout *l, struct pages_rows *ret)
{
	l->blocks.site_count = SITES;
	const struct pages_input input = input_of(l);

	assert_true(pages_measure(&input, ret));
}

static void layout_release(struct layout *l)
{
	live_blocks_release(&l->blocks);
	vector_release(&l->runs);
	smaps_release(&l->smaps);
}

static const struct site_pages_row *row_of(const struct pages_rows *rows, uint64_t site)
{
	for (size_t i = 0; i < rows->site_count; i++)
		if (rows->sites[i].site == site)
			return &rows->sites[i];
	fail_msg("site %u has no row", (unsigned)site);
	return NULL;
}

static void a_page_is_shared_by_bytes_and_its_waste_charged_to_the_longest_lived(void **state)
{
	struct layout l = { .life_ms = { 0, 10, 10, UINT64_MAX, 5 } };
	struct pages_rows rows;

	(void)state;
	/* page 0: 1000 bytes of site 1, 3000 of site 2, of the same life; page 1: site 3 alone, untouched behind; page 4: none */
	add_block(&l, BASE, 1000, 1, 50);
	add_block(&l, BASE + 1000, 3000, 2, 40);
	add_block(&l, BASE + PAGE + 96, PAGE, 3, 7);
	add_block(&l, BASE + 3 * PAGE, 2 * PAGE, 4, 7);
	add_run(&l, 0, 2, PAGE_RESIDENT);
	add_run(&l, 3, 1, PAGE_RESIDENT | PAGE_HUGE);
	add_run(&l, 4, 1, PAGE_SWAPPED);
	add_run(&l, 5, 1, PAGE_RESIDENT);
	add_mapping(&l, 0, 8, MAPPING_ANONYMOUS);
	measure(&l, &rows);
	assert_int_equal(row_of(&rows, 1)->resident_bytes, 1024);
	assert_int_equal(row_of(&rows, 2)->resident_bytes, 3072);
	assert_int_equal(row_of(&rows, 1)->pinned_bytes, 96); /* the older one */
	assert_int_equal(row_of(&rows, 2)->pinned_bytes, 0);
	assert_int_equal(row_of(&rows, 1)->sole_bytes, 0);
	assert_int_equal(row_of(&rows, 1)->any_bytes, PAGE);
	assert_int_equal(row_of(&rows, 3)->resident_bytes, PAGE);
	assert_int_equal(row_of(&rows, 3)->sole_bytes, PAGE);
	assert_int_equal(row_of(&rows, 3)->pinned_bytes, 96);
	assert_int_equal(row_of(&rows, 3)->untouched_bytes, 96);
	assert_int_equal(row_of(&rows, 3)->zero_bytes, PAGE - 96); /* page 1 */
	assert_int_equal(row_of(&rows, 4)->resident_bytes, PAGE);
	assert_int_equal(row_of(&rows, 4)->huge_bytes, PAGE);
	assert_int_equal(row_of(&rows, 4)->swapped_bytes, PAGE);
	assert_int_equal(rows.sums->sites_bytes, 3 * PAGE);
	assert_int_equal(rows.sums->free_bytes, PAGE);
	assert_int_equal(rows.sums->rss_bytes, 4 * PAGE);
	assert_int_equal(rows.sums->waste_bytes, 192);
	pages_rows_release(&rows);
	layout_release(&l);
}

/* A chunk of glibc has its size before the block, and what it gives beyond the request is no waste. */
static void blocks_of_glibc_are_chunks(void **state)
{
	struct layout l = { .is_glibc = true };
	struct pages_rows rows;

	(void)state;
	add_block(&l, BASE + 16, 1, 1, 1);    /* 32 bytes, from 8 to 40 */
	add_block(&l, BASE + 48, 100, 1, 1);  /* 112, from 40 to 152 */
	add_block(&l, BASE + PAGE, 24, 2, 1); /* 8 bytes before its page */
	add_run(&l, 0, 4, PAGE_RESIDENT);
	add_mapping(&l, 0, 4, MAPPING_HEAP);
	measure(&l, &rows);
	assert_int_equal(row_of(&rows, 1)->pinned_bytes + row_of(&rows, 2)->pinned_bytes,
			 2 * PAGE - 32 - 112 - 32);
	assert_int_equal(row_of(&rows, 2)->any_bytes, 2 * PAGE);
	assert_int_equal(row_of(&rows, 2)->sole_bytes, PAGE);
	assert_int_equal(rows.heap_count, 1);
	assert_int_equal(rows.heaps[0].free_bytes, 2 * PAGE);
	pages_rows_release(&rows);
	layout_release(&l);
}

static void a_block_at_the_end_of_a_heap_holds_the_pages_below_it(void **state)
{
	struct layout l = { .is_glibc = true };
	struct pages_rows rows;

	(void)state;
	add_block(&l, BASE + 16, 100, 1, 1);
	add_block(&l, BASE + 500 * PAGE + 16, 40, 2, 9);
	add_block(&l, BASE + 503 * PAGE + 16, 40, 3, 8);
	add_run(&l, 0, 600, PAGE_RESIDENT);
	/* an arena: its end is not trimmed */
	add_mapping(&l, 0, 600, MAPPING_HEAP);
	measure(&l, &rows);
	const struct heap_row *heap = &rows.heaps[0];

	assert_int_equal(heap->is_main, 0);
	assert_int_equal(heap->holder_blocks, 2);
	assert_int_equal(heap->holder_bytes, 80);
	assert_int_equal(heap->holder_site, 2);
	assert_int_equal(heap->holder_age_ms, 9);
	assert_int_equal(heap->held_bytes, (499 + 2) * PAGE);
	assert_int_equal(rows.sums->trim_bytes, (499 + 2) * PAGE);
	assert_int_equal(rows.sums->free_bytes, (600 - 3) * PAGE);
	pages_rows_release(&rows);
	layout_release(&l);
}

static uint64_t seed = 1;

static uint64_t below(uint64_t limit)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % limit;
}

/* Blocks of any size anywhere, runs and mappings that have nothing to do with them. */
static void make_random(struct layout *l)
{
	uint64_t at = BASE, page = 0;

	l->is_glibc = below(2);
	for (size_t i = 0; i < SITES; i++)
		l->life_ms[i] = below(3);
	for (uint64_t i = below(300); i > 0; i--) {
		uint64_t bytes = below(3) ? below(200) : below(5 * PAGE);

		at += below(4) ? 16 : below(3 * PAGE);
		add_block(l, at, bytes, 1 + (uint32_t)below(3), (uint32_t)below(9));
		at += MAX(bytes, UINT64_C(1));
	}
	while (page < 2000) {
		static const uint64_t states[] = { PAGE_RESIDENT, PAGE_RESIDENT | PAGE_HUGE,
						   PAGE_SWAPPED, PAGE_ZERO };
		uint64_t pages = 1 + below(20);

		add_run(l, page, pages, states[below(4)]);
		page += pages + below(3);
	}
	l->map_count = below(3);
	for (size_t i = 0; i < l->map_count; i++)
		l->maps[i] =
			(struct recorded_range){ BASE + (20 + i * 50) * PAGE,
						 BASE + (40 + i * 50) * PAGE, below(SITES), 0 };
	add_mapping(l, 0, 10 + below(30), (enum mapping_kind)below(MAPPING_FILES));
	add_mapping(l, 50, 10 + below(30), (enum mapping_kind)below(MAPPING_FILES));
	add_mapping(l, 90, page - 90, MAPPING_ANONYMOUS);
}

/* What occupies the page, by site, found block by block. */
static void occupy(const struct layout *l, uint64_t page, uint64_t sites[SITES])
{
	const struct pages_input in = input_of(l);
	bool has_block = false;

	for (size_t i = 0; i < l->blocks.list.count; i++) {
		struct extent e = block_extent(&in, i);
		uint64_t from = MAX(e.start, page), to = MIN(e.end, page + PAGE);

		if (from < to)
			sites[l->blocks.list.at[i].site] += to - from;
		has_block = has_block || (e.start < page + PAGE && e.end > page);
	}
	for (size_t i = 0; i < l->map_count && !has_block; i++)
		if (l->maps[i].start <= page && page < l->maps[i].end && l->maps[i].weight)
			sites[l->maps[i].weight] += PAGE;
}

static uint64_t state_of(const struct layout *l, uint64_t page)
{
	for (size_t i = 0; i < l->runs.count; i++)
		if (l->runs.at[i].start <= page && page < l->runs.at[i].end)
			return l->runs.at[i].state;
	return 0;
}

/* Compares each tile of one page. */
static void check_tile(const struct layout *l, const struct tile_row *c)
{
	uint64_t state = state_of(l, c->start), sites[SITES] = { 0 }, used = 0, most = 0;

	assert_int_equal(c->resident_bytes, state & PAGE_RESIDENT ? PAGE : 0);
	assert_int_equal(c->swapped_bytes, state == PAGE_SWAPPED ? PAGE : 0);
	if (state & PAGE_RESIDENT)
		occupy(l, c->start, sites);
	for (size_t i = 0; i < SITES; i++) {
		used += sites[i];
		most = MAX(most, sites[i]);
	}
	assert_int_equal(c->used_bytes, used);
	assert_true(used == 0 ? c->site == 0 : sites[c->site] == most);
}

static void the_map_is_that_of_each_page(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct layout l = { 0 };
		struct pages_rows rows;
		uint64_t resident = 0;
		size_t tile = 0, blocks = 0;

		make_random(&l);
		measure(&l, &rows);
		assert_int_equal(rows.map->tile_bytes, PAGE);
		for (size_t k = 0; k < rows.region_count; k++) {
			const struct region_row *r = &rows.regions[k];
			uint64_t sum = 0, used = 0;

			for (size_t end = tile + r->tiles; tile < end; tile++) {
				const struct tile_row *c = &rows.tiles[tile];

				assert_in_range(c->start, r->start, r->start + r->size_bytes - 1);
				check_tile(&l, c);
				sum += c->resident_bytes;
				used += c->used_bytes;
			}
			assert_int_equal(sum, r->resident_bytes);
			assert_int_equal(used, r->used_bytes);
			resident += sum;
			blocks += r->blocks;
		}
		/* Pages of blocks that are in no mapping are not on the map. */
		for (size_t k = 0; k < l.smaps.list.count; k++)
			for (uint64_t page = l.smaps.list.at[k].start;
			     page < l.smaps.list.at[k].end; page += PAGE)
				resident -= state_of(&l, page) & PAGE_RESIDENT ? PAGE : 0;
		assert_int_equal(resident, 0);
		assert_int_equal(tile, rows.tile_count);
		assert_int_equal(blocks, rows.block_count);
		pages_rows_release(&rows);
		layout_release(&l);
	}
}

/* Too many pages, blocks and mappings: tiles become larger, blocks and the smallest regions are left out, and the sums are as before. */
static void a_large_map_is_bounded_and_adds_up(void **state)
{
	const uint64_t pages = 100000, small = 5000;
	struct layout l = { 0 };
	struct pages_rows rows;
	uint64_t resident = 0, tiles = 0, used = 0;

	(void)state;
	for (uint64_t i = 0; i < MAP_BLOCKS_MAX + 1; i++)
		add_block(&l, BASE + i * 512, 256, 1 + (uint32_t)(i % 3), 5);
	add_run(&l, 0, pages, PAGE_RESIDENT);
	add_mapping(&l, 0, pages, MAPPING_ANONYMOUS);
	for (uint64_t i = 0; i < small; i++) {
		add_run(&l, pages + 2 * i + 1, 1, PAGE_RESIDENT);
		add_mapping(&l, pages + 2 * i + 1, 1, MAPPING_STACK);
	}
	measure(&l, &rows);
	assert_int_equal(rows.map->tile_bytes, 16 * PAGE);
	assert_int_equal(rows.region_count, MAP_REGIONS_MAX);
	assert_in_range(rows.tile_count, MAP_TILES_MAX / 2, MAP_TILES_MAX);
	assert_int_equal(rows.block_count, 0);
	assert_int_equal(rows.regions[0].blocks, MAP_BLOCKS_MAX + 1);
	for (size_t i = 0; i < rows.region_count; i++)
		resident += rows.regions[i].resident_bytes;
	for (size_t i = 0; i < rows.tile_count; i++) {
		tiles += rows.tiles[i].resident_bytes;
		used += rows.tiles[i].used_bytes;
	}
	assert_int_equal(resident, tiles);
	assert_int_equal(used, (uint64_t)(MAP_BLOCKS_MAX + 1) * 256);
	assert_int_equal(rows.map->left_out_bytes, (small + 1 - MAP_REGIONS_MAX) * PAGE);
	assert_int_equal(resident + rows.map->left_out_bytes, rows.sums->rss_bytes);
	pages_rows_release(&rows);
	layout_release(&l);
}

static void parts_add_up_whatever_is_there(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct layout l = { 0 };
		struct pages_rows rows;
		uint64_t resident = 0, pinned = 0;

		make_random(&l);
		measure(&l, &rows);
		for (size_t k = 0; k < rows.site_count; k++) {
			const struct site_pages_row *row = &rows.sites[k];

			resident += row->resident_bytes;
			pinned += row->pinned_bytes;
			assert_true(row->sole_bytes <= row->any_bytes);
			assert_true(row->resident_bytes <= row->any_bytes);
			assert_true(row->sole_bytes <= row->resident_bytes);
		}
		assert_int_equal(resident, rows.sums->sites_bytes);
		assert_int_equal(pinned, rows.sums->waste_bytes);
		assert_true(rows.sums->trim_bytes <= rows.sums->free_bytes);
		pages_rows_release(&rows);
		layout_release(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_page_is_shared_by_bytes_and_its_waste_charged_to_the_longest_lived),
		cmocka_unit_test(blocks_of_glibc_are_chunks),
		cmocka_unit_test(a_block_at_the_end_of_a_heap_holds_the_pages_below_it),
		cmocka_unit_test(the_map_is_that_of_each_page),
		cmocka_unit_test(a_large_map_is_bounded_and_adds_up),
		cmocka_unit_test(parts_add_up_whatever_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
