/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a query to a table of sites.
 *
 * The cost comes first, with its share of the shown total and, for a cost at a moment, the matching
 * blocks or bytes; then the view's own columns. The other columns of the record follow, for machine
 * formats. Names and distributions are computed only for the rows shown.
 */
#include "analysis/query/site_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/query/comparison.h"
#include "analysis/query/site_record.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/image/reach.h"
#include "util/cleanup.h"

struct table_maker {
	const struct site_view *view;
	const struct query *query;
	struct site_source source;
	struct selection selection;
	size_t rows;
	enum site_column cost;	  /* the column of the cost */
	enum site_column partner; /* blocks for bytes, bytes for blocks; SITE_COLUMNS: none */
	bool by_weight;
	enum site_column order[SITE_COLUMNS]; /* the table's columns in order */
	size_t shown;			      /* columns in text output, without the stack */
	size_t columns;
};

static enum site_column of_moment(const struct selection *s, enum site_column live,
				  enum site_column peak, enum site_column leaked)
{
	if (s->change || s->asked.kind >= MOMENT_TIME)
		return live;
	return s->asked.kind == MOMENT_PEAK ? peak : leaked;
}

static void choose_cost(struct table_maker *m)
{
	static const enum site_column columns[COST_COUNT] = {
		[COST_TOTAL] = SITE_TOTAL_BYTES,
		[COST_CALLS] = SITE_CALLS,
		[COST_TEMPORARY] = SITE_TEMPORARY_CALLS,
		[COST_MAX] = SITE_MAX_BYTES,
		[COST_WASTE] = SITE_INTERNAL_FRAGMENTATION_BYTES,
		[COST_LIFETIME] = SITE_LIFETIME_NS,
		[COST_REALLOC] = SITE_COPIED_BYTES,
		[COST_RATE] = SITE_RATE,
		[COST_TIME] = SITE_ALLOCATOR_NS,
	};
	const struct selection *s = &m->selection;
	enum site_column bytes =
		of_moment(s, SITE_LIVE_BYTES, SITE_PEAK_BYTES, SITE_NOT_FREED_BYTES);
	enum site_column blocks =
		of_moment(s, SITE_LIVE_BLOCKS, SITE_PEAK_BLOCKS, SITE_NOT_FREED_BLOCKS);

	m->cost = columns[s->cost];
	m->partner = SITE_COLUMNS;
	if (s->cost == COST_LIVE) {
		m->cost = bytes;
		m->partner = blocks;
	} else if (s->cost == COST_BLOCKS) {
		m->cost = blocks;
		m->partner = bytes;
	}
}

static bool has_column(const struct table_maker *m, enum site_column column)
{
	for (size_t i = 0; i < m->columns; i++)
		if (m->order[i] == column)
			return true;
	return false;
}

static void add_column(struct table_maker *m, enum site_column column)
{
	if (column != SITE_COLUMNS && !has_column(m, column))
		m->order[m->columns++] = column;
}

static bool lists(const struct site_view *view, enum site_column column)
{
	for (const enum site_column *c = view->columns; *c != SITE_COLUMNS; c++)
		if (*c == column)
			return true;
	return false;
}

