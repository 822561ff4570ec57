/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view `timeline`: live, resident and requested bytes over time, summed over all selected
 * processes; with the peak, and with the snapshots by the numbers that --at snap:N takes.
 *
 * The points of all processes are swept in time order, each combined with the latest values of the
 * others. If there are more than the limit allows, time is split into equal parts and each part
 * shows its highest point, so that no spike is lost. Rates are averages since the previous row.
 */
#include <stdlib.h>

#include "analysis/result/build.h"
#include "analysis/query/moments.h"
#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"

enum { TOP_SITES = 3 };

enum event_kind { EVENT_START, EVENT_SAMPLE, EVENT_SNAPSHOT, EVENT_END, EVENT_PEAK };

struct event {
	uint64_t at_ns; /* since the start of the recording */
	enum event_kind kind;
	const struct profile_process *process;
	size_t index;
};

/* Variances of estimates; shares of each process' totals. */
struct point_variance {
	double live_bytes, live_blocks, calls, bytes, frees;
};

/* One row: sums over the processes that run then, or ran until then. */
struct point {
	uint64_t at_ns;
	struct profile_sample sum;
	struct point_variance variance;
	size_t snapshot, last_snapshot; /* first and last snapshot number here; 0: none */
	bool peak;
	bool counted;	/* calls, bytes and frees were read at this moment, not before */
	bool uncounted; /* of some process they were not read yet ... */
	bool no_rss;	/* ... or its RSS was not */
};

struct sweep {
	struct result *result;
	const struct profile *profile;
	const bool *wanted;
	size_t wanted_count;
	struct arena arena;
	VECTOR(struct event) events;
	VECTOR(struct point) points;
	struct profile_sample *now; /* by process */
	struct profile_sample sum;
	/* By process, and of how many that is not so since they started: a process that is recorded without a collector has no samples. */
	bool *counted, *has_rss;
	size_t uncounted, without_rss;
	struct point_variance *variances, variance; /* by process, and their sum */
	struct live_variance **kept; /* by process, by snapshot; NULL: all numbers are exact */
	struct live_variance
		*ratios; /* by process: variance per byte and block at its last snapshot; 0: none */
	size_t snapshots;
	uint64_t peak_bytes, peak_at_ns, peak_bound_bytes;
	double peak_variance;
	uint64_t most_bytes; /* maximum over the shown points */
	bool failed;
};

static void add_event(struct sweep *s, uint64_t at_ns, enum event_kind kind,
		      const struct profile_process *p, size_t index)
{
	if (!vector_push(&s->events, ((struct event){ at_ns, kind, p, index })))
		s->failed = true;
}

static void add_process(struct sweep *s, const struct profile_process *p, bool wanted)
{
	uint64_t start = p->started_offset_ns;

	/* Snapshots are numbered over all processes, selected or not: see moments.c. */
	for (size_t i = 0; i < profile_snapshot_count(p); i++)
		add_event(s, saturating_add(start, profile_snapshot(p, i).at_ns), EVENT_SNAPSHOT, p,
			  i);
	if (!wanted)
		return;
	add_event(s, start, EVENT_START, p, 0);
	for (size_t i = 0; i < profile_sample_count(p); i++)
		add_event(s, saturating_add(start, profile_sample(p, i).at_ns), EVENT_SAMPLE, p, i);
	if (p->end != PROFILE_RUNNING)
		add_event(s, saturating_add(start, p->duration_ns), EVENT_END, p, 0);
}

/* The peak of a single process is its own and exact; that of all processes is the recording's. */
static void add_peak(struct sweep *s)
{
	const struct profile_process *only = NULL;

	for (size_t i = 0; i < s->profile->process_count; i++)
		only = s->wanted[i] ? &s->profile->processes[i] : only;
	if (only && s->wanted_count == 1) {
		s->peak_bytes = only->peak_bytes;
		s->peak_bound_bytes = only->peak_bound_bytes;
		s->peak_variance = only->sums.peak_bytes_variance;
		s->peak_at_ns = saturating_add(only->started_offset_ns, only->peak_at_ns);
	} else if (s->wanted_count == s->profile->process_count) {
		s->peak_bytes = s->profile->peak_bytes;
		s->peak_bound_bytes = s->profile->peak_bound_bytes;
		s->peak_variance = profile_peak_variance(s->profile);
		s->peak_at_ns = s->profile->peak_at_ns;
	}
	if (s->peak_bytes)
		add_event(s, s->peak_at_ns, EVENT_PEAK, only, 0);
}

