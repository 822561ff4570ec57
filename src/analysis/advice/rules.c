/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TABLE of rules. Each claims only what the counters prove, with a computed saving; if that is a
 * bound or an estimate, the text says so. Thresholds are shares of the process' totals, with floors
 * below which a finding is not worth reporting.
 */
#include <string.h>

#include "analysis/advice/findings.h"
#include "base/checked.h"
#include "base/compiler.h"

enum {
	MIB = 1 << 20,
	LEAST_BYTES = MIB,	 /* of memory or copying */
	LEAST_LEFT = 128 * 1024, /* not freed; low, because it may be the beginning of a leak */
	LEAST_GROWTHS = 64,	 /* calls that copy */
	LEAST_CALLS = 1000,	 /* realloc calls that do not copy */
	LEAST_TEMPORARY = 1000000,
	PAIR_NS = 50, /* approximate cost of an allocation and its free */
	LEAST_ELSEWHERE = 50000,
	LEAST_SMALL_BLOCKS = 10000,
	SMALL_BYTES = 64,
	HEADER_BYTES = 8,	  /* of glibc, before each block */
	LEAST_RUN_NS = 200000000, /* lifetimes are in milliseconds */
	LARGE_BYTES = 128 * 1024, /* glibc gives each its own mapping */
	LEAST_UNUSED = 8 * MIB,
	LEAST_UNTOUCHED_NS = 300000000, /* newer blocks may still be used */
};

/* At least one in `one_in`, and at least the floor. */
static bool counts(uint64_t part, uint64_t whole, uint64_t one_in, uint64_t floor)
{
	return part >= floor && part >= whole / one_in;
}

static uint64_t mean(uint64_t sum, uint64_t count)
{
	return count ? sum / count : 0;
}

bool site_blocks_are_large(const struct site_numbers *n)
{
	return mean(n->bytes, n->calls) >= LARGE_BYTES;
}

/* Internal fragmentation at the peak, assuming the mean over all calls. */
static uint64_t fragmentation_at_peak(uint64_t fragmentation_bytes, uint64_t calls,
				      uint64_t peak_blocks)
{
	return calls ? saturating_u64((double)fragmentation_bytes / (double)calls *
				      (double)peak_blocks)
		     : 0;
}

/* The mean per item. */
static struct result_value value_mean(uint64_t sum, uint64_t count)
{
	return value_bytes(mean(sum, count));
}

/* A part of the tally's bytes, or of its blocks, with its standard error. */
static struct result_value some_bytes(const struct tally *t, uint64_t bytes)
{
	return value_part(UNIT_BYTES, bytes, VARIANCE_BYTES, &t->sums);
}

static struct result_value some_blocks(const struct tally *t, uint64_t count)
{
	return value_part(UNIT_COUNT, count, VARIANCE_CALLS, &t->sums);
}

/* Incremental growth. */

static uint64_t copied_bytes(const struct tally *t)
{
	/* A container doubles: half of each new block was copied from the old one. */
	return saturating_add(t->reallocs.moved_bytes, t->regrown_bytes / 2);
}

/* Even if blocks grow in place, each step is a call. */
static bool is_mostly_growing(uint64_t growths, uint64_t all_calls)
{
	return counts(growths, all_calls, 4, LEAST_CALLS);
}

static bool reserve_may(const struct advised *of, const struct profile_site *site)
{
	const struct site_numbers *n = &site->numbers;

	/* Detecting container growth needs names, so only sites that could matter are tested. */
	return counts(n->reallocs.moved_bytes, of->process->bytes, 80, LEAST_BYTES / 4) ||
	       counts(n->reallocs.grown_calls, of->process->calls, 16, LEAST_CALLS / 4) ||
	       (n->reallocs.calls == 0 && n->calls >= LEAST_GROWTHS / 8 &&
		counts(n->bytes, of->process->bytes, 80, LEAST_BYTES / 4));
}

static bool reserve_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	uint64_t copied = copied_bytes(t), growths = t->reallocs.grown_calls + t->regrown_calls;

	if (!is_mostly_growing(growths, of->process->calls) &&
	    (growths < LEAST_GROWTHS || !counts(copied, of->process->bytes, 20, LEAST_BYTES)))
		return false;
	ret->copied_bytes = copied;
	ret->calls = growths;
	return true;
}

