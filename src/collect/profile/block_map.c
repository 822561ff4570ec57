/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the upper levels of the block map, its large leaves, the samples and the table of mappings. Holes in large leaves are
 * skipped: at most 32 bytes are read for each page of the process. A small leaf is read only by block_map_has_small.
 *
 * The profile is untrusted memory: a leaf is read at most once, however often it is referenced, holes are not read, and no two
 * ranges overlap. The result is thus bounded by the data that exists. Runs in a worker; nothing here is shared.
 */
#include "collect/profile/block_map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/pagemap.h"
#include "util/cleanup.h"
#include "util/search.h"

#define AREA_BYTES (1ull << LIVE_AREA_SHIFT)
#define WINDOW_BYTES (1ull << LIVE_SMALL_SHIFT)
enum {
	LARGE_ENTRIES = 1 << (LIVE_LARGE_SHIFT - LIVE_LARGE_GRANULE_SHIFT),
	MAPS_TRIES = 5,
	MAPS_MAX = 1 << 20,
	WINDOWS_MAX = 1 << 22,
	WINDOW_PAGES = 1 << (LIVE_SMALL_SHIFT - LIVE_TINY_SHIFT),
	TINY_LEAVES = 1 << (LIVE_TINY_TABLE_SHIFT - LIVE_TINY_SHIFT), /* of a table */
	WINDOWS_PER_TINY = TINY_LEAVES / WINDOW_PAGES,
	UNIT_PAGES = LIVE_LEAF_UNIT / LIVE_PAGE,
	TINY_READS = 4,	     /* a sheet reads a leaf once or twice */
	SAMPLED_PART = 2048, /* entries per read */
};
#define LARGE_BYTES (LARGE_ENTRIES * sizeof(struct live_large))
#define SAMPLED_MAX_BYTES (1ull << 30)

/* Whether any page of the range has data; both arguments are multiples of the page size. */
static bool has_data(const struct block_map *map, uint64_t at, uint64_t bytes)
{
	uint64_t from = map->reader.held.at + at, run, run_bytes;

	return map->pagemap < 0 ? profile_copy_data_bytes(&map->reader.held, at, bytes) > 0
				: pagemap_next(map->pagemap, from, from + bytes, &run, &run_bytes);
}

/* Holes are zero. If the profile is in the process' memory, reading them would allocate pages. */
static bool read_data(const struct block_map *map, uint64_t at, void *to, size_t bytes)
{
	uint64_t base = map->reader.held.at, run, run_bytes;

	if (map->pagemap < 0)
		return live_profile_read(&map->reader, at, to, bytes);
	memset(to, 0, bytes);
	for (uint64_t from = base + at;
	     pagemap_next(map->pagemap, from, base + at + bytes, &run, &run_bytes);
	     from = run + run_bytes) {
		if (!live_profile_read(&map->reader, run - base, (char *)to + (run - base - at),
				       run_bytes))
			return false;
	}
	return true;
}

static uint64_t used(const struct block_map *map, enum live_region region)
{
	const struct live_header *head = map->reader.head;
	uint64_t bytes = MIN(head->opened[region], head->region[region].bytes);

	return MIN(head->used[region], bytes / live_entry_bytes(region));
}

static uint64_t place(const struct block_map *map, enum live_region region, uint64_t entry)
{
	return map->reader.head->region[region].at + entry * live_entry_bytes(region);
}

