/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the pages that test_model_made.h makes. */
#ifndef TEST_MODEL_MADE_MAP_H
#define TEST_MODEL_MADE_MAP_H

#include "test_model_rows.h"

/* The map of these pages: it adds up to their RSS. */
static inline void made_page_map(struct process_rows *rows)
{
	MADE(rows, pages.map, pages.map_count, { .tile_bytes = 65536 });
	MADE(rows, pages.regions, pages.region_count,
	     { .start = 1 << 20,
	       .size_bytes = 1 << 20,
	       .kind = REGION_HEAP,
	       .resident_bytes = 90112,
	       .used_bytes = 10144,
	       .blocks = 2,
	       .tiles = 2 },
	     { .start = 1 << 22,
	       .size_bytes = 131072,
	       .kind = REGION_MAPPED,
	       .resident_bytes = 65536,
	       .used_bytes = 65536,
	       .tiles = 1 },
	     { .start = 1 << 23,
	       .size_bytes = 8192,
	       .kind = REGION_OTHER,
	       .resident_bytes = 4096,
	       .tiles = 1 },
	     { .start = 1 << 24,
	       .size_bytes = 16384,
	       .kind = REGION_STACK,
	       .resident_bytes = 8192,
	       .tiles = 1 },
	     { .start = 1 << 25,
	       .size_bytes = 65536,
	       .kind = REGION_FILES,
	       .resident_bytes = 16384 },
	     { .start = 1 << 26,
	       .size_bytes = 65536,
	       .kind = REGION_OWN,
	       .resident_bytes = 12288 });
	MADE(rows, pages.tiles, pages.tile_count,
	     { .start = 1 << 20,
	       .resident_bytes = 65536,
	       .used_bytes = 10144,
	       .site = 3,
	       .age_ms = 1500 },
	     { .start = (1 << 20) + 65536, .resident_bytes = 24576, .age_ms = UINT32_MAX },
	     { .start = 1 << 22,
	       .resident_bytes = 65536,
	       .used_bytes = 65536,
	       .site = 7,
	       .age_ms = UINT32_MAX },
	     { .start = 1 << 23, .resident_bytes = 4096, .age_ms = UINT32_MAX },
	     { .start = 1 << 24, .resident_bytes = 8192, .age_ms = UINT32_MAX });
	MADE(rows, pages.blocks, pages.block_count,
	     { .start = (1 << 20) + 8, .size_bytes = 600, .site = 3, .age_ms = 1500 },
	     { .start = (1 << 20) + 4104, .size_bytes = 72, .site = 6, .age_ms = UINT32_MAX });
}

#endif
