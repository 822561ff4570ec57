/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variances of estimates: see estimates.h and docs/estimates.md.
 *
 * A block of s bytes is sampled with probability p = 1 - exp(-s / interval) and then has the weight w = 1/p, randomly
 * rounded to an integer. The estimate of n such blocks has the variance n (w - 1), plus that of the rounding.
 *
 * Pure; any thread.
 */
#include "model/estimates.h"

#include <math.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "model/history.h"
#include "model/same_sites.h"
#include "model/site_sums.h"
#include "util/cleanup.h"

static double share(double variance, uint64_t part, uint64_t whole)
{
	return whole ? variance * ((double)part / (double)whole) : 0;
}

static double square(double x)
{
	return x * x;
}

/* The variance relative to the square of the number. */
static double relative(double variance, uint64_t number)
{
	return number ? fabs(variance) / square((double)number) : 0;
}

double estimate_variance(const struct site_numbers *n, enum variance_rule rule, uint64_t number)
{
	double frees = n->calls_variance - n->live_blocks_variance;
	double freed = n->bytes_variance - n->live_bytes_variance;

	if (rule == VARIANCE_TIME)
		return n->allocator_ns_variance;
	if (n->samples == 0 && n->calls_variance == 0 && frees == 0)
		return 0;
	switch (rule) {
	case VARIANCE_NONE:
	case VARIANCE_TIME:
		break;
	case VARIANCE_CALLS:
		return share(n->calls_variance, number, n->calls);
	case VARIANCE_BYTES:
		return share(n->bytes_variance, number, n->bytes);
	case VARIANCE_FREES:
		return share(frees, number, n->frees);
	case VARIANCE_FREED_BYTES:
		return share(freed, number, n->freed_bytes);
	case VARIANCE_LIVE_BLOCKS:
		return n->live_blocks_variance;
	case VARIANCE_LIVE_BYTES:
		return n->live_bytes_variance;
	case VARIANCE_PEAK_BLOCKS:
		return n->peak_blocks_variance;
	case VARIANCE_PEAK_BYTES:
		return n->peak_bytes_variance;
	case VARIANCE_WASTE:
		/* Blocks of one size have the same rounding; where sizes differ, it does too. */
		return square((double)number) * MAX(relative(n->calls_variance, n->calls),
						    relative(n->bytes_variance, n->bytes));
	case VARIANCE_LIVE_WASTE:
		return square((double)number) *
		       MAX(relative(n->live_blocks_variance, n->live_blocks),
			   relative(n->live_bytes_variance, n->live_bytes));
	case VARIANCE_LIFETIME:
		/* Assumes exponential lifetimes: the mean of the squares is twice the square of the mean. */
		return 2 * square((double)number) * relative(frees, n->frees);
	}
	return 0;
}

bool profile_is_sampled(const struct profile_process *p)
{
	return p->interval != 0 || strcmp(p->mode, "sampled") == 0;
}

bool profile_is_timed(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile->processes[i].timed_of)
			return true;
	return false;
}

void estimates_add(struct site_numbers *sum, const struct site_numbers *n)
{
	sum->calls = saturating_add(sum->calls, n->calls);
	sum->bytes = saturating_add(sum->bytes, n->bytes);
	sum->frees = saturating_add(sum->frees, n->frees);
	sum->freed_bytes = saturating_add(sum->freed_bytes, n->freed_bytes);
	sum->aged_frees = saturating_add(sum->aged_frees, n->aged_frees);
	sum->live_blocks = saturating_add(sum->live_blocks, n->live_blocks);
	sum->live_bytes = saturating_add(sum->live_bytes, n->live_bytes);
	sum->peak_blocks = saturating_add(sum->peak_blocks, n->peak_blocks);
	sum->peak_bytes = saturating_add(sum->peak_bytes, n->peak_bytes);
	sum->allocator_ns = saturating_add(sum->allocator_ns, n->allocator_ns);
	sum->allocator_ns_variance += n->allocator_ns_variance;
	sum->samples = saturating_add(sum->samples, n->samples);
	sum->has_remote_frees |= n->has_remote_frees;
	sum->live_unknown |= n->live_unknown;
	sum->calls_variance += n->calls_variance;
	sum->bytes_variance += n->bytes_variance;
	sum->live_blocks_variance += n->live_blocks_variance;
	sum->live_bytes_variance += n->live_bytes_variance;
	sum->peak_blocks_variance += n->peak_blocks_variance;
	sum->peak_bytes_variance += n->peak_bytes_variance;
}

