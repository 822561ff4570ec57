/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views only for comparisons: the summary as a table of before and after, and stacks with their
 * changes, largest magnitude first.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/comparison.h"
#include "base/checked.h"
#include "base/compiler.h"

#define SUMMARY_COLUMN_LIST(X)                                                                     \
	X(SUMMARY_NAME, "measure", "MEASURE", UNIT_TEXT)                                           \
	X(SUMMARY_BEFORE, "before", "BEFORE", UNIT_COUNT_CHANGE)                                   \
	X(SUMMARY_AFTER, "after", "AFTER", UNIT_COUNT_CHANGE)                                      \
	X(SUMMARY_CHANGE, "change", "CHANGE", UNIT_COUNT_CHANGE)                                   \
	X(SUMMARY_SPREAD, "spread", "SPREAD", UNIT_COUNT_CHANGE)                                   \
	X(SUMMARY_WITHIN, "within_spread", NULL, UNIT_FLAG)                                        \
	X(SUMMARY_NOISE, "within_noise", NULL, UNIT_FLAG)
enum summary_column { SUMMARY_COLUMN_LIST(COLUMN_ID) SUMMARY_COLUMNS };

/* The rows of the summary, one query each. A column mixes units: bytes and counts. */
static const struct {
	const char *name, *words; /* for machine formats and for people */
	enum cost_id cost;
	enum moment_kind at;
} questions[] = {
	{ "peak", "peak", COST_LIVE, MOMENT_PEAK },
	{ "leaked", "not freed", COST_LIVE, MOMENT_END },
	{ "leaked blocks", "blocks not freed", COST_BLOCKS, MOMENT_END },
	{ "total", "total", COST_TOTAL, MOMENT_DEFAULT },
	{ "calls", "calls", COST_CALLS, MOMENT_DEFAULT },
	{ "temporary", "temporary", COST_TEMPORARY, MOMENT_DEFAULT },
	{ "copied by realloc", "copied by realloc", COST_REALLOC, MOMENT_DEFAULT },
	{ "waste", "waste", COST_WASTE, MOMENT_DEFAULT },
};

static struct result_value of_unit(enum result_unit unit, int64_t number, double error)
{
	bool change =
		unit == UNIT_BYTES_CHANGE || unit == UNIT_COUNT_CHANGE || unit == UNIT_NS_CHANGE;

	return value_estimate(change ? value_change(unit, number)
				     : value_number(unit, number > 0 ? (uint64_t)number : 0),
			      error * error);
}

static void words_compared(struct words *w, const struct selection *s, struct compared c)
{
	enum result_unit plain = cost_unit(s->cost, false), change = cost_unit(s->cost, true);

	text_format(w, "{} ({} -> {})", of_unit(change, c.change, c.change_error),
		    of_unit(plain, c.before, c.before_error),
		    of_unit(plain, c.after, c.after_error));
	if (c.within_spread)
		text_format(w, ", within the spread of the runs, {}", of_unit(plain, c.spread, 0));
	if (c.within_noise)
		words_text(w, ", within the noise of sampling");
}

static bool describe_question(struct sentences *sentences, size_t i, struct locations *locations,
			      const struct query *query, struct result_value *row,
			      struct error *error)
{
	struct query q = *query;
	struct selection s;
	struct words w = { 0 };

	q.has_cost = true;
	q.cost = questions[i].cost;
	q.at = (struct moment){ .kind = questions[i].at };
	q.minus = (struct moment){ 0 };
	if (selection_make(&s, query->against->after[0], locations, &q, (struct view_defaults){ 0 },
			   error) < 0)
		return false;
	struct compared c = comparison_whole(&s);

	words_compared(&w, &s, c);
	sentences_add(sentences, questions[i].words, &w, NULL);
	row[SUMMARY_NAME] = value_text(questions[i].name);
	row[SUMMARY_BEFORE] = of_unit(UNIT_COUNT_CHANGE, c.before, c.before_error);
	row[SUMMARY_AFTER] = of_unit(UNIT_COUNT_CHANGE, c.after, c.after_error);
	row[SUMMARY_CHANGE] = of_unit(UNIT_COUNT_CHANGE, c.change, c.change_error);
	row[SUMMARY_SPREAD] = value_change(UNIT_COUNT_CHANGE, c.spread);
	row[SUMMARY_WITHIN] = value_flag(c.within_spread);
	row[SUMMARY_NOISE] = value_flag(c.within_noise);
	selection_release(&s);
	return true;
}

static const char *runs_text(struct result *result, const struct query *query)
{
	const struct comparison *c = query->against;

	if (c->before_count == 1 && c->after_count == 1)
		return query->file;
	return arena_printf(&result->arena, "%s  (%zu runs before, %zu after)", query->file,
			    c->before_count, c->after_count);
}

struct result *comparison_summary(struct locations *locations, const struct query *query,
				  struct error *error)
{
	static const struct result_column columns[] = { SUMMARY_COLUMN_LIST(COLUMN_ROW) };
	struct result *result = result_begin("summary", query->against->after[0], query, 0);
	struct sentences sentences = { .result = result };
	struct words headline = { 0 };
	bool done = result != NULL;

	error_set(error, "out of memory");
	if (!done)
		return NULL;
	result->shows_peak = true;
	struct result_value *values = ARENA_ARRAY(&result->arena, struct result_value,
						  ARRAY_SIZE(questions) * SUMMARY_COLUMNS);