static int compare_events(const void *left, const void *right)
{
	const struct event *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

/* Replaces a process' part of a sum. */
static void replace(uint64_t *sum, uint64_t *now, uint64_t value)
{
	*sum = saturating_add(saturating_sub(*sum, *now), value);
	*now = value;
}

static void replace_bound(struct sweep *s, size_t process, struct live_bound bound)
{
	struct live_bound *sum = &s->sum.live_bound, *now = &s->now[process].live_bound;

	replace(&sum->bytes, &now->bytes, bound.bytes);
	replace(&sum->blocks, &now->blocks, bound.blocks);
}

/* What is not known of a process that has started is known from now on. */
static void found(size_t *unknown, bool *known)
{
	*unknown -= !*known;
	*known = true;
}

static void take_sample(struct sweep *s, const struct event *e)
{
	size_t process = (size_t)(e->process - s->profile->processes);
	struct profile_sample *now = &s->now[process];
	struct profile_sample new = profile_sample(e->process, e->index);

	found(&s->uncounted, &s->counted[process]);
	found(&s->without_rss, &s->has_rss[process]);
	replace(&s->sum.live_bytes, &now->live_bytes, new.live_bytes);
	replace(&s->sum.live_blocks, &now->live_blocks, new.live_blocks);
	replace(&s->sum.calls, &now->calls, new.calls);
	replace(&s->sum.bytes, &now->bytes, new.bytes);
	replace(&s->sum.frees, &now->frees, new.frees);
	replace(&s->sum.rss_bytes, &now->rss_bytes, new.rss_bytes);
	replace(&s->sum.threads, &now->threads, new.threads);
	replace(&s->sum.map_live_bytes, &now->map_live_bytes, new.map_live_bytes);
	replace(&s->sum.own_bytes, &now->own_bytes, new.own_bytes);
	replace_bound(s, process, new.live_bound);
}

/* A process that ended has no live memory; but if it is the only one, its remaining memory is what matters. */
static void take_end(struct sweep *s, const struct event *e)
{
	const struct profile_process *p = e->process;
	size_t process = (size_t)(p - s->profile->processes);
	struct profile_sample *now = &s->now[process];

	if (!s->counted[process]) {
		replace(&s->sum.calls, &now->calls, p->calls);
		replace(&s->sum.bytes, &now->bytes, p->bytes);
		replace(&s->sum.frees, &now->frees, p->frees);
		replace(&s->sum.threads, &now->threads, p->threads);
		replace(&s->sum.map_live_bytes, &now->map_live_bytes, p->mmap_live_bytes);
		replace(&s->sum.own_bytes, &now->own_bytes, p->own_bytes);
		replace(&s->sum.live_bytes, &now->live_bytes, p->live_bytes);
		replace(&s->sum.live_blocks, &now->live_blocks, p->live_blocks);
		replace_bound(s, process, p->live_bound);
		found(&s->uncounted, &s->counted[process]);
	}
	if (s->wanted_count < 2)
		return;
	found(&s->without_rss, &s->has_rss[process]);
	replace(&s->sum.live_bytes, &now->live_bytes, 0);
	replace(&s->sum.live_blocks, &now->live_blocks, 0);
	replace_bound(s, process, (struct live_bound){ 0 });
	replace(&s->sum.rss_bytes, &now->rss_bytes, 0);
	replace(&s->sum.map_live_bytes, &now->map_live_bytes, 0);
	replace(&s->sum.own_bytes, &now->own_bytes, 0);
}

/* Updates the process' part of the variance to its current values. */
static void take_variance(struct sweep *s, const struct profile_process *p)
{
	const struct profile_sample *now = &s->now[p - s->profile->processes];
	struct point_variance *old = &s->variances[p - s->profile->processes];
	const struct live_variance *ratio = &s->ratios[p - s->profile->processes];
	/* Between snapshots, assumes the composition of the last one; before the first, that of the whole run. */
	const struct point_variance new = {
		.live_bytes = ratio->bytes > 0 ? ratio->bytes * (double)now->live_bytes
					       : estimate_variance(&p->sums, VARIANCE_BYTES,
								   now->live_bytes),
		.live_blocks = ratio->blocks > 0 ? ratio->blocks * (double)now->live_blocks
						 : estimate_variance(&p->sums, VARIANCE_CALLS,
								     now->live_blocks),
		.calls = estimate_variance(&p->sums, VARIANCE_CALLS, now->calls),
		.bytes = estimate_variance(&p->sums, VARIANCE_BYTES, now->bytes),
		.frees = estimate_variance(&p->sums, VARIANCE_FREES, now->frees),
	};

	s->variance.live_bytes += new.live_bytes - old->live_bytes;
	s->variance.live_blocks += new.live_blocks - old->live_blocks;
	s->variance.calls += new.calls - old->calls;
	s->variance.bytes += new.bytes - old->bytes;
	s->variance.frees += new.frees - old->frees;
	*old = new;
}

static struct point *point_at(struct sweep *s, uint64_t at_ns)
{
	if (s->points.count && s->points.at[s->points.count - 1].at_ns == at_ns)
		return &s->points.at[s->points.count - 1];
	if (!vector_push(&s->points, ((struct point){ .at_ns = at_ns }))) {
		s->failed = true;
		return NULL;
	}
	return &s->points.at[s->points.count - 1];
}

static void set_sums(const struct sweep *s, struct point *p)
{
	p->sum = s->sum;
	p->variance = s->variance;
	p->uncounted = s->uncounted > 0;
	p->no_rss = s->without_rss > 0;
}

static void take_snapshot(struct sweep *s, const struct event *e)
{
	size_t process = (size_t)(e->process - s->profile->processes);
	struct profile_snapshot snapshot = profile_snapshot(e->process, e->index);

	s->snapshots++;
	if (!s->wanted[process])
		return;
	struct point *p = point_at(s, e->at_ns);

	if (!p)
		return;
	p->snapshot = p->snapshot ? p->snapshot : s->snapshots;
	p->last_snapshot = s->snapshots;
	replace(&s->sum.live_bytes, &s->now[process].live_bytes, snapshot.live_bytes);
	replace(&s->sum.live_blocks, &s->now[process].live_blocks, snapshot.live_blocks);
	replace_bound(s, process, snapshot.live_bound);
	if (snapshot.rss_bytes) {
		replace(&s->sum.rss_bytes, &s->now[process].rss_bytes, snapshot.rss_bytes);
		found(&s->without_rss, &s->has_rss[process]);
	}
	if (s->kept[process] && snapshot.live_bytes && snapshot.live_blocks)
		s->ratios[process] = (struct live_variance){
			s->kept[process][e->index].bytes / (double)snapshot.live_bytes,
			s->kept[process][e->index].blocks / (double)snapshot.live_blocks,
		};
	take_variance(s, e->process);
	set_sums(s, p);
}

static void take_event(struct sweep *s, const struct event *e)
{
	if (e->kind == EVENT_START) {
		s->uncounted++;
		s->without_rss++;
		return;
	}
	if (e->kind == EVENT_SNAPSHOT) {
		take_snapshot(s, e);
		return;
	}
	if (e->kind == EVENT_SAMPLE)
		take_sample(s, e);
	else if (e->kind == EVENT_END)
		take_end(s, e);
	if (e->kind != EVENT_PEAK)
		take_variance(s, e->process);
	struct point *p = point_at(s, e->at_ns);

	if (!p)
		return;
	set_sums(s, p);
	p->counted = p->counted || e->kind != EVENT_PEAK;
	if (e->kind == EVENT_PEAK) {
		p->peak = true;
		p->sum.live_bytes = s->peak_bytes;
		p->sum.live_bound.bytes = s->peak_bound_bytes;
		p->variance.live_bytes = s->peak_variance;
		if (s->wanted_count == 1) {
			p->sum.live_blocks = e->process->peak_blocks;
			p->variance.live_blocks = e->process->sums.peak_blocks_variance;
		}
	}
}

static bool sweep(struct sweep *s)
{
	s->now = ARENA_ARRAY(&s->arena, struct profile_sample, s->profile->process_count);
	s->variances = ARENA_ARRAY(&s->arena, struct point_variance, s->profile->process_count);
	s->kept = ARENA_ARRAY(&s->arena, struct live_variance *, s->profile->process_count);
	s->ratios = ARENA_ARRAY(&s->arena, struct live_variance, s->profile->process_count);
	s->counted = ARENA_ARRAY(&s->arena, bool, s->profile->process_count);
	s->has_rss = ARENA_ARRAY(&s->arena, bool, s->profile->process_count);
	if (!s->now || !s->variances || !s->kept || !s->ratios || !s->counted || !s->has_rss)
		return false;
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct profile_process *p = &s->profile->processes[i];

		s->kept[i] = p->samples ? profile_snapshot_variances(p, &s->arena) : NULL;
		if (p->samples && !s->kept[i])
			return false;
	}
	for (size_t i = 0; i < s->profile->process_count; i++) {
		s->wanted_count += s->wanted[i];
		add_process(s, &s->profile->processes[i], s->wanted[i]);
	}
	add_peak(s);
	if (s->failed)
		return false;
	if (s->events.count)
		qsort(s->events.at, s->events.count, sizeof *s->events.at, compare_events);
	for (size_t i = 0; i < s->events.count && !s->failed; i++)
		take_event(s, &s->events.at[i]);
	return !s->failed;
}

