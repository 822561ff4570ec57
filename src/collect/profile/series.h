/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process is like over time, in bounded memory: a series of totals, and snapshots of the sites that changed.
 * Both begin fine; when full, every other point goes and the interval doubles.
 */
#ifndef COLLECT_PROFILE_SERIES_H
#define COLLECT_PROFILE_SERIES_H

#include <stdbool.h>

#include "format/recording/rows.h"
#include "util/vector.h"

enum {
	SERIES_POINTS_MAX = 2048,
	SNAPSHOTS_MAX = 200,
	MEMORIES_MAX = 200,
	SNAPSHOT_SITES_MAX = 1 << 17, /* changed sites in all snapshots: bounds memory and file */
	SNAPSHOTS_KEPT = 4,	      /* however many sites they hold */
	SNAPSHOTS_NAMED_MAX = 4096,   /* that were asked for and so are never thinned out */
};
#define SERIES_INTERVAL_NS 10000000ull
#define SNAPSHOT_INTERVAL_NS 100000000ull
#define MEMORY_FIRST_NS 10000000ull /* most who end earlier are not worth it */

struct series {
	VECTOR(struct series_row) points;
	uint64_t interval_ns,
		next_ns; /* since the process' start; next_ns is when a point is due */
};
void series_init(struct series *series);
void series_release(struct series *series);
/* Adds a point and says when the next is due. Out of memory: the point is left out. */
void series_add(struct series *series, const struct series_row *row);

/* Where the memory is: read at least once a second and at new maxima, never for more than a hundredth of the time. Rows that
 * stay are interval_ns apart and thinned as the snapshots are; the last one, the ones with the most resident and live bytes, and
 * those of named snapshots stay. */
struct memories {
	VECTOR(struct memory_row) rows;
	uint64_t interval_ns;
	uint64_t next_ns;     /* when one is due */
	uint64_t earliest_ns; /* and when one may be read because there is a reason */
	uint64_t most_rss_bytes, most_live_bytes; /* of all that were read */
	uint64_t most_rss_ns, most_live_ns;	  /* and the rows that had it first */
	size_t named; /* of the rows, those of named snapshots: as many as others at most */
};
void memories_init(struct memories *memories);
void memories_release(struct memories *memories);
bool memories_is_due(const struct memories *memories, uint64_t at_ns, uint64_t rss_bytes,
		     uint64_t live_bytes);
/* took_ns: how long it took to read. */
void memories_add(struct memories *memories, const struct memory_row *row, uint64_t took_ns);

struct snapshots {
	VECTOR(struct snapshot_row) rows;
	VECTOR(struct snapshot_site) sites;
	struct snapshot_site *last; /* every site as it was; index = site */
	size_t last_count;
	size_t named; /* of the rows, those that a mark asked for */
	uint64_t interval_ns, next_ns;
};
void snapshots_init(struct snapshots *snapshots);
void snapshots_release(struct snapshots *snapshots);
/* Adds what changed. `now` (all sites, index = site) was malloc'd and becomes the snapshots'. `row` gives everything
 * but sites_at and sites_count; one with a mark stays whatever becomes of the others, unless there are too many. */
void snapshots_add(struct snapshots *snapshots, const struct snapshot_row *row,
		   struct snapshot_site *now, size_t count);
/* Says how long taking the last one took: it may not cost more than a fiftieth of the time. */
void snapshots_cost(struct snapshots *snapshots, uint64_t took_ns);

#endif