static void choose_columns(struct table_maker *m)
{
	/* Ranges of columns that only views that list `by` have. */
	static const struct {
		enum site_column first, last, by;
	} only_listed[] = {
		{ SITE_MEDIAN_AGE_NS, SITE_AGES, SITE_AGES },
		{ SITE_RESIDENT_BYTES, SITE_ZERO_BYTES, SITE_RESIDENT_BYTES },
		{ SITE_UNREACHABLE_BYTES, SITE_REACH, SITE_REACH },
	};

	choose_cost(m);
	add_column(m, SITE_PROCESS);
	add_column(m, SITE_ID);
	add_column(m, SITE_KIND);
	add_column(m, SITE_STATE);
	if (!m->by_weight) {
		add_column(m, m->cost);
		add_column(m, SITE_SHARE);
		add_column(m, m->partner);
	}
	for (const enum site_column *c = m->view->columns; *c != SITE_COLUMNS; c++)
		add_column(m, *c);
	add_column(m, SITE_POOL);
	add_column(m, SITE_TAG);
	add_column(m, SITE_LABEL);
	m->shown = m->columns;
	for (enum site_column c = 0; c < SITE_COLUMNS; c++) {
		bool wanted = site_columns[c].column.name != NULL;

		for (size_t i = 0; i < ARRAY_SIZE(only_listed); i++)
			wanted = wanted && (c < only_listed[i].first || c > only_listed[i].last ||
					    lists(m->view, only_listed[i].by));
		if (wanted)
			add_column(m, c);
	}
}

/* Shares are of the heap, or of the mappings if nothing else is shown: the two are never added together. */
static void choose_entries(struct table_maker *m)
{
	struct selection *s = &m->selection;
	int64_t sums[PROFILE_KINDS] = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->entries[i];
		int64_t sum;

		if (checked_add(sums[e->site->kind], selection_cost(s, &e->m), &sum))
			sums[e->site->kind] = sum;
		if (!m->view->wanted || m->view->wanted(e))
			s->entries[kept++] = *e;
	}
	s->count = kept;
	for (size_t i = 0; i < PROFILE_KINDS; i++)
		m->source.whole[i] = magnitude(sums[i]);
	if (s->sum_of[PROFILE_HEAP].calls)
		m->source.whole[PROFILE_MMAP] = 0;
}

struct weighed {
	uint64_t weight, then;
	struct entry entry;
};

static int compare_weights(const void *left, const void *right)
{
	const struct weighed *a = left, *b = right;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	if (a->then != b->then)
		return a->then < b->then ? 1 : -1;
	if (a->entry.process != b->entry.process)
		return a->entry.process < b->entry.process ? -1 : 1;
	return a->entry.site->id.v < b->entry.site->id.v ? -1 : 1;
}

static bool sort_entries(struct table_maker *m)
{
	struct selection *s = &m->selection;

	if (!m->by_weight) {
		selection_sort(s, m->query->limit);
		return true;
	}
	AUTO_FREE struct weighed *all = calloc(s->count + 1, sizeof *all);

	if (!all)
		return false;
	for (size_t i = 0; i < s->count; i++)
		all[i] = (struct weighed){ m->view->weight(s, &s->entries[i]),
					   m->view->then ? m->view->then(&s->entries[i]) : 0,
					   s->entries[i] };
	if (s->count)
		qsort(all, s->count, sizeof *all, compare_weights);
	for (size_t i = 0; i < s->count; i++)
		s->entries[i] = all[i].entry;
	return true;
}

/* Applies the limit and the threshold: rows below it go to the end. */
static void choose_rows(struct table_maker *m)
{
	const struct selection *s = &m->selection;
	double least = m->query->has_threshold ? m->query->threshold_percent / 100 : 0;
	/* Costs are sorted up to the limit. */
	size_t sorted = m->by_weight ? s->count : MIN(s->count, m->query->limit), kept = 0;

	for (size_t i = 0; i < sorted && least > 0; i++) {
		const struct entry e = s->entries[i];

		if ((double)selection_magnitude(s, &e.m) <
		    least * (double)m->source.whole[e.site->kind])
			continue;
		s->entries[i] = s->entries[kept];
		s->entries[kept++] = e;
	}
	m->rows = MIN(least > 0 ? kept : s->count, m->query->limit);
}

/* The number of shown rows whose process has exited. */
static size_t exits_shown(const struct table_maker *m)
{
	size_t count = 0;

	for (size_t i = 0; i < m->rows; i++)
		count += profile_end_leaks(m->selection.entries[i].process->end);
	return count;
}