static int compare_ranges(const void *left, const void *right)
{
	const struct recorded_range *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Sorts by address and removes overlaps: an overlapping part belongs to the first range. Returns the new count. */
static size_t put_in_order(struct recorded_range *at, size_t count)
{
	size_t kept = 0;

	if (count > 0)
		qsort(at, count, sizeof *at, compare_ranges);
	for (size_t i = 0; i < count; i++) {
		struct recorded_range range = at[i];

		if (kept > 0)
			range.start = MAX(range.start, at[kept - 1].end);
		if (range.start < range.end)
			at[kept++] = range;
	}
	return kept;
}

/* ---- blocks ---- */

static bool add_block(struct block_map *map, uint64_t address, uint64_t bytes, uint64_t weight)
{
	struct recorded_range range = { address, saturating_add(address, bytes), weight, 0 };

	return vector_push(&map->blocks, range);
}

/* seen: one byte for each unit of leaves. */
static bool read_large(struct block_map *map, uint32_t number, uint8_t *seen,
		       struct live_large *leaf)
{
	if (number == 0 ||
	    !range_within(number - 1, LARGE_BYTES / LIVE_LEAF_UNIT, used(map, LIVE_LEAVES)) ||
	    seen[number - 1])
		return true;
	seen[number - 1] = 1;
	if (!has_data(map, place(map, LIVE_LEAVES, number - 1), LARGE_BYTES))
		return true;
	if (!read_data(map, place(map, LIVE_LEAVES, number - 1), leaf, LARGE_BYTES))
		return false;
	for (size_t i = 0; i < LARGE_ENTRIES; i++) {
		if (leaf[i].address != 0 && !add_block(map, leaf[i].address, leaf[i].size_bytes, 1))
			return false;
	}
	return true;
}

/* Marks the first unit of a leaf or a table as seen. Returns 0 if it is not there, or was seen before. */
static uint32_t see_leaf(uint32_t number, uint64_t leaves, uint8_t *seen)
{
	if (number == 0 || number > leaves || seen[number - 1])
		return 0;
	seen[number - 1] = 1;
	return number;
}

/* Adds the mebibytes of an area that have a small leaf or a table of tiny leaves, by address. */
static bool add_windows(struct block_map *map, const struct live_area *area, uint64_t start,
			uint8_t *seen)
{
	uint64_t leaves = used(map, LIVE_LEAVES);
	uint32_t tiny = 0;

	for (size_t i = 0; i < ARRAY_SIZE(area->small) && map->windows.count < WINDOWS_MAX; i++) {
		if (i % WINDOWS_PER_TINY == 0)
			tiny = see_leaf(area->tiny[i / WINDOWS_PER_TINY], leaves, seen);
		struct small_window window = { start + i * WINDOW_BYTES,
					       see_leaf(area->small[i], leaves, seen), tiny };

		if ((window.leaf != 0 || tiny != 0) && !vector_push(&map->windows, window))
			return false;
	}
	return true;
}

static bool read_areas(struct block_map *map)
{
	const size_t entries = live_top_entries(map->reader.head->header_bytes);
	const size_t top_bytes = entries * sizeof(uint32_t);
	uint64_t area_count = used(map, LIVE_AREAS);
	AUTO_FREE uint32_t *top = malloc(top_bytes + 1);
	AUTO_FREE struct live_area *area = malloc(sizeof *area);
	AUTO_FREE struct live_large *leaf = malloc(LARGE_BYTES);
	AUTO_FREE uint8_t *seen_leaf = calloc(used(map, LIVE_LEAVES) + 1, 1);
	AUTO_FREE uint8_t *seen_area = calloc(area_count + 1, 1);

	if (!top || !area || !leaf || !seen_leaf || !seen_area ||
	    !read_data(map, offsetof(struct live_header, top), top, top_bytes))
		return false;
	for (size_t i = 0; i < entries; i++) {
		if (top[i] == 0 || top[i] > area_count || seen_area[top[i] - 1])
			continue;
		seen_area[top[i] - 1] = 1;
		if (!read_data(map, place(map, LIVE_AREAS, top[i] - 1), area, sizeof *area) ||
		    !add_windows(map, area, i * AREA_BYTES, seen_leaf))
			return false;
		for (size_t j = 0; j < ARRAY_SIZE(area->large); j++)
			if (!read_large(map, area->large[j], seen_leaf, leaf))
				return false;
	}
	return true;
}

static bool read_sampled(struct block_map *map)
{
	struct live_sampled part[SAMPLED_PART];
	uint64_t at = place(map, LIVE_SAMPLED, 0);
	uint64_t bytes = MIN(used(map, LIVE_SAMPLED) * sizeof *part, SAMPLED_MAX_BYTES);
	uint64_t end = at + (bytes + LIVE_PAGE - 1) / LIVE_PAGE * LIVE_PAGE; /* within the region */

	for (; at < end; at += sizeof part) {
		size_t some = MIN(end - at, sizeof part);

		if (!has_data(map, at, some))
			continue;
		if (!read_data(map, at, part, some))
			return false;
		for (size_t i = 0; i < some / sizeof *part; i++)
			if (part[i].address != 0 &&
			    !add_block(map, part[i].address, part[i].size_bytes, part[i].weight))
				return false;
	}
	return true;
}

/* Granules range from 8 bytes to a page; a recorder writes no other value. */
static unsigned granule_shift(const struct block_map *map)
{
	unsigned shift = map->reader.head->granule_shift;

	return shift >= 3 && shift <= 12 ? shift : 0;
}

static bool window_has_small(const struct block_map *map, const struct small_window *window,
			     uint64_t from, uint64_t to)
{
	unsigned shift = granule_shift(map);
	uint64_t words[512];

	if (window->leaf == 0 || shift == 0 ||
	    !range_within((window->leaf - 1) * (uint64_t)LIVE_LEAF_UNIT,
			  (WINDOW_BYTES >> shift) * sizeof *words,
			  used(map, LIVE_LEAVES) * LIVE_LEAF_UNIT) ||
	    !has_data(map, place(map, LIVE_LEAVES, window->leaf - 1),
		      (WINDOW_BYTES >> shift) * sizeof *words))
		return false;
	for (uint64_t i = from >> shift, last = to >> shift; i < last;) {
		size_t count = MIN(last - i, ARRAY_SIZE(words));

		if (!live_profile_read(&map->reader,
				       place(map, LIVE_LEAVES, window->leaf - 1) +
					       i * sizeof *words,
				       words, count * sizeof *words))
			return false;
		for (size_t j = 0; j < count; j++)
			if (words[j] != 0)
				return true;
		i += count;
	}
	return false;
}

static bool page_has_tiny(struct block_map *map, uint32_t number)
{
	uint64_t words[LIVE_PAGE / sizeof(uint64_t)];

	if (number == 0 || (number - 1) / UNIT_PAGES >= used(map, LIVE_LEAVES))
		return false;
	if (map->tiny_left == 0)
		return true;
	map->tiny_left--;
	if (!live_profile_read(&map->reader,
			       place(map, LIVE_LEAVES, 0) + (number - 1) * (uint64_t)LIVE_PAGE,
			       words, sizeof words))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i] != 0)
			return true;
	return false;
}