/* Merges two points of one part: keeps the higher one and the numbers of both snapshots. */
static void merge(struct point *into, const struct point *from)
{
	size_t first = into->snapshot ? into->snapshot : from->snapshot;
	size_t last = from->last_snapshot ? from->last_snapshot : into->last_snapshot;

	if (from->peak || (!into->peak && from->sum.live_bytes > into->sum.live_bytes))
		*into = *from;
	into->snapshot = first;
	into->last_snapshot = last;
}

/* Reduces the points to at most `limit`; the last one is never merged. */
static void thin(struct sweep *s, size_t limit)
{
	size_t count = s->points.count, kept = 0, part_before = SIZE_MAX;

	if (count <= limit || limit < 2)
		return;
	uint64_t from = s->points.at[0].at_ns, span = s->points.at[count - 1].at_ns - from;

	for (size_t i = 0; i + 1 < count; i++) {
		struct point p = s->points.at[i];
		size_t part = span ? (size_t)((double)(p.at_ns - from) * (double)(limit - 1) /
					      (double)span)
				   : 0;

		part = MIN(part, limit - 2);
		if (part == part_before)
			merge(&s->points.at[kept - 1], &p);
		else
			s->points.at[kept++] = p;
		part_before = part;
	}
	s->points.at[kept++] = s->points.at[count - 1];
	s->points.count = kept;
}

