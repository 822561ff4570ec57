/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views only for comparisons: the summary as a table of before and after, and stacks with their
 * changes, largest magnitude first.
 */
#include <stdlib.h>

#include "analysis/advice/change_verdict.h"
#include "analysis/result/build.h"
#include "analysis/query/comparison.h"
#include "analysis/result/imported.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

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

static void words_compared(struct words *w, enum cost_id cost, const struct compared *c)
{
	enum result_unit plain = cost_unit(cost, false), change = cost_unit(cost, true);

	text_format(w, "{} ({} -> {})", of_unit(change, c->change, c->change_error),
		    of_unit(plain, c->before, c->before_error),
		    of_unit(plain, c->after, c->after_error));
	if (c->within_spread)
		text_format(w, ", within the spread of the runs, {}", of_unit(plain, c->spread, 0));
	if (c->within_noise)
		words_text(w, ", within the noise of sampling");
}

struct summary {
	struct result *result;
	struct locations *locations;
	struct compared compared[ARRAY_SIZE(questions)];
	bool known[ARRAY_SIZE(questions)]; /* of every run */
	struct changed_owner peak, left;   /* of the first two questions */
};

static bool is_known(const struct comparison *c, size_t i)
{
	for (size_t j = 0; j < c->before_count + c->after_count; j++) {
		bool before = j < c->before_count;

		if (!imported_knows(before ? c->before[j] : c->after[j - c->before_count],
				    questions[i].cost, questions[i].at))
			return false;
	}
	return true;
}

/* Counts the blocks of an owner at the moment of its question. */
static bool add_blocks(struct changed_owner *owner, struct locations *locations,
		       const struct query *query, struct error *error)
{
	AUTO(selection_release) struct selection s = { 0 };
	struct query q = *query;

	q.cost = COST_BLOCKS;
	if (owner->site_count == 0)
		return true;
	if (selection_make(&s, q.against->after[0], locations, &q, (struct view_defaults){ 0 },
			   error) < 0)
		return false;
	changed_owner_add_blocks(owner, &s);
	return true;
}

static bool compare_question(struct summary *summary, size_t i, const struct query *query,
			     struct error *error)
{
	struct query q = *query;
	AUTO(selection_release) struct selection s = { 0 };
	struct changed_owner *owner = i == 0 ? &summary->peak : i == 1 ? &summary->left : NULL;

	q.has_cost = true;
	q.cost = questions[i].cost;
	q.at = (struct moment){ .kind = questions[i].at };
	q.minus = (struct moment){ 0 };
	if (selection_make(&s, query->against->after[0], summary->locations, &q,
			   (struct view_defaults){ 0 }, error) < 0)
		return false;
	if (owner && (changed_owner_find(owner, summary->result, summary->locations, &s) < 0 ||
		      !add_blocks(owner, summary->locations, &q, error)))
		return false;
	summary->compared[i] = owner ? owner->whole : comparison_whole(&s);
	return true;
}

static void fill_summary(const struct summary *summary, size_t i, struct result_value *row)
{
	const struct compared *c = &summary->compared[i];

	row[SUMMARY_NAME] = value_text(questions[i].name);
	row[SUMMARY_BEFORE] = of_unit(UNIT_COUNT_CHANGE, c->before, c->before_error);
	row[SUMMARY_AFTER] = of_unit(UNIT_COUNT_CHANGE, c->after, c->after_error);
	row[SUMMARY_CHANGE] = of_unit(UNIT_COUNT_CHANGE, c->change, c->change_error);
	row[SUMMARY_SPREAD] = value_change(UNIT_COUNT_CHANGE, c->spread);
	row[SUMMARY_WITHIN] = value_flag(c->within_spread);
	row[SUMMARY_NOISE] = value_flag(c->within_noise);
}

static struct result_value owner_label(const struct changed_owner *o)
{
	return o->label ? value_text(o->label) : value_unknown();
}

static struct result_value owner_how(const struct changed_owner *o, struct arena *arena)
{
	const char *how = o->label ? changed_owner_how(o, arena) : NULL;

	return how && how[0] ? value_text(how) : value_unknown();
}

static bool add_verdict(const struct summary *summary)
{
	struct result *result = summary->result;
	const struct changed_owner *peak = &summary->peak, *left = &summary->left;
	const struct result_field fields[] = {
		{ "peak_owner", owner_label(peak) },
		{ "peak_owner_change", value_change(UNIT_BYTES_CHANGE, peak->change) },
		{ "peak_owner_how", owner_how(peak, &result->arena) },
		{ "not_freed_owner", owner_label(left) },
		{ "not_freed_owner_change", value_change(UNIT_BYTES_CHANGE, left->change) },
		{ "not_freed_owner_how", owner_how(left, &result->arena) },
	};
	const struct result_field *kept = arena_copy(&result->arena, fields, sizeof fields);

	result_head_add(result, "verdict",
			(struct result_value){ .unit = UNIT_FIELDS,
					       .fields = { kept, ARRAY_SIZE(fields) } });
	return kept != NULL;
}

static void describe_changes(const struct summary *summary, struct sentences *sentences)
{
	struct arena *arena = &summary->result->arena;
	struct words verdict = { 0 };

	if (!summary->known[0]) {
		words_changed(&verdict, arena, "Live memory", &summary->left);
	} else if (changed_alike(&summary->peak, &summary->left)) {
		words_changed(&verdict, arena, "Peak and memory not freed", &summary->peak);
	} else {
		words_changed(&verdict, arena, "Peak", &summary->peak);
		words_changed(&verdict, arena, " Not freed", &summary->left);
	}
	sentences_add(sentences, "verdict", &verdict, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		struct words w = { 0 };

		if (!summary->known[i])
			continue;
		words_compared(&w, questions[i].cost, &summary->compared[i]);
		sentences_add(sentences, questions[i].words, &w, NULL);
	}
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
	struct result *result = result_begin("summary", query->against->after[0], query, 2);
	struct summary summary = { .result = result, .locations = locations };
	struct sentences sentences = { .result = result };
	struct words headline = { 0 };
	size_t rows = 0;

	error_set(error, "out of memory");
	if (!result)
		return NULL;
	struct result_value *values = ARENA_ARRAY(&result->arena, struct result_value,
						  ARRAY_SIZE(questions) * SUMMARY_COLUMNS);
	bool done = values != NULL;

	result->shows_peak = true;
	for (size_t i = 0; i < ARRAY_SIZE(questions) && done; i++) {
		summary.known[i] = is_known(query->against, i);
		if (!summary.known[i])
			continue;
		done = compare_question(&summary, i, query, error);
		fill_summary(&summary, i, &values[rows++ * SUMMARY_COLUMNS]);
	}
	words_text(&headline, runs_text(result, query));
	sentences_add(&sentences, NULL, &headline, NULL);
	if (done)
		describe_changes(&summary, &sentences);
	result->table = (struct result_table){ .name = "changes",
					       .shape = RESULT_TABLE,
					       .columns = columns,
					       .column_count = SUMMARY_COLUMNS,
					       .values = values,
					       .row_count = rows,
					       .machines_only = true };
	const char *nothing = comparison_nothing(query->against, &result->arena);

	if (nothing)
		result_head_add(result, "note", value_text(nothing));
	done = sentences_end(&sentences) && done && add_verdict(&summary) &&
	       result_notes(result, query->against->after[0], NULL, nothing);
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
