/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of views.
 *
 * A new one is a file here that turns a profile into a result, and a row below; every renderer shows
 * it at once, and the row's words are in `heapgauge help report`.
 */
#include "analysis/analyses.h"

#include <string.h>

const struct analysis analyses[] = {
	{ "summary", "what happened: peak, leaks, churn, and what was not recorded",
	  analyse_summary, true },
	{ "peak", "who held the memory when there was most of it", analyse_peak, true },
	{ "leaks", "what was never freed, and how old it is", analyse_leaks, true },
	{ "temporary", "blocks freed before the next was asked for", analyse_temporary, true },
	{ "lifetimes", "how long blocks live, over all and by site", analyse_lifetimes, true },
	{ "sizes", "how much is asked for at a time, and what rounding adds", analyse_sizes },
	{ "reallocs", "blocks that grow step by step, and what was copied", analyse_reallocs,
	  true },
	{ "threads", "what each thread asked for, and who frees what others allocated",
	  analyse_threads },
	{ "sites", "every stack that allocated, heaviest first", analyse_sites, true },
	{ "advice", "what could be done better, with the evidence and the saving", analyse_advice },
	{ "memory", "the balance sheet: requested, held by the allocator, stacks, files, RSS",
	  analyse_memory },
	{ "processes", "who started whom, and what each did", analyse_processes },
	{ "health", "how far the numbers can be trusted, and what the recorder cost",
	  analyse_health },
	{ "modules", "programs and libraries, by build-id, and how far they have names",
	  analyse_modules },
	{ "functions", "functions by what they asked for, or what --by says", analyse_functions,
	  true },
	{ "types", "C++ and Rust types and containers, as far as names tell", analyse_types, true },
	{ "tree", "who called whom", analyse_tree, true },
	{ "flame", "the same for a picture, whole: see --format json", analyse_flame, true },
	{ "tags", "what the program called it: a tree with visits", analyse_tags },
	{ "pools", "the program's own allocators: live, most, total", analyse_pools },
	{ "snapshots", "moments that have a name, and what changed between them",
	  analyse_snapshots },
	{ "timeline", "live, RSS and rates over time, with the peak and the kept moments",
	  analyse_timeline },
	{ "history", "what the heaviest sites held over time", analyse_history },
	{ "growth", "what grows, how fast, and whether it is bounded", analyse_growth },
	{ NULL, NULL, NULL },
};

const struct analysis *analysis_find(const char *name)
{
	for (const struct analysis *a = analyses; a->name; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}
