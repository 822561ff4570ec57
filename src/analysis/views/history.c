/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `history`: the live bytes of the heaviest sites at every snapshot, one series per site; with --by own, one for all
 * sites of an owner.
 *
 * The moments are the snapshots, the peak and the end of all processes together, thinned evenly if there are more than a
 * chart needs. At a moment, a site has the value of its process' latest moment up to then; 0 before the first one and,
 * with several processes, after the end of its process. The whole heap has its value likewise: what is in none of the
 * rows is the difference. The query's cost determines the heaviest sites.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "analysis/result/owners.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "util/cleanup.h"
#include "util/intern.h"

enum { MOST_MOMENTS = 200 };

enum history_column {
	HISTORY_PROCESS,
	HISTORY_SITE,
	HISTORY_COST,
	HISTORY_MOST,
	HISTORY_SERIES,
	HISTORY_LABEL,
	HISTORY_STACK,
	HISTORY_COLUMNS,
};

/* A row: a site, or all sites of an owner. */
struct series {
	const struct entry *entry; /* any of its sites */
	const char *label;
	struct measures m;
	bool estimated;
	int64_t *values;  /* by moment */
	float *variances; /* by moment; NULL: exact */
};

struct maker {
	struct result *result;
	const struct profile *profile;
	const struct query *query;
	struct locations *locations;
	struct selection selection;
	int64_t *moments; /* since the start of the recording */
	int64_t *heap; /* by moment: live bytes of the selected processes, whatever the filters */
	size_t moment_count;
	VECTOR(struct series) series; /* heaviest first; those after `rows` are not shown */
	size_t rows, all;	      /* shown, and in all */
	size_t grouped;		      /* entries that are in a series: the first ones */
	uint32_t *series_of;	      /* by entry */
};

static bool by_own(const struct maker *m)
{
	return m->query->has_axis && m->query->by == AXIS_OWN;
}

static int compare_times(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return a < b ? -1 : a > b;
}

/* The peak and the end of each process, in addition to its snapshots. */
enum { OTHER_MOMENTS = 2 };

/* Time since the start of the recording, as in the view timeline. */
static int64_t time_of(const struct profile_process *p, uint64_t at_ns)
{
	return (int64_t)MIN(saturating_add(p->started_offset_ns, at_ns), (uint64_t)INT64_MAX);
}

static bool choose_moments(struct maker *m)
{
	size_t count = 0, at = 0;

	for (size_t i = 0; i < m->profile->process_count; i++)
		count += profile_snapshot_count(&m->profile->processes[i]) + OTHER_MOMENTS;
	int64_t *all = ARENA_ARRAY(&m->result->arena, int64_t, count);

	if (!all)
		return false;
	for (size_t i = 0; i < m->profile->process_count; i++) {
		const struct profile_process *p = &m->profile->processes[i];

		for (size_t j = 0; j < profile_snapshot_count(p); j++)
			all[at++] = time_of(p, profile_snapshot(p, j).at_ns);
		all[at++] = time_of(p, p->peak_at_ns);
		all[at++] = time_of(p, p->duration_ns);
	}
	if (count)
		qsort(all, count, sizeof *all, compare_times);
	m->moment_count = MIN(count, (size_t)MOST_MOMENTS);
	for (size_t i = 0; i < m->moment_count; i++)
		all[i] = all[count > MOST_MOMENTS ? i * (count - 1) / (MOST_MOMENTS - 1) : i];
	m->moments = all;
	m->heap = ARENA_ARRAY(&m->result->arena, int64_t, m->moment_count);
	return m->heap != NULL;
}

/* With several processes, one that has ended has no live memory. */
static bool is_over(const struct maker *m, const struct profile_process *p, int64_t at_ns)
{
	return m->profile->process_count > 1 && p->end != PROFILE_RUNNING &&
	       at_ns > time_of(p, p->duration_ns);
}

/* Applies the snapshots up to that time to `live` (by site id); returns the time of the last one. */
static int64_t take_snapshots(const struct profile_process *p, int64_t at_ns, size_t *next,
			      struct site_live *live)
{
	int64_t last = -1;

	for (; *next < profile_snapshot_count(p); ++*next) {
		struct profile_snapshot s = profile_snapshot(p, *next);

		if (time_of(p, s.at_ns) > at_ns)
			break;
		last = time_of(p, s.at_ns);
		for (size_t j = 0; j < s.change_count; j++) {
			struct profile_change c = profile_change(p, *next, j);

			live[c.site.v] = c.live;
		}
	}
	return last;
}

