/* SPDX-License-Identifier: Apache-2.0 */
/* doc: chunk_pages: which sites the resident memory of a process belongs to, at one moment. All members of the rows are columns, in
 * this order. Part of process_rows. */
#ifndef FORMAT_RECORDING_PAGES_ROWS_H
#define FORMAT_RECORDING_PAGES_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* Resident bytes; those from sites_bytes to changed_bytes add up to rss_bytes. */
struct pages_row {
	uint64_t at_ns; /* since the process' start */
	uint64_t rss_bytes;
	uint64_t sites_bytes;	   /* pages with live blocks, and mappings of the program */
	uint64_t free_bytes;	   /* pages of the allocator without a live block */
	uint64_t unrecorded_bytes; /* other anonymous memory */
	uint64_t static_bytes, stack_bytes, shared_bytes, file_bytes, own_bytes;
	uint64_t changed_bytes;	 /* pages that were resident in only one of the two readings */
	uint64_t waste_bytes;	 /* part of sites_bytes in no live block */
	uint64_t trim_bytes;	 /* part of free_bytes that malloc_trim(0) of glibc returns */
	uint64_t changed_blocks; /* allocated or freed between the two readings: not counted */
	uint64_t knows_huge;	 /* 0: the kernel does not tell which pages are huge */
	uint64_t at_exit;	 /* 1: the process waited for this before it exited */
	uint64_t unknown_blocks; /* enum pages_unknown */
};
/* Why there may be live blocks that are not known, so that nothing is forecast for heaps. Bits. */
enum pages_unknown {
	PAGES_INHERITED = 1, /* allocated before the fork that began the process */
	PAGES_UNRECORDED =
		2, /* allocated while it was not recorded exactly, or beyond the memory budget */
};

/* One site. Blocks of the heap with what the allocator adds to them, as far as it is known; or mappings. */
struct site_pages_row {
	uint64_t site;
	uint64_t blocks, live_bytes; /* requested */
	uint64_t resident_bytes;     /* its share of the pages: sum over sites = sites_bytes */
	uint64_t sole_bytes;	     /* pages with blocks of no other site */
	uint64_t any_bytes;	     /* pages with a block of it */
	uint64_t pinned_bytes;	     /* waste of pages on which its block will live longest */
	uint64_t packed_bytes;	     /* pages that its resident blocks would need by themselves */
	uint64_t swapped_bytes, huge_bytes, untouched_bytes;
	uint64_t zero_bytes; /* on resident pages with nothing but zeros */
};

/* One heap of glibc, which shrinks only at its end: the main one, or one of an arena. */
struct heap_row {
	uint64_t start, size_bytes;
	uint64_t is_main;
	uint64_t resident_bytes, free_bytes;
	/* The free pages that the fewest blocks at its end keep, and these blocks; blocks 0: none does. */
	uint64_t held_bytes, holder_blocks, holder_bytes;
	uint64_t holder_site, holder_age_ms; /* of the lowest of them */
};
enum { PAGES_HEAPS_MAX = 4096 };

/* doc: chunk_page_map: where the resident memory is. The resident bytes of the regions, what is left out, and changed_bytes of
 * pages_row add up to its rss_bytes. */
struct page_map_row {
	uint64_t tile_bytes;	 /* a power of two, at least a page */
	uint64_t left_out_bytes; /* resident, of the smallest regions, if there were too many */
};

enum region_kind {
	REGION_HEAP,   /* of the allocator; of glibc the main one */
	REGION_ARENA,  /* a heap of another arena of glibc */
	REGION_MAPPED, /* blocks with a mapping of their own, and mappings of the program */
	REGION_OTHER,  /* anonymous memory that was not recorded */
	REGION_STATIC,
	REGION_STACK,
	REGION_SHARED,
	REGION_FILES, /* no tiles */
	REGION_OWN,   /* the recorder's; no tiles */
	REGION_KINDS,
};
/* One mapping, or neighbours of one kind; by address. */
struct region_row {
	uint64_t start, size_bytes;
	uint64_t kind;
	uint64_t resident_bytes, swapped_bytes;
	uint64_t used_bytes; /* resident and in a block, or in a mapping of the program */
	uint64_t blocks;     /* that start in it */
	uint64_t tiles;
};
/* A part of a region that is not empty, between multiples of tile_bytes; by region, then by address. */
struct tile_row {
	uint64_t start;
	uint64_t resident_bytes, swapped_bytes, used_bytes; /* sums of a region are its own */
	uint64_t site;	 /* the one with the most used bytes; 0: none */
	uint64_t age_ms; /* of used bytes in blocks, on average; UINT32_MAX: there are none */
};
/* A block of a region; by address. */
struct map_block_row {
	uint64_t start, size_bytes; /* with what the allocator adds to it, as far as it is known */
	uint64_t site, age_ms;	    /* UINT32_MAX: unknown */
};
/* With more blocks than this the map has none of them. */
enum { MAP_REGIONS_MAX = 4096, MAP_TILES_MAX = 16384, MAP_BLOCKS_MAX = 200000 };

struct pages_rows {
	struct pages_row *sums; /* one; NULL: pages were not read */
	struct site_pages_row *sites;
	struct heap_row *heaps;
	struct page_map_row *map; /* one; NULL: of an older version */
	struct region_row *regions;
	struct tile_row *tiles;
	struct map_block_row *blocks; /* none, or those of all regions */
	size_t sum_count, site_count, heap_count;
	size_t map_count, region_count, tile_count, block_count;
};
void pages_rows_release(struct pages_rows *pages);

#endif
