/* SPDX-License-Identifier: Apache-2.0 */
/* The views. An analysis is one file and one row in analyses.c. */
#ifndef ANALYSIS_ANALYSES_H
#define ANALYSIS_ANALYSES_H

#include <stddef.h>

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "analysis/result/result.h"
#include "model/profile.h"
#include "util/error.h"

/*
 * Pure: the same profile and query give the same result; `locations` only remembers what it resolved.
 * The result must not outlive profile and locations. NULL if out of memory.
 */
typedef struct result *analysis_run(const struct profile *profile, struct locations *locations,
				    const struct query *query, struct error *error);

/* Parts of a query that are no filters. */
enum analysis_takes {
	VIEW_TAKES_COST = 1,
	VIEW_TAKES_MOMENT = 2,
	VIEW_TAKES_BY = 4,
	VIEW_TAKES_KIND = 8,
	VIEW_TAKES_AT = 16, /* one moment, but no difference of two */
};

struct site_view;
struct analysis {
	const char *name;
	const char *help;	       /* one line, no full stop */
	analysis_run *run;	       /* NULL: a row of what several share, below */
	unsigned takes;		       /* of enum analysis_takes */
	bool compares;		       /* it can answer what changed between recordings */
	const struct site_view *sites; /* a list of sites: which, and which columns */
	enum axis_id by;	       /* a row for each on this axis */
};

/* Ends with a row whose name is NULL; the first is the default. */
extern const struct analysis analyses[];
const struct analysis *analysis_find(const char *name);
/* What the view says; as analysis_run. */
struct result *analysis_answer(const struct analysis *view, const struct profile *profile,
			       struct locations *locations, const struct query *query,
			       struct error *error);
/* -1 with the error set if the query has a part that the view would ignore. Filters are checked by the views themselves. */
int analysis_check(const struct analysis *analysis, const struct query *query, struct error *error);

extern const struct site_view sites_all, sites_peak, sites_leaks, sites_temporary, sites_lifetimes,
	sites_reallocs;

analysis_run analyse_summary;
analysis_run analyse_timeline;
analysis_run analyse_growth;
analysis_run analyse_history;
analysis_run analyse_modules;
analysis_run analyse_sizes;
analysis_run analyse_threads;
analysis_run analyse_advice;
analysis_run analyse_memory;
analysis_run analyse_processes;
analysis_run analyse_health;
analysis_run analyse_tree;
analysis_run analyse_flame;
analysis_run analyse_tags;
analysis_run analyse_pools;
analysis_run analyse_snapshots;

#endif
