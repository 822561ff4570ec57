/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that form a query, the same in every command that takes one.
 *
 *	enum { OPT_VIEW = QUERY_COUNT, OPT_FORMAT };
 *	static const struct option_row rows[] = { QUERY_ROWS, [OPT_VIEW] = {...} };
 *	...
 *	if (option >= 0 && option < QUERY_COUNT)
 *		query_options_take(&asked, option, value, &error);
 */
#ifndef CLI_OPTIONS_QUERY_OPTIONS_H
#define CLI_OPTIONS_QUERY_OPTIONS_H

#include "analysis/analyses.h"
#include "analysis/result/query.h"
#include "cli/options/options.h"
#include "model/frames/fold_options.h"
#include "model/frames/languages.h"
#include "model/frames/names.h"
#include "util/error.h"
#include "util/vector.h"

enum query_option {
	QUERY_COST,
	QUERY_AT,
	QUERY_MINUS,
	QUERY_BY,
	QUERY_FOCUS,
	QUERY_IGNORE,
	QUERY_MODULE,
	QUERY_NOT_MODULE,
	QUERY_THREAD,
	QUERY_PROCESS,
	QUERY_TAG,
	QUERY_POOL,
	QUERY_LABEL,
	QUERY_LANGUAGE,
	QUERY_ENTRY,
	QUERY_FREED_IN,
	QUERY_MIN_SIZE,
	QUERY_MAX_SIZE,
	QUERY_KIND,
	QUERY_SUPPRESSIONS,
	QUERY_CALLEES,
	QUERY_DEPTH,
	QUERY_THRESHOLD,
	QUERY_FOLD_RECURSION,
	QUERY_FOLD_IMPORTS,
	QUERY_FOLD_LIBRARIES,
	QUERY_FRAMES,
	QUERY_NO_OWN,
	QUERY_LIMIT,
	QUERY_NAMES,
	QUERY_OWN,
	QUERY_NO_SYMBOLS,
	QUERY_DEBUG_FOLDER,
	QUERY_NO_CACHE,
	QUERY_DEBUGINFOD,
	QUERY_DEBUGINFOD_DEADLINE,
	QUERY_COUNT,
};

/* clang-format off */
#define QUERY_QUESTION_ROWS \
	[QUERY_COST] = { "cost", 'c', "COST", "which number to show; in a tree two: calls,total", .group = "What to show", .choices = WORDS_WITH_HELP(cost_words), .takes_two = true }, \
	[QUERY_AT] = { "at", 0, "MOMENT", "at which moment of the run", .group = "What to show", .choices = WORDS_WITH_HELP(moment_words) }, \
	[QUERY_MINUS] = { "minus", 0, "MOMENT", "show what changed since that moment", .group = "What to show", .choices = WORDS(moment_words) }, \
	[QUERY_BY] = { "by", 0, "AXIS", "group by AXIS", .group = "What to show", .choices = WORDS_WITH_HELP(axis_rows) }, \
	[QUERY_FOCUS] = { "focus", 0, "REGEX", "only stacks with a matching function or file", .group = "Which stacks" }, \
	[QUERY_IGNORE] = { "ignore", 0, "REGEX", "no stacks with a matching function or file", .group = "Which stacks" }, \
	[QUERY_MODULE] = { "module", 0, "REGEX", "only allocations by a matching module", .group = "Which stacks" }, \
	[QUERY_NOT_MODULE] = { "not-module", 0, "REGEX", "no allocations by a matching module", .group = "Which stacks" }, \
	[QUERY_THREAD] = { "thread", 0, "TID|REGEX", "only these threads", .group = "Which stacks" }, \
	[QUERY_PROCESS] = { "process", 0, "PID|REGEX", "only these processes", .group = "Which stacks" }, \
	[QUERY_TAG] = { "tag", 0, "REGEX", "only allocations under a matching tag: server/parser", .group = "Which stacks" }, \
	[QUERY_POOL] = { "pool", 0, "REGEX", "only blocks from a matching pool", .group = "Which stacks" }, \
	[QUERY_LABEL] = { "label", 0, "KEY=REGEX", "only allocations under a matching label: tenant=acme", .group = "Which stacks" }, \
	[QUERY_LANGUAGE] = { "language", 0, "LANGUAGE", "only allocations by functions in this language", .group = "Which stacks", .choices = WORDS_WITH_HELP(language_words) }, \
	[QUERY_ENTRY] = { "entry", 0, "REGEX", "only blocks from a matching call: malloc, calloc, realloc, memalign, new, new\\[], mmap", .group = "Which stacks" }, \
	[QUERY_FREED_IN] = { "freed-in", 0, "REGEX", "--view freed-by: only blocks freed below a function or file that matches", .group = "Which stacks" }, \
	[QUERY_MIN_SIZE] = { "min-size", 0, "SIZE", "only sites whose mean allocation is at least SIZE", .group = "Which stacks" }, \
	[QUERY_MAX_SIZE] = { "max-size", 0, "SIZE", "only sites whose mean allocation is at most SIZE", .group = "Which stacks" }, \
	[QUERY_KIND] = { "kind", 0, "KIND", "which memory: the heap, mappings that the program made, or pools, which lie inside the other two", .group = "Which stacks", .choices = WORDS(kind_words) }, \
	[QUERY_CALLEES] = { "callees", 0, NULL, "tree from the allocating functions to their callers", .group = "How much" }, \
	[QUERY_DEPTH] = { "depth", 0, "N", "tree of at most N levels", .group = "How much" }, \
	[QUERY_THRESHOLD] = { "threshold", 0, "PERCENT", "fold nodes below this share", .group = "How much", .fallback = "tree: 1" }, \
	[QUERY_FOLD_RECURSION] = { "fold-recursion", 0, NULL, "show a function that calls itself as one level", .group = "How much" }, \
	[QUERY_FOLD_IMPORTS] = { "fold-imports", 0, NULL, "leave out the Python functions that import modules", .group = "How much" }, \
	[QUERY_FOLD_LIBRARIES] = { "fold-libraries", 0, NULL, "flame: leave out the frames of libraries around own code, as tree does", .group = "How much" }, \
	[QUERY_FRAMES] = { "frames", 0, "WHICH", "which functions of Python programs to show", .group = "How much", .choices = WORDS_WITH_HELP(frames_words), .fallback = "program" }, \
	[QUERY_NO_OWN] = { "no-own", 0, NULL, "show all frames: prefer no frame for being the project's own code", .group = "How much" }, \
	[QUERY_LIMIT] = { "limit", 'n', "N", "show at most N rows", .group = "How much", .fallback = "text: 20, of stacks 5; json: all" }, \
	[QUERY_NAMES] = { "names", 0, "STYLE", "style of function names", .group = "Names", .choices = WORDS_WITH_HELP(name_styles), .fallback = "text: short, else full" }

