/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides resident pages among the sites whose blocks lie on them. One pass over the blocks finds each page's blocks: a page is shared in
 * proportion to their bytes, and its remaining bytes, the waste, are charged to the block that is expected to live longest. Pages without
 * a block are the gaps between blocks; the mapping that a gap lies in says whose they are.
 *
 * A block of glibc occupies its chunk: 8 bytes before it and the usable size. Of jemalloc and mimalloc it occupies its size class; of other
 * allocators only the requested bytes are known, and the rest of a size class counts as waste.
 *
 * Pure; any thread. Invariant: the shares of a page add up to the page, and the parts to the RSS.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/process/page_map.h"
#include "collect/process/pages.h"
#include "util/cleanup.h"
#include "util/search.h"

#define ARENA_BYTES (UINT64_C(64) << 20)
enum {
	CHUNK_HEAD = 8,
	/* glibc's first threshold for a mapping of its own; such a block starts 16 bytes after its page. */
	MAPPED_LEAST = 128 << 10,
	MAPPED_AT = 16,
	HOLDERS_MAX = 1000,
};

/* A block's part of the current page, or that of neighbours of one site: of the oldest one's age. */
struct part {
	uint32_t site, age_ms;
	uint64_t bytes;
};

struct measure {
	const struct pages_input *in;
	struct site_pages_row *sites; /* by site */
	uint64_t *last_page;	      /* by site: 1 + the last page that it was counted for */
	uint64_t *before;	      /* by run: resident bytes of all runs before it */
	struct pages_row *sums;
	VECTOR(struct part) parts; /* of the page at `page` */
	struct page_map map;
	VECTOR(struct extent) occupied; /* pages with blocks, by address; neighbours are merged */
	uint64_t page;
	bool page_is_huge;
	size_t run; /* the first that ends after the last address */
	bool failed;
};

static uint64_t page_down(const struct measure *m, uint64_t address)
{
	return address & ~(m->in->page_bytes - 1);
}

static uint64_t page_up(const struct measure *m, uint64_t address)
{
	return page_down(m, saturating_add(address, m->in->page_bytes - 1));
}

/* ---- blocks and runs ---- */

struct extent block_extent(const struct pages_input *in, size_t index)
{
	const struct live_block *b = &in->blocks->list.at[index];
	uint64_t head = in->is_glibc ? CHUNK_HEAD : 0;
	uint64_t bytes = in->usable ? in->usable(b->size_bytes) : MAX(b->size_bytes, UINT64_C(1));
	struct extent e = { saturating_sub(b->address, head), saturating_add(b->address, bytes) };

	if (index + 1 < in->blocks->list.count)
		e.end = MIN(e.end, saturating_sub(b[1].address, head));
	return e.start < e.end ? e : (struct extent){ e.start, e.start };
}

size_t run_after(const struct pages_input *in, uint64_t address)
{
	return FIRST_WHERE(i, in->runs->count, in->runs->at[i].end > address);
}

static uint64_t resident_before(const struct measure *m, uint64_t address)
{
	size_t run = run_after(m->in, address);
	const struct page_run *r = &m->in->runs->at[run];
	uint64_t bytes = m->before[run];

	if (run < m->in->runs->count && r->start < address && r->state & PAGE_RESIDENT)
		bytes += address - r->start;
	return bytes;
}

static uint64_t resident(const struct measure *m, uint64_t start, uint64_t end)
{
	return start < end ? resident_before(m, end) - resident_before(m, start) : 0;
}

/* Notes the pages of a block. Blocks come by address. */
static void note_occupied(struct measure *m, struct extent e)
{
	struct extent pages = { page_down(m, e.start), page_up(m, e.end) };
	struct extent *last = m->occupied.count > 0 ? &m->occupied.at[m->occupied.count - 1] : NULL;

	if (last && pages.start <= last->end)
		last->end = MAX(last->end, pages.end);
	else if (!vector_push(&m->occupied, pages))
		m->failed = true;
}

/* Calls a function for each range of [start, end), whole pages, on which no block lies. */
typedef void gap_seen(void *context, uint64_t start, uint64_t end);
static void each_gap(const struct measure *m, uint64_t start, uint64_t end, gap_seen *seen,
		     void *context)
{
	uint64_t at = start;
	size_t first = FIRST_WHERE(i, m->occupied.count, m->occupied.at[i].end > start);

	for (size_t i = first; i < m->occupied.count && m->occupied.at[i].start < end; i++) {
		if (m->occupied.at[i].start > at)
			seen(context, at, m->occupied.at[i].start);
		at = MAX(at, m->occupied.at[i].end);
	}
	if (at < end)
		seen(context, at, end);
}