/* The title of the column of bytes at the end, which may be next to those at the selected moment. */
static const char *leaked_title(const struct table_maker *m)
{
	size_t exits = exits_shown(m);

	if (exits == m->rows)
		return "NOT FREED";
	return exits || m->cost == SITE_LIVE_BYTES || m->partner == SITE_LIVE_BYTES ? "AT END"
										    : "LIVE";
}

static bool all_equal(const struct table_maker *m, const struct result_value *values, size_t column)
{
	for (size_t i = 1; i < m->rows; i++)
		if (values[i * m->columns + column].number != values[column].number)
			return false;
	return true;
}

static bool all_unknown(const struct table_maker *m, const struct result_value *values,
			size_t column)
{
	for (size_t i = 0; i < m->rows; i++) {
		const struct result_value *v = &values[i * m->columns + column];

		if (v->unit != UNIT_TEXT || v->text)
			return false;
	}
	return true;
}

static bool all_zero(const struct table_maker *m, const struct result_value *values, size_t column)
{
	return m->rows == 0 || (all_equal(m, values, column) && values[column].number == 0);
}

/* A column that is constant, or empty in every row, carries no information. */
static bool says_something(const struct table_maker *m, const struct result_value *values,
			   size_t column)
{
	const struct selection *s = &m->selection;

	switch (m->order[column]) {
	case SITE_PROCESS:
		return !all_equal(m, values, column);
	case SITE_STATE:
		return exits_shown(m) && exits_shown(m) < m->rows;
	case SITE_KIND:
		for (size_t i = 0; i < m->rows; i++)
			if (s->entries[i].site->kind != PROFILE_HEAP)
				return true;
		return false;
	case SITE_COPIED_BYTES:
	case SITE_TEMPORARY_CALLS:
	case SITE_UNTOUCHED_BYTES:
	case SITE_SWAPPED_BYTES:
	case SITE_HUGE_BYTES:
	case SITE_ZERO_BYTES:
		return m->order[column] == m->cost || !all_zero(m, values, column);
	default:
		return !all_unknown(m, values, column);
	}
}

static struct result_column *title_columns(const struct table_maker *m,
					   const struct result_value *values)
{
	const struct selection *s = &m->selection;
	struct result *result = m->source.result;
	struct result_column *columns =
		ARENA_ARRAY(&result->arena, struct result_column, m->columns);

	for (size_t i = 0; columns && i < m->columns; i++) {
		struct result_column *c = &columns[i];

		*c = site_columns[m->order[i]].column;
		if (m->order[i] == SITE_SHARE)
			c->title = title_of(result, s->share_title);
		else if (m->order[i] == SITE_NOT_FREED_BLOCKS &&
			 (m->cost == SITE_NOT_FREED_BLOCKS || m->partner == SITE_NOT_FREED_BLOCKS))
			c->title = "BLOCKS";
		else if (m->order[i] == SITE_NOT_FREED_BYTES)
			c->title = leaked_title(m);
		else if (m->order[i] == SITE_LIVE_BYTES) {
			c->unit = cost_unit(COST_LIVE, s->change);
			c->title = s->since.kind ? "CHANGE" : c->title;
		} else if (m->order[i] == SITE_LIVE_BLOCKS)
			c->unit = cost_unit(COST_BLOCKS, s->change);
		if (i < m->shown ? !says_something(m, values, i) : m->order[i] != SITE_STACK)
			c->title = NULL;
	}
	return columns;
}

