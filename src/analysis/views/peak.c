/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `peak`: who held the memory when there was most of it, and what became of it: each site's
 * own maximum, and what it still held at the end.
 */
#include "analysis/query/site_table.h"

static bool holds_something(const struct entry *e)
{
	return e->m.live_bytes != 0 || e->m.live_blocks != 0;
}

struct result *analyse_peak(const struct profile *profile, struct places *places,
			    const struct query *query, struct error *error)
{
	static const enum site_column columns[] = {
		SITE_MEAN_BYTES, SITE_MAX_BYTES,	SITE_LEAKED_BYTES,
		SITE_CALLS,	 SITE_MEAN_LIFETIME_NS, SITE_COLUMNS,
	};
	static const struct site_view view = {
		.name = "peak",
		.ask = { COST_LIVE, MOMENT_PEAK, KINDS_HEAP },
		.columns = columns,
		.wanted = holds_something,
	};

	return site_view_run(&view, profile, places, query, error);
}