#define SUM(field) FROM_U64, offsetof(struct point, sum.field), VARIANCE_NONE

#define TIMELINE_COLUMN_LIST(X)                                                                    \
	X(TIMELINE_AT_NS, { "at_ns", "AT", UNIT_NS }, FROM_U64, offsetof(struct point, at_ns),     \
	  VARIANCE_NONE)                                                                           \
	X(TIMELINE_LIVE_BYTES, { "live_bytes", "LIVE", UNIT_BYTES }, SUM(live_bytes))              \
	X(TIMELINE_BAR, { NULL, "", UNIT_BAR })                                                    \
	X(TIMELINE_LIVE_BLOCKS, { "live_blocks", NULL, UNIT_COUNT }, SUM(live_blocks))             \
	X(TIMELINE_LIVE_BOUND_BYTES, { "live_bound_bytes", NULL, UNIT_BYTES },                     \
	  SUM(live_bound.bytes))                                                                   \
	X(TIMELINE_LIVE_BOUND_BLOCKS, { "live_bound_blocks", NULL, UNIT_COUNT },                   \
	  SUM(live_bound.blocks))                                                                  \
	X(TIMELINE_RSS_BYTES, { "rss_bytes", "RSS", UNIT_BYTES }, SUM(rss_bytes))                  \
	X(TIMELINE_CALLS_RATE, { "calls_per_second", "CALLS", UNIT_RATE })                         \
	X(TIMELINE_BYTES_RATE, { "bytes_per_second", NULL, UNIT_RATE })                            \
	X(TIMELINE_FREES_RATE, { "frees_per_second", NULL, UNIT_RATE })                            \
	X(TIMELINE_THREADS, { "threads", "THREADS STARTED", UNIT_COUNT }, SUM(threads))            \
	X(TIMELINE_MAP_LIVE_BYTES, { "mmap_live_bytes", NULL, UNIT_BYTES }, SUM(map_live_bytes))   \
	X(TIMELINE_OWN_BYTES, { "recorder_bytes", NULL, UNIT_BYTES }, SUM(own_bytes))              \
	X(TIMELINE_CALLS, { "calls", NULL, UNIT_COUNT }, SUM(calls))                               \
	X(TIMELINE_BYTES, { "total_bytes", NULL, UNIT_BYTES }, SUM(bytes))                         \
	X(TIMELINE_FREES, { "frees", NULL, UNIT_COUNT }, SUM(frees))                               \
	X(TIMELINE_SNAPSHOT, { "snapshot", NULL, UNIT_ID })                                        \
	X(TIMELINE_PEAK, { "peak", NULL, UNIT_FLAG }, FROM_BOOL, offsetof(struct point, peak),     \
	  VARIANCE_NONE)                                                                           \
	X(TIMELINE_MARK, { NULL, "", UNIT_TEXT })
