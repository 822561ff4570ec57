/* SPDX-License-Identifier: Apache-2.0 */
/* links: model format */
/* The chunk of pages: it comes back as it was, and what refers to sites that are not there is a bad chunk. */
#include "test_model_made.h"

#include <string.h>

#include "format/recording/recording.h"
#include "model/memory/pages.h"

static void fill(struct process_rows *p)
{
	pages_rows_release(&p->pages);
	made_page_map(p);
	p->pages.regions[0].swapped_bytes = 5;
	p->pages.tiles[1].swapped_bytes = 5;
	struct pages_rows map = p->pages;

	p->pages = (struct pages_rows){ .sums = calloc(1, sizeof(struct pages_row)),
					.sites = calloc(2, sizeof(struct site_pages_row)),
					.heaps = calloc(1, sizeof(struct heap_row)),
					.sum_count = 1,
					.site_count = 2,
					.heap_count = 1,
					.map = map.map,
					.regions = map.regions,
					.tiles = map.tiles,
					.blocks = map.blocks,
					.map_count = map.map_count,
					.region_count = map.region_count,
					.tile_count = map.tile_count,
					.block_count = map.block_count };
	assert_true(p->pages.sums && p->pages.sites && p->pages.heaps);
	assert_true(p->site_count > 2);
	/* Every column has a number of its own. */
	for (size_t i = 0; i < sizeof *p->pages.sums / sizeof(uint64_t); i++)
		((uint64_t *)p->pages.sums)[i] = 100 + i;
	for (size_t i = 0; i < 2 * sizeof *p->pages.sites / sizeof(uint64_t); i++)
		((uint64_t *)p->pages.sites)[i] = 1000 * i;
	for (size_t i = 0; i < sizeof *p->pages.heaps / sizeof(uint64_t); i++)
		((uint64_t *)p->pages.heaps)[i] = 200 + i;
	p->pages.sites[0].site = 1;
	p->pages.sites[1].site = 2;
	p->pages.heaps[0].holder_site = 1;
}

/* Encodes and decodes; returns the number of bad chunks. */
static uint64_t pass(struct recording *r, struct recording *back)
{
	struct format_error error = { "" };
	void *bytes = NULL;
	size_t length;

	assert_int_equal(recording_encode(r, &bytes, &length, &error), 0);
	assert_int_equal(recording_decode(bytes, length, back, NULL), 0);
	free(bytes);
	return back->warnings.bad_chunks;
}

static void pages_come_back(void **state)
{
	struct recording r = made_recording(1), back = { 0 };
	const struct pages_rows *a = &r.processes[0].pages;

	(void)state;
	fill(&r.processes[0]);
	assert_int_equal(pass(&r, &back), 0);
	const struct pages_rows *b = &back.processes[0].pages;

	assert_true(b->sum_count == 1 && b->site_count == 2 && b->heap_count == 1);
	assert_memory_equal(a->sums, b->sums, sizeof *a->sums);
	assert_memory_equal(a->sites, b->sites, 2 * sizeof *a->sites);
	assert_memory_equal(a->heaps, b->heaps, sizeof *a->heaps);
	assert_true(b->region_count == 6 && b->tile_count == 5 && b->block_count == 2);
	assert_memory_equal(a->map, b->map, sizeof *a->map);
	assert_memory_equal(a->regions, b->regions, 6 * sizeof *a->regions);
	assert_memory_equal(a->tiles, b->tiles, 5 * sizeof *a->tiles);
	assert_memory_equal(a->blocks, b->blocks, 2 * sizeof *a->blocks);
	recording_release(&back);
	recording_release(&r);
}

static void sites_that_are_not_there_or_not_in_order_are_a_bad_chunk(void **state)
{
	(void)state;
	for (int bad = 0; bad < 5; bad++) {
		struct recording r = made_recording(1), back = { 0 };
		struct process_rows *p = &r.processes[0];

		fill(p);
		if (bad == 0)
			p->pages.sites[1].site = p->site_count;
		else if (bad == 1)
			p->pages.sites[1].site = 1;
		else if (bad == 2)
			p->pages.sites[0].site = 0;
		else if (bad == 3)
			p->pages.heaps[0].holder_site = UINT64_MAX;
		else
			p->pages.sites[1].site = (UINT64_C(1) << 32) + 2;
		/* The map needs the pages. */
		assert_int_equal(pass(&r, &back), 2);
		assert_null(back.processes[0].pages.sums);
		assert_null(back.processes[0].pages.map);
		recording_release(&back);
		recording_release(&r);
	}
}

/* Each breaks one rule of the map. */
static void spoil(struct pages_rows *p, size_t sites, int bad)
{
	struct region_row *r = p->regions;
	struct tile_row *c = p->tiles;
	struct map_block_row *b = p->blocks;

	switch (bad) {
	case 0:
		p->map->tile_bytes = 0;
		break;
	case 1:
		p->map->tile_bytes = 65537;
		break;
	case 2:
		r[1].start = r[0].start + 1;
		break;
	case 3:
		r[5].size_bytes = UINT64_MAX - 5;
		break;
	case 4:
		r[0].resident_bytes++;
		break;
	case 5:
		r[4].used_bytes = r[4].resident_bytes + 1;
		break;
	case 6:
		r[0].tiles = 3;
		break;
	case 7:
		r[3].tiles = UINT64_MAX;
		break;
	case 8:
		r[0].blocks = 3;
		break;
	case 9:
		c[0].site = sites;
		break;
	case 10:
		c[1].start = c[0].start;
		break;
	case 11:
		c[1].start += 8;
		break;
	case 12:
		c[2].start = 1 << 20;
		break;
	case 13:
		c[4].age_ms = UINT64_C(1) << 32;
		break;
	case 14:
		c[0].used_bytes--;
		break;
	case 15:
		c[1].swapped_bytes--;
		break;
	case 16:
		b[0].site = 0;
		break;
	case 17:
		b[1].site = sites;
		break;
	case 18:
		b[1].start = b[0].start + 599;
		break;
	case 19:
		b[0].start = 8;
		break;
	case 20:
		b[1].size_bytes = UINT64_MAX;
		break;
	default:
		b[1].age_ms = UINT64_MAX;
		break;
	}
}

static void a_map_that_does_not_add_up_is_a_bad_chunk(void **state)
{
	(void)state;
	for (int bad = 0; bad < 22; bad++) {
		struct recording r = made_recording(1), back = { 0 };
		struct process_rows *p = &r.processes[0];

		fill(p);
		spoil(&p->pages, p->site_count, bad);
		if (pass(&r, &back) != 1 || back.processes[0].pages.map)
			fail_msg("map %d was accepted", bad);
		assert_non_null(back.processes[0].pages.sums);
		recording_release(&back);
		recording_release(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_come_back),
		cmocka_unit_test(a_map_that_does_not_add_up_is_a_bad_chunk),
		cmocka_unit_test(sites_that_are_not_there_or_not_in_order_are_a_bad_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