/* The live bytes of a process, or of one of its sites, at three of its moments. */
struct live_numbers {
	int64_t snapshot, peak, end;
};

/* Those of the latest moment up to `now`. `snapshot` is the time of the last snapshot. */
static int64_t live_then(const struct profile_process *p, int64_t now, int64_t snapshot,
			 struct live_numbers live)
{
	int64_t peak = time_of(p, p->peak_at_ns);

	if (now >= time_of(p, p->duration_ns))
		return live.end;
	return now >= peak && peak > snapshot ? live.peak : live.snapshot;
}

static int64_t site_then(const struct entry *e, int64_t now, int64_t snapshot,
			 const struct site_live *live)
{
	const struct site_numbers *n = &e->site->numbers;

	return live_then(e->process, now, snapshot,
			 (struct live_numbers){ live[e->site->id.v].bytes, (int64_t)n->peak_bytes,
						(int64_t)n->live_bytes });
}

/* `next` is the number of snapshots so far. */
static int64_t heap_then(const struct profile_process *p, int64_t now, int64_t snapshot,
			 size_t next)
{
	int64_t last = next ? (int64_t)profile_snapshot(p, next - 1).live_bytes : 0;

	return live_then(
		p, now, snapshot,
		(struct live_numbers){ last, (int64_t)p->peak_bytes, (int64_t)p->live_bytes });
}

static void add_moment(struct series *series, size_t moment, const struct entry *e, int64_t bytes)
{
	series->values[moment] = saturating_add_signed(series->values[moment], bytes);
	if (!series->variances)
		return;
	float error = value_part(UNIT_BYTES, bytes > 0 ? (uint64_t)bytes : 0, VARIANCE_BYTES,
				 &e->site->numbers)
			      .error;

	series->variances[moment] += error * error;
}

/* The entries of a process that are shown, as numbers. */
struct shown_entries {
	const uint32_t *at;
	size_t count;
};

static void follow(struct maker *m, const struct profile_process *p, struct shown_entries shown,
		   struct site_live *live)
{
	bool selected = m->selection.processes[p - m->profile->processes];
	int64_t snapshot = -1;
	size_t next = 0;

	for (size_t i = 0; i < m->moment_count && !is_over(m, p, m->moments[i]); i++) {
		int64_t now = m->moments[i], taken = take_snapshots(p, now, &next, live);

		snapshot = MAX(snapshot, taken);
		if (selected)
			m->heap[i] = saturating_add_signed(m->heap[i],
							   heap_then(p, now, snapshot, next));
		for (size_t j = 0; j < shown.count; j++) {
			const struct entry *e = &m->selection.entries[shown.at[j]];

			add_moment(&m->series.at[m->series_of[shown.at[j]]], i, e,
				   site_then(e, now, snapshot, live));
		}
	}
}