	words_text(&headline, runs_text(result, query));
	sentences_add(&sentences, NULL, &headline, NULL);
	done = values != NULL;
	for (size_t i = 0; i < ARRAY_SIZE(questions) && done; i++)
		done = describe_question(&sentences, i, locations, query,
					 &values[i * SUMMARY_COLUMNS], error);
	result->table = (struct result_table){ .name = "changes",
					       .shape = RESULT_TABLE,
					       .columns = columns,
					       .column_count = SUMMARY_COLUMNS,
					       .values = values,
					       .row_count = ARRAY_SIZE(questions),
					       .machines_only = true };
	done = sentences_end(&sentences) && done &&
	       result_notes(result, query->against->after[0], NULL, NULL);
	if (done)
		return result;
	result_free(result);
	return NULL;
}

enum stack_column {
	STACK_CHANGE,
	STACK_BEFORE,
	STACK_AFTER,
	STACK_SPREAD,
	STACK_WITHIN,
	STACK_NOISE,
	STACK_VERDICT,
	STACK_CALLS,
	STACK_LABEL,
	STACK_STACK,
	STACK_COLUMNS,
};

static int compare_changes(const void *left, const void *right, void *context)
{
	const struct selection *s = context;
	uint64_t a = selection_magnitude(s, &((const struct entry *)left)->m);
	uint64_t b = selection_magnitude(s, &((const struct entry *)right)->m);

	return a < b ? 1 : a > b ? -1 : 0;
}

struct stacks {
	struct result *result;
	struct locations *locations;
	struct selection selection;
};

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct stacks *of = context;
	const struct selection *s = &of->selection;
	const struct entry *e = &s->entries[index];
	enum result_unit plain = cost_unit(s->cost, false);
	struct compared c = comparison_of(s, e);

	row[STACK_CHANGE] = of_unit(cost_unit(s->cost, true), c.change, c.change_error);
	row[STACK_BEFORE] = of_unit(plain, c.before, c.before_error);
	row[STACK_AFTER] = of_unit(plain, c.after, c.after_error);
	row[STACK_SPREAD] = of_unit(plain, c.spread, 0);
	row[STACK_WITHIN] = value_flag(c.within_spread);
	row[STACK_NOISE] = value_flag(c.within_noise);
	row[STACK_VERDICT] = value_text(c.within_spread	 ? "within spread"
					: c.within_noise ? "within noise"
					: c.before == 0	 ? "new"
					: c.after == 0	 ? "gone"
							 : "");
	row[STACK_CALLS] = selection_value_of(s, COST_CALLS, &e->m);
	row[STACK_LABEL] =
		value_text(stack_label(of->result, of->locations, e->process, e->site->node));
	return row[STACK_LABEL].text &&
	       stack_value(of->result, of->locations, e->process, e->site->node, &row[STACK_STACK]);
}

/* Keeps the entries that changed, largest change first. */
static void keep_changed(struct selection *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++)
		if (selection_cost(s, &s->entries[i].m))
			s->entries[kept++] = s->entries[i];
	s->count = kept;
	if (kept)
		qsort_r(s->entries, kept, sizeof *s->entries, compare_changes, s);
}

static bool describe_left_out(struct result *result, const struct selection *s, size_t shown)
{
	struct measures rest = { 0 };
	struct words w = { 0 };

	for (size_t i = shown; i < s->count; i++)
		measures_add(&rest, &s->entries[i].m);
	words_count(&w, s->count - shown, " more stack: ", " more stacks: ");
	text_format(&w, "{} (--limit N shows more)", selection_value(s, &rest));
	result->table.left_out = words_take(&w, &result->arena, &result->table.left_out_count);
	return result->table.left_out != NULL;
}

static bool fill_stacks(struct stacks *of, size_t limit)
{
	const struct selection *s = &of->selection;
	bool several = s->against->before_count > 1 || s->against->after_count > 1;
	enum result_unit plain = cost_unit(s->cost, false);
	const struct result_column columns[STACK_COLUMNS] = {
		[STACK_CHANGE] = { "change", "CHANGE", cost_unit(s->cost, true) },
		[STACK_BEFORE] = { "before", "BEFORE", plain },
		[STACK_AFTER] = { "after", "AFTER", plain },
		[STACK_SPREAD] = { "spread", several ? "SPREAD" : NULL, plain },
		[STACK_WITHIN] = { "within_spread", NULL, UNIT_FLAG },
		[STACK_NOISE] = { "within_noise", NULL, UNIT_FLAG },
		[STACK_VERDICT] = { NULL, "", UNIT_TEXT },
		[STACK_CALLS] = { "calls_change", NULL, cost_unit(COST_CALLS, true) },
		[STACK_LABEL] = { NULL, "FROM", UNIT_TEXT },
		[STACK_STACK] = { "stack", "STACK", UNIT_FRAMES },
	};
	size_t rows = MIN(s->count, limit);

	return result_fill(of->result, "stacks", columns, STACK_COLUMNS, rows, fill_row, of) &&
	       (rows == s->count || describe_left_out(of->result, s, rows));
}

struct result *comparison_stacks(const char *view, struct locations *locations,
				 const struct query *query, struct view_defaults defaults,
				 struct error *error)
{
	const struct profile *profile = query->against->after[0];
	struct stacks of = { .locations = locations };

	if (selection_make(&of.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	of.result = result_begin(view, profile, query, SELECTION_FIELDS);
	keep_changed(&of.selection);
	bool done = of.result && selection_fields(of.result, &of.selection) &&
		    selection_headline(of.result, profile, query, &of.selection) &&
		    fill_stacks(&of, query->limit) &&
		    selection_notes(of.result, profile, locations, &of.selection);

	selection_release(&of.selection);
	return result_end(of.result, done, error);
}
