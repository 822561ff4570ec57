/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses options into a query. The terms are analysis/'s vocabulary; this file only takes them from the command
 * line and explains what it cannot parse.
 */
#include "cli/options/query_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/options/options.h"
#include "cli/options/own_option.h"
#include "model/frames/sources.h"
#include "util/text/units.h"
#include "util/cleanup.h"

static int take_number(const char *name, const char *value, size_t *ret, struct error *error)
{
	uint64_t number;

	if (options_number(name, value, &number, error) < 0)
		return -1;
	*ret = number > SIZE_MAX ? SIZE_MAX : (size_t)number;
	return 0;
}

static int take_size(const char *name, const char *value, uint64_t *ret, struct error *error)
{
	if (!units_parse_bytes(value, ret))
		return error_set(error, "--%s needs a size such as 4096 or 64KiB, not '%s'", name,
				 value);
	return 0;
}

static int take_threshold(struct query *q, const char *value, struct error *error)
{
	char *end;
	double percent = strtod(value, &end);

	if (*end == '%')
		end++;
	if (end == value || *end || !(percent >= 0 && percent <= 100))
		return error_set(
			error, "--threshold needs a percentage between 0 and 100, not '%s'", value);
	q->threshold_percent = percent;
	q->has_threshold = true;
	return 0;
}

const struct name_style_word name_styles[] = {
	[NAMES_FULL] = { "full", "with all arguments" },
	[NAMES_SHORT] = { "short", "without arguments: std::vector<...>::push_back" },
	[NAMES_RAW] = { "raw", "mangled, as the linker sees them" },
	{ NULL, NULL },
};

static int take_style(struct query_options *asked, const char *value, struct error *error)
{
	for (size_t i = 0; name_styles[i].name; i++)
		if (strcmp(value, name_styles[i].name) == 0) {
			asked->names.style = (enum name_style)i;
			asked->style_given = true;
			return 0;
		}
	return error_set(error, "--names is full, short or raw, not '%s'", value);
}

static int add_debug_folder(struct query_options *asked, const char *folder, struct error *error)
{
	if (!vector_push(&asked->debug_folders, folder))
		return error_set(error, "out of memory");
	asked->names.debug_folders = asked->debug_folders.at;
	asked->names.debug_folder_count = asked->debug_folders.count;
	return 0;
}

/* Redraws one progress line, and erases it at the end of the file. */
static void show_fetched(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	(void)context;
	if (total_bytes && done_bytes >= total_bytes)
		fputs("\r\033[K", stderr);
	else
		fprintf(stderr, "\r\033[Kfetching debug information: %s",
			units_bytes(done_bytes).text);
}

static int take_deadline(struct query_options *asked, const char *value, struct error *error)
{
	uint64_t seconds;

	if (options_number("debuginfod-deadline", value, &seconds, error) < 0)
		return -1;
	asked->names.fetch.deadline_ms =
		(unsigned)MIN(MAX(seconds, (uint64_t)1), (uint64_t)86400) * 1000;
	return 0;
}

struct query_options query_options_init(void)
{
	return (struct query_options){ .names = { .use_symbols = true, .use_store = true } };
}

const char *const kind_words[] = { "heap", "mmap", "pool", "all", NULL };

static int take_kind(struct query *q, const char *value, struct error *error)
{
	for (size_t i = 0; kind_words[i]; i++)
		if (strcmp(value, kind_words[i]) == 0) {
			q->kinds = (enum query_kinds)(KINDS_HEAP + i);
			return 0;
		}
	return error_set(error, "--kind is heap, mmap, pool or all, not '%s'", value);
}

const struct frames_word frames_words[] = {
	[FRAMES_PROGRAM] = { "program",
			     "Python and native functions, without the interpreter's own" },
	[FRAMES_ALL] = { "all", "with the interpreter's own" },
	[FRAMES_PYTHON] = { "python", "Python functions only, where a stack has any" },
	{ NULL, NULL },
};

static int take_frames(struct query_options *asked, const char *value, struct error *error)
{
	for (size_t i = 0; frames_words[i].name; i++)
		if (strcmp(value, frames_words[i].name) == 0) {
			asked->fold.frames = (enum fold_frames)i;
			return 0;
		}
	return error_set(error, "--frames is program, all or python, not '%s'", value);
}

/* "peak", or "calls,total" for two. */
static int take_cost(struct query *q, const char *value, struct error *error)
{
	const char *comma = strchrnul(value, ',');
	AUTO_FREE char *first = strndup(value, (size_t)(comma - value));
	struct moment at = { 0 }, second_at = { 0 };

	if (!first)
		return error_set(error, "out of memory");
	q->second_word = *comma ? comma + 1 : NULL;
	if (cost_parse(first, &q->cost, &at, error) < 0 ||
	    (q->second_word && cost_parse(q->second_word, &q->second, &second_at, error) < 0))
		return -1;
	if (at.kind && second_at.kind && at.kind != second_at.kind)
		return error_set(error, "%s are of two moments: show one at a time", value);
	if (q->second_word && strcmp(first, q->second_word) == 0)
		return error_set(error, "%s is the same cost twice", value);
	if (second_at.kind && cost_rows[q->cost].time != COST_OF_MOMENT)
		return error_set(error, "%s is of a moment: name it first, %s,%s", q->second_word,
				 q->second_word, first);
	q->has_cost = true;
	if (at.kind || second_at.kind)
		q->at = at.kind ? at : second_at;
	return 0;
}