/* Options that read files of the machine or use the network: a page may not set them. */
#define QUERY_MACHINE_ROWS \
	[QUERY_SUPPRESSIONS] = { "suppressions", 0, "FILE", "leave out stacks that match FILE, in LeakSanitizer's syntax; builtin: memory that libraries keep by design", .group = "Which stacks" }, \
	[QUERY_OWN] = { "own", 0, "REGEX", "functions, files or modules that are own code", .group = "How much", .fallback = "as recorded" }, \
	[QUERY_NO_SYMBOLS] = { "no-symbols", 0, NULL, "show frames as module+offset, without looking up names", .group = "Names" }, \
	[QUERY_DEBUG_FOLDER] = { "debug-folder", 0, "FOLDER", "search FOLDER for debug information first; may be repeated", .group = "Names" }, \
	[QUERY_NO_CACHE] = { "no-cache", 0, NULL, "neither read nor write the name cache in ~/.cache/heapgauge", .group = "Names" }, \
	[QUERY_DEBUGINFOD] = { "debuginfod", 0, NULL, "ask the servers in DEBUGINFOD_URLS for debug information", .group = "Names", .scope = OPTION_NOT_IN_FOLDER }, \
	[QUERY_DEBUGINFOD_DEADLINE] = { "debuginfod-deadline", 0, "SECONDS", "time limit for all requests together", .group = "Names", .fallback = "60" }
/* clang-format on */

#define QUERY_ROWS QUERY_QUESTION_ROWS, QUERY_MACHINE_ROWS

struct query_options {
	struct query query;
	struct fold_options fold; /* applied to the profile with profile_fold */
	char *own;		  /* a rule for profile_set_own; NULL: the recording's */
	struct names_options names;
	VECTOR(const char *) debug_folders;
	struct sources *sources; /* with the moves of --source-map; NULL: none, and not --source */
	bool limit_given, style_given, no_own;
};

/* Returns an empty query that resolves names. */
struct query_options query_options_init(void);

/* Returns the view to show if none was named: groups with --by, sites if a cost or a moment was given, else the
 * summary. */
const struct analysis *query_options_default_view(const struct query_options *asked, bool compares);

/* Returns -1 with the error set. The query's texts point into the values. */
int query_options_take(struct query_options *asked, enum query_option option, const char *value,
		       struct error *error);
/* Returns -1 with the error set if the view, or its comparison, ignores an option that shapes trees and is among the `typed`: a bit per
 * query_option. Settings are for all views. */
int query_options_check_typed(const struct analysis *view, uint64_t typed, bool compares,
			      struct error *error);
void query_options_release(struct query_options *asked);

/* --source-map, for commands that read sources; value NULL: no move. Creates asked->sources. */
int query_options_sources(struct query_options *asked, const char *from_to, struct error *error);
#define SOURCE_MAP_ROW                                                                              \
	{                                                                                           \
		"source-map", 0, "FROM=TO",                                                         \
			"read source files below FROM, where they were compiled, below TO; may be " \
			"repeated",                                                                 \
			.group = "Names"                                                            \
	}

/* The choices of --kind, --frames and --names. */
extern const char *const kind_words[];
struct frames_word {
	const char *name, *help;
};
extern const struct frames_word frames_words[];
struct name_style_word {
	const char *name, *help;
};
extern const struct name_style_word name_styles[];

#endif
