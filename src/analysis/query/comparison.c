/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combines the runs before and after into one selection of changes.
 *
 * Each run is selected separately, with the same filters and moment. Their entries are concatenated,
 * and entries with the same stack are merged. With n runs before and m after, the sum is n times the
 * measures after minus m times those before; it is divided by n x m only for display, which avoids
 * intermediate rounding.
 *
 * The result uses the arena of the first run after, whose profile the views treat as their own.
 */
#include "analysis/query/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/query/stack_matching.h"
#include "analysis/result/build.h"
#include "base/compiler.h"
#include "base/confidence.h"
#include "model/entries.h"
#include "model/tags.h"
#include "util/cleanup.h"
#include "util/intern.h"

struct comparing {
	const struct comparison *c;
	struct selection *parts; /* the runs before come first */
	size_t part_count;
	struct entry *all; /* entries of all parts, unscaled */
	uint32_t *run_of;  /* run of each entry */
	uint32_t *node_of; /* stack number of each entry */
	size_t count;
	struct arena arena; /* names of moments */
	struct selection *ret;
};

static int64_t scaled(int64_t value, int64_t factor)
{
	__extension__ __int128 wide = (__int128)value * factor;

	if (wide > INT64_MAX)
		return INT64_MAX;
	return wide < INT64_MIN ? INT64_MIN : (int64_t)wide;
}

static struct measures times(const struct measures *m, int64_t factor)
{
	float square = (float)factor * (float)factor;
	struct measures product = { .variance.samples = m->variance.samples };

#define MULTIPLY(member)                                                                           \
	product.member = scaled(m->member, factor);                                                \
	product.variance.member = m->variance.member * square;
	MEASURES(MULTIPLY)
#undef MULTIPLY
	return product;
}

/* The factor for a run's numbers. */
static int64_t weight(const struct comparison *c, size_t run)
{
	return run < c->before_count ? -(int64_t)c->after_count : (int64_t)c->before_count;
}

static const struct profile *profile_of(const struct comparison *c, size_t run)
{
	return run < c->before_count ? c->before[run] : c->after[run - c->before_count];
}

static bool collect(struct comparing *x)
{
	size_t total = 0;

	for (size_t i = 0; i < x->part_count; i++)
		total += x->parts[i].count;
	x->all = calloc(total + 1, sizeof *x->all);
	x->run_of = calloc(total + 1, sizeof *x->run_of);
	x->node_of = calloc(total + 1, sizeof *x->node_of);
	if (!x->all || !x->run_of || !x->node_of)
		return false;
	for (size_t i = 0; i < x->part_count; i++)
		for (size_t j = 0; j < x->parts[i].count; j++) {
			x->all[x->count] = x->parts[i].entries[j];
			x->run_of[x->count++] = (uint32_t)i;
		}
	return true;
}

/* Returns the merged entry for a node and kind, created on first use. NULL if out of memory. */
static struct entry *merged_entry(struct comparing *x, uint32_t **of_node, size_t i)
{
	struct selection *s = x->ret;
	const struct entry *e = &x->all[i];
	uint32_t *known = &of_node[e->site->kind][x->node_of[i]];

	if (*known)
		return &s->entries[*known - 1];
	struct entry *added = &s->entries[s->count];

	*added = (struct entry){ .process = e->process, .site = e->site };
	added->runs = ARENA_ARRAY(&s->arena, int64_t, x->part_count);
	added->variances = ARENA_ARRAY(&s->arena, double, x->part_count);
	if (!added->runs || !added->variances)
		return NULL;
	*known = (uint32_t)++s->count;
	return added;
}

