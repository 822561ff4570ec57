/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that form a query, the same in every command that takes one.
 *
 *	enum { OPT_VIEW = ASK_COUNT, OPT_FORMAT };
 *	static const struct option_row rows[] = { ASK_ROWS, [OPT_VIEW] = {...} };
 *	...
 *	if (option >= 0 && option < ASK_COUNT)
 *		ask_take(&asked, option, value, &error);
 */
#ifndef CLI_OPTIONS_ASK_H
#define CLI_OPTIONS_ASK_H

#include "analysis/analyses.h"
#include "analysis/result/query.h"
#include "cli/options/options.h"
#include "model/fold_options.h"
#include "model/languages.h"
#include "model/names.h"
#include "util/error.h"
#include "util/vector.h"

enum ask_option {
	ASK_COST,
	ASK_AT,
	ASK_MINUS,
	ASK_BY,
	ASK_FOCUS,
	ASK_IGNORE,
	ASK_MODULE,
	ASK_NOT_MODULE,
	ASK_THREAD,
	ASK_PROCESS,
	ASK_TAG,
	ASK_POOL,
	ASK_LABEL,
	ASK_LANGUAGE,
	ASK_MIN_SIZE,
	ASK_MAX_SIZE,
	ASK_KIND,
	ASK_SUPPRESSIONS,
	ASK_CALLEES,
	ASK_DEPTH,
	ASK_THRESHOLD,
	ASK_FOLD_RECURSION,
	ASK_FOLD_IMPORTS,
	ASK_FRAMES,
	ASK_LIMIT,
	ASK_NAMES,
	ASK_NO_SYMBOLS,
	ASK_DEBUG_FOLDER,
	ASK_NO_CACHE,
	ASK_DEBUGINFOD,
	ASK_DEBUGINFOD_DEADLINE,
	ASK_COUNT,
};

/* clang-format off */
#define ASK_QUESTION_ROWS \
	[ASK_COST] = { "cost", 'c', "COST", "which number to show", .group = "What to show", .choices = WORDS_WITH_HELP(cost_words) }, \
	[ASK_AT] = { "at", 0, "MOMENT", "at which moment of the run", .group = "What to show", .choices = WORDS_WITH_HELP(moment_words) }, \
	[ASK_MINUS] = { "minus", 0, "MOMENT", "show what changed since that moment", .group = "What to show", .choices = WORDS(moment_words) }, \
	[ASK_BY] = { "by", 0, "AXIS", "group by AXIS", .group = "What to show", .choices = WORDS_WITH_HELP(axis_rows) }, \
	[ASK_FOCUS] = { "focus", 0, "REGEX", "only stacks with a matching function or file", .group = "Which stacks" }, \
	[ASK_IGNORE] = { "ignore", 0, "REGEX", "no stacks with a matching function or file", .group = "Which stacks" }, \
	[ASK_MODULE] = { "module", 0, "REGEX", "only allocations by a matching module", .group = "Which stacks" }, \
	[ASK_NOT_MODULE] = { "not-module", 0, "REGEX", "no allocations by a matching module", .group = "Which stacks" }, \
	[ASK_THREAD] = { "thread", 0, "TID|REGEX", "only these threads", .group = "Which stacks" }, \
	[ASK_PROCESS] = { "process", 0, "PID|REGEX", "only these processes", .group = "Which stacks" }, \
	[ASK_TAG] = { "tag", 0, "REGEX", "only allocations under a matching tag: server/parser", .group = "Which stacks" }, \
	[ASK_POOL] = { "pool", 0, "REGEX", "only blocks from a matching pool", .group = "Which stacks" }, \
	[ASK_LABEL] = { "label", 0, "KEY=REGEX", "only allocations under a matching label: tenant=acme", .group = "Which stacks" }, \
	[ASK_LANGUAGE] = { "language", 0, "LANGUAGE", "only allocations by functions in this language", .group = "Which stacks", .choices = WORDS_WITH_HELP(language_words) }, \
	[ASK_MIN_SIZE] = { "min-size", 0, "SIZE", "only sites whose mean allocation is at least SIZE", .group = "Which stacks" }, \
	[ASK_MAX_SIZE] = { "max-size", 0, "SIZE", "only sites whose mean allocation is at most SIZE", .group = "Which stacks" }, \
	[ASK_KIND] = { "kind", 0, "KIND", "which memory: the heap, mappings that the program made, or pools, which lie inside the other two", .group = "Which stacks", .choices = WORDS(kind_words) }, \
	[ASK_CALLEES] = { "callees", 0, NULL, "tree from the allocating functions to their callers", .group = "How much" }, \
	[ASK_DEPTH] = { "depth", 0, "N", "tree of at most N levels", .group = "How much" }, \
	[ASK_THRESHOLD] = { "threshold", 0, "PERCENT", "fold nodes below this share", .group = "How much", .fallback = "tree: 1" }, \
	[ASK_FOLD_RECURSION] = { "fold-recursion", 0, NULL, "show a function that calls itself as one level", .group = "How much" }, \
	[ASK_FOLD_IMPORTS] = { "fold-imports", 0, NULL, "leave out the Python functions that import modules", .group = "How much" }, \
	[ASK_FRAMES] = { "frames", 0, "WHICH", "which functions of Python programs to show", .group = "How much", .choices = WORDS_WITH_HELP(frames_words), .fallback = "program" }, \
	[ASK_LIMIT] = { "limit", 'n', "N", "show at most N rows", .group = "How much", .fallback = "text: 20, json: all" }, \
	[ASK_NAMES] = { "names", 0, "STYLE", "style of function names", .group = "Names", .choices = WORDS_WITH_HELP(name_styles), .fallback = "text: short, else full" }

/* Options that read files of the machine or use the network: a page may not set them. */
#define ASK_MACHINE_ROWS \
	[ASK_SUPPRESSIONS] = { "suppressions", 0, "FILE", "leave out stacks that match FILE, in LeakSanitizer's syntax; builtin: memory that libraries keep by design", .group = "Which stacks" }, \
	[ASK_NO_SYMBOLS] = { "no-symbols", 0, NULL, "show frames as module+offset, without looking up names", .group = "Names" }, \
	[ASK_DEBUG_FOLDER] = { "debug-folder", 0, "FOLDER", "search FOLDER for debug information first; may be repeated", .group = "Names" }, \
	[ASK_NO_CACHE] = { "no-cache", 0, NULL, "neither read nor write the name cache in ~/.cache/heapgauge", .group = "Names" }, \
	[ASK_DEBUGINFOD] = { "debuginfod", 0, NULL, "ask the servers in DEBUGINFOD_URLS for debug information", .group = "Names", .scope = OPTION_NOT_IN_FOLDER }, \
	[ASK_DEBUGINFOD_DEADLINE] = { "debuginfod-deadline", 0, "SECONDS", "time limit for all requests together", .group = "Names", .fallback = "60" }
/* clang-format on */

#define ASK_ROWS ASK_QUESTION_ROWS, ASK_MACHINE_ROWS

struct asked {
	struct query query;
	struct fold_options fold; /* applied to the profile with profile_fold */
	struct names_options names;
	VECTOR(const char *) debug_folders;
	bool limit_given, style_given;
};

/* Returns an empty query that resolves names. */
struct asked ask_init(void);

/* Returns the view to show if none was named: groups with --by, sites if a cost or a moment was given, else the
 * summary. */
const struct analysis *ask_default_view(const struct asked *asked, bool compares);

/* Returns -1 with the error set. The query's texts point into the values. */
int ask_take(struct asked *asked, enum ask_option option, const char *value, struct error *error);
void ask_release(struct asked *asked);

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