/* Searches whole pages: there is one tiny leaf per page. */
static bool window_has_tiny(struct block_map *map, const struct small_window *window, uint64_t from,
			    uint64_t to)
{
	uint64_t first = window->start / WINDOW_BYTES % WINDOWS_PER_TINY * WINDOW_PAGES;
	uint32_t leaves[WINDOW_PAGES];

	if (window->tiny == 0 ||
	    !range_within(window->tiny - 1, TINY_LEAVES * sizeof *leaves / LIVE_LEAF_UNIT,
			  used(map, LIVE_LEAVES)) ||
	    !live_profile_read(&map->reader,
			       place(map, LIVE_LEAVES, window->tiny - 1) + first * sizeof *leaves,
			       leaves, sizeof leaves))
		return false;
	for (uint64_t i = from / LIVE_PAGE; i < (to + LIVE_PAGE - 1) / LIVE_PAGE; i++)
		if (page_has_tiny(map, leaves[i]))
			return true;
	return false;
}

static bool window_has(struct block_map *map, const struct small_window *window, uint64_t start,
		       uint64_t end)
{
	uint64_t from = MAX(start, window->start) - window->start;
	uint64_t to = MIN(end, window->start + WINDOW_BYTES) - window->start;

	return window_has_small(map, window, from, to) || window_has_tiny(map, window, from, to);
}

bool block_map_has_small(struct block_map *map, uint64_t start, uint64_t end)
{
	size_t low =
		FIRST_WHERE(i, map->windows.count, map->windows.at[i].start + WINDOW_BYTES > start);

	for (size_t i = low; i < map->windows.count && map->windows.at[i].start < end; i++)
		if (window_has(map, &map->windows.at[i], start, end))
			return true;
	return false;
}

/* ---- mappings ---- */

/* A recorder writes nothing else; two that share a page would both be given it. */
static bool is_of_pages(const struct live_map_range *range)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

	return range->start < range->end && range->start % page_bytes == 0 &&
	       range->end % page_bytes == 0;
}

/* Reads a consistent table, between two changes; if it changes during every try, the last copy is used. */
static bool read_maps(struct block_map *map)
{
	const uint64_t maps_at = offsetof(struct live_header, maps);
	AUTO_FREE struct live_map_range *table = NULL;
	struct live_maps before, after;

	for (int i = 0; i < MAPS_TRIES; i++) {
		if (!live_profile_read(&map->reader, maps_at, &before, sizeof before) ||
		    before.used > MAPS_MAX)
			return false;
		free(TAKE(table));
		table = calloc(before.used + 1, sizeof *table);
		if (!table ||
		    !live_profile_read(&map->reader, before.at, table, before.used * sizeof *table))
			return false;
		if (!live_profile_read(&map->reader, maps_at, &after, sizeof after))
			return false;
		if (before.serial == after.serial && before.serial % 2 == 0)
			break;
	}
	for (size_t i = 0; i < before.used; i++) {
		struct recorded_range range = { table[i].start, table[i].end, 1,
						table[i].counters };

		if (is_of_pages(&table[i]) && !vector_push(&map->maps, range))
			return false;
	}
	return true;
}

bool block_map_read_mappings(const struct live_profile *profile, struct block_map *ret)
{
	*ret = (struct block_map){ .pagemap = -1, .reader = LIVE_PROFILE_INIT };
	if (!live_profile_reader(profile, &ret->reader) || !read_maps(ret))
		return false;
	ret->maps.count = put_in_order(ret->maps.at, ret->maps.count);
	return true;
}

bool block_map_read(const struct live_profile *profile, struct block_map *ret)
{
	if (!block_map_read_mappings(profile, ret))
		return false;
	if (ret->reader.held.fd < 0) {
		ret->pagemap = pagemap_open(ret->reader.held.pid);
		if (ret->pagemap < 0)
			return false;
	}
	ret->tiny_left = TINY_READS * UNIT_PAGES * used(ret, LIVE_LEAVES);
	if (!read_areas(ret) || !read_sampled(ret))
		return false;
	ret->blocks.count = put_in_order(ret->blocks.at, ret->blocks.count);
	return true;
}

void block_map_release(struct block_map *map)
{
	vector_release(&map->blocks);
	vector_release(&map->maps);
	vector_release(&map->windows);
	if (map->pagemap >= 0)
		close(map->pagemap);
	live_profile_reader_release(&map->reader);
}
