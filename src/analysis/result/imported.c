/* SPDX-License-Identifier: Apache-2.0 */
/* See imported.h. Pure. */
#include "analysis/result/imported.h"

bool profile_is_imported(const struct profile *profile)
{
	return profile->process_count && profile->processes[0].imported;
}

bool imported_knows(const struct profile *profile, enum cost_id cost, enum moment_kind at)
{
	if (!profile_is_imported(profile))
		return true;
	switch (cost) {
	case COST_LIVE:
	case COST_BLOCKS:
		return at == MOMENT_DEFAULT || at == MOMENT_END;
	case COST_TOTAL:
	case COST_CALLS:
		return profile->processes[0].has_totals;
	default:
		return false;
	}
}

static bool is_axis_unknown(enum axis_id by)
{
	return by == AXIS_THREAD || by == AXIS_SIZE || by == AXIS_PROCESS || by == AXIS_ENTRY ||
	       by == AXIS_POOL;
}

int imported_choose(const struct profile *profile, const struct query *q, enum cost_id *cost,
		    struct moment *at, struct error *error)
{
	if (!profile_is_imported(profile))
		return 0;
	if (q->at.kind > MOMENT_END || q->at.kind == MOMENT_PEAK || q->minus.kind)
		return error_set(error,
				 "the peak and other moments are not known: a heap profile of "
				 "another tool has one moment, which --cost live shows");
	if (q->has_axis && is_axis_unknown(q->by))
		return error_set(error,
				 "%s are not known: a heap profile of another tool has live memory "
				 "by stack",
				 axis_rows[q->by].plural);
	if (q->has_cost && !imported_knows(profile, q->cost, q->at.kind))
		return error_set(error,
				 "the cost %s is not known: this heap profile of another tool has "
				 "only live%s",
				 cost_rows[q->cost].name,
				 profile->processes[0].has_totals ? ", blocks, total and calls"
								  : " and blocks");
	if (!imported_knows(profile, *cost, MOMENT_END))
		*cost = COST_LIVE;
	if (at->kind == MOMENT_PEAK)
		at->kind = MOMENT_END;
	return 0;
}

int imported_check(const struct profile *profile, const char *view, bool needs_run,
		   struct error *error)
{
	if (!needs_run || !profile_is_imported(profile))
		return 0;
	return error_set(
		error,
		"the view %s is not known: a heap profile of another tool has live memory%s "
		"by stack, and nothing of the run; use the view sites, functions or tree",
		view, profile->processes[0].has_totals ? " and totals" : "");
}
