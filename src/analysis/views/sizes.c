/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `sizes`: the distribution of requested sizes, and the internal fragmentation added by
 * rounding up.
 *
 * Sites with few sizes have exact sizes, those with many have size classes. Rounding is counted per
 * site; for a single size it is known only if a site requests that size alone.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/split.h"
#include "base/checked.h"
#include "base/compiler.h"

#define SIZE_COLUMN_LIST(X)                                                                        \
	X(SIZE_LABEL, NULL, "SIZE", UNIT_TEXT)                                                     \
	X(SIZE_LOW, "low_bytes", NULL, UNIT_BYTES)                                                 \
	X(SIZE_HIGH, "high_bytes", NULL, UNIT_BYTES)                                               \
	X(SIZE_EXACT, "exact", NULL, UNIT_FLAG)                                                    \
	X(SIZE_CALLS, "calls", "CALLS", UNIT_COUNT)                                                \
	X(SIZE_CALLS_SHARE, NULL, "OF CALLS", UNIT_PERCENT)                                        \
	X(SIZE_TOTAL, "total_bytes", "TOTAL", UNIT_BYTES)                                          \
	X(SIZE_TOTAL_SHARE, NULL, "OF TOTAL", UNIT_PERCENT)                                        \
	X(SIZE_WASTE_EACH, "mean_internal_fragmentation_bytes", "WASTE EACH", UNIT_BYTES)          \
	X(SIZE_WASTE_BYTES, "internal_fragmentation_bytes", NULL, UNIT_BYTES)                      \
	X(SIZE_WASTE_CALLS, "internal_fragmentation_calls", NULL, UNIT_COUNT)
enum size_column { SIZE_COLUMN_LIST(COLUMN_ID) SIZE_COLUMNS };
static const struct result_column columns[SIZE_COLUMNS] = { SIZE_COLUMN_LIST(COLUMN_ROW) };

struct size_maker {
	struct result *result;
	const struct query *query;
	struct selection selection;
	struct split_group *groups;
	size_t count, rows;
};

static uint64_t weight(const struct selection *s, const struct split_group *g)
{
	switch (s->cost) {
	case COST_TOTAL:
		return (uint64_t)g->m.total_bytes;
	case COST_WASTE:
		return g->waste_bytes;
	default:
		return (uint64_t)g->m.calls;
	}
}

static int compare_groups(const void *left, const void *right, void *context)
{
	const struct split_group *a = left, *b = right;
	uint64_t x = weight(context, a), y = weight(context, b);

	if (x != y)
		return x < y ? 1 : -1;
	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	return a->high < b->high ? -1 : a->high > b->high;
}

static void choose_rows(struct size_maker *m)
{
	const struct selection *s = &m->selection;
	double least = m->query->has_threshold ? m->query->threshold_percent / 100 : 0;

	least *= (double)selection_cost(s, &s->sum);
	m->rows = MIN(m->count, m->query->limit);
	for (size_t i = 0; i < m->rows; i++)
		if ((double)weight(s, &m->groups[i]) < least)
			m->rows = i;
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	const struct size_maker *m = context;
	const struct split_group *g = &m->groups[index];
	const struct measures *sum = &m->selection.sum;
	uint64_t calls = (uint64_t)g->m.calls, bytes = (uint64_t)g->m.total_bytes;

	row[SIZE_LABEL] = value_text(g->label);
	row[SIZE_LOW] = value_bytes(g->low);
	row[SIZE_HIGH] = value_bytes(g->high);
	row[SIZE_EXACT] = value_flag(g->low == g->high);
	row[SIZE_CALLS] = cost_value(COST_CALLS, &g->m, 0, false);
	row[SIZE_CALLS_SHARE] = value_percent(calls, (uint64_t)sum->calls);
	row[SIZE_TOTAL] = cost_value(COST_TOTAL, &g->m, 0, false);
	row[SIZE_TOTAL_SHARE] = value_percent(bytes, (uint64_t)sum->total_bytes);
	row[SIZE_WASTE_EACH] =
		g->waste_calls ? value_bytes(g->waste_bytes / g->waste_calls) : value_unknown();
	row[SIZE_WASTE_BYTES] =
		value_estimate(value_bytes(g->waste_bytes), g->waste_bytes_variance);
	row[SIZE_WASTE_CALLS] =
		value_estimate(value_count(g->waste_calls), g->waste_calls_variance);
	return true;
}