static bool merge(struct comparing *x, size_t node_count)
{
	struct selection *s = x->ret;
	uint32_t *of_node[PROFILE_KINDS] = { NULL };
	bool done = true;

	s->entries = ARENA_ARRAY(&s->arena, struct entry, x->count);
	s->count = 0;
	for (size_t k = 0; k < PROFILE_KINDS; k++) {
		of_node[k] = calloc(node_count, sizeof **of_node);
		done = done && of_node[k];
	}
	done = done && s->entries;
	for (size_t i = 0; i < x->count && done; i++) {
		struct entry *e = merged_entry(x, of_node, i);
		struct measures part = times(&x->all[i].m, weight(x->c, x->run_of[i]));

		done = e != NULL;
		if (!done)
			break;
		measures_add(&e->m, &part);
		/* The arrays are writable: merged_entry allocated them. */
		((int64_t *)(uintptr_t)e->runs)[x->run_of[i]] +=
			cost_of(s->cost, &x->all[i].m, s->duration_ns);
		((double *)(uintptr_t)e->variances)[x->run_of[i]] +=
			cost_variance(s->cost, &x->all[i].m, s->duration_ns);
		/* Use the names of the newest run that has the stack. */
		e->process = x->all[i].process;
		e->site = x->all[i].site;
	}
	for (size_t k = 0; k < PROFILE_KINDS; k++)
		free(of_node[k]);
	return done;
}

static void add_sums(struct comparing *x)
{
	struct selection *s = x->ret; /* aliases one of the parts: written after all are read */
	struct measures sum = { 0 }, whole = { 0 }, suppressed = { 0 };
	struct measures sum_of[PROFILE_KINDS] = { 0 };
	size_t suppressed_count = 0;

	for (size_t i = 0; i < x->part_count; i++) {
		const struct selection *part = &x->parts[i];
		int64_t factor = weight(x->c, i);
		struct measures more = times(&part->sum, factor);

		measures_add(&sum, &more);
		more = times(&part->whole, factor);
		measures_add(&whole, &more);
		more = times(&part->suppressed, factor);
		measures_add(&suppressed, &more);
		for (size_t k = 0; k < PROFILE_KINDS; k++) {
			more = times(&part->sum_of[k], factor);
			measures_add(&sum_of[k], &more);
		}
		suppressed_count += part->suppressed_count;
	}
	s->sum = sum;
	s->whole = whole;
	s->suppressed = suppressed;
	s->suppressed_count = suppressed_count;
	memcpy(s->sum_of, sum_of, sizeof sum_of);
}

/* Stacks with different tags are different entries, and in groups by what was called, stacks with different calls: numbers what
 * they have in common. */
static bool tell_apart(struct comparing *x, bool by_entry, size_t *ret_count)
{
	AUTO(intern_release) struct intern paths = INTERN_INIT, keys = INTERN_INIT;

	for (size_t i = 0; i < x->count; i++) {
		const struct entry *e = &x->all[i];
		AUTO(arena_release) struct arena scratch = ARENA_INIT;
		const char *path = profile_tag_path(e->process, e->site->tag, &scratch);
		const void *key[3] = { path ? intern_text(&paths, path) : NULL,
				       (const void *)(uintptr_t)x->node_of[i],
				       by_entry ? profile_entry_name(e->site) : NULL };
		struct intern_entry *known =
			key[0] ? intern_entry(&keys, span_of(key, sizeof key)) : NULL;

		if (!known)
			return false;
		if (!known->value)
			known->value = (void *)(uintptr_t)keys.used; /* counted from 1 */
		x->node_of[i] = (uint32_t)(uintptr_t)known->value;
	}
	*ret_count = keys.used + 1;
	return true;
}

/* Snapshots are numbered by the first run after. */
static int select_run(struct comparing *x, size_t run, struct locations *locations,
		      struct query alone, struct view_defaults defaults, struct error *error)
{
	const struct profile *first = x->c->after[0], *profile = profile_of(x->c, run);

	if (profile != first &&
	    (moment_of_other_run(first, profile, &x->arena, &alone.at, error) < 0 ||
	     moment_of_other_run(first, profile, &x->arena, &alone.minus, error) < 0))
		return -1;
	return selection_make(&x->parts[run], profile, locations, &alone, defaults, error);
}

static int select_each(struct comparing *x, struct locations *locations, const struct query *alone,
		       struct view_defaults defaults, struct error *error)
{
	for (size_t i = 0; i < x->c->before_count + x->c->after_count; i++) {
		if (select_run(x, i, locations, *alone, defaults, error) < 0)
			return -1;
		x->part_count++;
	}
	return 0;
}

