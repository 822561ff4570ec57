/* SPDX-License-Identifier: Apache-2.0 */
/* Where the resident memory is: regions of the address space, their tiles, and their blocks if these are few. Part of pages_measure. */
#ifndef COLLECT_PROCESS_PAGE_MAP_H
#define COLLECT_PROCESS_PAGE_MAP_H

#include "collect/process/pages.h"

struct extent {
	uint64_t start, end;
};
/* What a block occupies, without the next one. */
struct extent block_extent(const struct pages_input *in, size_t index);
/* The first run that ends after the address. */
size_t run_after(const struct pages_input *in, uint64_t address);

/* Pages of a mapping of the program on which no block lies. */
struct mapped_pages {
	uint64_t start, end;
	uint32_t site;
};

/* Both lists are by address and free of overlaps. */
struct page_map {
	VECTOR(struct region_row) regions;
	VECTOR(struct mapped_pages) mapped;
};
void page_map_release(struct page_map *map);

/* Adds a region by its start, size and kind; of files and of the recorder's also with its resident and swapped bytes. One that is
 * empty is left out, and one that continues the region before is added to it. False: out of memory. */
bool page_map_add(struct page_map *map, const struct pages_input *in, struct region_row region);
/* Sets the map, regions, tiles and blocks of *ret. The map is used up. False: out of memory. */
bool page_map_build(struct page_map *map, const struct pages_input *in, struct pages_rows *ret);

#endif