enum timeline_column { TIMELINE_COLUMN_LIST(COLUMN_ID) TIMELINE_COLUMNS };
static const struct source_column columns[TIMELINE_COLUMNS] = { TIMELINE_COLUMN_LIST(COLUMN_ROW) };

/* New allocations are independent of earlier ones: the variance is the difference. */
static struct result_value rate(uint64_t before, uint64_t now, uint64_t ns, double variance)
{
	double factor = ns ? 1e9 / (double)ns : 0;
	double per_second = (double)saturating_sub(now, before) * factor;

	return value_estimate(value_number(UNIT_RATE, saturating_u64(per_second + 0.5)),
			      MAX(variance, 0.0) * factor * factor);
}

/* "peak  snap:3-7" */
static const char *mark_text(struct result *result, const struct point *p)
{
	const char *peak = p->peak ? "peak" : "", *space = p->peak && p->snapshot ? "  " : "";

	if (!p->snapshot)
		return peak;
	if (p->snapshot == p->last_snapshot)
		return arena_printf(&result->arena, "%s%ssnap:%zu", peak, space, p->snapshot);
	return arena_printf(&result->arena, "%s%ssnap:%zu-%zu", peak, space, p->snapshot,
			    p->last_snapshot);
}

/* The nearest counted point from i on in direction `step`; NULL: none. */
static const struct point *counted(const struct sweep *s, size_t i, int step)
{
	while (i < s->points.count && (!s->points.at[i].counted || s->points.at[i].uncounted))
		i += (size_t)step;
	return i < s->points.count ? &s->points.at[i] : NULL;
}

/* Uses the counted points around a point: a peak has older counts, and the next row would otherwise get all at once. */
static void fill_rates(const struct sweep *s, size_t i, struct result_value *row)
{
	static const struct point start = { 0 };
	const struct point *before = i ? counted(s, i - 1, -1) : NULL, *now = counted(s, i, 1);

	before = before ? before : &start;
	now = now ? now : &s->points.at[i];
	uint64_t ns = now->at_ns - before->at_ns;

	const struct point_variance *v = &now->variance, *u = &before->variance;

	row[TIMELINE_CALLS_RATE] = rate(before->sum.calls, now->sum.calls, ns, v->calls - u->calls);
	row[TIMELINE_BYTES_RATE] = rate(before->sum.bytes, now->sum.bytes, ns, v->bytes - u->bytes);
	row[TIMELINE_FREES_RATE] = rate(before->sum.frees, now->sum.frees, ns, v->frees - u->frees);
}

static bool fill_row(void *context, size_t i, struct result_value *row)
{
	static const enum timeline_column counters[] = {
		TIMELINE_CALLS,	     TIMELINE_BYTES,	  TIMELINE_FREES,
		TIMELINE_CALLS_RATE, TIMELINE_BYTES_RATE, TIMELINE_FREES_RATE,
		TIMELINE_THREADS,    TIMELINE_OWN_BYTES,  TIMELINE_MAP_LIVE_BYTES,
	};
	const struct sweep *s = context;
	const struct point *p = &s->points.at[i];

	for (size_t j = 0; j < TIMELINE_COLUMNS; j++)
		row[j] = source_value(&columns[j], p);
	row[TIMELINE_BAR] = value_bar(p->sum.live_bytes, s->most_bytes);
	const struct point_variance *v = &p->variance;

	row[TIMELINE_LIVE_BYTES] = value_estimate(row[TIMELINE_LIVE_BYTES], v->live_bytes);
	row[TIMELINE_LIVE_BLOCKS] = value_estimate(row[TIMELINE_LIVE_BLOCKS], v->live_blocks);
	row[TIMELINE_CALLS] = value_estimate(row[TIMELINE_CALLS], v->calls);
	row[TIMELINE_BYTES] = value_estimate(row[TIMELINE_BYTES], v->bytes);
	row[TIMELINE_FREES] = value_estimate(row[TIMELINE_FREES], v->frees);
	fill_rates(s, i, row);
	if (p->peak && p->sum.live_bound.bytes)
		row[TIMELINE_LIVE_BOUND_BLOCKS] = value_unknown();
	for (size_t j = 0; p->uncounted && j < ARRAY_SIZE(counters); j++)
		row[counters[j]] = value_unknown();
	if (p->no_rss)
		row[TIMELINE_RSS_BYTES] = value_unknown();
	row[TIMELINE_SNAPSHOT] = p->snapshot ? value_id(p->snapshot) : value_unknown();
	row[TIMELINE_MARK] = value_text(mark_text(s->result, p));
	return row[TIMELINE_MARK].text != NULL;
}

