/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the resident pages of each private anonymous mapping into those that the program mapped itself, those that belong to
 * the allocator, and those that nothing recorded explains.
 *
 * The allocator owns
 *   [heap], and the arenas of glibc: recognized in smaps by their shape, or by a small block in their 64 MiB;
 *   for glibc's blocks elsewhere, the pages they lie in, since each is a mapping of its own;
 *   for other allocators, the whole mapping that contains a block.
 * The kernel merges adjacent mappings, so the program's own mappings, blocks and raw system calls may share one. There, and for blocks
 * whose pages were never touched, /proc/PID/pagemap shows which pages are resident. If it cannot be read, or the mapping is too large
 * to query every page, the result is bounded by the resident bytes.
 *
 * Pure except for pagemap; runs in a worker.
 * Invariant: the parts add up to heap + anonymous of the row.
 */
#include "collect/process/sheet.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/pagemap.h"
#include "util/cleanup.h"
#include "util/search.h"

#define ARENA_BYTES (64ull << 20)
#define PAGED_MAX (16ull << 30)	     /* larger mappings are not queried page by page */
#define PAGED_SUM_MAX (256ull << 30) /* limit for the sum of all mappings queried */

static uint64_t page_down(uint64_t address)
{
	return address & ~(uint64_t)(LIVE_PAGE - 1);
}

static uint64_t page_up(uint64_t address)
{
	return page_down(saturating_add(address, LIVE_PAGE - 1));
}

struct maker {
	struct block_map *map;
	bool is_glibc;
	int pagemap;
	uint64_t paged_bytes; /* of mappings queried page by page */
	/* sums over all mappings */
	uint64_t owned_bytes, mapped_bytes, shared_map_bytes, static_bytes, stack_bytes;
	uint64_t unrecorded_bytes, untouched_bytes, fragmentation_untouched_bytes;
	uint64_t inherited_owned_bytes, inherited_other_bytes;
	uint64_t evicted_bytes; /* in smaps, but no longer resident */
};

/* One mapping while its bytes are attributed. */
struct part {
	const struct mapping *m;
	uint64_t *present;    /* one bit per page; NULL: all, none, or unknown */
	uint64_t block_bytes; /* resident bytes of the listed blocks */
	uint64_t owned_bytes, mapped_bytes;
};

/* ---- resident pages ---- */

static void ask_pages(struct maker *maker, struct part *part)
{
	const struct mapping *m = part->m;
	uint64_t bytes = m->end - m->start;

	if (part->present || maker->pagemap < 0 || m->rss_bytes == 0 || m->rss_bytes >= bytes ||
	    bytes > PAGED_MAX || maker->paged_bytes + bytes > PAGED_SUM_MAX)
		return;
	maker->paged_bytes += bytes;
	part->present = calloc(bytes / LIVE_PAGE / 64 + 1, sizeof *part->present);
	if (!part->present)
		return;
	pagemap_bits(maker->pagemap, m->start, m->end, part->present);
	uint64_t now_bytes = 0;

	for (uint64_t i = 0; i <= bytes / LIVE_PAGE / 64; i++)
		now_bytes += (uint64_t)__builtin_popcountll(part->present[i]) * LIVE_PAGE;
	maker->evicted_bytes += saturating_sub(m->rss_bytes, now_bytes);
}

/* Resident bytes of [start, end) inside the mapping. */
static uint64_t resident(struct maker *maker, struct part *part, uint64_t start, uint64_t end)
{
	const struct mapping *m = part->m;
	uint64_t sum = 0;

	if (end - start >= m->end - m->start || m->rss_bytes >= m->end - m->start)
		return MIN(end - start, m->rss_bytes);
	ask_pages(maker, part);
	if (!part->present)
		return MIN(end - start, m->rss_bytes);
	for (uint64_t at = start; at < end;) {
		uint64_t page = (at - m->start) / LIVE_PAGE;
		uint64_t next = MIN(page_down(at) + LIVE_PAGE, end);

		if (part->present[page / 64] >> page % 64 & 1)
			sum += next - at;
		at = next;
	}
	return sum;
}