static const char *side_moment(const struct selection *first, size_t count, struct arena *arena)
{
	return count == 1 ? first->moment
			  : arena_printf(arena, "%s (the first of %zu runs)", first->moment, count);
}

/* "at the peak, 9.1 s; before: at the peak, 8.7 s" */
static bool describe_moments(struct comparing *x)
{
	const struct comparison *c = x->c;
	struct arena *arena = &x->ret->arena;

	if (strcmp(x->parts[0].moment, x->ret->moment) == 0)
		return true;
	const char *before = side_moment(&x->parts[0], c->before_count, arena);
	const char *after = side_moment(x->ret, c->after_count, arena);

	if (before && after)
		x->ret->moment = arena_printf(arena, "%s; before: %s", after, before);
	return before && after && x->ret->moment;
}

static void release_parts(struct comparing *x)
{
	for (size_t i = 0; i < x->part_count; i++)
		arena_release(&x->parts[i].arena);
	x->part_count = 0;
}

/* If the peak is unknown in any run, all runs are compared at the end. */
static int select_parts(struct comparing *x, struct locations *locations, const struct query *query,
			struct view_defaults defaults, struct error *error)
{
	struct query alone = *query;
	size_t at_end = 0;

	alone.against = NULL;
	alone.must_match = false; /* a filter may match in only one of the runs */
	x->parts = calloc(x->c->before_count + x->c->after_count, sizeof *x->parts);
	if (!x->parts)
		return error_set(error, "out of memory");
	if (select_each(x, locations, &alone, defaults, error) < 0)
		return -1;
	for (size_t i = 0; i < x->part_count; i++)
		at_end += x->parts[i].end_for_peak;
	if (at_end == 0 || at_end == x->part_count)
		return 0;
	release_parts(x);
	defaults.at = MOMENT_END;
	if (select_each(x, locations, &alone, defaults, error) < 0)
		return -1;
	for (size_t i = 0; i < x->part_count; i++)
		x->parts[i].end_for_peak = true;
	return 0;
}

int comparison_select(struct selection *selection, struct locations *locations,
		      const struct query *query, struct view_defaults defaults, struct error *error)
{
	const struct comparison *c = query->against;
	struct comparing x = { .c = c, .arena = ARENA_INIT };
	size_t nodes = 0;
	int status = -1;

	if ((query->has_cost ? query->cost : defaults.cost) == COST_RATE)
		return error_set(error,
				 "rates are over runs of different length: compare --cost calls, "
				 "with --per if the work differs");
	locations_match_by_base(locations);
	if (select_parts(&x, locations, query, defaults, error) < 0)
		goto done;
	x.ret = &x.parts[c->before_count];
	if (!describe_moments(&x) || !collect(&x) ||
	    same_stacks(x.all, x.count, locations, x.node_of) < 0 ||
	    !tell_apart(&x, query->has_axis && query->by == AXIS_ENTRY, &nodes)) {
		error_set(error, "out of memory");
		goto done;
	}
	add_sums(&x);
	if (!merge(&x, nodes)) {
		error_set(error, "out of memory");
		goto done;
	}
	x.ret->against = c;
	x.ret->change = true;
	x.ret->divisor = (int64_t)(c->before_count * c->after_count * MAX(c->per, UINT64_C(1)));
	if (selection_check(x.ret, query, error) < 0)
		goto done;
	*selection = *x.ret;
	*x.ret = (struct selection){ 0 };
	status = 0;
done:
	release_parts(&x);
	arena_release(&x.arena);
	free(x.parts);
	free(x.all);
	free(x.run_of);
	free(x.node_of);
	return status;
}

static int64_t mean(const int64_t *runs, size_t count, uint64_t per, int64_t *ret_range)
{
	int64_t sum = 0, least = INT64_MAX, most = INT64_MIN;
	int64_t parts = (int64_t)count, units = (int64_t)per;

	*ret_range = 0;
	if (parts <= 0)
		return 0;
	if (units <= 0)
		units = 1;
	for (size_t i = 0; i < count; i++) {
		sum += runs[i];
		least = MIN(least, runs[i]);
		most = MAX(most, runs[i]);
	}
	*ret_range = (most - least) / units;
	int64_t all = parts * units;

	return all > 0 ? sum / all : 0;
}

