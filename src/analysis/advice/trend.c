/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trends of sites. Pure.
 *
 * Snapshots hold only changes, so a site's series is a step function: between two changes it has the
 * value of the first. A pass over all snapshots tracks the current value of every site, and floors only
 * for sites that change within the time that counts; the others are flat. Floors need four times the
 * memory of the resulting trend, so a pass covers BAND sites.
 *
 * The end of a process is excluded: many programs free everything before they exit, and their memory
 * until then is what matters. Excluded are the last snapshot, and those before it in the last eighth of
 * the run from which on the heap only shrank.
 */
#include "analysis/advice/trend.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "model/estimates.h"
#include "model/same_sites.h"
#include "util/search.h"
#include "util/vector.h"

enum { PAIRS = TREND_PARTS * (TREND_PARTS - 1) / 2, BAND = 1 << 18 };

const char *trend_name(enum trend_verdict verdict)
{
	static const char *const names[] = {
		[TREND_UNKNOWN] = "unknown",
		[TREND_BOUNDED] = "bounded",
		[TREND_GROWING] = "growing",
	};

	return names[verdict];
}

/* Kendall's S over the floors, in standard deviations; ties count 0 and reduce the variance. */
static double kendall(const struct floor floors[TREND_PARTS], double *ret_deviation)
{
	const double n = TREND_PARTS;
	double s = 0, variance = n * (n - 1) * (2 * n + 5);

	for (size_t i = 0; i < TREND_PARTS; i++) {
		size_t equal = 0, before = 0;

		for (size_t j = 0; j < TREND_PARTS; j++) {
			equal += floors[j].bytes == floors[i].bytes;
			before += j < i && floors[j].bytes == floors[i].bytes;
			if (j > i)
				s += (floors[j].bytes > floors[i].bytes) -
				     (floors[j].bytes < floors[i].bytes);
		}
		if (before == 0) {
			double t = (double)equal;

			variance -= t * (t - 1) * (2 * t + 5);
		}
	}
	*ret_deviation = sqrt(variance / 18);
	if (variance <= 0 || s == 0)
		return 0;
	return (s - (s > 0 ? 1 : -1)) / *ret_deviation;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void fit_slope(const struct floor floors[TREND_PARTS], double deviation, struct trend *trend)
{
	double slopes[PAIRS];
	size_t count = 0;

	for (size_t i = 0; i < TREND_PARTS; i++)
		for (size_t j = i + 1; j < TREND_PARTS; j++) {
			double seconds = ((double)floors[j].at_ns - (double)floors[i].at_ns) / 1e9;

			slopes[count++] =
				seconds > 0 ? ((double)floors[j].bytes - (double)floors[i].bytes) /
						      seconds
					    : 0;
		}
	qsort(slopes, PAIRS, sizeof *slopes, compare_doubles);
	double outside = (PAIRS - 1.96 * deviation) / 2;
	size_t low = outside > 0 ? (size_t)outside : 0;

	trend->per_second = saturating_i64(round((slopes[PAIRS / 2 - 1] + slopes[PAIRS / 2]) / 2));
	trend->slowest = saturating_i64(round(slopes[low]));
	trend->fastest = saturating_i64(round(slopes[PAIRS - 1 - low]));
}

/* How often the floor rose from one part to the next. */
static unsigned rises(const struct floor floors[TREND_PARTS])
{
	unsigned count = 0;

	for (size_t i = 1; i < TREND_PARTS; i++)
		count += floors[i].bytes > floors[i - 1].bytes;
	return count;
}

static enum trend_verdict judge(const struct floor f[TREND_PARTS], double deviations)
{
	enum { DRIFT_OF = 16 };
	const size_t half = TREND_PARTS / 2;
	double early = (double)f[half - 1].bytes - (double)f[0].bytes;
	double late = (double)f[TREND_PARTS - 1].bytes - (double)f[half].bytes;
	double last = (double)f[TREND_PARTS - 1].bytes - (double)f[TREND_PARTS - 2].bytes;
	double all = (double)f[TREND_PARTS - 1].bytes - (double)f[0].bytes;

	/* Less than 95 % confidence: the trend may be chance. */
	if (deviations < 1.96)
		return TREND_BOUNDED;
	/* It rose and then stopped, or is about to: a cache that fills, a table that reaches its final size. */
	if (late <= 0 || late < early / 4)
		return TREND_BOUNDED;
	/* So little is also the drift of a full cache whose entries have different sizes. */
	if (all < (double)f[TREND_PARTS - 1].bytes / DRIFT_OF)
		return TREND_UNKNOWN;
	/* A few large steps: may be a doubling table or a rare leak. */
	if (rises(f) < TREND_PARTS / 2)
		return TREND_UNKNOWN;
	/* It stopped recently: less than a quarter of its rate remains. */
	return last < all / (TREND_PARTS - 1) / 4 ? TREND_BOUNDED : TREND_GROWING;
}

struct trend trend_fit(const struct floor floors[TREND_PARTS])
{
	struct trend trend = { .first = floors[0].bytes, .last = floors[TREND_PARTS - 1].bytes };
	double deviation, deviations = kendall(floors, &deviation);

	trend.verdict = judge(floors, deviations);
	if (deviations > 0)
		trend.confidence_per_mille = (unsigned)(1000 * erf(deviations / sqrt(2)));
	fit_slope(floors, deviation, &trend);
	return trend;
}

/* A site that changes within the time that counts. */
struct site_series {
	uint64_t from_ns, to_ns;
	size_t part; /* the last part with a floor, possibly incomplete */
	struct site_live now;
	struct floor floors[TREND_PARTS];
	const struct profile_site *site; /* NULL: the heap */
};

struct pass {
	struct trends *trends;
	uint32_t band;	   /* index of the band of sites in this pass */
	bool has_verdicts; /* else there are too few snapshots */
	VECTOR(struct site_series) series;
	struct site_series heap;
};

static size_t part_of(const struct site_series *c, uint64_t at_ns)
{
	uint64_t span = c->to_ns - c->from_ns;

	if (at_ns <= c->from_ns || span == 0)
		return 0;
	return (size_t)MIN((double)(TREND_PARTS - 1),
			   (double)(at_ns - c->from_ns) * TREND_PARTS / (double)span);
}

/* Extends the current value to all parts up to this one. */
static void hold(struct site_series *c, size_t part)
{
	for (; c->part <= part; c->part++)
		if (c->now.bytes < c->floors[c->part].bytes) {
			c->floors[c->part].bytes = c->now.bytes;
			c->floors[c->part].blocks = c->now.blocks;
		}
	c->part = part;
}

/* The old value holds up to the previous snapshot, the new one from this snapshot on. */
static void change(struct site_series *c, uint64_t before_ns, uint64_t at_ns,
		   struct site_live value)
{
	size_t part = part_of(c, at_ns);

	if (at_ns >= c->from_ns) {
		if (before_ns >= c->from_ns && part_of(c, before_ns) == part)
			hold(c, part);
		else if (part > 0)
			hold(c, part - 1);
		c->part = part;
	}
	c->now = value;
	if (at_ns >= c->from_ns && value.bytes < c->floors[part].bytes)
		c->floors[part] = (struct floor){ at_ns, value.bytes, value.blocks };
}

/* For a site that appeared late, the last two thirds of its own life count. */
static uint64_t counts_from(const struct trends *t, uint64_t born_ns)
{
	if (born_ns == 0 || born_ns >= t->to_ns)
		return born_ns ? t->to_ns : t->from_ns;
	return MAX(t->from_ns, born_ns + (t->to_ns - born_ns) / 3);
}

static struct site_series series_from(const struct trends *t, const struct profile_site *site,
				      struct site_live now)
{
	struct site_series c = { .from_ns = counts_from(t, site ? site->born_ns : 0),
				 .to_ns = t->to_ns,
				 .now = now,
				 .site = site };

	for (size_t i = 0; i < TREND_PARTS; i++)
		c.floors[i] = (struct floor){ c.from_ns + (c.to_ns - c.from_ns) / TREND_PARTS * i,
					      INT64_MAX, 0 };
	return c;
}

/* The number of snapshots from that time on. */
static size_t moments_from(const struct trends *t, uint64_t from_ns)
{
	size_t low = FIRST_WHERE(i, t->snapshots, profile_snapshot(t->process, i).at_ns >= from_ns);

	return t->snapshots - low;
}

/* Whether it rose by enough blocks: a few do not predict the next. A buffer that realloc keeps enlarging is one block. */
static bool has_enough_steps(const struct site_series *c)
{
	int64_t steps = c->floors[TREND_PARTS - 1].blocks - c->floors[0].blocks;

	if (!c->site)
		return steps >= TREND_STEPS;
	const struct site_numbers *n = &c->site->numbers;

	if (n->samples && n->samples < TREND_STEPS)
		return false;
	return steps >= TREND_STEPS || n->reallocs.grown_calls >= TREND_STEPS;
}

/* The variance of each byte that was live at the last floor: that of the bytes live at the end, unless most were freed before. */
static double byte_variance(const struct site_numbers *n, int64_t last)
{
	if (n->live_bytes > 0 && (double)n->live_bytes >= (double)last / 2)
		return fabs(n->live_bytes_variance) / (double)n->live_bytes;
	return n->bytes ? fabs(n->bytes_variance) / (double)n->bytes : 0;
}

/* Returns true if a rise by a tenth could hide in the sampling error of the floors. `site` NULL: of the heap. */
static bool is_too_uncertain(const struct trends *t, const struct profile_site *site,
			     const struct trend *trend)
{
	/* No sample in 6 intervals is as unlikely as three standard errors. */
	enum { HIDDEN_OF = 10, ERRORS = 3, EMPTY_INTERVALS = 6 };
	const struct profile_process *p = t->process;
	const struct site_numbers *n = site ? &site->numbers : &p->sums;
	uint64_t interval = site ? site->interval : p->interval;

	if (site ? interval == 0 : !profile_is_sampled(p))
		return false;
	/* The first and the last floor may consist of different blocks. */
	double bytes = fmax((double)trend->first, 0) + fmax((double)trend->last, 0);
	double hidden = ERRORS * sqrt(bytes * byte_variance(n, trend->last)) +
			EMPTY_INTERVALS * (double)interval;

	return hidden * HIDDEN_OF >= (double)trend->last;
}

static void apply_sampling_error(const struct trends *t, const struct profile_site *site,
				 struct trend *trend)
{
	if (trend->verdict != TREND_BOUNDED || !is_too_uncertain(t, site, trend))
		return;
	trend->verdict = TREND_UNKNOWN;
	trend->is_uncertain = true;
}

static struct trend series_trend(const struct trends *t, struct site_series *c)
{
	struct trend trend = { .first = c->now.bytes, .last = c->now.bytes };
	size_t moments = moments_from(t, c->from_ns);

	if (moments >= TREND_MOMENTS) {
		hold(c, TREND_PARTS - 1);
		trend = trend_fit(c->floors);
		if (trend.verdict == TREND_GROWING && !has_enough_steps(c))
			trend.verdict = TREND_UNKNOWN;
		apply_sampling_error(t, c->site, &trend);
	}
	trend.moments = moments;
	trend.from_ns = c->from_ns;
	trend.to_ns = c->to_ns;
	return trend;
}

struct trend trend_of_site(const struct trends *t, const struct profile_site *site)
{
	uint32_t number = t->number[site->id.v];
	struct trend flat = { .from_ns = counts_from(t, site->born_ns), .to_ns = t->to_ns };

	if (number)
		return t->changing[site->id.v / BAND][number - 1];
	flat.first = flat.last = t->values[site->id.v].bytes;
	flat.moments = moments_from(t, flat.from_ns);
	flat.verdict = flat.moments < TREND_MOMENTS ? TREND_UNKNOWN : TREND_BOUNDED;
	apply_sampling_error(t, site, &flat);
	return flat;
}

static bool take_change(struct pass *pass, struct profile_change now, uint64_t before_ns,
			uint64_t at_ns)
{
	struct trends *t = pass->trends;
	uint32_t *number = &t->number[now.site.v];
	struct site_live *value = &t->values[now.site.v];

	if (now.live.bytes == value->bytes && now.live.blocks == value->blocks)
		return true; /* only its counters changed */
	if (at_ns < t->from_ns || !pass->has_verdicts) {
		*value = now.live;
		return true;
	}
	if (!*number) {
		const struct profile_site *site = same_site_find(t->process, now.site.v);

		/* Too late for a verdict: treated as flat. */
		if (moments_from(t, counts_from(t, site ? site->born_ns : 0)) < TREND_MOMENTS) {
			*value = now.live;
			return true;
		}
		if (!vector_push(&pass->series, series_from(t, site, *value)))
			return false;
		*number = (uint32_t)pass->series.count;
	}
	*value = now.live;
	change(&pass->series.at[*number - 1], before_ns, at_ns, *value);
	return true;
}

static bool run_pass(struct pass *pass)
{
	const struct profile_process *p = pass->trends->process;
	uint64_t before_ns = 0;

	for (size_t i = 0; i < pass->trends->snapshots; i++) {
		struct profile_snapshot s = profile_snapshot(p, i);

		for (size_t j = 0; j < s.change_count; j++) {
			struct profile_change now = profile_change(p, i, j);

			if (now.site.v / BAND == pass->band &&
			    !take_change(pass, now, before_ns, s.at_ns))
				return false;
		}
		change(&pass->heap, before_ns, s.at_ns,
		       (struct site_live){ (int64_t)s.live_bytes, (int64_t)s.live_blocks });
		before_ns = s.at_ns;
	}
	return true;
}

/* Determines which snapshots count, and the time from the first to the last of them. */
static void choose_time(struct trends *t)
{
	const struct profile_process *p = t->process;
	size_t count = profile_snapshot_count(p);

	if (count > 1 && p->end != PROFILE_RUNNING &&
	    profile_snapshot(p, count - 1).at_ns >= p->duration_ns)
		count--;
	while (count > 1 && p->end != PROFILE_RUNNING &&
	       profile_snapshot(p, count - 1).at_ns >= p->duration_ns - p->duration_ns / 8 &&
	       profile_snapshot(p, count - 1).live_bytes <
		       profile_snapshot(p, count - 2).live_bytes)
		count--;
	t->snapshots = count;
	if (!count)
		return;
	/* The recording may begin long after the process did. */
	uint64_t first_ns = profile_snapshot(p, 0).at_ns;

	t->to_ns = profile_snapshot(p, count - 1).at_ns;
	t->from_ns = first_ns + (t->to_ns - first_ns) / 3;
}

/* Computes the trends of one band of sites and of the heap, which is the same for each band. */
static int make_band(struct trends *t, struct arena *arena, uint32_t band)
{
	struct pass pass = { .trends = t,
			     .band = band,
			     .has_verdicts = moments_from(t, t->from_ns) >= TREND_MOMENTS };
	int status = -1;

	pass.heap = series_from(t, NULL, (struct site_live){ 0 });
	if (!run_pass(&pass))
		goto done;
	t->changing[band] = ARENA_ARRAY(arena, struct trend, pass.series.count);
	if (!t->changing[band])
		goto done;
	for (size_t i = 0; i < pass.series.count; i++)
		t->changing[band][i] = series_trend(t, &pass.series.at[i]);
	t->heap = series_trend(t, &pass.heap);
	status = 0;
done:
	vector_release(&pass.series);
	return status;
}

int trends_make(const struct profile_process *process, struct arena *arena, struct trends *ret)
{
	size_t sites = profile_site_ids(process);

	*ret = (struct trends){ .process = process,
				.values = ARENA_ARRAY(arena, struct site_live, sites),
				.number = ARENA_ARRAY(arena, uint32_t, sites),
				.changing = ARENA_ARRAY(arena, struct trend *, sites / BAND + 1) };
	if (!ret->values || !ret->number || !ret->changing)
		return -1;
	choose_time(ret);
	for (uint32_t band = 0; band <= sites / BAND; band++)
		if (make_band(ret, arena, band) < 0)
			return -1;
	return 0;
}

void growth_add(struct growth *growth, const struct profile_site *site, const struct trend *trend)
{
	growth->uncertain_sites += trend->is_uncertain;
	if (trend->verdict == TREND_UNKNOWN && !trend->is_uncertain)
		growth->unjudged_bytes =
			saturating_add_signed(growth->unjudged_bytes, MAX(trend->last, INT64_C(0)));
	if (trend->verdict != TREND_GROWING)
		return;
	growth->sites++;
	growth->per_second = saturating_add_signed(growth->per_second, trend->per_second);
	if (!growth->most || trend->per_second > growth->most_per_second) {
		growth->most = site;
		growth->most_per_second = trend->per_second;
	}
}

static bool is_partial(const struct growth *growth, const struct trends *trends)
{
	enum { UNJUDGED_OF = 20, UNJUDGED_MIN = 32 << 10 };

	return growth->unjudged_bytes > MAX(trends->heap.last / UNJUDGED_OF, (int64_t)UNJUDGED_MIN);
}

static enum trend_verdict growth_judge(const struct growth *growth, const struct trends *trends)
{
	if (growth->per_second > 0)
		return TREND_GROWING;
	return trends->heap.verdict == TREND_BOUNDED && !growth->is_partial ? TREND_BOUNDED
									    : TREND_UNKNOWN;
}

void growth_end(struct growth *growth, const struct trends *trends)
{
	if (growth->sites == 0 && trends->heap.verdict == TREND_GROWING)
		growth->per_second = trends->heap.per_second;
	growth->is_partial = is_partial(growth, trends);
	growth->verdict = growth_judge(growth, trends);
	growth->risen_bytes =
		saturating_i64((double)trends->heap.last - (double)trends->heap.first);
	growth->moments = trends->heap.moments;
	growth->from_ns = trends->heap.from_ns;
	growth->to_ns = trends->heap.to_ns;
}

struct growth trends_growth(const struct trends *trends)
{
	const struct profile_process *p = trends->process;
	struct growth growth = { 0 };

	for (size_t i = 0; i < p->site_count; i++) {
		if (p->sites[i].kind != PROFILE_HEAP)
			continue;
		const struct trend trend = trend_of_site(trends, &p->sites[i]);

		growth_add(&growth, &p->sites[i], &trend);
	}
	growth_end(&growth, trends);
	return growth;
}
