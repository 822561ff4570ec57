/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of exporters. `heapgauge export --format` accepts the names, and its help shows the rows;
 * `lost` and, for a sampled recording, `errors` are printed when the file is written, because a format
 * that silently omits data would be taken as complete.
 */
#include "export/exporters.h"

#include <string.h>

const struct exporter exporters[] = {
	{ "pprof", "pprof, Pyroscope, Parca, Grafana, Speedscope", export_pprof, ".pb.gz", NULL,
	  .errors =
		  "variances (squared standard errors, which add up) are sample types of their own",
	  .takes = TAKES_COST | TAKES_MOMENT },
	{ "otlp", "OpenTelemetry Collector: OTLP 1.10.0, profiles v1development; experimental",
	  export_otlp, ".otlp.pb",
	  "experimental: the schema is that of OTLP 1.10.0 (profiles v1development), and may still change",
	  .errors = "variances (squared standard errors, which add up) are profiles of their own",
	  .takes = TAKES_COST | TAKES_MOMENT },
	{ "folded", "flamegraph.pl, inferno, Speedscope: one stack per line", export_folded,
	  ".folded", "folded stacks carry one number: choose it with --cost",
	  .errors = "folded stacks cannot carry standard errors; see the report",
	  .takes = TAKES_COST | TAKES_MOMENT },
	{ "speedscope", "speedscope.app", export_speedscope, ".speedscope.json", NULL,
	  .errors = "the standard error of the total follows the name of each profile",
	  .takes = TAKES_COST | TAKES_MOMENT },
	{ "dot", "Graphviz: the call graph, hot path coloured", export_dot, ".dot",
	  "the graph shows only what --threshold (1 %) and --limit leave",
	  .errors = "the standard error of each estimate follows +-",
	  .takes = TAKES_COST | TAKES_MOMENT | TAKES_LIMIT | TAKES_THRESHOLD },
	{ "dot-tags", "Graphviz: the tree of tags, see the view tags", export_dot_tags, ".tags.dot",
	  "a tree of tags has no stacks",
	  .errors = "the standard error of each estimate follows +-",
	  .takes = TAKES_COST | TAKES_MOMENT | TAKES_LIMIT | TAKES_THRESHOLD },
	{ "gprof2dot", "gprof2dot -f json", export_gprof2dot, ".gprof2dot.json",
	  "gprof2dot has no files and lines, and distributes recursion in its own way",
	  .errors = "the standard error of the total follows the name of the cost",
	  .takes = TAKES_COST | TAKES_MOMENT },
	{ "callgrind", "callgrind_annotate, KCachegrind", export_callgrind, ".callgrind",
	  "a call into a function that is on the stack already has no cost of its own",
	  .errors = "a second event is the variance (the squared standard error, which adds up)",
	  .takes = TAKES_COST | TAKES_MOMENT },
	{ "massif", "ms_print, massif-visualizer", export_massif, ".massif",
	  "massif has one process, and stacks only for its peak",
	  .errors = "the standard error of the total is in desc", .takes = TAKES_THRESHOLD,
	  .needs_run = true },
	{ "dhat", "valgrind's dh_view.html", export_dhat, ".dhat.json",
	  "DHAT has reads and writes of blocks, which are not recorded",
	  .errors = "the standard error of the total follows the command", .takes = 0,
	  .needs_run = true },
	{ "heaptrack", "heaptrack_print, heaptrack_gui: peak, and what was not freed at exit",
	  export_heaptrack, ".heaptrack",
	  "heaptrack replays single calls: the peak and memory not freed are preserved, calls in between are "
	  "not",
	  .errors = "the standard error of the total follows the command", .takes = 0,
	  .needs_run = true },
	{ "csv", "spreadsheets, DuckDB: one row per site", export_csv, ".csv", NULL,
	  .errors = "columns that end in _error are the standard errors of the estimates",
	  .takes = TAKES_MOMENT, .kinds = KINDS_ALL, .needs_run = true },
	{ "jsonl", "jq, databases: one object per site", export_jsonl, ".jsonl", NULL,
	  .errors = "keys that end in _error are the standard errors of the estimates",
	  .takes = TAKES_MOMENT, .kinds = KINDS_ALL, .needs_run = true },
	{ NULL },
};

const struct exporter *exporter_find(const char *name)
{
	for (const struct exporter *e = exporters; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e;
	return NULL;
}