/* The standard error of the mean over `count` runs, per unit. */
static double mean_error(const double *variances, size_t count, uint64_t per)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += fabs(variances[i]);
	return sqrt(sum) / ((double)MAX(count, (size_t)1) * (double)MAX(per, UINT64_C(1)));
}

static struct compared compare_runs(const struct selection *s, const int64_t *runs,
				    const double *variances, const struct measures *change)
{
	const struct comparison *c = s->against;
	int64_t before_range, after_range;
	struct compared ret = {
		.before = mean(runs, c->before_count, c->per, &before_range),
		.after = mean(runs + c->before_count, c->after_count, c->per, &after_range),
		.change = selection_cost(s, change),
		.before_error = mean_error(variances, c->before_count, c->per),
		.after_error = mean_error(variances + c->before_count, c->after_count, c->per),
		.change_error =
			selection_shown_error(s, s->cost, selection_raw_variance(s->cost, change)),
	};
	double most = confidence_factor((uint64_t)change->variance.samples) * ret.change_error;

	ret.spread = MAX(before_range, after_range);
	ret.within_spread =
		(c->before_count > 1 || c->after_count > 1) && llabs(ret.change) <= ret.spread;
	ret.within_noise = ret.change_error > 0 && fabs((double)ret.change) <= most;
	return ret;
}

/* Whether sampling may have missed the stack entirely on the side that lacks it. */
static bool may_be_unrecorded(const struct selection *s, const struct entry *e,
			      const struct compared *c)
{
	size_t first = c->before == 0 ? 0 : s->against->before_count;
	size_t count = c->before == 0 ? s->against->before_count : s->against->after_count;
	uint64_t interval = 0;

	if (c->before && c->after)
		return false;
	for (size_t i = first; i < first + count; i++) {
		const struct profile *profile = profile_of(s->against, i);

		for (size_t j = 0; j < profile->process_count; j++)
			interval = MAX(interval, profile->processes[j].interval);
	}
	return interval > 0 && fabs((double)e->m.total_bytes) / (double)s->divisor <=
				       (double)interval * CONFIDENCE_UNSEEN_INTERVALS;
}

struct compared comparison_of(const struct selection *s, const struct entry *e)
{
	struct compared ret = compare_runs(s, e->runs, e->variances, &e->m);

	ret.within_noise |= may_be_unrecorded(s, e, &ret);
	return ret;
}

struct compared comparison_whole(const struct selection *s)
{
	size_t runs = s->against->before_count + s->against->after_count;
	AUTO_FREE int64_t *sums = calloc(runs, sizeof *sums);
	AUTO_FREE double *variances = calloc(runs, sizeof *variances);

	if (!sums || !variances)
		return (struct compared){ .change = selection_cost(s, &s->sum) };
	for (size_t i = 0; i < s->count; i++)
		for (size_t j = 0; j < runs; j++) {
			sums[j] += s->entries[i].runs[j];
			variances[j] += s->entries[i].variances[j];
		}
	return compare_runs(s, sums, variances, &s->sum);
}

static bool is_empty(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile->processes[i].site_count)
			return false;
	return true;
}

static const char *nothing_of(const struct profile *const *runs, size_t count, const char *side,
			      struct arena *arena)
{
	const struct profile *empty = NULL;
	size_t empties = 0;

	for (size_t i = 0; i < count; i++)
		if (is_empty(runs[i])) {
			empty = runs[i];
			empties++;
		}
	if (!empty)
		return NULL;
	return count == 1 ? arena_printf(arena, "%s: %s", side, nothing_recorded(empty))
			  : arena_printf(arena, "%s, in %zu of %zu runs: %s", side, empties, count,
					 nothing_recorded(empty));
}

const char *comparison_nothing(const struct comparison *c, struct arena *arena)
{
	const char *before = nothing_of(c->before, c->before_count, "BEFORE", arena);
	const char *after = nothing_of(c->after, c->after_count, "AFTER", arena);

	return before && after ? arena_printf(arena, "%s; %s", before, after)
	       : before	       ? before
			       : after;
}
