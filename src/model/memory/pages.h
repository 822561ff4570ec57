/* SPDX-License-Identifier: Apache-2.0 */
/* Which sites the resident memory of a process belonged to, at the one moment for which it was asked. */
#ifndef MODEL_MEMORY_PAGES_H
#define MODEL_MEMORY_PAGES_H

#include "model/profile.h"

/* Resident bytes; those from sites_bytes to changed_bytes add up to rss_bytes. */
struct profile_pages {
	uint64_t at_ns; /* since the process' start */
	uint64_t rss_bytes;
	uint64_t sites_bytes; /* pages with live blocks, and mappings of the program */
	uint64_t free_bytes;  /* pages of the allocator without a live block */
	uint64_t unrecorded_bytes, static_bytes, stack_bytes, shared_bytes, file_bytes, own_bytes;
	uint64_t changed_bytes;	 /* became resident while the pages were read */
	uint64_t waste_bytes;	 /* part of sites_bytes in no live block */
	uint64_t trim_bytes;	 /* part of free_bytes that malloc_trim(0) of glibc returns */
	uint64_t changed_blocks; /* allocated or freed meanwhile: not counted */
	bool knows_huge;
	bool at_exit; /* the process waited for this before it exited */
	/* There may be blocks that are not known, on pages that count as free: nothing is forecast for heaps. */
	bool has_inherited;  /* from before a fork */
	bool has_unrecorded; /* not recorded, or not exactly */
	size_t heap_count;
};

struct site_pages {
	uint64_t blocks, live_bytes;
	uint64_t resident_bytes; /* its share of the pages */
	uint64_t sole_bytes;	 /* pages that only its blocks keep: empty if these were freed */
	uint64_t any_bytes;	 /* pages with a block of it */
	uint64_t pinned_bytes;	 /* waste of pages on which its block will live longest */
	uint64_t arena_bytes;	 /* saved if its blocks were together on pages of their own */
	uint64_t swapped_bytes, huge_bytes, untouched_bytes, zero_bytes;
};

/* A heap of glibc, and the blocks at its end that keep it from shrinking. */
struct profile_heap {
	uint64_t start, size_bytes, resident_bytes, free_bytes;
	bool is_main;
	uint64_t held_bytes; /* free pages below these blocks; 0: none */
	uint64_t holder_blocks, holder_bytes, holder_age_ns;
	const struct profile_site *holder; /* of the lowest of them; NULL: none */
};

/* Sets the process' `pages`. Pre: its rows were checked, and `same` is set. -1 if out of memory. */
int pages_build(struct profile_process *process, struct arena *arena);

/* False: the pages of this process were not read, or it has called exec since. */
bool profile_has_pages(const struct profile_process *process);
/* The same. */
bool profile_pages(const struct profile_process *process, struct profile_pages *ret);
/* Whether those of any process were. */
bool profile_any_pages(const struct profile *profile);
/* All zero if the site had neither blocks nor mappings then. */
struct site_pages profile_site_pages(const struct profile_process *process, site_id site);
/* The site with this id; NULL: it has no numbers. */
const struct profile_site *profile_find_site(const struct profile_process *process, uint64_t id);
/* Pre: index < heap_count. */
struct profile_heap profile_heap_at(const struct profile_process *process, size_t index);

#endif
