/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions of a site: merges the bars of all its counters.
 *
 * Counters hold exact sizes while these are few, and classes (half octaves) beyond, so one site may
 * have both. Class bounds are the same everywhere, so two classes are equal or disjoint; an exact
 * size inside a class that some counters use is counted in that class. Lifetimes always are classes.
 */
#include "model/ages.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
#include "model/estimates.h"
#include "model/threads.h"

static int compare_bars(const void *left, const void *right)
{
	const struct profile_bar *a = left, *b = right;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	/* The wider bar first: it absorbs the exact size at its lower bound. */
	return (a->high < b->high) - (a->high > b->high);
}

static void merge_bar(struct profile_bar *sum, const struct profile_bar *part)
{
	sum->count = saturating_add(sum->count, part->count);
	sum->variance += part->variance;
}

/* Pre: sorted. `open` is 1 if `high` is exclusive. Returns the number of bars left. */
static size_t merge_bars(struct profile_bar *bars, size_t count, uint64_t open)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct profile_bar *last = kept ? &bars[kept - 1] : NULL;

		if (bars[i].count == 0)
			continue;
		if (last && bars[i].low >= last->low && bars[i].high <= last->high &&
		    bars[i].low < saturating_add(last->high, 1 - open))
			merge_bar(last, &bars[i]);
		else
			bars[kept++] = bars[i];
	}
	return kept;
}

uint64_t profile_age_limit(const struct profile_process *p, uint64_t low_ms, uint64_t high_ms)
{
	uint64_t longest = p->duration_ns / 1000000 + (p->duration_ns % 1000000 != 0);

	return p->duration_ns ? MIN(high_ms, MAX(longest, saturating_add(low_ms, 1))) : high_ms;
}

struct slice {
	uint32_t at, count;
};

static struct slice counters_slice(const struct site_counters_row *counters, bool lifetimes)
{
	if (lifetimes)
		return (struct slice){ counters->lifetimes_at, counters->lifetimes_count };
	return (struct slice){ counters->sizes_at, counters->sizes_count };
}

/* Samples of one size have the same weight, which depends on the sampling interval of the counters' site. */
static struct profile_bar bar_of(const struct profile_process *p,
				 const struct site_counters_row *counters, uint32_t index,
				 bool lifetimes)
{
	const struct bar *b = &p->rows->bars[index];
	struct profile_bar bar = { .low = b->low,
				   .high = lifetimes ? profile_age_limit(p, b->low, b->high)
						     : b->high,
				   .count = b->count };
	uint64_t interval = p->rows->sites[counters->site].interval;

	if (!lifetimes && interval)
		bar.variance = (double)bar.count * estimate_size_variance(bar, interval);
	return bar;
}

static int merge_counters(const struct profile_process *p, site_id site, bool lifetimes,
			  const bool *slots, struct arena *arena, struct profile_bars *ret)
{
	const struct process_rows *rows = p->rows;
	size_t total = 0, count = 0;

	for (uint32_t i = p->counters_of[site.v]; i < p->counters_of[site.v + 1]; i++)
		total +=
			counters_slice(&rows->site_counters[p->counters_order[i]], lifetimes).count;
	struct profile_bar *bars = ARENA_ARRAY(arena, struct profile_bar, total);

	if (!bars)
		return -1;
	for (uint32_t i = p->counters_of[site.v]; i < p->counters_of[site.v + 1]; i++) {
		const struct site_counters_row *counters =
			&rows->site_counters[p->counters_order[i]];
		struct slice s = counters_slice(counters, lifetimes);

		if (slots && !slots[counters->slot])
			continue;
		for (uint32_t j = 0; j < s.count; j++)
			bars[count++] = bar_of(p, counters, s.at + j, lifetimes);
	}
	if (count)
		qsort(bars, count, sizeof *bars, compare_bars);
	*ret = (struct profile_bars){ bars, merge_bars(bars, count, lifetimes) };
	return 0;
}

int profile_sizes(const struct profile_process *p, site_id site, const bool *slots,
		  struct arena *arena, struct profile_bars *ret)
{
	return merge_counters(p, site, false, slots, arena, ret);
}

int profile_lifetimes(const struct profile_process *p, site_id site, const bool *slots,
		      struct arena *arena, struct profile_bars *ret)
{
	return merge_counters(p, site, true, slots, arena, ret);
}

static const struct site_counters_row *counters_at(const struct profile_process *p, site_id site,
						   size_t index)
{
	return &p->rows->site_counters[p->counters_order[p->counters_of[site.v] + index]];
}

static struct profile_bar bar_at(const struct profile_process *p,
				 const struct site_counters_row *counters, size_t index,
				 bool lifetimes)
{
	struct slice s = counters_slice(counters, lifetimes);

	ASSERT(index < s.count);
	return bar_of(p, counters, s.at + (uint32_t)index, lifetimes);
}

size_t profile_counters_size_count(const struct profile_process *p, site_id site, size_t counters)
{
	return counters_at(p, site, counters)->sizes_count;
}

struct profile_bar profile_counters_size(const struct profile_process *p, site_id site,
					 size_t counters, size_t index)
{
	return bar_at(p, counters_at(p, site, counters), index, false);
}

size_t profile_counters_lifetime_count(const struct profile_process *p, site_id site,
				       size_t counters)
{
	return counters_at(p, site, counters)->lifetimes_count;
}

struct profile_bar profile_counters_lifetime(const struct profile_process *p, site_id site,
					     size_t counters, size_t index)
{
	return bar_at(p, counters_at(p, site, counters), index, true);
}
