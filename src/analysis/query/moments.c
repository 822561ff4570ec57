/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments. A recording has three kinds per process: its peak, its end, and the snapshots between.
 * Any other moment resolves to the nearest of these, and the output names it.
 *
 * Snapshots are numbered by time over all processes, from 1; the other processes use their own
 * nearest snapshot.
 */
#include "analysis/query/moments.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/query/selection.h"
#include "base/checked.h"
#include "base/compiler.h"
#include "util/text/units.h"
#include "util/vector.h"

/* A snapshot of the recording. Several may have the same time: a requested and a periodic one. */
struct found {
	uint64_t at_ns; /* since the start of the recording */
	const struct profile_process *process;
	size_t snapshot;
};

static int compare_found(const void *left, const void *right)
{
	const struct found *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->snapshot < b->snapshot ? -1 : 1;
}

/* The n-th snapshot of the recording. */
static int find_numbered(const struct profile *profile, uint64_t number, struct found *ret,
			 struct error *error)
{
	VECTOR(struct found) all = { 0 };
	int status = -1;

	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; j < profile_snapshot_count(p); j++) {
			uint64_t at_ns = profile_snapshot(p, j).at_ns;
			struct found found = { saturating_add(p->started_offset_ns, at_ns), p, j };

			if (!vector_push(&all, found)) {
				error_set(error, "out of memory");
				goto done;
			}
		}
	}
	if (all.count)
		qsort(all.at, all.count, sizeof *all.at, compare_found);
	if (!all.at || number == 0 || number > all.count) {
		error_set(error, "snap:%llu does not exist: the recording has %zu snapshots",
			  (unsigned long long)number, all.count);
		goto done;
	}
	*ret = all.at[number - 1];
	status = 0;
done:
	vector_release(&all);
	return status;
}

/* "name#2" is the second snapshot with that name, "name" the last. A name may contain a '#'. */
static int find_named(const struct profile *profile, const char *name, struct found *ret,
		      struct error *error)
{
	const char *hash = strrchr(name, '#');
	uint64_t wanted = hash ? strtoull(hash + 1, NULL, 10) : 0, seen = 0;
	size_t length = hash ? (size_t)(hash - name) : 0;
	bool found = false;

	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; j < profile_moment_count(p); j++) {
			struct profile_moment mark = profile_moment(p, j);
			bool counted = wanted && strlen(mark.name) == length &&
				       strncmp(mark.name, name, length) == 0;

			if (!mark.snapshot)
				continue;
			seen += counted;
			if (strcmp(mark.name, name) != 0 && !(counted && seen == wanted))
				continue;
			*ret = (struct found){ saturating_add(p->started_offset_ns, mark.at_ns), p,
					       mark.snapshot - 1 };
			found = true;
		}
	}
	return found ? 0
		     : error_set(error,
				 "no snapshot is named '%s': 'heapgauge report --view snapshots' "
				 "lists them",
				 name);
}

/* NULL: it has none. */
static const char *snapshot_name(const struct found *found)
{
	for (size_t i = 0; i < profile_moment_count(found->process); i++) {
		struct profile_moment mark = profile_moment(found->process, i);

		if (mark.snapshot == found->snapshot + 1)
			return mark.name;
	}
	return NULL;
}

/* "name#2". NULL if out of memory. */
static const char *counted_name(const struct profile *profile, const struct found *found,
				const char *name, struct arena *arena)
{
	size_t number = 0;

	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		for (size_t j = 0; j < profile_moment_count(p); j++) {
			struct profile_moment mark = profile_moment(p, j);

			number += mark.snapshot && strcmp(mark.name, name) == 0;
			if (p == found->process && mark.snapshot == found->snapshot + 1)
				return arena_printf(arena, "%s#%zu", name, number);
		}
	}
	return NULL;
}

int moment_of_other_run(const struct profile *of, const struct profile *other, struct arena *arena,
			struct moment *moment, struct error *error)
{
	struct found found, same, last;

	if (moment->kind != MOMENT_SNAP || moment->name)
		return 0;
	if (find_numbered(of, moment->number, &found, error) < 0)
		return -1;
	const char *name = snapshot_name(&found);
	const char *counted = name ? counted_name(of, &found, name, arena) : NULL;