struct gap_sum {
	const struct measure *m;
	uint64_t bytes;
};

static void sum_gap(void *context, uint64_t start, uint64_t end)
{
	struct gap_sum *sum = context;

	sum->bytes += resident(sum->m, start, end);
}

/* Resident bytes of [start, end), whole pages, on which no block lies. */
static uint64_t resident_free(const struct measure *m, uint64_t start, uint64_t end)
{
	struct gap_sum sum = { m, 0 };

	each_gap(m, start, end, sum_gap, &sum);
	return sum.bytes;
}

/* ---- pages with blocks ---- */

static void count_page(struct measure *m, uint32_t site, uint64_t page, bool is_sole)
{
	struct site_pages_row *row = &m->sites[site];

	if (m->last_page[site] == page + 1)
		return;
	m->last_page[site] = page + 1;
	row->any_bytes += m->in->page_bytes;
	row->sole_bytes += is_sole ? m->in->page_bytes : 0;
}

/* Whether the first is expected to outlive the second. */
static bool outlives(const struct measure *m, const struct part *a, const struct part *b)
{
	uint64_t x = m->in->life_ms[a->site], y = m->in->life_ms[b->site];

	return x != y ? x > y : a->age_ms > b->age_ms;
}

static bool is_zero(const struct measure *m, uint64_t page)
{
	return m->in->is_zero && m->in->is_zero(m->in->context, page);
}

/* Ends the current page: all its parts are known. */
static void end_page(struct measure *m)
{
	const uint64_t page_bytes = m->in->page_bytes;
	uint64_t sum = 0, shared = 0, before = 0;
	const struct part *longest = m->parts.at;
	bool is_sole = true;

	if (m->parts.count == 0)
		return;
	for (size_t i = 0; i < m->parts.count; i++) {
		const struct part *part = &m->parts.at[i];

		sum += part->bytes;
		is_sole = is_sole && part->site == m->parts.at->site;
		if (outlives(m, part, longest))
			longest = part;
	}
	bool zero = is_zero(m, m->page);

	for (size_t i = 0; i < m->parts.count; i++) {
		const struct part *part = &m->parts.at[i];
		struct site_pages_row *row = &m->sites[part->site];

		/* Rounded sums, so that the shares add up. */
		shared += part->bytes;
		row->resident_bytes += page_bytes * shared / sum - before;
		before = page_bytes * shared / sum;
		row->packed_bytes += part->bytes;
		row->huge_bytes += m->page_is_huge ? part->bytes : 0;
		row->zero_bytes += zero ? part->bytes : 0;
		count_page(m, part->site, m->page, is_sole);
	}
	m->sites[longest->site].pinned_bytes += page_bytes - sum;
	m->sums->waste_bytes += page_bytes - sum;
	m->sums->sites_bytes += page_bytes;
	m->parts.count = 0;
}

/* Adds resident pages that a block fills, or a mapping of the program. */
static void add_full(struct measure *m, uint32_t site, uint64_t start, uint64_t end, bool huge)
{
	struct site_pages_row *row = &m->sites[site];
	uint64_t bytes = end - start;

	row->resident_bytes += bytes;
	row->sole_bytes += bytes;
	row->any_bytes += bytes;
	row->packed_bytes += bytes;
	row->huge_bytes += huge ? bytes : 0;
	m->sums->sites_bytes += bytes;
	for (uint64_t page = start; m->in->is_zero && page < end; page += m->in->page_bytes)
		row->zero_bytes += is_zero(m, page) ? m->in->page_bytes : 0;
}

static void add_part(struct measure *m, const struct live_block *b, uint64_t start, uint64_t end,
		     bool huge)
{
	struct part part = { b->site, b->age_ms, end - start };
	uint64_t page = page_down(m, start);

	if (page != m->page)
		end_page(m);
	m->page = page;
	m->page_is_huge = huge;
	struct part *last = m->parts.count > 0 ? &m->parts.at[m->parts.count - 1] : NULL;

	if (last && last->site == part.site) {
		last->bytes += part.bytes;
		last->age_ms = MAX(last->age_ms, part.age_ms);
	} else if (!vector_push(&m->parts, part)) {
		m->failed = true;
	}
}

