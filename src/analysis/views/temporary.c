/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `temporary`: blocks that their thread freed before it allocated again. They could live on
 * the stack, or be kept and used again.
 */
#include "analysis/query/site_table.h"

static bool is_temporary(const struct entry *e)
{
	return e->m.temporary != 0;
}

struct result *analyse_temporary(const struct profile *profile, struct places *places,
				 const struct query *query, struct error *error)
{
	static const enum site_column columns[] = {
		SITE_TEMPORARY_CALLS, SITE_TEMPORARY_SHARE,  SITE_CALLS,   SITE_TOTAL_BYTES,
		SITE_MEAN_BYTES,      SITE_MEAN_LIFETIME_NS, SITE_COLUMNS,
	};
	static const struct site_view view = {
		.name = "temporary",
		.ask = { COST_TEMPORARY, MOMENT_DEFAULT, KINDS_HEAP },
		.columns = columns,
		.wanted = is_temporary,
	};

	return site_view_run(&view, profile, places, query, error);
}