	*moment = (struct moment){ .kind = MOMENT_TIME, .at_ns = found.at_ns };
	if (counted && find_named(other, counted, &same, NULL) == 0) {
		bool only = find_named(other, name, &last, NULL) == 0 &&
			    last.process == same.process && last.snapshot == same.snapshot;

		*moment = (struct moment){ .kind = MOMENT_SNAP, .name = only ? name : counted };
	}
	return 0;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static int take_snapshot(const struct profile_process *p, size_t snapshot, bool counted,
			 struct arena *arena, struct resolved_moment *ret)
{
	struct profile_snapshot taken = profile_snapshot(p, snapshot);

	*ret = (struct resolved_moment){ .kind = RESOLVED_SNAPSHOT,
					 .at_ns = saturating_add(p->started_offset_ns, taken.at_ns),
					 .live = profile_live_at(p, snapshot, arena),
					 .bound = taken.live_bound };
	if (p->interval)
		ret->variances = profile_live_variances(p, snapshot, arena);
	counted &= taken.counted;
	if (counted)
		ret->counts = profile_counts_at(p, snapshot, arena);
	return ret->live && (ret->variances || !p->interval) && (ret->counts || !counted) ? 0 : -1;
}

static bool has_counts(const struct profile_process *p)
{
	for (size_t i = 0; i < profile_snapshot_count(p); i++)
		if (!profile_snapshot(p, i).counted)
			return false;
	return true;
}

/* The moment of the process nearest to at_ns, in the recording's time. -1 if out of memory. */
static int nearest_moment(const struct profile *profile, const struct profile_process *p,
			  uint64_t at_ns, bool counted, struct arena *arena,
			  struct resolved_moment *ret)
{
	uint64_t start = p->started_offset_ns, end = saturating_add(start, p->duration_ns);
	uint64_t peak = saturating_add(start, p->peak_at_ns);
	size_t best = SIZE_MAX;

