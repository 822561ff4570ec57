/* SPDX-License-Identifier: Apache-2.0 */
/* The views. Each analysis is one file plus one row in analyses.c. */
#ifndef ANALYSIS_ANALYSES_H
#define ANALYSIS_ANALYSES_H

#include <stddef.h>

#include "analysis/result/locations.h"
#include "analysis/result/query.h"
#include "analysis/result/result.h"
#include "model/profile.h"
#include "util/error.h"

/*
 * Pure: the same profile and query give the same result; `locations` only caches resolved frames. The
 * result must not outlive the profile or `locations`. Returns NULL if out of memory.
 */
typedef struct result *analysis_run(const struct profile *profile, struct locations *locations,
				    const struct query *query, struct error *error);

/* The parts of a query that are not filters. */
enum analysis_takes {
	VIEW_TAKES_COST = 1,
	VIEW_TAKES_MOMENT = 2,
	VIEW_TAKES_BY = 4,
	VIEW_TAKES_KIND = 8,
	VIEW_TAKES_SECOND_COST = 32,
	VIEW_TAKES_FREED_IN = 64,
	VIEW_TAKES_AT = 16, /* a single moment, but not the difference of two */
	VIEW_TAKES_CALLEES = 128,
	VIEW_TAKES_DEPTH = 256,
	VIEW_TAKES_THRESHOLD = 512,
};

struct site_view;
struct analysis {
	const char *name;
	const char *help;	       /* one line, no full stop */
	analysis_run *run;	       /* NULL if the row uses a shared implementation, below */
	unsigned takes;		       /* bits of enum analysis_takes */
	bool compares;		       /* can show what changed between recordings */
	const struct site_view *sites; /* a list of sites: which sites and which columns */
	enum axis_id by;	       /* one row per value of this axis */
	bool needs_pages; /* of pages, which a recording has only if it was asked for them */
	bool needs_run;	  /* about a run: unknown of a heap profile of another tool */
};

/* Terminated by a row whose name is NULL; the first row is the default. */
extern const struct analysis analyses[];
const struct analysis *analysis_find(const char *name);
/* Runs the view; same contract as analysis_run. */
struct result *analysis_answer(const struct analysis *view, const struct profile *profile,
			       struct locations *locations, const struct query *query,
			       struct error *error);
/* Returns -1 with the error set if the view, or its comparison, takes no such part. */
int analysis_check_taken(const struct analysis *view, enum analysis_takes part, const char *option,
			 bool compares, struct error *error);
/* Returns -1 with the error set if the view would ignore a part of the query. The views check filters themselves. */
int analysis_check(const struct analysis *analysis, const struct query *query, struct error *error);

extern const struct site_view sites_all, sites_peak, sites_leaks, sites_temporary, sites_lifetimes,
	sites_reallocs, sites_pages, sites_pins;

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
analysis_run analyse_freed_by;
analysis_run analyse_pools;
analysis_run analyse_snapshots;
analysis_run analyse_globals;
analysis_run analyse_map;

#endif