void reallocs_add(struct realloc_numbers *sum, const struct realloc_numbers *r)
{
	sum->calls = saturating_add(sum->calls, r->calls);
	sum->moved_calls = saturating_add(sum->moved_calls, r->moved_calls);
	sum->moved_bytes = saturating_add(sum->moved_bytes, r->moved_bytes);
	sum->grown_calls = saturating_add(sum->grown_calls, r->grown_calls);
	sum->shrunk_calls = saturating_add(sum->shrunk_calls, r->shrunk_calls);
	sum->old_bytes = saturating_add(sum->old_bytes, r->old_bytes);
	sum->new_bytes = saturating_add(sum->new_bytes, r->new_bytes);
}

double estimate_block_variance(uint64_t size, uint64_t interval)
{
	if (size >= interval)
		return 0;
	double weight = -1 / expm1(-(double)MAX(size, UINT64_C(1)) / (double)interval);
	double part = weight - floor(weight);

	return weight - 1 + part * (1 - part) / weight;
}

/* The middle of a class. */
static double middle(struct profile_bar bar)
{
	double high = bar.high == UINT64_MAX ? 2 * (double)bar.low : (double)bar.high;

	return ((double)bar.low + high) / 2;
}

double estimate_size_variance(struct profile_bar size, uint64_t interval)
{
	return estimate_block_variance(saturating_u64(middle(size)), interval);
}

double estimate_mean_size_variance(const struct site_numbers *n, struct profile_bars sizes)
{
	double sum = 0, mean = n->calls ? (double)n->bytes / (double)n->calls : 0;

	for (size_t i = 0; n->calls && i < sizes.count; i++)
		sum += sizes.at[i].variance * square(middle(sizes.at[i]) - mean);
	return n->calls ? sum / square((double)n->calls) : 0;
}

/* The variance of the calls times the mean square of a size; assumes that old sizes vary as much as those of the site. */
double estimate_old_bytes_variance(const struct site_numbers *n, struct profile_bars sizes)
{
	const struct realloc_numbers *r = &n->reallocs;
	double count = 0, sum = 0, squares = 0;

	for (size_t i = 0; i < sizes.count; i++) {
		double size = middle(sizes.at[i]), blocks = (double)sizes.at[i].count;

		count += blocks;
		sum += blocks * size;
		squares += blocks * size * size;
	}
	if (r->calls == 0 || sum <= 0)
		return 0;
	return estimate_variance(n, VARIANCE_CALLS, r->calls) *
	       square((double)r->old_bytes / (double)r->calls) * squares * count / square(sum);
}

double estimate_mean_life_variance(const struct site_numbers *n, struct profile_bars lifetimes)
{
	double each =
		n->frees ? (n->calls_variance - n->live_blocks_variance) / (double)n->frees : 0;
	double sum = 0;
	double mean = n->aged_frees ? (double)n->lifetime_ms_sum / (double)n->aged_frees : 0;

	for (size_t i = 0; n->samples && n->frees && i < lifetimes.count; i++) {
		/* Lifetimes below one tick count as 0 in the sum. */
		double life = lifetimes.at[i].low ? middle(lifetimes.at[i]) : 0;

		sum += (double)lifetimes.at[i].count * square(life - mean) * fabs(each);
	}
	return n->frees ? sum / square((double)n->frees) : 0;
}

