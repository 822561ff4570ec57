/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a live profile: mapped memory -> rows, at any instant, while the target writes or after it has died. The memory is
 * untrusted: every index is checked against the region it refers to. */
#ifndef FORMAT_LIVE_LIVE_READ_H
#define FORMAT_LIVE_LIVE_READ_H

#include "format/live/live.h"
#include "format/live/live_now.h"
#include "format/recording/recording.h"

struct live_totals {
	uint64_t calls, bytes, frees, freed_bytes, temporary;
	uint64_t fragmentation, freed_fragmentation;
	uint64_t map_bytes, unmap_bytes, map_live_bytes, own_bytes;
	struct live_now live;
	int64_t peak_bytes;
	uint32_t slots, threads;
};

/* Sums over the slots: cheap, for the time series. Here and below, `moves` is how far entries moved while the memory was copied; NULL if
 * nothing wrote to it. */
int live_read_totals(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		     struct live_totals *ret);
/* The same for slots that the caller read. */
void live_totals_read(struct live_totals *ret, const struct live_slot *slots, size_t count,
		      const struct live_moves *moves, const struct live_header *head);

/* Reads everything except ages, series, snapshots and data that only the collector has (end, command, rss, later thread names).
 * mode_now: the recording mode, if no site shows it. */
int live_read_rows(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		   uint32_t mode_now, struct process_rows *ret, struct format_error *error);

/* The same without the distributions of sizes and lifetimes, and without the sums of lifetimes. */
int live_read_sums(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		   uint32_t mode_now, struct process_rows *ret, struct format_error *error);

/* Adds ages: walks the block map; now_ms is the clock. */
int live_read_ages(const void *memory, uint64_t mapped_bytes, uint64_t now_ms,
		   struct process_rows *rows, struct format_error *error);

/* Live blocks of the heap by their size, in the classes of live_pairs: walks the block map. -1: not a profile, one with
 * samples, whose errors are not known by size, or out of memory. */
struct live_size_class {
	uint64_t blocks, bytes;
};
int live_read_size_classes(const void *memory, uint64_t mapped_bytes,
			   struct live_size_class ret[static LIVE_PAIR_CLASSES]);

/* The numbers of every site (index = site id; site 0 does not exist), malloc'd. */
struct live_sites {
	struct snapshot_site *live;
	struct snapshot_counts *counts; /* NULL: unknown */
	size_t count;
	/* How far each site moved while it was read. Site 0: entries that belong to no site yet. */
	struct live_moves *moves;
};
int live_read_sites(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		    struct live_sites *ret);
void live_sites_release(struct live_sites *sites);
#endif
