/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares recordings: a selection whose entries are the stacks of the runs before and after, with their changes.
 *
 * Stacks match by their functions, including inlined calls, and the base names of their modules: a rebuild, a moved
 * line or another folder makes no difference. With several runs on a side, means are compared; a change no larger than
 * the difference among the runs of one side is reported as within the spread.
 */
#ifndef ANALYSIS_QUERY_COMPARISON_H
#define ANALYSIS_QUERY_COMPARISON_H

#include "analysis/query/selection.h"

struct comparison {
	const struct profile *const *before, *const *after;
	size_t before_count, after_count; /* at least one on each side */
	uint64_t per; /* units of work in each run; numbers are per unit; 0: 1 */
};

/* The comparison of an entry or of the whole selection. */
struct compared {
	int64_t before, after, change; /* means, per unit */
	int64_t spread;		       /* the larger of the two ranges among the runs of one side */
	bool within_spread;	       /* several runs, and the change does not exceed the spread */
	/* Standard errors of estimates, and whether the change may be chance: it is no larger than the difference of two
	 * equal values is in 95 of 100 cases. */
	double before_error, after_error, change_error;
	bool within_noise;
};

/* Replaces selection_make for queries that compare recordings. */
int comparison_select(struct selection *selection, struct locations *locations,
		      const struct query *query, struct view_defaults defaults,
		      struct error *error);
struct compared comparison_of(const struct selection *selection, const struct entry *entry);
struct compared comparison_whole(const struct selection *selection);

/* Which runs recorded nothing, and why, so that all of the other side seems to be new or gone; in the arena. NULL: none, or out of
 * memory. */
const char *comparison_nothing(const struct comparison *comparison, struct arena *arena);

/* The views of a comparison. */
struct result *comparison_summary(struct locations *locations, const struct query *query,
				  struct error *error);
struct result *comparison_stacks(const char *view, struct locations *locations,
				 const struct query *query, struct view_defaults defaults,
				 struct error *error);

#endif