/* "... 118 more sites with 2.1 MiB, 1.0 % of peak (--limit N shows more)" */
static bool describe_left_out(struct table_maker *m)
{
	const struct selection *s = &m->selection;
	struct result *result = m->source.result;
	enum profile_kind first = selection_kind(s);
	struct measures sums[PROFILE_KINDS] = { 0 };
	bool mapped = false, limited = m->rows == m->query->limit;
	struct words w = { 0 };

	if (m->rows == s->count)
		return true;
	if (m->by_weight && limited)
		return result_left_out(result, s->count - m->rows, " more site", " more sites");
	for (size_t i = m->rows; i < s->count; i++) {
		const struct entry *e = &s->entries[i];

		measures_add(&sums[e->site->kind], &e->m);
		mapped |= e->site->kind != first;
	}
	words_count(&w, s->count - m->rows, " more site with ", " more sites with ");
	text_format(&w, "{}, {}", selection_value(s, &sums[first]),
		    value_percent(selection_magnitude(s, &sums[first]), m->source.whole[first]));
	words_text(&w, s->filtered ? " of what is shown"
				   : arena_printf(&result->arena, " of %s", s->cost_word));
	if (mapped && selection_cost(s, &sums[PROFILE_MMAP]))
		text_format(&w, "; of mappings {}", selection_value(s, &sums[PROFILE_MMAP]));
	words_text(&w, limited ? " (--limit N shows more)" : " (--threshold P shows more)");
	result->table.left_out = words_take(&w, &result->arena, &result->table.left_out_count);
	return result->table.left_out != NULL;
}

static bool fill_table(struct table_maker *m)
{
	struct result *result = m->source.result;
	struct result_value *values =
		ARENA_ARRAY(&result->arena, struct result_value, m->rows * m->columns);
	struct result_value record[SITE_COLUMNS];

	if (!values)
		return false;
	for (size_t i = 0; i < m->rows; i++) {
		if (!site_record(&m->source, &m->selection.entries[i], record))
			return false;
		for (size_t j = 0; j < m->columns; j++)
			values[i * m->columns + j] = record[m->order[j]];
	}
	result->table = (struct result_table){ .name = "sites",
					       .shape = RESULT_TABLE,
					       .columns = title_columns(m, values),
					       .column_count = m->columns,
					       .values = values,
					       .row_count = m->rows };
	return result->table.columns && describe_left_out(m);
}

static bool say(struct table_maker *m, struct locations *locations)
{
	struct result *result = m->source.result;
	struct sentences sentences = { .result = result };

	selection_describe(&sentences, m->query, &m->selection);
	if (m->view->say)
		m->view->say(&sentences, &m->selection);
	return sentences_end(&sentences) &&
	       selection_notes(result, m->selection.profile, locations, &m->selection);
}

static bool make(struct table_maker *m, struct locations *locations)
{
	struct result *result = m->source.result;
	size_t processes = m->selection.profile->process_count;

	if (!result || !selection_fields(result, &m->selection))
		return false;
	m->source.locations = locations;
	m->source.selection = &m->selection;
	if (lists(m->view, SITE_AGES)) {
		m->source.ages = ARENA_ARRAY(&result->arena, struct profile_ages, processes);
		if (!m->source.ages)
			return false;
	}
	choose_entries(m);
	choose_columns(m);
	result_head_add(result, "site_count", value_count(m->selection.count));
	if (!sort_entries(m))
		return false;
	choose_rows(m);
	return fill_table(m) && say(m, locations);
}

unsigned time_class_of(uint64_t low_ms)
{
	return low_ms ? 64u - (unsigned)__builtin_clzll(low_ms) : 0;
}

static const char *class_name(struct arena *arena, unsigned class)
{
	return arena_printf(arena, "%" PRIu64, class ? UINT64_C(1) << (class - 1) : 0);
}

/* The counts of one row that are not 0. */
static struct result_value pairs_row(struct arena *arena, const uint64_t counts[PAIR_CLASSES])
{
	struct result_field *fields = ARENA_ARRAY(arena, struct result_field, PAIR_CLASSES);
	size_t count = 0;

	for (unsigned i = 0; fields && i < PAIR_CLASSES; i++)
		if (counts[i])
			fields[count++] = (struct result_field){ class_name(arena, i),
								 value_count(counts[i]) };
	return (struct result_value){ .unit = UNIT_FIELDS, .fields = { fields, count } };
}

