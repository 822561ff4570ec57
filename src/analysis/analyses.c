/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of views.
 *
 * To add a view, write a file in views/ that turns a profile into a result and add a row below. Every
 * renderer can show it at once, and `heapgauge help report` prints the row's name and help. Rows with
 * `sites` or `by` share an implementation and hold only the differences.
 */
#include "analysis/analyses.h"

#include <string.h>

#include "analysis/result/imported.h"
#include "analysis/query/site_table.h"
#include "analysis/views/groups.h"
#include "base/compiler.h"
#include "model/memory/pages.h"

/* The parts of a query, besides filters, that most views accept. Each view rejects combinations
 * that make no sense for it. */
#define ADDS_UP (VIEW_TAKES_COST | VIEW_TAKES_MOMENT | VIEW_TAKES_KIND | VIEW_TAKES_BY)
#define OVER_TIME (ADDS_UP & ~(unsigned)VIEW_TAKES_BY)
#define SITES (ADDS_UP | VIEW_TAKES_THRESHOLD)
#define TREE (ADDS_UP | VIEW_TAKES_CALLEES | VIEW_TAKES_DEPTH | VIEW_TAKES_THRESHOLD)

const struct analysis analyses[] = {
	{ "summary", "overview: peak, memory not freed, allocations, and what was not recorded",
	  analyse_summary, 0, true },
	{ "peak", "what was live when the heap was largest", NULL, SITES, true,
	  .sites = &sites_peak, .needs_run = true },
	{ "leaks", "what was not freed at exit, how old it is and, of an image, who holds it", NULL,
	  SITES, true, .sites = &sites_leaks },
	{ "temporary", "blocks freed before the next allocation", NULL, SITES, true,
	  .sites = &sites_temporary, .needs_run = true },
	{ "lifetimes", "how long blocks live, overall and by site", NULL, SITES, true,
	  .sites = &sites_lifetimes, .needs_run = true },
	{ "sizes", "distribution of requested sizes, and internal fragmentation", analyse_sizes,
	  SITES, .needs_run = true },
	{ "reallocs", "blocks that grow by realloc, and bytes copied", NULL, SITES, true,
	  .sites = &sites_reallocs, .needs_run = true },
	{ "threads", "allocations of each thread, and cross-thread frees", analyse_threads,
	  VIEW_TAKES_COST, .needs_run = true },
	{ "sites", "every stack that allocated, heaviest first", NULL, SITES, true,
	  .sites = &sites_all },
	{ "advice", "possible improvements, with evidence and savings", analyse_advice, ADDS_UP,
	  .needs_run = true },
	{ "memory", "balance sheet from requested bytes to RSS: allocator overhead, stacks, files",
	  analyse_memory, VIEW_TAKES_AT, .needs_run = true },
	{ "globals", "global and thread-local variables: size, resident bytes, file and line",
	  analyse_globals, 0, .needs_run = true },
	{ "pages", "resident memory by site: record --pages-on, or --pid", NULL, 0,
	  .sites = &sites_pages, .needs_run = true, .needs_pages = true },
	{ "pins", "sites that keep mostly free pages, and what would come back", NULL, 0,
	  .sites = &sites_pins, .needs_run = true, .needs_pages = true },
	{ "map", "where resident memory is: heaps, arenas, mappings; tiles and blocks as JSON",
	  analyse_map, 0, .needs_run = true, .needs_pages = true },
	{ "processes", "process tree, with the numbers of each process", analyse_processes, 0,
	  .needs_run = true },
	{ "health", "how reliable the numbers are, and what recording cost", analyse_health, 0,
	  .needs_run = true },
	{ "modules", "programs and libraries with build-ids, and how many frames have names",
	  analyse_modules, 0 },
	{ "functions", "functions by bytes requested, or groups by --by", NULL, ADDS_UP, true,
	  .by = AXIS_FUNCTION },
	{ "types", "C++ and Rust types and containers, derived from function names", NULL, ADDS_UP,
	  true, .by = AXIS_TYPE },
	{ "tree", "call tree", analyse_tree, TREE | VIEW_TAKES_SECOND_COST, true },
	{ "flame", "complete call tree for a flame graph: see --format json", analyse_flame, TREE,
	  true },
	{ "tags", "tags set by the program, as a tree with visits", analyse_tags,
	  ADDS_UP | VIEW_TAKES_DEPTH, .needs_run = true },
	{ "pools", "custom allocators: live, maximum, total", analyse_pools, VIEW_TAKES_COST,
	  .needs_run = true },
	{ "freed-by", "which code frees what a site allocates: record --free-sites",
	  analyse_freed_by, VIEW_TAKES_FREED_IN, .needs_run = true },
	{ "snapshots", "snapshots, and what changed between them", analyse_snapshots, 0,
	  .needs_run = true },
	{ "timeline", "live, RSS and rates over time, with the peak and the snapshots",
	  analyse_timeline, 0, .needs_run = true },
	{ "history", "live bytes of the heaviest sites over time, or of their owners: --by own",
	  analyse_history, ADDS_UP, .needs_run = true },
	{ "growth", "what grows, how fast, and whether it is bounded", analyse_growth, OVER_TIME,
	  .needs_run = true },
	{ NULL, NULL, NULL },
};