/* The first range that ends after the address. Ranges are sorted by address and do not overlap. */
static size_t first_behind(const struct recorded_range *at, size_t count, uint64_t address)
{
	return FIRST_WHERE(i, count, at[i].end > address);
}

static size_t first_block(const struct maker *maker, uint64_t address)
{
	return first_behind(maker->map->blocks.at, maker->map->blocks.count, address);
}

/* Clips a range to the mapping; false: they do not overlap. */
static bool clip(const struct mapping *m, struct recorded_range *range)
{
	range->start = MAX(range->start, m->start);
	range->end = MIN(range->end, m->end);
	return range->start < range->end;
}

/* ---- owners ---- */

static uint64_t mapped_in(struct maker *maker, struct part *part, uint64_t start, uint64_t end)
{
	const struct mapping within = { .start = start, .end = end };
	size_t count = maker->map->maps.count;
	uint64_t sum = 0;

	for (size_t i = first_behind(maker->map->maps.at, count, start); i < count; i++) {
		struct recorded_range range = maker->map->maps.at[i];

		if (!clip(&within, &range))
			break;
		sum += resident(maker, part, range.start, range.end);
	}
	return sum;
}

/* Attributes a piece of a mapping to the allocator, except what the program mapped there. */
static void own(struct maker *maker, struct part *part, uint64_t start, uint64_t end)
{
	uint64_t bytes = resident(maker, part, start, end);

	part->owned_bytes += saturating_sub(bytes, mapped_in(maker, part, start, end));
}

/* Samples are not in the small leaves of the block map. */
static bool has_small_sample(const struct maker *maker, uint64_t start, uint64_t end)
{
	for (size_t i = first_block(maker, start); i < maker->map->blocks.count; i++) {
		const struct recorded_range *r = &maker->map->blocks.at[i];

		if (r->start >= end)
			return false;
		if (r->start >= start && r->end - r->start < LIVE_SMALL_LIMIT)
			return true;
	}
	return false;
}

/* Finds which of the mapping's 64 MiB pieces are arenas. */
static bool *find_arenas(struct maker *maker, struct part *part)
{
	const struct mapping *m = part->m;
	uint64_t first = m->start / ARENA_BYTES, count = (m->end - 1) / ARENA_BYTES - first + 1;
	bool *arenas = calloc(count, sizeof *arenas);

	for (uint64_t i = 0; arenas && i < count; i++) {
		uint64_t start = MAX((first + i) * ARENA_BYTES, m->start);
		uint64_t end = MIN((first + i + 1) * ARENA_BYTES, m->end);

		arenas[i] = block_map_has_small(maker->map, start, end) ||
			    has_small_sample(maker, start, end);
		if (arenas[i])
			own(maker, part, start, end);
	}
	return arenas;
}

/* Untouched pages after a large block, up to the next block: allocators other than glibc pad such a block by up to a quarter of
 * its size, and the padding is not resident either. */
static uint64_t untouched_behind(struct maker *maker, struct part *part, size_t index)
{
	const struct block_map *map = maker->map;
	const struct recorded_range *block = &map->blocks.at[index];
	uint64_t start = page_up(block->end), at = start;
	uint64_t stop = MIN(part->m->end, block->end + (block->end - block->start) / 4);

	if (index + 1 < map->blocks.count)
		stop = MIN(stop, map->blocks.at[index + 1].start);
	while (!maker->is_glibc && at + LIVE_PAGE <= stop &&
	       resident(maker, part, at, at + LIVE_PAGE) == 0)
		at += LIVE_PAGE;
	return at - start;
}