bool pairs_tell(struct sentences *sentences, const struct selection *s, const char *name,
		enum profile_pairs_kind kind, uint64_t total,
		uint64_t sums[PAIR_CLASSES][PAIR_CLASSES])
{
	struct arena *arena = &sentences->result->arena;
	struct result_field *rows = ARENA_ARRAY(arena, struct result_field, PAIR_CLASSES);
	size_t count = 0;
	uint64_t sum = 0;

	memset(sums, 0, PAIR_CLASSES * sizeof *sums);
	for (size_t i = 0; !s->against && i < s->profile->process_count; i++)
		if (s->processes[i])
			profile_pairs_add(&s->profile->processes[i], kind, sums);
	for (unsigned i = 0; i < PAIR_CLASSES * PAIR_CLASSES; i++)
		sum = saturating_add(sum, sums[i / PAIR_CLASSES][i % PAIR_CLASSES]);
	if (sum != total || sum == 0 || !rows)
		return false;
	for (unsigned i = 0; i < PAIR_CLASSES; i++) {
		struct result_value row = pairs_row(arena, sums[i]);

		if (row.fields.count)
			rows[count++] = (struct result_field){ class_name(arena, i), row };
	}
	result_head_add(sentences->result, name,
			(struct result_value){ .unit = UNIT_FIELDS, .fields = { rows, count } });
	return true;
}

void time_classes_tell(struct sentences *sentences, const char *name,
		       const struct time_class classes[TIME_CLASSES])
{
	struct result_bar *bars =
		ARENA_ARRAY(&sentences->result->arena, struct result_bar, TIME_CLASSES);
	size_t count = 0;

	if (!bars) {
		sentences->failed = true;
		return;
	}
	for (unsigned i = 0; i < TIME_CLASSES; i++)
		if (classes[i].count)
			bars[count++] = (struct result_bar){
				i ? UINT64_C(1) << (i - 1) : 0,
				classes[i].high_ms,
				classes[i].count,
				(float)sqrt(classes[i].variance),
			};
	result_head_add(sentences->result, name,
			(struct result_value){ .unit = UNIT_LIFETIMES, .bars = { bars, count } });
}

bool site_is_live(const struct entry *e)
{
	return e->m.live_bytes != 0 || e->m.live_blocks != 0;
}

struct result *site_view_run(const char *name, const struct site_view *view,
			     const struct profile *profile, struct locations *locations,
			     const struct query *query, struct error *error)
{
	if (query->against)
		return comparison_stacks(name, locations, query, view->defaults, error);

	if (view->of_image && profile_any_reach(profile))
		view = view->of_image;
	struct table_maker m = { .view = view,
				 .query = query,
				 .by_weight = view->weight && !query->has_cost };

	if (query->has_axis && query->by == AXIS_TYPE && view->by_type)
		return view->by_type(name, profile, locations, query, error);
	if (query->has_axis && query->by != AXIS_SITE) {
		bool lacks_image = query->by == AXIS_TYPE && view->of_image;

		error_set(error,
			  "the view %s lists whole stacks: use --view functions for --by %s%s",
			  name, axis_rows[query->by].name,
			  lacks_image ? ", or heapgauge image and record --image for C++ classes"
				      : "");
		return NULL;
	}
	if (selection_make(&m.selection, profile, locations, query, view->defaults, error) < 0)
		return NULL;
	if (view->of_whole_run && m.selection.window) {
		selection_release(&m.selection);
		error_set(error,
			  "the view %s is of the whole run only: omit --at and --minus, or "
			  "use the view sites",
			  name);
		return NULL;
	}
	m.source.result = result_begin(name, profile, query, SELECTION_FIELDS + 4);
	bool done = make(&m, locations);

	selection_release(&m.selection);
	return result_end(m.source.result, done, error);
}