static int take_rule(struct query *q, enum query_option option, const char *value,
		     struct error *error)
{
	static const enum rule_kind kinds[] = {
		[QUERY_FOCUS] = RULE_FOCUS,   [QUERY_IGNORE] = RULE_IGNORE,
		[QUERY_MODULE] = RULE_MODULE, [QUERY_NOT_MODULE] = RULE_NOT_MODULE,
		[QUERY_TAG] = RULE_TAG,	      [QUERY_POOL] = RULE_POOL,
		[QUERY_LABEL] = RULE_LABEL,   [QUERY_LANGUAGE] = RULE_LANGUAGE,
		[QUERY_ENTRY] = RULE_ENTRY,   [QUERY_FREED_IN] = RULE_FREED_IN,
	};

	return filters_add(&q->filters, kinds[option], value, error);
}

static void take_flag(struct query_options *asked, enum query_option option)
{
	struct query *q = &asked->query;

	q->callees_first |= option == QUERY_CALLEES;
	q->fold_recursion |= option == QUERY_FOLD_RECURSION;
	q->fold_libraries |= option == QUERY_FOLD_LIBRARIES;
	asked->fold.imports |= option == QUERY_FOLD_IMPORTS;
	asked->no_own |= option == QUERY_NO_OWN;
	asked->names.use_symbols &= option != QUERY_NO_SYMBOLS;
	asked->names.use_store &= option != QUERY_NO_CACHE;
}

int query_options_take(struct query_options *asked, enum query_option option, const char *value,
		       struct error *error)
{
	struct query *q = &asked->query;

	switch (option) {
	case QUERY_COST:
		return take_cost(q, value, error);
	case QUERY_AT:
		return moment_parse(value, &q->at, error);
	case QUERY_MINUS:
		return moment_parse(value, &q->minus, error);
	case QUERY_BY:
		q->has_axis = true;
		return axis_parse(value, &q->by, error);
	case QUERY_FOCUS:
	case QUERY_IGNORE:
	case QUERY_MODULE:
	case QUERY_NOT_MODULE:
	case QUERY_TAG:
	case QUERY_POOL:
	case QUERY_LABEL:
	case QUERY_LANGUAGE:
	case QUERY_ENTRY:
	case QUERY_FREED_IN:
		return take_rule(q, option, value, error);
	case QUERY_THREAD:
		q->filters.thread = value;
		return 0;
	case QUERY_PROCESS:
		q->filters.process = value;
		return 0;
	case QUERY_MIN_SIZE:
		return take_size("min-size", value, &q->filters.min_size, error);
	case QUERY_MAX_SIZE:
		return take_size("max-size", value, &q->filters.max_size, error);
	case QUERY_KIND:
		return take_kind(q, value, error);
	case QUERY_SUPPRESSIONS:
		return filters_suppress(&q->filters, value, error);
	case QUERY_DEPTH:
		return take_number("depth", value, &q->depth, error);
	case QUERY_THRESHOLD:
		return take_threshold(q, value, error);
	case QUERY_FRAMES:
		return take_frames(asked, value, error);
	case QUERY_OWN:
		return own_option_take(value, &asked->own, error);
	case QUERY_LIMIT:
		asked->limit_given = true;
		return take_number("limit", value, &q->limit, error);
	case QUERY_NAMES:
		return take_style(asked, value, error);
	case QUERY_DEBUG_FOLDER:
		return add_debug_folder(asked, value, error);
	case QUERY_DEBUGINFOD:
		asked->names.fetch.wanted = true;
		asked->names.fetch.progress = isatty(STDERR_FILENO) ? show_fetched : NULL;
		return 0;
	case QUERY_DEBUGINFOD_DEADLINE:
		return take_deadline(asked, value, error);
	case QUERY_CALLEES:
	case QUERY_FOLD_RECURSION:
	case QUERY_FOLD_LIBRARIES:
	case QUERY_FOLD_IMPORTS:
	case QUERY_NO_OWN:
	case QUERY_NO_SYMBOLS:
	case QUERY_NO_CACHE:
		take_flag(asked, option);
		return 0;
	case QUERY_COUNT:
		break;
	}
	return -1;
}

int query_options_check_typed(const struct analysis *view, uint64_t typed, bool compares,
			      struct error *error)
{
	static const struct {
		enum query_option option;
		enum analysis_takes part;
		const char *name;
	} rows[] = {
		{ QUERY_CALLEES, VIEW_TAKES_CALLEES, "callees" },
		{ QUERY_DEPTH, VIEW_TAKES_DEPTH, "depth" },
		{ QUERY_THRESHOLD, VIEW_TAKES_THRESHOLD, "threshold" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (typed >> rows[i].option & 1 &&
		    analysis_check_taken(view, rows[i].part, rows[i].name, compares, error) < 0)
			return -1;
	return 0;
}

const struct analysis *query_options_default_view(const struct query_options *asked, bool compares)
{
	const struct query *q = &asked->query;

	if (q->second_word)
		return analysis_find("tree");
	if (q->has_axis && q->by != AXIS_SITE)
		return analysis_find("functions");
	if (q->has_cost || q->at.kind || q->minus.kind || q->has_axis)
		return analysis_find("sites");
	/* The summary of one recording covers whole processes. */
	if (!compares && filters_are_finer_than_processes(&q->filters))
		return analysis_find("sites");
	return &analyses[0];
}

int query_options_sources(struct query_options *asked, const char *from_to, struct error *error)
{
	if (!asked->sources)
		asked->sources = sources_new();
	if (!asked->sources)
		return error_set(error, "out of memory");
	return from_to ? sources_move(asked->sources, from_to, error) : 0;
}

void query_options_release(struct query_options *asked)
{
	sources_free(asked->sources);
	filters_release(&asked->query.filters);
	vector_release(&asked->debug_folders);
	free(asked->own);
}
