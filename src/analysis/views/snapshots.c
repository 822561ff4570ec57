/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `snapshots`: the named moments of all selected processes by time, each with its live bytes, the change since the
 * previous snapshot and since the first one of its process. Events of the program are listed between them, without numbers.
 *
 * SNAP is the number for --at snap:N: snapshots are numbered over all processes, see moments.c.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/process_choice.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "util/cleanup.h"

#define SNAP_COLUMN_LIST(X)                                                                        \
	X(SNAP_NUMBER, "snapshot", "SNAP", UNIT_ID)                                                \
	X(SNAP_AT, "at_ns", "AT", UNIT_NS)                                                         \
	X(SNAP_PROCESS, "pid", "PID", UNIT_ID)                                                     \
	X(SNAP_KIND, "kind", NULL, UNIT_TEXT)                                                      \
	X(SNAP_LIVE, "live_bytes", "LIVE", UNIT_BYTES)                                             \
	X(SNAP_BLOCKS, "live_blocks", "BLOCKS", UNIT_COUNT)                                        \
	X(SNAP_BOUND, "live_bound_bytes", NULL, UNIT_BYTES)                                        \
	X(SNAP_BOUND_BLOCKS, "live_bound_blocks", NULL, UNIT_COUNT)                                \
	X(SNAP_CHANGE, "change_bytes", "CHANGE", UNIT_BYTES_CHANGE)                                \
	X(SNAP_SINCE_FIRST, "since_first_bytes", "SINCE FIRST", UNIT_BYTES_CHANGE)                 \
	X(SNAP_RSS, "rss_bytes", "RSS", UNIT_BYTES)                                                \
	X(SNAP_NAME, "name", "NAME", UNIT_TEXT)
enum snap_column { SNAP_COLUMN_LIST(COLUMN_ID) SNAP_COLUMNS };

/* A snapshot or an event, in the recording's time. */
struct moment_event {
	uint64_t at_ns;
	const struct profile_process *process;
	size_t snapshot;  /* 1 + index; 0: an event without a snapshot */
	const char *name; /* NULL: a periodic snapshot */
	bool is_snapshot;
};

struct snaps {
	struct result *result;
	const struct profile *profile;
	const bool *wanted;
	struct live_variance **variances; /* by process, by snapshot */
	VECTOR(struct moment_event) events;
	VECTOR(struct result_value) values;
	bool failed;
};

static void add_event(struct snaps *s, struct moment_event event)
{
	s->failed |= !vector_push(&s->events, event);
}

/* Adds all snapshots, because they count for the numbering; only those with a name are shown. */
static void add_process(struct snaps *s, const struct profile_process *p)
{
	uint64_t start = p->started_offset_ns;
	AUTO_FREE const char **names = calloc(profile_snapshot_count(p) + 1, sizeof *names);

	if (!names) {
		s->failed = true;
		return;
	}
	for (size_t i = 0; i < profile_moment_count(p); i++) {
		struct profile_moment mark = profile_moment(p, i);

		if (mark.snapshot)
			names[mark.snapshot - 1] = mark.name;
		else
			add_event(s, (struct moment_event){ saturating_add(start, mark.at_ns), p, 0,
							    mark.name, mark.is_snapshot });
	}
	for (size_t i = 0; i < profile_snapshot_count(p); i++)
		add_event(s, (struct moment_event){
				     saturating_add(start, profile_snapshot(p, i).at_ns), p, i + 1,
				     names[i], true });
}

static int compare_events(const void *left, const void *right)
{
	const struct moment_event *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->snapshot < b->snapshot ? -1 : a->snapshot > b->snapshot;
}

/* The live bytes at the process' first named snapshot, and at the latest one. */
struct baseline {
	uint64_t first, last;
	double first_variance, last_variance;
	bool begun;
};

/* Blocks live at both count in both variances: an upper bound. */
static struct result_value change_since(uint64_t before, double before_variance,
					const struct profile_snapshot *snap, double variance)
{
	return value_estimate(value_change(UNIT_BYTES_CHANGE, (int64_t)(snap->live_bytes - before)),
			      variance + before_variance);
}

static void push_row(struct snaps *s, const struct moment_event *e, uint64_t number,
		     struct baseline *baseline)
{
	struct result_value row[SNAP_COLUMNS] = {
		[SNAP_NUMBER] = e->snapshot ? value_id(number) : value_unknown(),
		[SNAP_AT] = value_ns(e->at_ns),
		[SNAP_PROCESS] = value_id(e->process->pid),
		[SNAP_KIND] = value_text(e->is_snapshot ? "snapshot" : "mark"),
		[SNAP_LIVE] = value_unknown(),
		[SNAP_BLOCKS] = value_unknown(),
		[SNAP_BOUND] = value_unknown(),
		[SNAP_BOUND_BLOCKS] = value_unknown(),
		[SNAP_CHANGE] = value_unknown(),
		[SNAP_SINCE_FIRST] = value_unknown(),
		[SNAP_RSS] = value_unknown(),
		[SNAP_NAME] = value_text(e->name),
	};