static void reserve_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	(void)of;
	const struct realloc_numbers *r = &t->reallocs;

	if (r->grown_calls)
		text_format(
			w,
			"realloc made blocks larger {} times, from {} to {} on average, and copied {}",
			some_blocks(t, r->grown_calls), value_mean(r->old_bytes, r->calls),
			value_mean(r->new_bytes, r->calls), some_bytes(t, r->moved_bytes));
	else
		text_format(
			w,
			"a container took a larger block {} times, {} in all, and copied about half of that",
			some_blocks(t, t->regrown_calls), some_bytes(t, t->regrown_bytes));
}

/* Freed before the next allocation. */

static bool reuse_may(const struct advised *of, const struct profile_site *site)
{
	return counts(site->numbers.temporary_calls, of->process->calls, 40, LEAST_TEMPORARY / 4);
}

static bool reuse_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	/* A hundredth of the run time, and half of the allocations here. */
	if (!counts(t->temporary, of->process->calls, 10, LEAST_TEMPORARY) ||
	    t->temporary < of->process->duration_ns / PAIR_NS / 100 ||
	    t->temporary < t->sums.calls / 2)
		return false;
	ret->calls = t->temporary;
	return true;
}

static void reuse_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	double seconds = (double)t->process_ns / 1e9;

	(void)of;
	text_format(w,
		    "{} of {} blocks of {} on average were freed before the thread's next call, {}",
		    some_blocks(t, t->temporary), some_blocks(t, t->sums.calls),
		    value_mean(t->sums.bytes, t->sums.calls),
		    value_number(UNIT_RATE,
				 seconds > 0 ? saturating_u64((double)t->temporary / seconds) : 0));
}

/* Many small blocks. */

static bool is_small(const struct tally *t)
{
	return mean(t->sums.bytes, t->sums.calls) <= SMALL_BYTES &&
	       t->sums.peak_blocks >= LEAST_SMALL_BLOCKS;
}

static uint64_t overhead_at_peak(const struct advised *of, const struct tally *t)
{
	uint64_t headers = strcmp(of->process->allocator, "glibc") == 0
				   ? HEADER_BYTES * t->sums.peak_blocks
				   : 0;

	return saturating_add(headers, fragmentation_at_peak(t->fragmentation_bytes, t->sums.calls,
							     t->sums.peak_blocks));
}

static bool pool_may(const struct advised *of, const struct profile_site *site)
{
	const struct site_numbers *n = &site->numbers;

	return n->peak_blocks >= LEAST_SMALL_BLOCKS / 4 &&
	       mean(n->bytes, n->calls) <= SMALL_BYTES &&
	       counts(n->peak_bytes, of->process->peak_bytes, 40, LEAST_BYTES / 4);
}

static bool pool_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	uint64_t saved = overhead_at_peak(of, t);

	if (!is_small(t) || !counts(saved, of->process->peak_bytes, 10, LEAST_BYTES))
		return false;
	ret->peak_bytes = saved;
	return true;
}

static void pool_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	text_format(w,
		    "{} blocks of {} on average at the peak, each with {} of rounding and header",
		    some_blocks(t, t->sums.peak_blocks), value_mean(t->sums.bytes, t->sums.calls),
		    value_mean(overhead_at_peak(of, t), t->sums.peak_blocks));
}

/* Sizes that the allocator rounds up. */

static bool rounding_may(const struct advised *of, const struct profile_site *site)
{
	const struct site_numbers *n = &site->numbers;

	return counts(fragmentation_at_peak(n->fragmentation_bytes, n->calls, n->peak_blocks),
		      of->process->peak_bytes, 40, LEAST_BYTES / 4);
}

static bool rounding_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	uint64_t saved =
		fragmentation_at_peak(t->fragmentation_bytes, t->sums.calls, t->sums.peak_blocks);

	/* Small blocks are left to the pool rule: a better size does not remove their headers. */
	if (is_small(t) || t->fragmentation_bytes < t->sums.bytes / 8 ||
	    !counts(saved, of->process->peak_bytes, 10, LEAST_BYTES))
		return false;
	ret->peak_bytes = saved;
	return true;
}