/* Sorts the numbers of the shown entries by process: those of process i are from first[i] to first[i + 1]. */
static void sort_by_process(const struct maker *m, uint32_t *first, uint32_t *sorted)
{
	const struct entry *entries = m->selection.entries;
	const struct profile_process *processes = m->profile->processes;
	size_t count = m->profile->process_count;

	for (size_t i = 0; i < m->grouped; i++)
		first[entries[i].process - processes + 1] += m->series_of[i] < m->rows;
	for (size_t i = 0; i < count; i++)
		first[i + 1] += first[i];
	/* Each start moves to its end, which is the next one's start. */
	for (uint32_t i = 0; i < m->grouped; i++)
		if (m->series_of[i] < m->rows)
			sorted[first[entries[i].process - processes]++] = i;
	for (size_t i = count; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
}

static bool follow_all(struct maker *m)
{
	struct arena *arena = &m->result->arena;

	m->rows = MIN(m->series.count, m->query->limit);
	for (size_t i = 0; i < m->rows; i++) {
		struct series *series = &m->series.at[i];

		series->values = ARENA_ARRAY(arena, int64_t, m->moment_count);
		series->variances =
			series->estimated ? ARENA_ARRAY(arena, float, m->moment_count) : NULL;
		if (!series->values || (series->estimated && !series->variances))
			return false;
	}
	AUTO_FREE uint32_t *first = calloc(m->profile->process_count + 2, sizeof *first);
	AUTO_FREE uint32_t *sorted = calloc(m->grouped + 1, sizeof *sorted);

	if (!first || !sorted)
		return false;
	sort_by_process(m, first, sorted);
	for (size_t i = 0; i < m->profile->process_count; i++) {
		const struct profile_process *p = &m->profile->processes[i];
		const struct shown_entries shown = { sorted + first[i], first[i + 1] - first[i] };
		AUTO_FREE struct site_live *live = calloc(profile_site_ids(p) + 1, sizeof *live);

		if (!live)
			return false;
		follow(m, p, shown, live);
	}
	return true;
}

/* Adds an entry to the series; a new one has the number of the series so far. */
static bool add_entry(struct maker *m, size_t entry, uint32_t number, const char *label)
{
	const struct entry *e = &m->selection.entries[entry];

	if (number == m->series.count &&
	    !vector_push(&m->series, ((struct series){ .entry = e, .label = label })))
		return false;
	struct series *series = &m->series.at[number];

	measures_add(&series->m, &e->m);
	series->estimated |= e->site->numbers.samples > 0;
	m->series_of[entry] = number;
	return true;
}

static bool group_by_owner(struct maker *m)
{
	AUTO(intern_release) struct intern labels = INTERN_INIT;
	AUTO(owners_release) struct owners owners = { .locations = m->locations };

	for (size_t i = 0; i < m->selection.count; i++) {
		const struct entry *e = &m->selection.entries[i];
		const char *label = owners_label(&owners, e->process, e->site->node, m->result);
		struct intern_entry *known =
			label ? intern_entry(&labels, span_of(label, strlen(label))) : NULL;

		if (!known)
			return false;
		if (!known->value)
			known->value = (void *)(uintptr_t)labels.used; /* counted from 1 */
		if (!add_entry(m, i, (uint32_t)(uintptr_t)known->value - 1, label))
			return false;
	}
	return true;
}

struct ranked {
	uint64_t weight;
	uint32_t number;
};

static int compare_ranks(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->weight != b->weight)
		return a->weight < b->weight ? 1 : -1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* Sorts the series of owners, heaviest first. */
static bool sort_series(struct maker *m)
{
	size_t count = m->series.count;
	AUTO_FREE struct ranked *ranks = calloc(count + 1, sizeof *ranks);
	AUTO_FREE struct series *sorted = calloc(count + 1, sizeof *sorted);
	AUTO_FREE uint32_t *rank_of = calloc(count + 1, sizeof *rank_of);

	if (!ranks || !sorted || !rank_of)
		return false;
	for (uint32_t i = 0; i < count; i++)
		ranks[i] = (struct ranked){ selection_magnitude(&m->selection, &m->series.at[i].m),
					    i };
	qsort(ranks, count, sizeof *ranks, compare_ranks);
	for (uint32_t i = 0; i < count; i++) {
		sorted[i] = m->series.at[ranks[i].number];
		rank_of[ranks[i].number] = i;
	}
	for (size_t i = 0; i < count; i++)
		m->series.at[i] = sorted[i];
	for (size_t i = 0; i < m->selection.count; i++)
		m->series_of[i] = rank_of[m->series_of[i]];
	return true;
}

static bool make_series(struct maker *m)
{
	m->series_of = ARENA_ARRAY(&m->result->arena, uint32_t, m->selection.count);
	if (!m->series_of)
		return false;
	m->grouped = m->all = m->selection.count;
	if (by_own(m)) {
		bool done = group_by_owner(m) && sort_series(m);

		m->all = m->series.count;
		return done;
	}
	selection_sort(&m->selection, m->query->limit);
	m->grouped = MIN(m->selection.count, m->query->limit);
	for (uint32_t i = 0; i < m->grouped; i++)
		if (!add_entry(m, i, i, NULL))
			return false;
	return true;
}

/* Variances to standard errors. */
static const float *series_errors(const struct maker *m, struct series *series)
{
	for (size_t i = 0; series->variances && i < m->moment_count; i++)
		series->variances[i] = sqrtf(series->variances[i]);
	return series->variances;
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct maker *m = context;
	struct series *series = &m->series.at[index];
	const struct entry *e = series->entry;
	const float *errors = series_errors(m, series);
	size_t most = 0;

	for (size_t i = 0; i < m->moment_count; i++)
		most = series->values[i] > series->values[most] ? i : most;
	row[HISTORY_PROCESS] = value_id(e->process->pid);
	row[HISTORY_SITE] = value_id(e->site->id.v);
	row[HISTORY_COST] = selection_value(&m->selection, &series->m);
	row[HISTORY_MOST] = value_bytes(
		m->moment_count && series->values[most] > 0 ? (uint64_t)series->values[most] : 0);
	row[HISTORY_MOST].error = errors && m->moment_count ? errors[most] : 0;
	row[HISTORY_SERIES] =
		(struct result_value){ .unit = UNIT_SERIES,
				       .numbers = { series->values, m->moment_count, errors } };
	row[HISTORY_LABEL] = value_text(
		series->label ? series->label
			      : stack_label(m->result, m->locations, e->process, e->site->node));
	return row[HISTORY_LABEL].text &&
	       (series->label || stack_value(m->result, m->locations, e->process, e->site->node,
					     &row[HISTORY_STACK]));
}

static bool fill_table(struct maker *m)
{
	const struct selection *s = &m->selection;
	bool own = by_own(m);
	const struct result_column columns[HISTORY_COLUMNS] = {
		[HISTORY_PROCESS] = { own ? NULL : "pid",
				      m->profile->process_count > 1 && !own ? "PID" : NULL,
				      UNIT_ID },
		[HISTORY_SITE] = { own ? NULL : "site", NULL, UNIT_ID },
		[HISTORY_COST] = { cost_rows[s->cost].key, title_of(m->result, s->title),
				   selection_unit(s, s->cost) },
		[HISTORY_MOST] = { "max_snapshot_bytes", "MOST KEPT", UNIT_BYTES },
		[HISTORY_SERIES] = { "history", "OVER TIME", UNIT_SERIES },
		[HISTORY_LABEL] = { own ? axis_rows[AXIS_OWN].name : NULL, "FROM", UNIT_TEXT },
		[HISTORY_STACK] = { own ? NULL : "stack", NULL, UNIT_FRAMES },
	};
	return result_fill(m->result, own ? axis_rows[AXIS_OWN].plural : "sites", columns,
			   HISTORY_COLUMNS, m->rows, fill_row, m) &&
	       result_left_out(m->result, m->all - m->rows, own ? " more owner" : " more site",
			       own ? " more owners" : " more sites");
}

/* How far any number may be off. */
static uint64_t history_bound(const struct profile *profile)
{
	uint64_t most = 0;

	for (size_t i = 0; i < profile->process_count; i++)
		for (size_t j = 0; j < profile_snapshot_count(&profile->processes[i]); j++)
			most = MAX(most,
				   profile_snapshot(&profile->processes[i], j).live_bound.bytes);
	return most;
}

static bool make(struct maker *m)
{
	if (!m->result || !selection_fields(m->result, &m->selection) || !choose_moments(m))
		return false;
	result_head_add(m->result, "snapshot_at_ns",
			(struct result_value){ .unit = UNIT_SERIES,
					       .numbers = { m->moments, m->moment_count, NULL } });
	result_head_add(m->result, "live_bytes",
			(struct result_value){ .unit = UNIT_SERIES,
					       .numbers = { m->heap, m->moment_count, NULL } });
	result_head_add(m->result, "history_bound_bytes", value_bytes(history_bound(m->profile)));
	return make_series(m) && follow_all(m) && fill_table(m) &&
	       selection_headline(m->result, m->profile, m->query, &m->selection) &&
	       selection_notes(m->result, m->profile, m->locations, &m->selection);
}

struct result *analyse_history(const struct profile *profile, struct locations *locations,
			       const struct query *query, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE, .at = MOMENT_PEAK };
	struct maker m = { .profile = profile, .locations = locations, .query = query };

	if (query->has_axis && query->by != AXIS_OWN && query->by != AXIS_SITE) {
		error_set(error, "the view history shows sites, or with --by own their owners");
		return NULL;
	}
	if (query->filters.thread) {
		error_set(error, "--thread cannot be combined with the view history: data over "
				 "time is kept per site, not per thread");
		return NULL;
	}
	if (selection_make(&m.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	m.result = result_begin("history", profile, query, SELECTION_FIELDS + 3);
	bool done = make(&m);

	vector_release(&m.series);
	selection_release(&m.selection);
	return result_end(m.result, done, error);
}
