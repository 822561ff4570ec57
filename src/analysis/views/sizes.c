/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `sizes`: the distribution of requested sizes, and the internal fragmentation added by
 * rounding up.
 *
 * With the cost live or blocks, of the blocks that were live at the end instead, whose sizes are known exactly.
 *
 * Sites with few sizes have exact sizes, those with many have size classes. Rounding is counted per
 * site; for a single size it is known only if a site requests that size alone.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/split.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/ages.h"

#define SIZE_COLUMN_LIST(X)                                                                        \
	X(SIZE_LABEL, NULL, "SIZE", UNIT_TEXT)                                                     \
	X(SIZE_LOW, "low_bytes", NULL, UNIT_BYTES)                                                 \
	X(SIZE_HIGH, "high_bytes", NULL, UNIT_BYTES)                                               \
	X(SIZE_EXACT, "exact", NULL, UNIT_FLAG)                                                    \
	X(SIZE_BLOCKS, "live_blocks", "BLOCKS", UNIT_COUNT)                                        \
	X(SIZE_BLOCKS_SHARE, NULL, "OF BLOCKS", UNIT_PERCENT)                                      \
	X(SIZE_LIVE, "live_bytes", "LIVE", UNIT_BYTES)                                             \
	X(SIZE_LIVE_SHARE, NULL, "OF LIVE", UNIT_PERCENT)                                          \
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
	bool live; /* of live blocks, not of calls */
};