/* Adds the piece of a block that lies in resident pages of one run. */
static void add_resident(struct measure *m, const struct live_block *b, uint64_t start,
			 uint64_t end, bool huge)
{
	uint64_t first = page_up(m, start), last = page_down(m, end);

	if (first > last || first == last) {
		/* In one page, or in two of which it fills neither. */
		uint64_t cut = MIN(first, end);

		if (start < cut)
			add_part(m, b, start, cut, huge);
		if (cut < end)
			add_part(m, b, cut, end, huge);
		return;
	}
	if (start < first)
		add_part(m, b, start, first, huge);
	end_page(m);
	add_full(m, b->site, first, last, huge);
	if (last < end)
		add_part(m, b, last, end, huge);
}

/* Adds a block: the parts of its extent by the state of their pages. */
static void add_block(struct measure *m, size_t index)
{
	const struct live_block *b = &m->in->blocks->list.at[index];
	struct site_pages_row *row = &m->sites[b->site];
	struct extent e = block_extent(m->in, index);

	note_occupied(m, e);
	row->blocks++;
	row->live_bytes = saturating_add(row->live_bytes, b->size_bytes);
	for (uint64_t at = e.start; at < e.end;) {
		while (m->run < m->in->runs->count && m->in->runs->at[m->run].end <= at)
			m->run++;
		const struct page_run *r =
			m->run < m->in->runs->count ? &m->in->runs->at[m->run] : NULL;
		bool inside = r && r->start <= at;
		uint64_t end = MIN(e.end, !r ? e.end : inside ? r->end : r->start);

		if (inside && r->state & PAGE_RESIDENT)
			add_resident(m, b, at, end, r->state & PAGE_HUGE);
		else if (inside && r->state & PAGE_SWAPPED)
			row->swapped_bytes += end - at;
		else
			row->untouched_bytes += end - at;
		at = end;
	}
}

/* ---- mappings of the program ---- */

struct mapping_gap {
	struct measure *m;
	uint32_t site;
};

/* Adds pages of a mapping on which no block lies. */
static void add_gap(void *context, uint64_t start, uint64_t end)
{
	const struct mapping_gap *gap = context;
	const page_runs *runs = gap->m->in->runs;
	struct site_pages_row *row = &gap->m->sites[gap->site];
	uint64_t at = start;

	if (!vector_push(&gap->m->map.mapped, ((struct mapped_pages){ start, end, gap->site })))
		gap->m->failed = true;
	for (size_t i = run_after(gap->m->in, start); i < runs->count && at < end; i++) {
		const struct page_run *r = &runs->at[i];
		uint64_t from = MIN(MAX(r->start, at), end), to = MIN(r->end, end);

		row->untouched_bytes += from - at;
		if (from < to && r->state & PAGE_RESIDENT)
			add_full(gap->m, gap->site, from, to, r->state & PAGE_HUGE);
		else if (from < to && r->state & PAGE_SWAPPED)
			row->swapped_bytes += to - from;
		else if (from < to)
			row->untouched_bytes += to - from;
		at = MAX(from, to);
	}
	row->untouched_bytes += end - MIN(at, end);
}

static void add_mapping(struct measure *m, const struct recorded_range *map)
{
	struct mapping_gap gap = { m, (uint32_t)map->weight };

	if (gap.site == 0 || gap.site >= m->in->blocks->site_count)
		return;
	m->sites[gap.site].blocks++;
	m->sites[gap.site].live_bytes =
		saturating_add(m->sites[gap.site].live_bytes, map->end - map->start);
	each_gap(m, page_down(m, map->start), page_up(m, map->end), add_gap, &gap);
}

/* Resident bytes of the program's mappings in [start, end), without the pages of blocks. */
static uint64_t resident_mapped(const struct measure *m, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;
	size_t first = FIRST_WHERE(i, m->in->map_count, m->in->maps[i].end > start);

	for (size_t i = first; i < m->in->map_count && m->in->maps[i].start < end; i++) {
		const struct recorded_range *map = &m->in->maps[i];

		if (map->weight != 0 && map->weight < m->in->blocks->site_count)
			sum += resident_free(m, MAX(page_down(m, map->start), start),
					     MIN(page_up(m, map->end), end));
	}
	return sum;
}

/* ---- pages without blocks ---- */

/* Resident bytes that are neither of a block's page nor of a mapping of the program. */
static uint64_t resident_rest(const struct measure *m, uint64_t start, uint64_t end)
{
	return saturating_sub(resident_free(m, start, end), resident_mapped(m, start, end));
}

/* Whether a block of the range is not a mapping of its own, so that the range is a heap. */
static bool has_heap_block(const struct pages_input *in, uint64_t start, uint64_t end)
{
	const struct live_blocks *blocks = in->blocks;

	for (size_t i = live_blocks_before(blocks, start);
	     i < blocks->list.count && blocks->list.at[i].address < end; i++) {
		const struct live_block *b = &blocks->list.at[i];

		if (!in->is_glibc || b->size_bytes < MAPPED_LEAST ||
		    b->address % in->page_bytes != MAPPED_AT)
			return true;
	}
	return false;
}