static void rounding_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	(void)of;
	text_format(w, "blocks of {} on average are rounded up by {}; {} of them at the peak",
		    value_mean(t->sums.bytes, t->sums.calls),
		    value_mean(t->fragmentation_bytes, t->sums.calls),
		    some_blocks(t, t->sums.peak_blocks));
}

/* Not freed, and accumulating. Whether the program can still reach the blocks is unknown. */

/* The remaining bytes that are younger than `ms`, or at least that old, by age class. */
static uint64_t left_bytes(const struct advised *of, site_id site, uint64_t ms, bool younger)
{
	uint64_t bytes = 0;

	for (uint32_t i = of->ages.first[site.v]; i < of->ages.first[site.v + 1]; i++) {
		const struct profile_age *age = &of->ages.at[i];

		if (younger ? age->high_ms <= ms : age->low_ms >= ms)
			bytes = saturating_add(bytes, age->bytes);
	}
	return bytes;
}

/* For runs too short for a trend: memory allocated at the start and kept does not accumulate, and if some blocks are freed, the remaining
 * ones must have outlived them by far. A busy machine may stop the clock of a run this short, so that ages are unknown. */
static bool piles_up(const struct advised *of, const struct profile_site *site)
{
	static const uint64_t shortest_ms = 64, reliable_ms = 1000, lifetimes = 8;
	const struct site_numbers *n = &site->numbers;
	uint64_t run_ms = of->process->duration_ns / 1000000;

	if (n->frees > 0 && run_ms < reliable_ms)
		return true;
	if (run_ms >= shortest_ms && left_bytes(of, site->id, run_ms / 2, true) < n->live_bytes / 8)
		return false;
	return n->frees == 0 ||
	       left_bytes(of, site->id, lifetimes * (1 + mean(n->lifetime_ms_sum, n->aged_frees)),
			  false) >= n->live_bytes / 2;
}

static bool not_freed_may(const struct advised *of, const struct profile_site *site)
{
	const struct site_numbers *n = &site->numbers;
	const struct trend trend = trend_of_site(&of->trends, site);

	switch (trend.verdict) {
	case TREND_GROWING:
		return counts(n->live_bytes, of->process->live_bytes, 200, LEAST_LEFT / 32);
	case TREND_UNKNOWN:
		return !trend.is_uncertain && profile_end_leaks(of->process->end) &&
		       counts(n->live_bytes, of->process->peak_bytes, 40, LEAST_LEFT / 4) &&
		       piles_up(of, site);
	case TREND_BOUNDED:
		break;
	}
	return false;
}

static bool not_freed_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	uint64_t peak = of->process->peak_bytes;
	bool many = t->sums.live_blocks >= 256 && counts(t->sums.live_bytes, peak, 8, LEAST_LEFT);
	bool much = t->sums.live_blocks >= 64 && counts(t->sums.live_bytes, peak, 2, LEAST_LEFT);
	bool grows = t->growing_per_second > 0 &&
		     counts(t->sums.live_bytes, of->process->live_bytes, 100, LEAST_LEFT / 8);

	if (!grows && !many && !much)
		return false;
	ret->leaked_bytes = t->sums.live_bytes;
	ret->bytes_per_second = t->growing_per_second;
	return true;
}

static void not_freed_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	(void)of;
	if (t->sums.frees == 0)
		text_format(w, "none of {} blocks was freed", some_blocks(t, t->sums.calls));
	else
		text_format(w, "{} of {} blocks were never freed, the others were",
			    some_blocks(t, t->sums.live_blocks), some_blocks(t, t->sums.calls));
	if (t->growing_per_second > 0)
		text_format(w, ", and they grew by {}/s, {} sure",
			    value_bytes((uint64_t)t->growing_per_second),
			    value_percent(t->confidence_per_mille, 1000));
	else
		text_format(w, ", {} of the peak",
			    value_percent(t->sums.live_bytes, t->process_peak_bytes));
}

/* Allocated but never touched. */

static bool untouched_may(const struct advised *of, const struct profile_site *site)
{
	return of->untouched_bytes && site_blocks_are_large(&site->numbers) &&
	       of->process->memory.at_ns >= site->born_ns + LEAST_UNTOUCHED_NS &&
	       (uint64_t)advised_held(of, site).bytes >= of->untouched_bytes / 8;
}