static bool describe_left_out(struct size_maker *m)
{
	const struct selection *s = &m->selection;
	struct result_table *t = &m->result->table;
	uint64_t calls = 0, bytes = 0;
	struct measures rest = { 0 };
	struct words w = { 0 };

	if (m->rows == m->count)
		return true;
	for (size_t i = m->rows; i < m->count; i++) {
		calls = saturating_add(calls, (uint64_t)m->groups[i].m.calls);
		bytes = saturating_add(bytes, (uint64_t)m->groups[i].m.total_bytes);
		measures_add(&rest, &m->groups[i].m);
	}
	words_count(&w, m->count - m->rows, " more size: ", " more sizes: ");
	text_format(&w,
		    calls == 1 ? "{} call, {} of calls; {}, {}" : "{} calls, {} of calls; {}, {}",
		    cost_value(COST_CALLS, &rest, 0, false),
		    value_percent(calls, (uint64_t)s->sum.calls),
		    cost_value(COST_TOTAL, &rest, 0, false),
		    value_percent(bytes, (uint64_t)s->sum.total_bytes));
	words_text(&w, m->rows == m->query->limit ? " of total (--limit N shows more)"
						  : " of total (--threshold P shows more)");
	t->left_out = words_take(&w, &m->result->arena, &t->left_out_count);
	return t->left_out != NULL;
}

/* "rounding  2.1 MiB, 3.4 % on top of the 61.0 MiB asked for; known by size for 88.0 % of calls" */
static void describe_rounding(struct sentences *sentences, const struct size_maker *m)
{
	const struct measures *sum = &m->selection.sum;
	uint64_t known = 0, calls = (uint64_t)sum->calls;
	struct words w = { 0 };

	for (size_t i = 0; i < m->count; i++)
		known = saturating_add(known, m->groups[i].waste_calls);
	text_format(&w, "{}, {} on top of the {} requested; known by size for {} of calls",
		    cost_value(COST_WASTE, sum, 0, false),
		    value_percent((uint64_t)sum->waste_bytes, (uint64_t)sum->total_bytes),
		    cost_value(COST_TOTAL, sum, 0, false), value_percent(known, calls));
	sentences_add(sentences, "rounding", &w, NULL);
}

/* Explains size classes, if there are any. */
static void describe_classes(struct sentences *sentences, const struct size_maker *m)
{
	uint64_t calls = 0;
	struct words w = { 0 };

	for (size_t i = 0; i < m->count; i++)
		if (m->groups[i].low != m->groups[i].high)
			calls = saturating_add(calls, (uint64_t)m->groups[i].m.calls);
	if (!calls)
		return;
	text_format(&w,
		    "{} of calls, from sites with more than eight sizes; the bytes of a class are "
		    "estimated, their sum is exact",
		    value_percent(calls, (uint64_t)m->selection.sum.calls));
	sentences_add(sentences, "classes", &w, NULL);
}

static bool make(struct size_maker *m, struct locations *locations)
{
	struct selection *s = &m->selection;
	struct sentences sentences = { .result = m->result };

	if (!m->result || !selection_fields(m->result, s) ||
	    split_sizes(s, &m->result->arena, &m->groups, &m->count, NULL) < 0)
		return false;
	result_head_add(m->result, "calls", cost_value(COST_CALLS, &s->sum, 0, false));
	result_head_add(m->result, "total_bytes", cost_value(COST_TOTAL, &s->sum, 0, false));
	result_head_add(m->result, "internal_fragmentation_bytes",
			cost_value(COST_WASTE, &s->sum, 0, false));
	if (m->count)
		qsort_r(m->groups, m->count, sizeof *m->groups, compare_groups, s);
	choose_rows(m);
	selection_describe(&sentences, m->query, s);
	if (m->count) {
		describe_rounding(&sentences, m);
		describe_classes(&sentences, m);
	}
	return sentences_end(&sentences) &&
	       result_fill(m->result, "sizes", columns, SIZE_COLUMNS, m->rows, fill_row, m) &&
	       describe_left_out(m) && selection_notes(m->result, s->profile, locations, s);
}

struct result *analyse_sizes(const struct profile *profile, struct locations *locations,
			     const struct query *query, struct error *error)
{
	const struct view_defaults defaults = { COST_CALLS, MOMENT_DEFAULT, KINDS_HEAP };
	struct size_maker m = { .query = query };

	if (query->has_axis && query->by != AXIS_SIZE) {
		error_set(error, "the view sizes groups by size: use --view functions for --by %s",
			  axis_rows[query->by].name);
		return NULL;
	}
	if (query->has_cost && query->cost != COST_CALLS && query->cost != COST_TOTAL &&
	    query->cost != COST_WASTE) {
		error_set(error,
			  "of sizes the costs calls, total and waste are known: %s is counted for "
			  "whole sites",
			  cost_rows[query->cost].name);
		return NULL;
	}
	if (selection_make(&m.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	m.result = result_begin("sizes", profile, query, SELECTION_FIELDS + 3);
	bool done = make(&m, locations);

	selection_release(&m.selection);
	return result_end(m.result, done, error);
}