/* Finds the blocks at the end of a heap below which most of its free pages lie. */
static void find_holders(const struct measure *m, struct heap_row *heap)
{
	const struct live_blocks *blocks = m->in->blocks;
	size_t end = live_blocks_before(blocks, heap->start + heap->size_bytes);
	uint64_t held = 0, bytes = 0, largest = 0;

	for (size_t i = end; i > 0 && end - i < HOLDERS_MAX; i--) {
		const struct live_block *b = &blocks->list.at[i - 1];
		uint64_t from = heap->start, gap;

		if (b->address < heap->start)
			break;
		if (i > 1)
			from = MAX(from, page_up(m, block_extent(m->in, i - 2).end));
		gap = resident(m, from, MAX(from, page_down(m, block_extent(m->in, i - 1).start)));
		held += gap;
		bytes += b->size_bytes;
		if (gap <= largest)
			continue;
		largest = gap;
		heap->held_bytes = held;
		heap->holder_blocks = end - i + 1;
		heap->holder_bytes = bytes;
		heap->holder_site = b->site;
		heap->holder_age_ms = b->age_ms;
	}
}

/* Free pages that malloc_trim(0) returns: in the heap of an arena, not those after its last block. */
static uint64_t trimmed(const struct measure *m, const struct heap_row *heap)
{
	size_t end = live_blocks_before(m->in->blocks, heap->start + heap->size_bytes);

	if (heap->is_main)
		return heap->free_bytes;
	return end > 0 && m->in->blocks->list.at[end - 1].address >= heap->start
		       ? resident_free(m, heap->start, page_up(m, block_extent(m->in, end - 1).end))
		       : 0;
}

static void add_heap(struct measure *m, struct pages_rows *ret, uint64_t start, uint64_t end,
		     uint64_t free_bytes)
{
	struct heap_row heap = { .start = start,
				 .size_bytes = end - start,
				 .is_main = start % ARENA_BYTES != 0,
				 .resident_bytes = resident(m, start, end),
				 .free_bytes = free_bytes };
	struct heap_row *heaps;

	find_holders(m, &heap);
	m->sums->trim_bytes += MIN(trimmed(m, &heap), free_bytes);
	if (ret->heap_count == PAGES_HEAPS_MAX)
		return;
	heaps = reallocarray(ret->heaps, ret->heap_count + 1, sizeof *heaps);
	if (!heaps) {
		m->failed = true;
		return;
	}
	ret->heaps = heaps;
	ret->heaps[ret->heap_count++] = heap;
}

static void add_region(struct measure *m, uint64_t start, uint64_t end, enum region_kind kind)
{
	struct region_row region = { .start = start, .size_bytes = end - start, .kind = kind };

	if (!page_map_add(&m->map, m->in, region))
		m->failed = true;
}

/* A mapping whose pages are not read. */
static void add_unread(struct measure *m, const struct mapping *map, enum region_kind kind)
{
	struct region_row region = { .start = map->start,
				     .size_bytes = map->end - map->start,
				     .kind = kind,
				     .resident_bytes = map->rss_bytes,
				     .swapped_bytes = map->swap_bytes };

	if (!page_map_add(&m->map, m->in, region))
		m->failed = true;
}

/* Whether a block starts in the range, or a mapping of the program covers pages of it. */
static bool is_recorded(const struct measure *m, uint64_t start, uint64_t end)
{
	const struct live_blocks *blocks = m->in->blocks;
	size_t block = live_blocks_before(blocks, start);
	size_t map = FIRST_WHERE(i, m->map.mapped.count, m->map.mapped.at[i].end > start);

	return (block < blocks->list.count && blocks->list.at[block].address < end) ||
	       (map < m->map.mapped.count && m->map.mapped.at[map].start < end);
}

