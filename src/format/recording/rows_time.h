/* SPDX-License-Identifier: Apache-2.0 */
/* Rows about moments of a process. Included by format/recording/rows.h. */
#ifndef FORMAT_RECORDING_ROWS_TIME_H
#define FORMAT_RECORDING_ROWS_TIME_H

#include <stdint.h>

/* doc: chunk_series: one moment of the time series. Counters are cumulative. */
struct series_row {
	uint64_t at_ns; /* since the process' start; all members are columns in this order */
	uint64_t live_bytes, live_blocks, calls, bytes, frees;
	uint64_t rss_bytes, threads, map_live_bytes, own_bytes; /* own: the recorder's memory */
	uint64_t live_bound_bytes, live_bound_blocks; /* live numbers are right within; 0 = exact */
};

/* doc: chunk_snapshots: the numbers of every site that changed since the snapshot before. */
struct snapshot_site {
	uint32_t site;
	int64_t bytes, blocks; /* live */
};
/* What the site had counted by then; columns in this order. */
struct snapshot_counts {
	uint64_t calls, bytes, temporary, fragmentation;
};
struct snapshot_row {
	uint64_t at_ns;
	uint64_t live_bytes, live_blocks, rss_bytes;
	uint64_t live_bound_bytes, live_bound_blocks; /* as above, and of each heap site */
	uint32_t counted;		/* 1: it has what was counted, not only what was live */
	uint32_t sites_at, sites_count; /* in process_rows.snapshot_sites */
	uint32_t mark; /* not in a file: 1 + the mark that requested it; 0 = none */
};

/* doc: chunk_marks: a moment that has a name. */
struct mark_row {
	uint64_t at_ns;
	uint32_t kind;	   /* enum live_mark_kind */
	uint32_t snapshot; /* 1 + its row in snapshots; 0 = none */
	char *name;
};

#endif
