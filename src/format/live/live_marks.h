/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the marks that the program made in its live profile, while it runs. The profile is untrusted input. */
#ifndef FORMAT_LIVE_LIVE_MARKS_H
#define FORMAT_LIVE_LIVE_MARKS_H

#include <stdbool.h>

#include "format/live/live_read.h"
#include "format/recording/rows.h"

struct live_mark_read {
	enum live_mark_kind kind;
	char name[LIVE_TAG_TEXT_MAX + 1];
	uint64_t mono_ns; /* 0 = unknown */
	uint64_t at_ms;
	/* SNAPSHOT: the saved values */
	bool saved;
	uint64_t saved_at;
	uint32_t saved_count, site_counters_count;
	uint32_t saved_stride; /* from one array to the next; 0: only the live numbers were saved */
};

/* Reads mark number `index`; false: it does not exist, or is not published yet. */
bool live_mark_get(const void *memory, uint64_t mapped_bytes, size_t index,
		   struct live_mark_read *ret);

/* The numbers of every site at a saved snapshot, like live_read_sites; without saved_stride there are no counts. */
int live_read_saved_sites(const void *memory, uint64_t mapped_bytes,
			  const struct live_mark_read *mark, struct live_sites *ret);

/* How far the live numbers of a site may be off. */
struct live_moved live_site_bound(const struct live_sites *sites, size_t site);
/* The sum of all heap sites. Pre: the sites were read from this memory. */
struct live_now live_sum_heap(const void *memory, uint64_t mapped_bytes,
			      const struct live_sites *sites);
#endif