static bool fill_table(struct sweep *s)
{
	size_t rows = s->points.count;
	struct result_column *shown = result_columns(s->result, columns, TIMELINE_COLUMNS);

	for (size_t i = 0; i < rows; i++)
		s->most_bytes = MAX(s->most_bytes, s->points.at[i].sum.live_bytes);
	if (!shown ||
	    !result_fill(s->result, "timeline", shown, TIMELINE_COLUMNS, rows, fill_row, s))
		return false;
	s->result->table.shape = RESULT_SERIES;
	return true;
}

static void describe_top_sites(struct sentences *s, struct locations *locations,
			       struct selection *selection)
{
	selection_sort(selection, TOP_SITES);
	for (size_t i = 0; i < MIN(selection->count, (size_t)TOP_SITES); i++) {
		const struct entry *e = &selection->entries[i];
		struct words w = { 0 }, more = { 0 };

		if (e->m.live_bytes <= 0)
			break;
		words_add(&w, selection_value(selection, &e->m));
		text_format(&more, "{} of it from ",
			    value_percent((uint64_t)e->m.live_bytes,
					  (uint64_t)selection->sum.live_bytes));
		words_text(&more, stack_label(s->result, locations, e->process, e->site->node));
		sentences_add(s, i ? "" : "at peak", &w, &more);
		if (s->list.count)
			s->list.at[s->list.count - 1].aligned = true;
	}
}

static bool describe_all(struct locations *locations, const struct sweep *sweep,
			 struct selection *selection)
{
	struct sentences s = { .result = sweep->result };
	struct words w = { 0 }, kept = { 0 };

	words_headline(&w, sweep->result, sweep->profile);
	text_format(&w, "peak {} at {} of {}",
		    value_estimate(value_bytes(sweep->peak_bytes), sweep->peak_variance),
		    value_ns(sweep->peak_at_ns), value_ns(sweep->profile->duration_ns));
	sentences_add(&s, NULL, &w, NULL);
	describe_top_sites(&s, locations, selection);
	if (sweep->snapshots) {
		words_count(&kept, sweep->snapshots, " moment", " moments");
		words_text(&kept, " with every site -> --at snap:N");
		sentences_add(&s, "kept", &kept, NULL);
	}
	return sentences_end(&s);
}

struct result *analyse_timeline(const struct profile *profile, struct locations *locations,
				const struct query *query, struct error *error)
{
	const struct view_defaults defaults = { .cost = COST_LIVE, .at = MOMENT_PEAK };
	struct query at_peak = *query;
	struct selection selection = { 0 };
	struct sweep s = { .profile = profile };
	bool done = false;

	at_peak.has_cost = false;
	at_peak.at = at_peak.minus = (struct moment){ 0 };
	s.wanted = processes_choose(profile, query, &s.arena, error);
	if (!s.wanted ||
	    selection_make(&selection, profile, locations, &at_peak, defaults, error) < 0)
		goto end;
	error_set(error, "out of memory");
	s.result = result_begin("timeline", profile, query, 1);
	if (!s.result || !sweep(&s))
		goto end;
	s.result->shows_peak = true;
	result_head_add(s.result, "point_count", value_count(s.points.count));
	thin(&s, query->limit);
	done = fill_table(&s) && describe_all(locations, &s, &selection) &&
	       result_notes(s.result, profile, locations,
			    s.points.count ? NULL : nothing_recorded(profile));
end:
	vector_release(&s.events);
	vector_release(&s.points);
	arena_release(&s.arena);
	selection_release(&selection);
	if (done)
		return s.result;
	result_free(s.result);
	return NULL;
}
