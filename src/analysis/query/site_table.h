/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views that are a list of sites: sites, leaks, peak, temporary, lifetimes, reallocs.
 *
 * To a program a site is the same record in all of them. A view says which of its numbers people
 * see, in which order, and which sites belong to its question; the rest is done here: selection,
 * order, the share of the cost, and the line that says what is not shown.
 */
#ifndef ANALYSIS_QUERY_SITE_TABLE_H
#define ANALYSIS_QUERY_SITE_TABLE_H

#include "analysis/result/build.h"
#include "analysis/query/selection.h"

enum site_column {
	SITE_PROCESS,
	SITE_ID,
	SITE_KIND,
	SITE_TAG,
	SITE_POOL,
	SITE_LABELS, /* of the program, by key */
	SITE_STATE, /* of what is left: "not freed at exit", or "live" because the process goes on; "freed": nothing is */
	SITE_SHARE, /* of the cost; for people only, like all without a name */
	SITE_LIVE_BYTES, /* at the moment asked for, or the end */
	SITE_LIVE_BLOCKS,
	SITE_PEAK_BYTES,
	SITE_PEAK_BLOCKS,
	SITE_LEAKED_BYTES, /* at the end */
	SITE_LEAKED_BLOCKS,
	SITE_TOTAL_BYTES,
	SITE_CALLS,
	SITE_RATE,
	SITE_MEAN_BYTES,
	SITE_TEMPORARY_CALLS,
	SITE_TEMPORARY_SHARE, /* of its own calls */
	SITE_FREES,
	SITE_FREED_BYTES,
	SITE_MAX_BYTES,
	SITE_MAX_EXACT,
	SITE_WASTE_BYTES,
	SITE_LEAKED_WASTE_BYTES,
	SITE_LEAKED_MEAN_BYTES,
	SITE_LIFETIME_NS,
	SITE_MEAN_LIFETIME_NS,
	SITE_BRIEF_FREES, /* within a millisecond */
	SITE_BRIEF_SHARE, /* of its own frees */
	SITE_HALF_WITHIN_NS,
	SITE_ALL_WITHIN_NS,
	SITE_SAMPLES,
	SITE_BORN_NS,
	SITE_HALF_OLDER_NS, /* of the bytes that are left; only in views that list it, as the next two */
	SITE_OLDEST_NS,
	SITE_AGES,
	SITE_COPIED_BYTES,
	SITE_REALLOC,
	SITE_REALLOC_CALLS, /* parts of SITE_REALLOC, for people */
	SITE_MOVED_SHARE,
	SITE_GROWN_CALLS,
	SITE_SHRUNK_CALLS,
	SITE_GROWTH,
	SITE_SIZES,
	SITE_LIFETIMES,
	SITE_LABEL,
	SITE_STACK,
	SITE_COLUMNS,
};

struct site_view {
	struct ask ask;
	/* What people see behind the cost and its share; ends with SITE_COLUMNS. */
	const enum site_column *columns;
	/* Which sites answer the question; NULL: all. */
	bool (*wanted)(const struct entry *entry);
	/* The order where no cost was asked for, which is then not shown; NULL: by the cost. */
	uint64_t (*weight)(const struct selection *selection, const struct entry *entry);
	/* More sentences behind the headline, and one field of the head; NULL: none. */
	void (*say)(struct sentences *sentences, const struct selection *selection);
};

#define SITE_COLUMN_LIST(...) ((const enum site_column[]){ __VA_ARGS__, SITE_COLUMNS })

/* For `wanted`: something of it is live at the moment asked for. */
bool site_is_live(const struct entry *entry);

/* NULL with the error set. */
struct result *site_view_run(const char *name, const struct site_view *view,
			     const struct profile *profile, struct locations *locations,
			     const struct query *query, struct error *error);

#endif
