/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of sites that are a cost and columns only:
 *
 *   sites      every stack that allocated, with all its numbers, heaviest at the peak first
 *   peak       who held the memory when there was most of it, and what became of it
 *   temporary  blocks that their thread freed before it allocated again: they could live on the
 *              stack, or be kept and used again
 */
#include "analysis/query/site_table.h"

static bool is_temporary(const struct entry *e)
{
	return e->m.temporary != 0;
}

const struct site_view sites_all = {
	.ask = { COST_LIVE, MOMENT_PEAK, KINDS_ALL },
	.columns =
		SITE_COLUMN_LIST(SITE_PEAK_BYTES, SITE_LEAKED_BYTES, SITE_CALLS, SITE_TOTAL_BYTES,
				 SITE_TEMPORARY_CALLS, SITE_MEAN_LIFETIME_NS, SITE_COPIED_BYTES),
};

const struct site_view sites_peak = {
	.ask = { COST_LIVE, MOMENT_PEAK, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_MEAN_BYTES, SITE_MAX_BYTES, SITE_LEAKED_BYTES, SITE_CALLS,
				    SITE_MEAN_LIFETIME_NS),
	.wanted = site_is_live,
};

const struct site_view sites_temporary = {
	.ask = { COST_TEMPORARY, MOMENT_DEFAULT, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_TEMPORARY_CALLS, SITE_TEMPORARY_SHARE, SITE_CALLS,
				    SITE_TOTAL_BYTES, SITE_MEAN_BYTES, SITE_MEAN_LIFETIME_NS),
	.wanted = is_temporary,
};