	if (profile->process_count > 1 && (at_ns < start || at_ns > end)) {
		ret->ended = at_ns > end;
		return 0; /* it was not running */
	}
	*ret = (struct resolved_moment){ .kind = RESOLVED_END,
					 .at_ns = end,
					 .bound = p->live_bound };
	if (distance(peak, at_ns) < distance(ret->at_ns, at_ns) && !(counted && has_counts(p)))
		*ret = (struct resolved_moment){ .kind = RESOLVED_PEAK, .at_ns = peak };
	for (size_t i = 0; i < profile_snapshot_count(p); i++) {
		uint64_t taken = saturating_add(start, profile_snapshot(p, i).at_ns);

		if (distance(taken, at_ns) <= distance(ret->at_ns, at_ns)) {
			ret->at_ns = taken;
			best = i;
		}
	}
	return best != SIZE_MAX ? take_snapshot(p, best, counted, arena, ret) : 0;
}

struct resolved_moment *moments_resolve(const struct profile *profile, struct moment moment,
					bool counted, struct arena *arena, struct error *error)
{
	struct resolved_moment *all =
		ARENA_ARRAY(arena, struct resolved_moment, profile->process_count);
	struct found found = { .at_ns = moment.at_ns };

	if (!all)
		goto no_memory;
	if (moment.kind == MOMENT_SNAP &&
	    (moment.name ? find_named(profile, moment.name, &found, error)
			 : find_numbered(profile, moment.number, &found, error)) < 0)
		return NULL;
	for (size_t i = 0; i < profile->process_count; i++) {
		const struct profile_process *p = &profile->processes[i];

		if (moment.kind == MOMENT_PEAK) {
			all[i].kind = RESOLVED_PEAK;
			all[i].at_ns = saturating_add(p->started_offset_ns, p->peak_at_ns);
		} else if (moment.kind == MOMENT_END || moment.kind == MOMENT_DEFAULT) {
			all[i].kind = RESOLVED_END;
			all[i].bound = p->live_bound;
			all[i].at_ns = saturating_add(p->started_offset_ns, p->duration_ns);
		} else if ((found.process && p == found.process
				    ? take_snapshot(p, found.snapshot, counted, arena, &all[i])
				    : nearest_moment(profile, p, found.at_ns, counted, arena,
						     &all[i])) < 0) {
			goto no_memory;
		}
	}
	return all;
no_memory:
	error_set(error, "out of memory");
	return NULL;
}

bool moment_is_counted(const struct resolved_moment *moment)
{
	return moment->kind == RESOLVED_SNAPSHOT ? moment->counts != NULL
						 : moment->kind != RESOLVED_PEAK;
}

static struct site_counts counted_by(const struct resolved_moment *moment, site_id site,
				     const struct site_numbers *n)
{
	ASSERT(moment_is_counted(moment));
	if (moment->kind == RESOLVED_SNAPSHOT)
		return moment->counts[site.v];
	if (moment->kind == RESOLVED_END || moment->ended)
		return site_counts_of(n);
	return (struct site_counts){ 0 };
}

struct site_numbers moments_between(const struct resolved_moment *at,
				    const struct resolved_moment *minus, site_id site,
				    const struct site_numbers *n)
{
	struct site_counts a = counted_by(at, site, n), b = { 0 };

	if (minus)
		b = counted_by(minus, site, n);
	double calls = MAX(a.calls_variance - b.calls_variance, 0.0);
	double bytes = MAX(a.bytes_variance - b.bytes_variance, 0.0);
	double frees = MAX(a.frees_variance - b.frees_variance, 0.0);
	double freed = MAX(a.freed_bytes_variance - b.freed_bytes_variance, 0.0);

	return (struct site_numbers){
		.calls = saturating_sub(a.calls, b.calls),
		.bytes = saturating_sub(a.bytes, b.bytes),
		.frees = saturating_sub(a.frees, b.frees),
		.freed_bytes = saturating_sub(a.freed_bytes, b.freed_bytes),
		.temporary_calls = saturating_sub(a.temporary_calls, b.temporary_calls),
		.fragmentation_bytes = saturating_sub(a.fragmentation_bytes, b.fragmentation_bytes),
		.samples = n->samples,
		.calls_variance = calls,
		.bytes_variance = bytes,
		.live_blocks_variance = calls - frees,
		.live_bytes_variance = bytes - freed,
	};
}

struct site_live moment_live(const struct resolved_moment *moment, site_id site,
			     const struct site_numbers *n)
{
	if (moment->kind == RESOLVED_SNAPSHOT)
		return moment->live[site.v];
	if (moment->kind == RESOLVED_PEAK)
		return (struct site_live){ (int64_t)n->peak_bytes, (int64_t)n->peak_blocks };
	if (moment->kind == RESOLVED_END)
		return (struct site_live){ (int64_t)n->live_bytes, (int64_t)n->live_blocks };
	return (struct site_live){ 0, 0 };
}

struct live_variance moment_variance(const struct resolved_moment *moment, site_id site,
				     const struct site_numbers *n)
{
	if (moment->kind == RESOLVED_SNAPSHOT && moment->variances)
		return moment->variances[site.v];
	if (moment->kind == RESOLVED_PEAK)
		return (struct live_variance){ n->peak_bytes_variance, n->peak_blocks_variance };
	if (moment->kind == RESOLVED_END)
		return (struct live_variance){ n->live_bytes_variance, n->live_blocks_variance };
	return (struct live_variance){ 0, 0 };
}

static const char *kind_word(const struct resolved_moment *moment)
{
	return moment->kind == RESOLVED_SNAPSHOT ? "snapshot" : "moment";
}

const char *moment_text(const struct profile *profile, struct moment asked,
			const struct resolved_moment *moments, struct arena *arena)
{
	bool one = profile->process_count == 1;
	struct units wanted = units_duration(asked.at_ns);

	switch (asked.kind) {
	case MOMENT_PEAK:
		return one ? arena_printf(arena, "at the peak, %s",
					  units_duration(moments[0].at_ns).text)
			   : "at each process' own peak";
	case MOMENT_TIME:
		return one ? arena_printf(arena, "at %s, the %s nearest to %s",
					  units_duration(moments[0].at_ns).text,
					  kind_word(&moments[0]), wanted.text)
			   : arena_printf(arena, "at the snapshots nearest to %s", wanted.text);
	case MOMENT_SNAP:
		if (asked.name)
			return one ? arena_printf(arena, "at the snapshot '%s', %s", asked.name,
						  units_duration(moments[0].at_ns).text)
				   : arena_printf(arena, "at the moments nearest to '%s'",
						  asked.name);
		return one ? arena_printf(arena, "at snapshot %llu, %s",
					  (unsigned long long)asked.number,
					  units_duration(moments[0].at_ns).text)
			   : arena_printf(arena, "at the moments nearest to snapshot %llu",
					  (unsigned long long)asked.number);
	case MOMENT_END:
	case MOMENT_DEFAULT:
		break;
	}
	return one && profile->processes[0].end == PROFILE_RUNNING ? "when it was read"
								   : "at the end";
}

/* ---- the window of a selection ---- */

/* Live numbers are differences of two moments, whichever they are. What is counted over time (calls, bytes, frees, temporary blocks,
 * waste) is kept at snapshots and known at the end, but not at the peak, and older recordings lack it: then a cost that is counted
 * is an error, and a note says that such columns of a live cost are of the whole run. */

static bool has_peak(const struct selection *s)
{
	for (size_t i = 0; i < s->profile->process_count; i++)
		if (s->at[i].kind == RESOLVED_PEAK ||
		    (s->minus && s->minus[i].kind == RESOLVED_PEAK))
			return true;
	return false;
}

/* Why there is no window between the resolved moments; NULL: there is one. */
static const char *no_window(const struct selection *s)
{
	if (has_peak(s))
		return "counters are kept at snapshots and at the end, not at the peak";
	for (size_t i = 0; i < s->profile->process_count; i++) {
		const struct resolved_moment *at = &s->at[i], *minus = s->minus ? &s->minus[i] : at;

		if (!moment_is_counted(at) || !moment_is_counted(minus))
			return "the snapshots of this recording have live bytes and blocks alone";
		if (at->kind && minus->kind && at->at_ns < minus->at_ns)
			return "--at is earlier than --minus";
	}
	return NULL;
}

/* The time base of rates: from the earliest beginning to the latest end. */
static uint64_t window_ns(const struct selection *s)
{
	uint64_t from = s->minus ? UINT64_MAX : 0, to = 0;

	for (size_t i = 0; i < s->profile->process_count; i++) {
		if (s->minus && s->minus[i].kind)
			from = MIN(from, s->minus[i].at_ns);
		to = MAX(to, s->at[i].at_ns);
	}
	return saturating_sub(to, from == UINT64_MAX ? 0 : from);
}

/* "from 1.2 s, the snapshot nearest to 1.0 s, to the end" */
static const char *window_text(struct arena *arena, const char *at, const char *minus)
{
	const size_t skip = sizeof "at " - 1;

	return at && minus ? arena_printf(arena, "from %s, to %s", minus + skip, at + skip)
	       : at	   ? arena_printf(arena, "from the start to %s", at + skip)
			   : NULL;
}

static int choose_window(struct selection *s, struct error *error)
{
	const char *reason = no_window(s);

	s->window = reason == NULL;
	if (s->window) {
		s->duration_ns = window_ns(s);
		return 0;
	}
	if (cost_rows[s->cost].time == COST_OF_WINDOW)
		return error_set(error, "--cost %s: %s", cost_rows[s->cost].name, reason);
	s->window_note = arena_printf(&s->arena,
				      "calls, totals and frees are of the whole run, not between "
				      "these moments: %s",
				      reason);
	return s->window_note ? 0 : error_set(error, "out of memory");
}

/* At the end, an ended process counts with what it did not free, at other moments after its own end with nothing. `other` is after it:
 * from then to the end nothing changed. */
static void leave_out_ended(struct resolved_moment *end, const struct resolved_moment *other,
			    size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (other[i].ended) {
			end[i].kind = RESOLVED_NOTHING;
			end[i].ended = true;
		}
}

int selection_resolve(struct selection *s, const struct query *q, struct moment at,
		      struct error *error)
{
	struct arena *arena = &s->arena;
	enum cost_time time = cost_rows[s->cost].time;
	bool counted = q->minus.kind || (time == COST_OF_WINDOW && q->at.kind);
	struct resolved_moment *to = moments_resolve(s->profile, at, counted, arena, error);
	const char *minus = NULL;

	if (!to)
		return -1;
	s->at = to;
	s->moment = time == COST_OF_MOMENT || counted ? moment_text(s->profile, at, s->at, arena)
						      : "over the whole run";
	if (q->minus.kind) {
		struct resolved_moment *from =
			moments_resolve(s->profile, q->minus, counted, arena, error);

		if (!from)
			return -1;
		s->minus = from;
		if (at.kind == MOMENT_END || at.kind == MOMENT_DEFAULT)
			leave_out_ended(to, from, s->profile->process_count);
		else if (q->minus.kind == MOMENT_END)
			leave_out_ended(from, to, s->profile->process_count);
		minus = moment_text(s->profile, q->minus, s->minus, arena);
	}
	if (counted && choose_window(s, error) < 0)
		return -1;
	if (time == COST_OF_WINDOW && counted)
		s->moment = window_text(arena, s->moment, minus);
	else if (minus && s->moment)
		s->moment = arena_printf(arena, "%s, minus %s", s->moment, minus);
	return s->moment ? 0 : error_set(error, "out of memory");
}
