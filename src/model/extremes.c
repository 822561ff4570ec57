/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extremes of a process, from the distributions of its sites and from its time series. Computed on demand: only lists of
 * processes show them.
 *
 * Pure functions. Any thread.
 * Invariant: a rate is an average over RATE_NS or more, since the time of each reading is known to a few milliseconds.
 */
#include "model/extremes.h"

#include "base/checked.h"
#include "format/recording/rows.h"
#include "model/history.h"
#include "model/threads.h"

#define RATE_NS UINT64_C(50000000)
#define SECOND_NS 1e9

static void take_bar(struct profile_bar bar, struct process_extremes *ret)
{
	bool is_class = bar.low != bar.high;

	if (bar.count == 0)
		return;
	if (!ret->has_sizes || bar.low < ret->smallest_bytes)
		ret->smallest_is_bound = is_class;
	else if (bar.low == ret->smallest_bytes)
		ret->smallest_is_bound &= is_class;
	if (!ret->has_sizes || bar.high > ret->largest_bytes)
		ret->largest_is_bound = is_class;
	else if (bar.high == ret->largest_bytes)
		ret->largest_is_bound &= is_class;
	ret->smallest_bytes = ret->has_sizes ? MIN(ret->smallest_bytes, bar.low) : bar.low;
	ret->largest_bytes = MAX(ret->largest_bytes, bar.high);
	ret->has_sizes = true;
}

static void take_sizes(const struct profile_process *p, struct process_extremes *ret)
{
	for (size_t i = 0; i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];
		size_t counters = p->counters_of[site->id.v + 1] - p->counters_of[site->id.v];

		for (size_t j = 0; site->kind == PROFILE_HEAP && j < counters; j++) {
			for (size_t k = 0; k < profile_counters_size_count(p, site->id, j); k++)
				take_bar(profile_counters_size(p, site->id, j, k), ret);
		}
	}
}

static void take_series(const struct profile_process *p, struct process_extremes *ret)
{
	struct profile_sample last = { 0 };

	ret->live_blocks =
		MAX(p->peak_blocks, saturating_sub(p->live_blocks, p->live_bound.blocks));
	for (size_t i = 0; i < profile_sample_count(p); i++) {
		struct profile_sample now = profile_sample(p, i);
		uint64_t ns = saturating_sub(now.at_ns, last.at_ns);
		double calls = (double)saturating_sub(now.calls, last.calls);

		ret->live_blocks = MAX(ret->live_blocks,
				       saturating_sub(now.live_blocks, now.live_bound.blocks));
		if (ns < RATE_NS)
			continue;
		ret->calls_per_second =
			MAX(ret->calls_per_second, (uint64_t)(calls * SECOND_NS / (double)ns));
		ret->has_rate = true;
		last = now;
	}
}

struct process_extremes process_extremes(const struct profile_process *process)
{
	struct process_extremes ret = { 0 };

	take_sizes(process, &ret);
	take_series(process, &ret);
	return ret;
}
