/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of sites that only define a cost and columns:
 *
 *   sites      every stack that allocated, with all its numbers, heaviest at the peak first
 *   peak       which sites were live at the peak, and what became of their blocks
 *   temporary  blocks that their thread freed before its next allocation: they could be on the
 *              stack, or be reused
 */
#include "analysis/query/site_table.h"

static bool is_temporary(const struct entry *e)
{
	return e->m.temporary != 0;
}

const struct site_view sites_all = {
	.defaults = { COST_LIVE, MOMENT_PEAK, KINDS_ALL },
	.columns = SITE_COLUMN_LIST(SITE_PEAK_BYTES, SITE_NOT_FREED_BYTES, SITE_CALLS,
				    SITE_TOTAL_BYTES, SITE_TEMPORARY_CALLS, SITE_MEAN_LIFETIME_NS,
				    SITE_COPIED_BYTES),
};

const struct site_view sites_peak = {
	.defaults = { COST_LIVE, MOMENT_PEAK, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_MEAN_BYTES, SITE_MAX_BYTES, SITE_NOT_FREED_BYTES,
				    SITE_CALLS, SITE_MEAN_LIFETIME_NS),
	.wanted = site_is_live,
};

const struct site_view sites_temporary = {
	.defaults = { COST_TEMPORARY, MOMENT_DEFAULT, KINDS_HEAP },
	.columns = SITE_COLUMN_LIST(SITE_TEMPORARY_CALLS, SITE_TEMPORARY_SHARE, SITE_CALLS,
				    SITE_TOTAL_BYTES, SITE_MEAN_BYTES, SITE_MEAN_LIFETIME_NS),
	.wanted = is_temporary,
};