/* Adds the listed blocks in the mapping. `arenas` NULL: no block is a mapping of its own. */
static void take_blocks(struct maker *maker, struct part *part, const bool *arenas)
{
	const struct mapping *m = part->m;

	for (size_t i = first_block(maker, m->start); i < maker->map->blocks.count; i++) {
		struct recorded_range range = maker->map->blocks.at[i];

		if (!clip(m, &range))
			break;
		uint64_t bytes = resident(maker, part, range.start, range.end);
		uint64_t weight = range.weight;

		part->block_bytes =
			saturating_add(part->block_bytes, saturating_mul(bytes, weight));
		maker->untouched_bytes =
			saturating_add(maker->untouched_bytes,
				       saturating_mul(range.end - range.start - bytes, weight));
		if (range.end < m->end)
			maker->fragmentation_untouched_bytes = saturating_add(
				maker->fragmentation_untouched_bytes,
				saturating_mul(untouched_behind(maker, part, i), weight));
		if (arenas && !arenas[range.start / ARENA_BYTES - m->start / ARENA_BYTES]) {
			bytes = resident(maker, part, page_down(range.start),
					 MIN(page_up(range.end), m->end));
			part->owned_bytes =
				saturating_add(part->owned_bytes, saturating_mul(bytes, weight));
		}
	}
}

static bool has_blocks(struct maker *maker, const struct mapping *m)
{
	struct block_map *map = maker->map;
	size_t block = first_block(maker, m->start);

	return (block < map->blocks.count && map->blocks.at[block].start < m->end) ||
	       block_map_has_small(map, m->start, m->end);
}

static void find_owner(struct maker *maker, struct part *part)
{
	const struct mapping *m = part->m;

	if ((maker->is_glibc && m->kind == MAPPING_HEAP) ||
	    (!maker->is_glibc && has_blocks(maker, m))) {
		own(maker, part, m->start, m->end);
		take_blocks(maker, part, NULL);
	} else if (maker->is_glibc) {
		/* A mapping without resident pages needs no arenas. */
		AUTO_FREE bool *arenas = m->rss_bytes > 0 ? find_arenas(maker, part) : NULL;

		take_blocks(maker, part, arenas);
	}
}

/* ---- memory inherited by fork ---- */

static bool can_be_inherited(const struct mapping *m)
{
	return m->kind == MAPPING_HEAP || m->kind == MAPPING_ANONYMOUS;
}

/* The part of the inherited bytes that lies in this mapping. */
static uint64_t inherited_in(const struct inherited *inherited, const struct mapping *m)
{
	size_t count = can_be_inherited(m) ? inherited->list.count : 0;
	uint64_t sum = 0;

	for (size_t i = first_behind(inherited->list.at, count, m->start); i < count; i++) {
		const struct recorded_range *r = &inherited->list.at[i];
		struct recorded_range part = *r;

		if (!clip(m, &part))
			break;
		sum += (uint64_t)((double)r->weight * (double)(part.end - part.start) /
				  (double)(r->end - r->start));
	}
	return sum;
}

/* small_bytes: the child's own live bytes that are not listed in `blocks`; they are in [heap]. */
static void inherit(struct inherited *inherited, const struct part *part, uint64_t *small_bytes)
{
	const struct mapping *m = part->m;
	uint64_t bytes = saturating_sub(m->rss_bytes, part->block_bytes + part->mapped_bytes);
	uint64_t own_bytes = m->kind == MAPPING_HEAP ? MIN(bytes, *small_bytes) : 0;
	struct recorded_range range = { m->start, m->end, bytes - own_bytes };

	*small_bytes -= own_bytes;
	if (can_be_inherited(m) && range.weight > 0)
		(void)vector_push(&inherited->list, range);
}

/* ---- sums ---- */

/* Attributes the rest of a mapping, after the allocator's and the program's parts. */
static void add_rest(struct maker *maker, const struct part *part, uint64_t inherited_bytes)
{
	const struct mapping *m = part->m;
	uint64_t rest = m->rss_bytes - part->mapped_bytes - part->owned_bytes;
	uint64_t other = MIN(inherited_bytes, rest);

	if (m->kind == MAPPING_STACK) {
		maker->stack_bytes += rest;
		return;
	}
	if (m->kind == MAPPING_STATIC) {
		maker->static_bytes += rest;
		return;
	}
	maker->inherited_other_bytes += other;
	maker->unrecorded_bytes += rest - other;
	maker->inherited_owned_bytes +=
		MIN(inherited_bytes - other, saturating_sub(part->owned_bytes, part->block_bytes));
}

