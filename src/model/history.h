/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile over time: the time series, the snapshots with the live numbers of every site, and the
 * memory sheets. Times are since the process' start.
 */
#ifndef MODEL_HISTORY_H
#define MODEL_HISTORY_H

#include "model/profile.h"

/* What was live is never more than the peak: limits a number that is right within `bound`, and the bound. */
void profile_limit_live(const struct profile_process *process, uint64_t *bytes, uint64_t *bound);

/* One moment of the time series. Counters are cumulative. */
struct profile_sample {
	uint64_t at_ns;
	uint64_t live_bytes, live_blocks;
	uint64_t calls, bytes, frees;
	uint64_t rss_bytes;
	uint64_t threads; /* cumulative: all threads ever started */
	uint64_t map_live_bytes;
	uint64_t own_bytes; /* memory of the recorder */
	struct live_bound live_bound;
};
size_t profile_sample_count(const struct profile_process *process);
struct profile_sample profile_sample(const struct profile_process *process, size_t index);

/* A moment at which all sites were recorded; ordered by time. */
struct profile_snapshot {
	uint64_t at_ns;
	uint64_t live_bytes, live_blocks, rss_bytes;
	size_t change_count;
	bool counted;		      /* profile_counts_at is known */
	struct live_bound live_bound; /* of these sums and of each heap site */
};
size_t profile_snapshot_count(const struct profile_process *process);
struct profile_snapshot profile_snapshot(const struct profile_process *process, size_t index);

/* Live numbers of a site; negative only if the process was read in the middle of a call. */
struct site_live {
	int64_t bytes, blocks;
};

/* The largest site id of the process + 1: the size of a table by site id. */
size_t profile_site_ids(const struct profile_process *process);

/* A site some of whose numbers differ from the previous snapshot. Pre: change < change_count. */
struct profile_change {
	site_id site;
	struct site_live live; /* at this snapshot */
};
struct profile_change profile_change(const struct profile_process *process, size_t snapshot,
				     size_t change);

/* The live numbers of each site at the snapshot, by site id; in the arena. NULL if out of memory. */
struct site_live *profile_live_at(const struct profile_process *process, size_t snapshot,
				  struct arena *arena);

/* What each site had counted by then, since the start, by site id, with the variances of estimates; in the arena. NULL if out of
 * memory. Pre: the snapshot is counted. */
struct site_counts {
	uint64_t calls, bytes, frees, freed_bytes;
	uint64_t temporary_calls, fragmentation_bytes;
	double calls_variance, bytes_variance, frees_variance, freed_bytes_variance;
};
struct site_counts *profile_counts_at(const struct profile_process *process, size_t snapshot,
				      struct arena *arena);
/* The same at the end, of any part of a site. */
struct site_counts site_counts_of(const struct site_numbers *numbers);

/* A named moment; ordered by time. */
struct profile_moment {
	uint64_t at_ns;
	const char *name;
	bool is_snapshot; /* else only an event on the time line */
	size_t snapshot;  /* 1 + its index; 0: none */
};
size_t profile_moment_count(const struct profile_process *process);
struct profile_moment profile_moment(const struct profile_process *process, size_t index);

/* Memory sheets: breakdowns of memory at some moments, by time. */
size_t profile_memory_count(const struct profile_process *process);
struct profile_memory profile_memory_at(const struct profile_process *process, size_t index);

#endif