static bool untouched_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	/* Even if all other large blocks are untouched too, this much of these is. */
	uint64_t others = saturating_sub(of->large_bytes, t->held_bytes);
	uint64_t saved = saturating_sub(of->untouched_bytes, others);

	if (saved < LEAST_UNUSED || saved < t->held_bytes - t->held_bytes / 16)
		return false;
	ret->reserved_bytes = saved;
	return true;
}

static void untouched_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	(void)of;
	text_format(w, "of {} in large blocks, almost nothing was ever written to",
		    some_bytes(t, t->held_bytes));
}

/* Pages held by the few blocks that remain in them: counted if the pages were read, else concluded from the memory sheets. */

static bool knows_pages(const struct advised *of, uint64_t *ret_rss_bytes)
{
	struct profile_pages pages;
	bool known = profile_pages(of->process, &pages);

	*ret_rss_bytes = pages.rss_bytes;
	return known;
}

/* A page of a forked child may also have blocks that it inherited. */
static bool misses_blocks(const struct advised *of)
{
	struct profile_pages pages;

	return profile_pages(of->process, &pages) && (pages.has_inherited || pages.has_unrecorded);
}

static bool fragmented_may(const struct advised *of, const struct profile_site *site)
{
	const struct site_numbers *n = &site->numbers;
	struct site_live held = advised_held(of, site);
	uint64_t rss;

	if (misses_blocks(of))
		return false;
	if (knows_pages(of, &rss))
		return counts(profile_site_pages(of->process, site->id).arena_bytes, rss, 40,
			      LEAST_UNUSED / 4);
	return of->unused_bytes >= LEAST_UNUSED && !site_blocks_are_large(n) && held.blocks &&
	       saturating_sub(n->peak_bytes, (uint64_t)held.bytes) >= of->unused_bytes / 16;
}

static bool fragmented_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	uint64_t gone = saturating_sub(t->sums.peak_bytes, t->held_bytes);
	uint64_t saved = MIN(of->unused_bytes, gone), rss;

	if (knows_pages(of, &rss)) {
		ret->resident_bytes = t->pages.arena_bytes;
		return counts(ret->resident_bytes, rss, 10, LEAST_UNUSED);
	}
	if (gone < of->unused_bytes / 2 ||
	    !counts(saved, of->process->memory.rss_bytes, 4, LEAST_UNUSED))
		return false;
	ret->resident_bytes = saved;
	return true;
}

static void fragmented_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	const struct site_pages *pages = &t->pages;
	uint64_t rss;

	if (knows_pages(of, &rss)) {
		text_format(
			w,
			"{} blocks with {} alone keep {} of resident pages; together they would need {}",
			value_count(pages->blocks), value_bytes(pages->live_bytes),
			value_bytes(pages->sole_bytes),
			value_bytes(saturating_sub(pages->sole_bytes, pages->arena_bytes)));
		return;
	}
	text_format(
		w,
		"{} blocks with {} were left of {} at the peak, and kept the pages of the others from being returned",
		some_blocks(t, t->held_blocks), some_bytes(t, t->held_bytes),
		some_bytes(t, t->sums.peak_bytes));
}

/* Short-lived blocks that cause the peak. */

static bool burst_may(const struct advised *of, const struct profile_site *site)
{
	const struct site_numbers *n = &site->numbers;

	return n->aged_frees > 0 &&
	       counts(n->peak_bytes, of->process->peak_bytes, 40, LEAST_BYTES / 4) &&
	       n->lifetime_ms_sum / n->aged_frees < of->process->duration_ns / 1000000 / 20;
}

static bool burst_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	const struct profile_process *p = of->process;
	/* Without these blocks, another moment may be the peak. */
	uint64_t saved = MIN(t->sums.peak_bytes, saturating_sub(p->peak_bytes, t->most_without));

	/* A block that realloc keeps enlarging is not short-lived, though each step counts as a free. */
	if (t->reallocs.grown_calls > t->sums.frees / 2)
		return false;
	/* The blocks live a hundredth of the run, none remains, and they raise the peak. */
	if (t->sums.aged_frees == 0 || p->duration_ns < LEAST_RUN_NS ||
	    t->lifetime_ms / t->sums.aged_frees > p->duration_ns / 1000000 / 100 ||
	    t->sums.live_blocks > t->sums.calls / 100 ||
	    !counts(saved, p->peak_bytes, 10, LEAST_BYTES))
		return false;
	ret->peak_bytes = saved;
	return true;
}