	if (e->snapshot) {
		struct profile_snapshot snap = profile_snapshot(e->process, e->snapshot - 1);

		struct live_variance variance =
			s->variances[e->process - s->profile->processes][e->snapshot - 1];

		row[SNAP_LIVE] = value_estimate(value_bytes(snap.live_bytes), variance.bytes);
		row[SNAP_BLOCKS] = value_estimate(value_count(snap.live_blocks), variance.blocks);
		row[SNAP_BOUND] = value_bytes(snap.live_bound.bytes);
		row[SNAP_BOUND_BLOCKS] = value_count(snap.live_bound.blocks);
		if (snap.rss_bytes)
			row[SNAP_RSS] = value_bytes(snap.rss_bytes);
		if (baseline->begun) {
			row[SNAP_CHANGE] = change_since(baseline->last, baseline->last_variance,
							&snap, variance.bytes);
			row[SNAP_SINCE_FIRST] = change_since(
				baseline->first, baseline->first_variance, &snap, variance.bytes);
		} else {
			baseline->first = snap.live_bytes;
			baseline->first_variance = variance.bytes;
		}
		baseline->begun = true;
		baseline->last = snap.live_bytes;
		baseline->last_variance = variance.bytes;
	}
	for (size_t i = 0; i < SNAP_COLUMNS; i++)
		s->failed |= !vector_push(&s->values, row[i]);
}

static bool fill_rows(struct snaps *s)
{
	AUTO_FREE struct baseline *baselines =
		calloc(s->profile->process_count + 1, sizeof *baselines);
	uint64_t number = 0;

	if (!baselines)
		return false;
	if (s->events.count)
		qsort(s->events.at, s->events.count, sizeof *s->events.at, compare_events);
	for (size_t i = 0; i < s->events.count && !s->failed; i++) {
		const struct moment_event *e = &s->events.at[i];
		size_t process = (size_t)(e->process - s->profile->processes);

		number += e->snapshot != 0;
		if (e->name && s->wanted[process])
			push_row(s, e, number, &baselines[process]);
	}
	return !s->failed;
}

static bool fill_table(struct snaps *s, size_t limit)
{
	struct result_column columns[] = { SNAP_COLUMN_LIST(COLUMN_ROW) };
	size_t rows = s->values.count / SNAP_COLUMNS, shown = MIN(rows, limit);

	if (s->profile->process_count == 1)
		columns[SNAP_PROCESS].title = NULL;

	return result_take(s->result, "snapshots", columns, SNAP_COLUMNS, shown, s->values.at) &&
	       result_left_out(s->result, rows - shown, " more snapshot", " more snapshots");
}

static bool say(struct snaps *s)
{
	struct sentences sentences = { .result = s->result };
	struct words what = { 0 }, none = { 0 };

	words_headline(&what, s->result, s->profile);
	words_count(&what, s->values.count / SNAP_COLUMNS, " named snapshot", " named snapshots");
	sentences_add(&sentences, NULL, &what, NULL);
	if (s->values.count == 0) {
		words_text(&none,
			   "none: hg_snapshot(\"name\") in the program, heapgauge snap PID, or "
			   "record --every 10s and --on 'rss>80%' make some");
		sentences_add(&sentences, "snapshots", &none, NULL);
	}
	return sentences_end(&sentences);
}

struct result *analyse_snapshots(const struct profile *profile, struct locations *locations,
				 const struct query *query, struct error *error)
{
	AUTO(arena_release) struct arena arena = ARENA_INIT;
	struct snaps s = { .profile = profile };

	(void)locations;
	s.wanted = processes_choose(profile, query, &arena, error);
	if (!s.wanted)
		return NULL;
	s.result = result_begin("snapshots", profile, query, 0);
	s.variances = ARENA_ARRAY(&arena, struct live_variance *, profile->process_count);
	for (size_t i = 0; i < profile->process_count; i++) {
		if (s.variances)
			s.variances[i] = profile_snapshot_variances(&profile->processes[i], &arena);
		s.failed |= !s.variances || !s.variances[i];
	}
	for (size_t i = 0; i < profile->process_count; i++)
		add_process(&s, &profile->processes[i]);
	bool done = s.result && !s.failed && fill_rows(&s) && fill_table(&s, query->limit) &&
		    say(&s) && result_notes(s.result, profile, NULL, NULL);

	vector_release(&s.events);
	vector_release(&s.values);
	return result_end(s.result, done, error);
}
