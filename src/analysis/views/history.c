/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `history`: the live bytes of the heaviest sites at every snapshot, one series per site.
 *
 * The moments are the snapshots, the peak and the end of all processes together, thinned evenly if there are more than a
 * chart needs. At a moment, a site has the value of its process' latest moment up to then; 0 before the first one and,
 * with several processes, after the end of its process. The query's cost determines the heaviest sites.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "util/cleanup.h"

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

struct maker {
	struct result *result;
	const struct profile *profile;
	const struct query *query;
	struct locations *locations;
	struct selection selection;
	int64_t *moments; /* since the start of the recording */
	size_t moment_count, rows;
	int64_t *values; /* rows x moments */
};

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
	return true;
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

static void follow(struct maker *m, const struct profile_process *p, struct site_live *live)
{
	int64_t peak = time_of(p, p->peak_at_ns), end = time_of(p, p->duration_ns);
	int64_t snapshot = -1;
	size_t next = 0;

	for (size_t i = 0; i < m->moment_count; i++) {
		int64_t now = m->moments[i], taken = take_snapshots(p, now, &next, live);
		bool over = is_over(m, p, now);

		snapshot = MAX(snapshot, taken);
		for (size_t row = 0; row < m->rows && !over; row++) {
			const struct entry *e = &m->selection.entries[row];
			const struct site_numbers *n = &e->site->numbers;
			int64_t *cell = &m->values[row * m->moment_count + i];

			if (e->process != p)
				continue;
			if (now >= end)
				*cell = (int64_t)n->live_bytes;
			else if (now >= peak && peak > snapshot)
				*cell = (int64_t)n->peak_bytes;
			else
				*cell = live[e->site->id.v].bytes;
		}
	}
}

static bool follow_all(struct maker *m)
{
	size_t cells;

	m->rows = MIN(m->selection.count, m->query->limit);
	if (!checked_mul(m->rows, m->moment_count, &cells))
		return false;
	m->values = ARENA_ARRAY(&m->result->arena, int64_t, cells);
	for (size_t i = 0; m->values && i < m->profile->process_count; i++) {
		const struct profile_process *p = &m->profile->processes[i];
		AUTO_FREE struct site_live *live = calloc(profile_site_ids(p) + 1, sizeof *live);

		if (!live)
			return false;
		follow(m, p, live);
	}
	return m->values != NULL;
}

/* The standard error of each number of a series; NULL if all are exact, or out of memory. */
static const float *series_errors(struct maker *m, const struct entry *e, const int64_t *series)
{
	float *errors = e->site->numbers.samples
				? ARENA_ARRAY(&m->result->arena, float, m->moment_count)
				: NULL;

	for (size_t i = 0; errors && i < m->moment_count; i++)
		errors[i] = value_part(UNIT_BYTES, series[i] > 0 ? (uint64_t)series[i] : 0,
				       VARIANCE_BYTES, &e->site->numbers)
				    .error;
	return errors;
}

static bool fill_row(void *context, size_t index, struct result_value *row)
{
	struct maker *m = context;
	const struct entry *e = &m->selection.entries[index];
	const int64_t *series = &m->values[index * m->moment_count];
	int64_t most = 0;

	for (size_t i = 0; i < m->moment_count; i++)
		most = MAX(most, series[i]);
	row[HISTORY_PROCESS] = value_id(e->process->pid);
	row[HISTORY_SITE] = value_id(e->site->id.v);
	row[HISTORY_COST] = selection_value(&m->selection, &e->m);
	row[HISTORY_MOST] =
		value_part(UNIT_BYTES, (uint64_t)most, VARIANCE_BYTES, &e->site->numbers);
	row[HISTORY_SERIES] = (struct result_value){ .unit = UNIT_SERIES,
						     .numbers = { series, m->moment_count,
								  series_errors(m, e, series) } };
	row[HISTORY_LABEL] =
		value_text(stack_label(m->result, m->locations, e->process, e->site->node));
	return row[HISTORY_LABEL].text &&
	       stack_value(m->result, m->locations, e->process, e->site->node, &row[HISTORY_STACK]);
}

static bool fill_table(struct maker *m)
{
	const struct selection *s = &m->selection;
	const struct result_column columns[HISTORY_COLUMNS] = {
		[HISTORY_PROCESS] = { "pid", m->profile->process_count > 1 ? "PID" : NULL,
				      UNIT_ID },
		[HISTORY_SITE] = { "site", NULL, UNIT_ID },
		[HISTORY_COST] = { cost_rows[s->cost].key, title_of(m->result, s->title),
				   cost_unit(s->cost, s->change) },
		[HISTORY_MOST] = { "max_snapshot_bytes", "MOST KEPT", UNIT_BYTES },
		[HISTORY_SERIES] = { "history", "OVER TIME", UNIT_SERIES },
		[HISTORY_LABEL] = { NULL, "FROM", UNIT_TEXT },
		[HISTORY_STACK] = { "stack", NULL, UNIT_FRAMES },
	};
	return result_fill(m->result, "sites", columns, HISTORY_COLUMNS, m->rows, fill_row, m) &&
	       result_left_out(m->result, s->count - m->rows, " more site", " more sites");
}

static bool make(struct maker *m)
{
	if (!m->result || !selection_fields(m->result, &m->selection) || !choose_moments(m))
		return false;
	result_head_add(m->result, "snapshot_at_ns",
			(struct result_value){ .unit = UNIT_SERIES,
					       .numbers = { m->moments, m->moment_count, NULL } });
	selection_sort(&m->selection, m->query->limit);
	return follow_all(m) && fill_table(m) &&
	       selection_headline(m->result, m->profile, m->query, &m->selection) &&
	       selection_notes(m->result, m->profile, m->locations, &m->selection);
}

struct result *analyse_history(const struct profile *profile, struct locations *locations,
			       const struct query *query, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE, .at = MOMENT_PEAK };
	struct maker m = { .profile = profile, .locations = locations, .query = query };

	if (query->filters.thread) {
		error_set(error, "--thread cannot be combined with the view history: data over "
				 "time is kept per site, not per thread");
		return NULL;
	}
	if (selection_make(&m.selection, profile, locations, query, defaults, error) < 0)
		return NULL;
	m.result = result_begin("history", profile, query, SELECTION_FIELDS + 1);
	bool done = make(&m);

	selection_release(&m.selection);
	return result_end(m.result, done, error);
}