static void burst_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	(void)of;
	text_format(
		w, "{} of the peak, {}, is in {}{} for {} on average",
		some_bytes(t, t->sums.peak_bytes),
		value_percent(t->sums.peak_bytes, t->process_peak_bytes),
		some_blocks(t, t->sums.peak_blocks),
		value_text(t->sums.peak_blocks == 1 ? " block that lives" : " blocks that live"),
		t->lifetime_ms < t->sums.aged_frees
			? value_text("less than 1 ms")
			: value_ns(mean(t->lifetime_ms, t->sums.aged_frees) * 1000000));
}

/* Allocated here, freed by another thread. */

static bool elsewhere_may(const struct advised *of, const struct profile_site *site)
{
	return of->process->threads > 1 &&
	       counts(site->numbers.frees, of->process->frees, 40, LEAST_ELSEWHERE / 4);
}

static bool elsewhere_applies(const struct advised *of, const struct tally *t, struct saving *ret)
{
	if (!counts(t->elsewhere, of->process->frees, 10, LEAST_ELSEWHERE) ||
	    t->elsewhere < t->sums.frees / 2)
		return false;
	ret->remote_frees = t->elsewhere;
	return true;
}

static void elsewhere_describe(struct words *w, const struct advised *of, const struct tally *t)
{
	(void)of;
	text_format(w, "at least {} of {} blocks were freed by a thread that did not allocate them",
		    some_blocks(t, t->elsewhere), some_blocks(t, t->sums.frees));
}

const struct rule_row rule_rows[] = {
	[RULE_NOT_FREED] = { .name = "kept",
			     .title = "not freed",
			     .todo = "find the code that should free these blocks",
			     .may = not_freed_may,
			     .holds = not_freed_applies,
			     .say = not_freed_describe },
	{ .name = "untouched",
	  .title = "memory requested and never used",
	  .todo = "request less, or only when it is needed",
	  .may = untouched_may,
	  .holds = untouched_applies,
	  .say = untouched_describe },
	{ .name = "fragmented",
	  .title = "mostly free pages",
	  .todo = "keep long-lived blocks apart from short-lived ones, in their own arena; "
		  "malloc_trim() returns whole pages",
	  .may = fragmented_may,
	  .holds = fragmented_applies,
	  .say = fragmented_describe },
	{ .name = "burst",
	  .title = "short-lived blocks make the peak",
	  .todo = "work in smaller batches, or free earlier",
	  .may = burst_may,
	  .holds = burst_applies,
	  .looks_back = true,
	  .say = burst_describe },
	{ .name = "reserve",
	  .title = "blocks grown step by step",
	  .todo = "request the final size first: reserve()",
	  .may = reserve_may,
	  .holds = reserve_applies,
	  .say = reserve_describe },
	{ .name = "reuse",
	  .title = "a temporary in a loop",
	  .todo = "keep one block and use it again",
	  .may = reuse_may,
	  .holds = reuse_applies,
	  .say = reuse_describe },
	{ .name = "pool",
	  .title = "many small blocks",
	  .todo = "put many into one block: an array, an arena, a pool",
	  .may = pool_may,
	  .holds = pool_applies,
	  .is_of_storage = true,
	  .say = pool_describe },
	{ .name = "rounding",
	  .title = "sizes that are rounded up",
	  .todo = "choose a size that the allocator has",
	  .may = rounding_may,
	  .holds = rounding_applies,
	  .is_of_storage = true,
	  .say = rounding_describe },
	{ .name = "elsewhere",
	  .title = "blocks freed in another thread",
	  .todo = "free where it was allocated, or hand over in batches",
	  .may = elsewhere_may,
	  .holds = elsewhere_applies,
	  .say = elsewhere_describe },
};
const size_t rule_count = ARRAY_SIZE(rule_rows);
