/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings compared: a selection whose entries are stacks that the runs before and after have in common, with what
 * changed.
 *
 * Stacks match by the functions on them, inlined ones too, and the base names of their modules: a rebuild, a moved line
 * or another folder changes nothing. With several runs on a side, means are compared; a change that is not
 * larger than the runs of one side differ among themselves is said to be within the spread.
 */
#ifndef ANALYSIS_QUERY_COMPARISON_H
#define ANALYSIS_QUERY_COMPARISON_H

#include "analysis/query/selection.h"

struct comparison {
	const struct profile *const *before, *const *after;
	size_t before_count, after_count; /* at least one each */
	uint64_t per; /* units of work in each run: numbers are per unit; 0: 1 */
};

/* Of an entry, or of all: the cost in each run, first those before. */
struct compared {
	int64_t before, after, change; /* means, per unit */
	int64_t spread;		       /* the larger difference among the runs of one side */
	bool within_spread;	       /* several runs, and the change is no larger */
	/* Of estimates: standard errors, and whether there may well be no change at all: it is no larger than what chance
	 * makes of two equal ones in 95 of 100 cases. */
	double before_error, after_error, change_error;
	bool within_noise;
};

/* Instead of selection_make if the query compares. */
int comparison_select(struct selection *selection, struct locations *locations,
		      const struct query *query, struct ask ask, struct error *error);
struct compared comparison_of(const struct selection *selection, const struct entry *entry);
struct compared comparison_whole(const struct selection *selection);

/* The views of a comparison. */
struct result *comparison_summary(struct locations *locations, const struct query *query,
				  struct error *error);
struct result *comparison_stacks(const char *view, struct locations *locations,
				 const struct query *query, struct ask ask, struct error *error);

#endif
