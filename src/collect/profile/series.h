/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process over time, in bounded memory: a series of totals, and snapshots of the sites that changed. Both start at a fine
 * interval; when full, every other point is dropped and the interval doubles.
 */
#ifndef COLLECT_PROFILE_SERIES_H
#define COLLECT_PROFILE_SERIES_H

#include <stdbool.h>

#include "format/live/live_read.h"
#include "format/recording/rows.h"
#include "util/vector.h"

enum {
	SERIES_POINTS_MAX = 2048,
	SNAPSHOTS_MAX = 200,
	MEMORIES_MAX = 200,
	SNAPSHOT_SITES_MAX = 1 << 17, /* changed sites in all snapshots: bounds memory and file */
	SNAPSHOTS_KEPT = 4,	      /* minimum, however many sites they contain */
	SNAPSHOTS_NAMED_MAX = 4096,   /* were requested, and are never thinned out */
};
#define SERIES_INTERVAL_NS 10000000ull
#define SNAPSHOT_INTERVAL_NS 100000000ull
#define MEMORY_FIRST_NS 10000000ull /* most processes that end earlier do not matter */

struct series {
	VECTOR(struct series_row) points;
	uint64_t interval_ns,
		next_ns; /* since the process' start; next_ns: when a point is due next */
};
void series_init(struct series *series);
void series_release(struct series *series);
/* Adds a point and schedules the next. If out of memory, the point is dropped. */
void series_add(struct series *series, const struct series_row *row);

/* Rows of smaps and balance sheets: read at least once a second and at new maxima, in at most 1/100 of the time. Kept rows are
 * interval_ns apart and thinned like the snapshots; the last row, those with the maximum RSS and live bytes, and those of named
 * snapshots are always kept. */
/* Bytes that a process has allocated and released, mappings included. */
struct memory_flow {
	uint64_t allocated_bytes, released_bytes;
};
struct memories {
	VECTOR(struct memory_row) rows;
	uint64_t interval_ns;
	uint64_t next_ns;     /* when a row is due */
	uint64_t earliest_ns; /* earliest time to read one, even at a new maximum */
	uint64_t most_rss_bytes, most_live_bytes; /* over all rows that were read */
	uint64_t most_rss_ns, most_live_ns;	  /* the rows that first had these maxima */
	size_t named;		 /* rows of named snapshots: at most MEMORIES_MAX */
	struct memory_flow flow; /* when the last row was read */
};
void memories_init(struct memories *memories);
void memories_release(struct memories *memories);
bool memories_is_due(const struct memories *memories, uint64_t at_ns, uint64_t rss_bytes,
		     uint64_t live_bytes);
/* Adds to the last row what was allocated since it was read, and to `row`, unless NULL, what was released. Before memories_add(). A thread that
 * releases memory removes its record first, and one that allocates adds the record last: it may wait in between. */
void memories_note_flow(struct memories *memories, struct memory_row *row, struct memory_flow now);
/* took_ns: the cost of reading the row. */
void memories_add(struct memories *memories, const struct memory_row *row, uint64_t took_ns);

struct snapshots {
	VECTOR(struct snapshot_row) rows;
	VECTOR(struct snapshot_site) sites;
	VECTOR(struct snapshot_counts) counts; /* parallel to sites */
	struct live_sites last;		       /* all sites of the last snapshot */
	size_t named;			       /* rows that a mark requested */
	uint64_t interval_ns, next_ns;
};
void snapshots_init(struct snapshots *snapshots);
void snapshots_release(struct snapshots *snapshots);
/* Adds the changes. Takes what `now` owns; if it has no counts, they are those of the last snapshot. `row` has all fields except
 * sites_at, sites_count and counted; a row with a mark is never thinned out, unless there are too many. */
void snapshots_add(struct snapshots *snapshots, const struct snapshot_row *row,
		   struct live_sites *now);
/* Moves the snapshots to the rows. */
void snapshots_give(struct snapshots *snapshots, struct process_rows *rows);
/* Reports the cost of the last snapshot; the interval grows to keep it below 1/50 of the time. */
void snapshots_cost(struct snapshots *snapshots, uint64_t took_ns);

#endif
