/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `sites`: every stack that allocated, with all its numbers, heaviest at the peak first.
 */
#include "analysis/query/site_table.h"

struct result *analyse_sites(const struct profile *profile, struct places *places,
			     const struct query *query, struct error *error)
{
	static const enum site_column columns[] = {
		SITE_PEAK_BYTES,      SITE_LEAKED_BYTES,     SITE_CALLS,	SITE_TOTAL_BYTES,
		SITE_TEMPORARY_CALLS, SITE_MEAN_LIFETIME_NS, SITE_COPIED_BYTES, SITE_COLUMNS,
	};
	static const struct site_view view = {
		.name = "sites",
		.ask = { COST_LIVE, MOMENT_PEAK, KINDS_ALL },
		.columns = columns,
	};

	return site_view_run(&view, profile, places, query, error);
}