/* Attributes what is left of an anonymous mapping, or of its part in 64 MiB, which may be an arena of glibc. */
static void add_anonymous(struct measure *m, struct pages_rows *ret, const struct mapping *map)
{
	uint64_t step = m->in->is_glibc && map->kind == MAPPING_ANONYMOUS ? ARENA_BYTES : 0;

	for (uint64_t at = map->start, end; at < map->end; at = end) {
		end = step ? MIN(map->end, (at / step + 1) * step) : map->end;
		uint64_t rest = resident_rest(m, at, end);
		bool is_heap = m->in->is_glibc && map->kind == MAPPING_HEAP;

		if (!is_heap && !has_heap_block(m->in, at, end)) {
			m->sums->unrecorded_bytes += rest;
			add_region(m, at, end,
				   is_recorded(m, at, end) ? REGION_MAPPED : REGION_OTHER);
			continue;
		}
		m->sums->free_bytes += rest;
		if (m->in->is_glibc)
			add_heap(m, ret, at, end, rest);
		add_region(m, at, end,
			   m->in->is_glibc && at % ARENA_BYTES == 0 ? REGION_ARENA : REGION_HEAP);
	}
}

static void add_rest(struct measure *m, struct pages_rows *ret)
{
	const struct smaps *smaps = m->in->smaps;

	for (size_t i = 0; i < smaps->list.count; i++) {
		struct mapping map = smaps->list.at[i];

		/* The kernel splits a heap where its pages are treated differently. */
		while (map.kind == MAPPING_HEAP && i + 1 < smaps->list.count &&
		       smaps->list.at[i + 1].kind == MAPPING_HEAP &&
		       smaps->list.at[i + 1].start == map.end && map.end % ARENA_BYTES != 0)
			map.end = smaps->list.at[++i].end;
		switch (map.kind) {
		case MAPPING_HEAP:
		case MAPPING_ANONYMOUS:
			add_anonymous(m, ret, &map);
			break;
		case MAPPING_FILES:
			m->sums->file_bytes += map.rss_bytes;
			add_unread(m, &map, REGION_FILES);
			break;
		case MAPPING_OWN:
			m->sums->own_bytes += map.rss_bytes;
			add_unread(m, &map, REGION_OWN);
			break;
		default:
			*(map.kind == MAPPING_STACK    ? &m->sums->stack_bytes
			  : map.kind == MAPPING_STATIC ? &m->sums->static_bytes
						       : &m->sums->shared_bytes) +=
				resident_rest(m, map.start, map.end);
			add_region(m, map.start, map.end,
				   map.kind == MAPPING_STACK	? REGION_STACK
				   : map.kind == MAPPING_STATIC ? REGION_STATIC
								: REGION_SHARED);
			break;
		}
	}
}

/* ---- the whole ---- */

/* Leaves only the sites that have blocks, and the rows' final values. */
static void finish(struct measure *m, struct pages_rows *ret)
{
	struct pages_row *s = m->sums;
	size_t kept = 0;

	for (size_t i = 0; i < m->in->blocks->site_count; i++) {
		struct site_pages_row row = m->sites[i];

		row.site = i;
		row.packed_bytes = page_up(m, row.packed_bytes);
		if (row.blocks > 0)
			m->sites[kept++] = row;
	}
	ret->sites = TAKE(m->sites);
	ret->site_count = kept;
	s->rss_bytes = s->sites_bytes + s->free_bytes + s->unrecorded_bytes + s->static_bytes +
		       s->stack_bytes + s->shared_bytes + s->file_bytes + s->own_bytes;
}

static void sum_runs(struct measure *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->in->runs->count; i++) {
		const struct page_run *r = &m->in->runs->at[i];

		m->before[i] = sum;
		sum += r->state & PAGE_RESIDENT ? r->end - r->start : 0;
	}
	m->before[m->in->runs->count] = sum;
}

static void measure_release(struct measure *m)
{
	free(m->sites);
	free(m->last_page);
	free(m->before);
	vector_release(&m->parts);
	vector_release(&m->occupied);
	page_map_release(&m->map);
}

bool pages_measure(const struct pages_input *input, struct pages_rows *ret)
{
	AUTO(measure_release) struct measure m = { .in = input };
	size_t site_count = input->blocks->site_count;

	*ret = (struct pages_rows){ 0 };
	m.sites = calloc(site_count + 1, sizeof *m.sites);
	m.last_page = calloc(site_count + 1, sizeof *m.last_page);
	m.before = calloc(input->runs->count + 1, sizeof *m.before);
	m.sums = ret->sums = calloc(1, sizeof *ret->sums);
	if (!m.sites || !m.last_page || !m.before || !m.sums)
		return false;
	ret->sum_count = 1;
	sum_runs(&m);
	for (size_t i = 0; i < input->blocks->list.count; i++)
		add_block(&m, i);
	end_page(&m);
	for (size_t i = 0; i < input->map_count; i++)
		add_mapping(&m, &input->maps[i]);
	add_rest(&m, ret);
	if (m.failed || !page_map_build(&m.map, input, ret))
		return false;
	finish(&m, ret);
	return true;
}