static void add_mapping(struct maker *maker, const struct mapping *m, struct inherited *inherited,
			uint64_t *small_bytes)
{
	struct part part = { .m = m };

	part.mapped_bytes = MIN(mapped_in(maker, &part, m->start, m->end), m->rss_bytes);
	if (m->kind == MAPPING_SHARED) {
		maker->shared_map_bytes += part.mapped_bytes;
	} else {
		find_owner(maker, &part);
		/* Pages may have come or gone since smaps was read, and weights may exceed what is resident. */
		part.owned_bytes = MIN(part.owned_bytes, m->rss_bytes - part.mapped_bytes);
		part.block_bytes = MIN(part.block_bytes, part.owned_bytes);
		if (inherited->is_wanted)
			inherit(inherited, &part, small_bytes);
		maker->mapped_bytes += part.mapped_bytes;
		maker->owned_bytes += part.owned_bytes;
		add_rest(maker, &part, inherited_in(inherited, m));
	}
	free(part.present);
}

static void give(const struct maker *maker, struct memory_row *row)
{
	uint64_t usable = saturating_add(row->live_bytes, row->fragmentation_bytes);
	uint64_t fragmentation =
		MIN(maker->fragmentation_untouched_bytes, row->fragmentation_bytes);
	uint64_t untouched = MIN(saturating_add(maker->untouched_bytes, fragmentation), usable);
	uint64_t private_bytes =
		row->heap_bytes + row->anonymous_bytes + row->stack_bytes - maker->stack_bytes;

	/* Small blocks are not queried page by page, but their resident bytes cannot exceed those of the allocator. */
	untouched = MAX(untouched, saturating_sub(usable, maker->owned_bytes));
	uint64_t free_bytes = maker->owned_bytes - (usable - untouched);
	uint64_t inherited_bytes = MIN(maker->inherited_owned_bytes, free_bytes);

	/* A mapping that the kernel merged with a stack is not a stack. */
	row->anonymous_bytes = private_bytes - row->heap_bytes;
	row->stack_bytes = maker->stack_bytes;
	row->sheet = 1;
	row->untouched_bytes = untouched;
	row->mapped_bytes = maker->mapped_bytes;
	row->mapped_shared_bytes = maker->shared_map_bytes;
	row->held_bytes = free_bytes - inherited_bytes;
	row->inherited_bytes = inherited_bytes + maker->inherited_other_bytes;
	row->static_bytes = maker->static_bytes;
	row->unrecorded_bytes = maker->unrecorded_bytes;
	row->changed_bytes = saturating_add(row->changed_bytes, maker->evicted_bytes);
}

/* Live bytes of blocks that are not listed. */
static uint64_t small_bytes_of(const struct block_map *map, const struct memory_row *row)
{
	uint64_t listed = 0;

	for (size_t i = 0; i < map->blocks.count; i++) {
		const struct recorded_range *r = &map->blocks.at[i];

		listed = saturating_add(listed, saturating_mul(r->end - r->start, r->weight));
	}
	return saturating_sub(saturating_add(row->live_bytes, row->fragmentation_bytes), listed);
}

static bool is_counted(enum mapping_kind kind)
{
	return kind != MAPPING_FILES && kind != MAPPING_OWN;
}

void sheet_fill(pid_t pid, const struct smaps *smaps, struct block_map *map,
		struct inherited *inherited, struct memory_row *row)
{
	smaps_sum(smaps, row);
	if (!map)
		return;
	AUTO_CLOSE int pagemap = pagemap_open(pid);
	struct maker maker = { .map = map,
			       .is_glibc = strcmp(map->reader.head->allocator, "glibc") == 0,
			       .pagemap = pagemap };
	uint64_t small_bytes = small_bytes_of(map, row);

	for (size_t i = 0; i < smaps->list.count; i++)
		if (is_counted(smaps->list.at[i].kind))
			add_mapping(&maker, &smaps->list.at[i], inherited, &small_bytes);
	inherited->is_wanted = false;
	give(&maker, row);
}