const struct analysis *analysis_find(const char *name)
{
	for (const struct analysis *a = analyses; a->name; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

/* -1 with the error set: no process of the profile has pages. */
static int pages_check(const struct profile *profile, const char *view, struct error *error)
{
	if (profile->process_count == 0 || profile_any_pages(profile))
		return 0;
	const char *mode = profile->processes[0].mode;

	if (strcmp(mode, "exact") != 0)
		return error_set(
			error,
			"the view %s needs an exact recording, and this one is %s: without every "
			"block with its stack it is not known who shares a page",
			view, mode);
	if (strstr(profile->options, "--pages-on"))
		return error_set(
			error,
			"this recording has no pages, although --pages-on was given: its condition did "
			"not hold, or they could not be read, which record said");
	return error_set(
		error,
		"this recording has no pages: record with --pages-on end, or use --pid on a process that is being recorded");
}

struct result *analysis_answer(const struct analysis *view, const struct profile *profile,
			       struct locations *locations, const struct query *query,
			       struct error *error)
{
	if (imported_check(profile, view->name, view->needs_run, error) < 0)
		return NULL;
	if (view->needs_pages && pages_check(profile, view->name, error) < 0)
		return NULL;
	if (view->sites)
		return site_view_run(view->name, view->sites, profile, locations, query, error);
	if (view->by)
		return group_view_run(view->name, view->by, profile, locations, query, error);
	return view->run(profile, locations, query, error);
}

int analysis_check_taken(const struct analysis *view, enum analysis_takes part, const char *option,
			 bool compares, struct error *error)
{
	bool shapes_tree = part == VIEW_TAKES_CALLEES || part == VIEW_TAKES_DEPTH ||
			   part == VIEW_TAKES_THRESHOLD;

	/* The rows of a comparison of sites are the largest changes. */
	if (view->takes & part && !(compares && part == VIEW_TAKES_THRESHOLD && view->sites))
		return 0;
	return error_set(error, "the view %s takes no --%s: omit it, or use the view %s",
			 view->name, option,
			 part == VIEW_TAKES_BY	       ? "functions"
			 : part == VIEW_TAKES_FREED_IN ? "freed-by"
			 : shapes_tree		       ? "tree"
						       : "sites");
}

int analysis_check(const struct analysis *analysis, const struct query *query, struct error *error)
{
	const struct {
		enum analysis_takes part;
		bool given;
		const char *option;
	} parts[] = {
		{ VIEW_TAKES_COST, query->has_cost, "cost" },
		{ VIEW_TAKES_MOMENT | VIEW_TAKES_AT, query->at.kind != MOMENT_DEFAULT, "at" },
		{ VIEW_TAKES_MOMENT, query->minus.kind != MOMENT_DEFAULT, "minus" },
		{ VIEW_TAKES_BY, query->has_axis, "by" },
		{ VIEW_TAKES_FREED_IN, filters_look_at(&query->filters, RULE_FREED_IN),
		  "freed-in" },
		{ VIEW_TAKES_KIND, query->kinds != KINDS_DEFAULT, "kind" },
	};

	if (query->second_word && !(analysis->takes & VIEW_TAKES_SECOND_COST))
		return error_set(error, "the view %s takes one --cost: two are for the view tree",
				 analysis->name);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].given && analysis_check_taken(analysis, parts[i].part, parts[i].option,
							   false, error) < 0)
			return -1;
	return 0;
}