uint64_t estimate_peak_bias(const struct site_numbers *sums)
{
	/* `turns`: how often the samples live at the peak were replaced, which gives the number of nearly independent
	 * estimates, in whatever order blocks are freed. The expected maximum of k is at most sqrt(2 ln k) errors. */
	enum { PER_TURN = 8 };
	double turns = sums->peak_bytes_variance > 0
			       ? sums->bytes_variance / sums->peak_bytes_variance - 1
			       : 0;

	if (turns <= 0)
		return 0;
	return saturating_u64(sqrt(sums->peak_bytes_variance * 2 * log(1 + PER_TURN * turns)));
}

double profile_peak_variance(const struct profile *profile)
{
	double sum = 0;

	for (size_t i = 0; i < profile->process_count; i++)
		sum += profile->processes[i].sums.peak_bytes_variance;
	return sum;
}

/* For a part of a site (model/same_sites.h): parts recorded at different intervals have different errors. */
static struct live_variance live_variance_of(const struct site_numbers *part,
					     const struct snapshot_site *live)
{
	struct live_variance variance = { 0 };

	if (part && live->bytes > 0)
		variance.bytes = estimate_variance(part, VARIANCE_BYTES, (uint64_t)live->bytes);
	if (part && live->blocks > 0)
		variance.blocks = estimate_variance(part, VARIANCE_CALLS, (uint64_t)live->blocks);
	return variance;
}

struct live_variance *profile_live_variances(const struct profile_process *p, size_t snapshot,
					     struct arena *arena)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const struct process_rows *rows = p->rows;
	struct live_variance *all = ARENA_ARRAY(arena, struct live_variance, rows->site_count + 1);
	const struct snapshot_site **last =
		ARENA_ARRAY(&scratch, const struct snapshot_site *, rows->site_count + 1);
	const struct site_numbers **parts;

	if (!all || !last || site_parts(p, &scratch, &parts) < 0)
		return NULL;
	for (size_t i = 0; i <= snapshot; i++)
		for (size_t j = 0; j < rows->snapshots[i].sites_count; j++) {
			const struct snapshot_site *live =
				&rows->snapshot_sites[rows->snapshots[i].sites_at + j];

			last[live->site] = live;
		}
	for (uint32_t i = 1; i < rows->site_count; i++) {
		struct live_variance *of = &all[same_site(p, i)], now = { 0 };

		if (last[i])
			now = live_variance_of(parts[i], last[i]);
		of->bytes += now.bytes;
		of->blocks += now.blocks;
	}
	return all;
}

struct live_variance *profile_snapshot_variances(const struct profile_process *p,
						 struct arena *arena)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const struct process_rows *rows = p->rows;
	size_t ids = rows->site_count + 1;
	struct live_variance *all =
		ARENA_ARRAY(arena, struct live_variance, profile_snapshot_count(p));
	struct live_variance *of = ARENA_ARRAY(&scratch, struct live_variance, ids), sum = { 0 };
	const struct site_numbers **parts;

	if (!all || !of || site_parts(p, &scratch, &parts) < 0)
		return NULL;
	for (size_t i = 0; i < rows->snapshot_count; i++) {
		for (size_t j = 0; j < rows->snapshots[i].sites_count; j++) {
			const struct snapshot_site *live =
				&rows->snapshot_sites[rows->snapshots[i].sites_at + j];
			bool is_heap = rows->sites[live->site].kind == LIVE_KIND_HEAP;
			struct live_variance *old = &of[live->site], now = { 0 };

			if (is_heap)
				now = live_variance_of(parts[live->site], live);
			sum.bytes += now.bytes - old->bytes;
			sum.blocks += now.blocks - old->blocks;
			*old = now;
		}
		/* A negative remainder is a rounding error. */
		all[i] = (struct live_variance){ MAX(sum.bytes, 0.0), MAX(sum.blocks, 0.0) };
	}
	return all;
}