static uint64_t weight(const struct selection *s, const struct split_group *g)
{
	switch (s->cost) {
	case COST_LIVE:
		return (uint64_t)g->m.live_bytes;
	case COST_BLOCKS:
		return (uint64_t)g->m.live_blocks;
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
	row[SIZE_BLOCKS] = cost_value(COST_BLOCKS, &g->m, 0, false);
	row[SIZE_BLOCKS_SHARE] =
		value_percent((uint64_t)g->m.live_blocks, magnitude(sum->live_blocks));
	row[SIZE_LIVE] = cost_value(COST_LIVE, &g->m, 0, false);
	row[SIZE_LIVE_SHARE] = value_percent((uint64_t)g->m.live_bytes, magnitude(sum->live_bytes));
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
	const enum cost_id counts = m->live ? COST_BLOCKS : COST_CALLS;
	const enum cost_id sums = m->live ? COST_LIVE : COST_TOTAL;
	const struct measures *sum = &m->selection.sum;
	struct result_table *t = &m->result->table;
	struct measures rest = { 0 };
	struct words w = { 0 };

	if (m->rows == m->count)
		return true;
	for (size_t i = m->rows; i < m->count; i++)
		measures_add(&rest, &m->groups[i].m);
	bool one = cost_of(counts, &rest, 0) == 1;

	words_count(&w, m->count - m->rows, " more size: ", " more sizes: ");
	text_format(&w,
		    m->live ? one ? "{} block, {} of blocks; {}, {}"
				  : "{} blocks, {} of blocks; {}, {}"
		    : one   ? "{} call, {} of calls; {}, {}"
			    : "{} calls, {} of calls; {}, {}",
		    cost_value(counts, &rest, 0, false),
		    value_percent(magnitude(cost_of(counts, &rest, 0)),
				  magnitude(cost_of(counts, sum, 0))),
		    cost_value(sums, &rest, 0, false),
		    value_percent(magnitude(cost_of(sums, &rest, 0)),
				  magnitude(cost_of(sums, sum, 0))));
	words_text(&w, m->live ? " of live" : " of total");
	words_text(&w, m->rows == m->query->limit ? " (--limit N shows more)"
						  : " (--threshold P shows more)");
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

/* Live blocks whose size is not known: of a process that was not read at its end, or an older recording. */
static void describe_unknown(struct sentences *sentences, const struct size_maker *m)
{
	struct measures known = { 0 };
	struct words w = { 0 };

	for (size_t i = 0; i < m->count; i++)
		measures_add(&known, &m->groups[i].m);
	int64_t rest = m->selection.sum.live_blocks - known.live_blocks;

	if (rest <= 0)
		return;
	text_format(
		&w,
		"{} of {} live blocks: freed before their sizes were read, or their sizes were not kept",
		value_count((uint64_t)rest), cost_value(COST_BLOCKS, &m->selection.sum, 0, false));
	sentences_add(sentences, "unknown", &w, NULL);
}

/* Leaves out what is not known of live blocks, or of calls. */
static bool fill_table(struct size_maker *m)
{
	struct result_column chosen[SIZE_COLUMNS];

	for (size_t i = 0; i < SIZE_COLUMNS; i++) {
		bool of_live = i >= SIZE_BLOCKS && i <= SIZE_LIVE_SHARE;

		chosen[i] = columns[i];
		if (i >= SIZE_BLOCKS && of_live != m->live)
			chosen[i].name = chosen[i].title = NULL;
	}
	return result_fill(m->result, "sizes", chosen, SIZE_COLUMNS, m->rows, fill_row, m);
}

static void add_sums(struct size_maker *m)
{
	const struct measures *sum = &m->selection.sum;

	if (m->live) {
		result_head_add(m->result, "live_blocks", cost_value(COST_BLOCKS, sum, 0, false));
		result_head_add(m->result, "live_bytes", cost_value(COST_LIVE, sum, 0, false));
		return;
	}
	result_head_add(m->result, "calls", cost_value(COST_CALLS, sum, 0, false));
	result_head_add(m->result, "total_bytes", cost_value(COST_TOTAL, sum, 0, false));
	result_head_add(m->result, "internal_fragmentation_bytes",
			cost_value(COST_WASTE, sum, 0, false));
}

/* The bytes of each class at one moment, from row `at` on. Returns the next moment's first row. */
static size_t moment_fields(const struct profile_process *p, size_t at, struct arena *arena,
			    struct result_field *ret)
{
	uint64_t at_ns = profile_size_moment(p, at).at_ns;
	struct result_field *fields = ARENA_ARRAY(arena, struct result_field, PAIR_CLASSES);
	size_t count = 0;

	for (; at < profile_size_moment_count(p); at++) {
		struct profile_size_moment size = profile_size_moment(p, at);

		if (size.at_ns != at_ns)
			break;
		if (fields && count < PAIR_CLASSES)
			fields[count++] =
				(struct result_field){ arena_printf(arena, "%" PRIu64, size.low),
						       value_bytes(size.bytes) };
	}
	*ret = (struct result_field){ arena_printf(arena, "%" PRIu64,
						   saturating_add(p->started_offset_ns, at_ns)),
				      { .unit = UNIT_FIELDS, .fields = { fields, count } } };
	return at;
}

/* The only chosen process, if it has the sizes of several moments and all of them are chosen. */
static const struct profile_process *process_of_course(const struct size_maker *m)
{
	const struct selection *s = &m->selection;
	const struct profile_process *only = NULL;

	if (!m->live || s->against || filters_are_finer_than_processes(&m->query->filters))
		return NULL;
	for (size_t i = 0; i < s->profile->process_count; i++) {
		if (!s->processes[i])
			continue;
		if (only)
			return NULL;
		only = &s->profile->processes[i];
	}
	return only && profile_size_moment_count(only) > 0 ? only : NULL;
}

static void add_course(struct size_maker *m)
{
	const struct profile_process *p = process_of_course(m);
	struct arena *arena = &m->result->arena;
	size_t count = 0;

	if (!p)
		return;
	struct result_field *moments =
		ARENA_ARRAY(arena, struct result_field, profile_size_moment_count(p));

	for (size_t i = 0; moments && i < profile_size_moment_count(p);)
		i = moment_fields(p, i, arena, &moments[count++]);
	result_head_add(m->result, "live_bytes_by_time_and_size",
			(struct result_value){ .unit = UNIT_FIELDS, .fields = { moments, count } });
}

static bool make(struct size_maker *m, struct locations *locations)
{
	struct selection *s = &m->selection;
	struct sentences sentences = { .result = m->result };

	if (!m->result || !selection_fields(m->result, s) ||
	    split_sizes(s, &m->result->arena, &m->groups, &m->count, NULL) < 0)
		return false;
	add_sums(m);
	add_course(m);
	if (m->count)
		qsort_r(m->groups, m->count, sizeof *m->groups, compare_groups, s);
	choose_rows(m);
	selection_describe(&sentences, m->query, s);
	if (m->live) {
		describe_unknown(&sentences, m);
	} else if (m->count) {
		describe_rounding(&sentences, m);
		describe_classes(&sentences, m);
	}
	return sentences_end(&sentences) && fill_table(m) && describe_left_out(m) &&
	       selection_notes(m->result, s->profile, locations, s);
}

static int check_costs(const struct query *query, struct error *error)
{
	enum cost_id cost = query->has_cost ? query->cost : COST_CALLS;
	bool live = cost_rows[cost].time == COST_OF_MOMENT;

	if (!live && cost != COST_CALLS && cost != COST_TOTAL && cost != COST_WASTE)
		return error_set(error,
				 "of sizes the costs calls, total, waste, live and blocks are "
				 "known: %s is counted for whole sites",
				 cost_rows[cost].name);
	if (query->minus.kind || (query->at.kind && !live))
		return error_set(error,
				 "sizes are known of the whole run only, and with --cost live "
				 "those of live blocks at a moment");
	return 0;
}

static bool has_sizes_at(const struct profile_process *p, uint64_t at_ns)
{
	for (size_t i = 0; i < profile_size_moment_count(p); i++)
		if (saturating_add(p->started_offset_ns, profile_size_moment(p, i).at_ns) == at_ns)
			return true;
	return false;
}

/* Snapshots that were asked for have the sizes of live blocks, by process. */
static int check_moment(const struct selection *s, const struct query *query, struct error *error)
{
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct resolved_moment *at = &s->at[i];
		bool snapshot = at->kind == RESOLVED_SNAPSHOT;

		if (!s->processes[i] || (!snapshot && at->kind != RESOLVED_PEAK))
			continue;
		if (!snapshot || !has_sizes_at(&s->profile->processes[i], at->at_ns))
			return error_set(
				error,
				"the sizes of live blocks %s, were not kept: they are known at the "
				"end, and at snapshots of record --every and --on, of which some "
				"are left out so that reading sizes takes at most 5 %% of the time",
				s->moment);
		if (filters_are_finer_than_processes(&query->filters))
			return error_set(error,
					 "the sizes of live blocks at a snapshot are kept for "
					 "whole processes, not by site or thread");
	}
	return 0;
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
	if (check_costs(query, error) < 0)
		return NULL;
	m.live = query->has_cost && cost_rows[query->cost].time == COST_OF_MOMENT;
	if (selection_make(&m.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	if (m.live && check_moment(&m.selection, query, error) < 0) {
		selection_release(&m.selection);
		return NULL;
	}
	m.result = result_begin("sizes", profile, query, SELECTION_FIELDS + 4);
	bool done = make(&m, locations);

	selection_release(&m.selection);
	return result_end(m.result, done, error);
}
