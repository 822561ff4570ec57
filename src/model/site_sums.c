/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums the counters of each site.
 *
 * The counters of one thread may be negative (a thread that only frees blocks of others), so sums come first and differences last. For a
 * subset of threads that exchanged blocks with others this is meaningless: their live numbers come from the block map, and what it lacks is
 * unknown. A site's own maximum is exact if one thread made all its calls and frees. With several, the maxima of the threads are at
 * different times and ignore frees by other threads: their sum is an upper bound, and so is the peak of the whole process; the smaller is
 * used.
 *
 * If the sampling interval changed, each part of a site has its own variances: parts are summed first, then combined.
 */
#include "model/site_sums.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
#include "model/estimates.h"
#include "model/frames/fold.h"
#include "model/same_sites.h"
#include "model/threads.h"

/* Groups counters by site: a stable counting sort of the rows in order, or in the order `from`. Site 0 is invalid. */
static int sort_counters(struct profile_process *p, const uint32_t *from, const uint32_t *site_of,
			 struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	uint32_t *first = ARENA_ARRAY(arena, uint32_t, rows->site_count + 2);
	uint32_t *order = ARENA_ARRAY(arena, uint32_t, rows->site_counters_count + 1);

	if (!first || !order)
		return -1;
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		uint32_t site = rows->site_counters[i].site;

		first[(site_of ? site_of[site] : site) + 1]++;
	}
	for (size_t i = 0; i < rows->site_count; i++)
		first[i + 1] += first[i];
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		uint32_t counters = from ? from[i] : (uint32_t)i,
			 site = rows->site_counters[counters].site;

		order[first[site_of ? site_of[site] : site]++] = counters;
	}
	/* Each start advanced to its end, which is the start of the next: shift back. */
	for (size_t i = rows->site_count; i > 0; i--)
		first[i] = first[i - 1];
	first[0] = 0;
	p->counters_of = first;
	p->counters_order = order;
	return 0;
}

static bool is_timed(const struct process_rows *rows, size_t counters)
{
	return rows->sites[rows->site_counters[counters].site].kind == LIVE_KIND_TIMED;
}

/* The site whose blocks the calls were for. A damaged file may lead to a site that is none: it has no numbers. */
static uint32_t timed_site(const struct profile_process *p, size_t counters)
{
	return same_site(p, p->rows->sites[p->rows->site_counters[counters].site].tag);
}

/* Groups the counters of timed calls by that site. */
static int order_timed(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	size_t count = 0;

	for (size_t i = 0; i < rows->site_counters_count; i++)
		count += is_timed(rows, i);
	if (count == 0)
		return 0;
	uint32_t *first = ARENA_ARRAY(arena, uint32_t, rows->site_count + 2);
	uint32_t *order = ARENA_ARRAY(arena, uint32_t, count);

	if (!first || !order)
		return -1;
	/* Counted two places up: when each start has advanced to its end, which is the start of the next, all are in place. */
	for (size_t i = 0; i < rows->site_counters_count; i++)
		if (is_timed(rows, i))
			first[timed_site(p, i) + 2]++;
	for (size_t i = 0; i < rows->site_count; i++)
		first[i + 2] += first[i + 1];
	for (size_t i = 0; i < rows->site_counters_count; i++)
		if (is_timed(rows, i))
			order[first[timed_site(p, i) + 1]++] = (uint32_t)i;
	p->timed_of = first;
	p->timed_order = order;
	return 0;
}

static int order_counters(struct profile_process *p, struct arena *arena)
{
	if (sort_counters(p, NULL, NULL, arena) < 0 ||
	    (p->same && sort_counters(p, p->counters_order, p->same->of, arena) < 0))
		return -1;
	return order_timed(p, arena);
}

static struct realloc_numbers reallocs_of(const struct live_reallocs *r)
{
	return (struct realloc_numbers){ .calls = r->calls,
					 .moved_calls = r->moved_calls,
					 .moved_bytes = r->moved_bytes,
					 .grown_calls = r->grown_calls,
					 .shrunk_calls = r->shrunk_calls,
					 .old_bytes = r->old_bytes,
					 .new_bytes = r->new_bytes };
}

static void add_samples(struct site_numbers *n, const struct live_samples *s)
{
	const double unit = 1 << LIVE_VARIANCE_SHIFT;

	n->samples = saturating_add(n->samples, s->count);
	n->calls_variance += (double)s->calls_variance / unit;
	n->bytes_variance += (double)s->bytes_variance * unit;
	n->live_blocks_variance += ((double)s->calls_variance - (double)s->frees_variance) / unit;
	n->live_bytes_variance += ((double)s->bytes_variance - (double)s->freed_variance) * unit;
}

static uint64_t not_negative(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t aged_frees(const struct process_rows *rows, const struct site_counters_row *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c->lifetimes_count; i++)
		sum = saturating_add(sum, rows->bars[c->lifetimes_at + i].count);
	return sum;
}

static void add_counters(struct site_numbers *n, const struct site_counters_row *c)
{
	struct realloc_numbers reallocs = reallocs_of(&c->reallocs);

	n->calls = saturating_add(n->calls, c->calls);
	n->bytes = saturating_add(n->bytes, c->bytes);
	n->frees = saturating_add(n->frees, c->frees);
	n->freed_bytes = saturating_add(n->freed_bytes, c->freed_bytes);
	n->max_bytes = saturating_add(n->max_bytes, c->max_bytes);
	n->temporary_calls = saturating_add(n->temporary_calls, c->temporary);
	n->fragmentation_bytes = saturating_add(n->fragmentation_bytes, c->fragmentation);
	n->lifetime_ms_sum = saturating_add(n->lifetime_ms_sum, c->lifetime_ms_sum);
	reallocs_add(&n->reallocs, &reallocs);
	add_samples(n, &c->samples);
}

static void set_peak_variances(struct site_numbers *n)
{
	n->peak_blocks_variance = estimate_variance(n, VARIANCE_CALLS, n->peak_blocks);
	n->peak_bytes_variance = estimate_variance(n, VARIANCE_BYTES, n->peak_bytes);
}

/* A subset of a site's counters: those of `slots`, or `one`; neither: all. */
struct choice {
	const bool *slots;
	const struct site_counters_row *one;
};

static bool is_chosen(struct choice choice, const struct site_counters_row *c)
{
	return choice.slots ? choice.slots[c->slot] : !choice.one || choice.one == c;
}

/* Caps a maximum that is only an upper bound. peak_bytes is 0 if unknown. */
static void bound_max(const struct profile_process *p, enum profile_kind kind,
		      struct site_numbers *n)
{
	uint64_t peak = saturating_add(p->peak_bytes, p->peak_bound_bytes);

	n->max_exact = false;
	if (kind == PROFILE_HEAP)
		n->max_bytes = MIN(n->max_bytes, MAX(peak, n->peak_bytes));
}

/* The counters of one site that were recorded at one interval: a range of counters_order. */
struct part {
	uint32_t from, to;
};

static uint32_t part_site(const struct profile_process *p, uint32_t at)
{
	return p->rows->site_counters[p->counters_order[at]].site;
}

static struct part part_from(const struct profile_process *p, uint32_t from, uint32_t end)
{
	uint32_t to = from;

	while (to < end && part_site(p, to) == part_site(p, from))
		to++;
	return (struct part){ from, to };
}

static struct site_numbers sum_counters(const struct profile_process *p, struct part part,
					enum profile_kind kind, struct choice choice,
					size_t *ret_count)
{
	const struct process_rows *rows = p->rows;
	struct site_numbers n = { 0 };
	uint64_t peak_bytes = 0, peak_blocks = 0, freed_fragmentation = 0;
	size_t count = 0;

	for (uint32_t i = part.from; i < part.to; i++) {
		const struct site_counters_row *c = &rows->site_counters[p->counters_order[i]];

		if (!is_chosen(choice, c))
			continue;
		count++;
		add_counters(&n, c);
		n.aged_frees = saturating_add(n.aged_frees, aged_frees(rows, c));
		freed_fragmentation = saturating_add(freed_fragmentation, c->freed_fragmentation);
		/* Modulo 2^64: negative and positive numbers cancel in any order. */
		peak_bytes += (uint64_t)c->peak_bytes;
		peak_blocks += (uint64_t)c->peak_blocks;
	}
	n.live_blocks = saturating_sub(n.calls, n.frees);
	n.live_bytes = saturating_sub(n.bytes, n.freed_bytes);
	n.live_fragmentation_bytes = saturating_sub(n.fragmentation_bytes, freed_fragmentation);
	n.peak_bytes = not_negative((int64_t)peak_bytes);
	n.peak_blocks = not_negative((int64_t)peak_blocks);
	set_peak_variances(&n);
	n.max_exact = true;
	if (count > 1)
		bound_max(p, kind, &n);
	if (ret_count)
		*ret_count = count;
	return n;
}

/* For counters that exchanged blocks with others: takes live numbers from the block map and clears what is unknown. */
static void recount(const struct profile_process *p, struct part part, enum profile_kind kind,
		    struct choice choice, struct site_numbers *n)
{
	n->has_remote_frees = true;
	n->live_blocks = n->live_bytes = 0;
	for (uint32_t i = part.from; i < part.to; i++) {
		const struct counters_live *live = &p->counters_live[p->counters_order[i]];

		if (!is_chosen(choice, &p->rows->site_counters[p->counters_order[i]]))
			continue;
		n->live_unknown |= !live->known;
		n->live_blocks = saturating_add(n->live_blocks, live->blocks);
		n->live_bytes = saturating_add(n->live_bytes, live->bytes);
	}
	if (n->live_unknown)
		n->live_blocks = n->live_bytes = 0;
	n->frees = n->live_unknown ? 0 : saturating_sub(n->calls, n->live_blocks);
	n->freed_bytes = n->live_unknown ? 0 : saturating_sub(n->bytes, n->live_bytes);
	n->live_blocks_variance = estimate_variance(n, VARIANCE_CALLS, n->live_blocks);
	n->live_bytes_variance = estimate_variance(n, VARIANCE_BYTES, n->live_bytes);
	n->peak_blocks = n->peak_bytes = n->lifetime_ms_sum = n->live_fragmentation_bytes = 0;
	n->aged_frees = 0;
	n->peak_blocks_variance = n->peak_bytes_variance = 0;
	n->max_bytes = n->bytes;
	bound_max(p, kind, n);
}

/* The maxima were at different times: the sum is an upper bound. */
static void add_part(const struct profile_process *p, enum profile_kind kind,
		     struct site_numbers *sum, const struct site_numbers *n)
{
	estimates_add(sum, n);
	sum->max_bytes = saturating_add(sum->max_bytes, n->max_bytes);
	sum->temporary_calls = saturating_add(sum->temporary_calls, n->temporary_calls);
	sum->fragmentation_bytes = saturating_add(sum->fragmentation_bytes, n->fragmentation_bytes);
	sum->live_fragmentation_bytes =
		saturating_add(sum->live_fragmentation_bytes, n->live_fragmentation_bytes);
	sum->lifetime_ms_sum = saturating_add(sum->lifetime_ms_sum, n->lifetime_ms_sum);
	reallocs_add(&sum->reallocs, &n->reallocs);
	bound_max(p, kind, sum);
}

/* Of one thread's counters, those of the same thread and site. */
static void add_times(const struct profile_process *p, site_id site, struct choice choice,
		      struct site_numbers *sum)
{
	const struct process_rows *rows = p->rows;

	for (uint32_t i = p->timed_of[site.v]; i < p->timed_of[site.v + 1]; i++) {
		const struct site_counters_row *c = &rows->site_counters[p->timed_order[i]];

		if (choice.one ? choice.one->slot != c->slot ||
					 choice.one->site != rows->sites[c->site].tag
			       : !is_chosen(choice, c))
			continue;
		sum->allocator_ns = saturating_add(sum->allocator_ns, c->bytes);
		sum->allocator_ns_variance +=
			(double)c->samples.bytes_variance * (1 << LIVE_VARIANCE_SHIFT);
	}
}

static struct site_numbers sum_parts(const struct profile_process *p, site_id site,
				     enum profile_kind kind, struct choice choice, bool closed)
{
	struct site_numbers sum = { .max_exact = closed, .has_remote_frees = !closed };
	uint32_t end = p->counters_of[site.v + 1];
	size_t parts = 0;

	for (struct part part = part_from(p, p->counters_of[site.v], end); part.from < end;
	     part = part_from(p, part.to, end)) {
		size_t count;
		struct site_numbers n = sum_counters(p, part, kind, choice, &count);

		if (count == 0)
			continue;
		if (!closed)
			recount(p, part, kind, choice, &n);
		if (parts++ == 0)
			sum = n;
		else
			add_part(p, kind, &sum, &n);
	}
	if (p->timed_of)
		add_times(p, site, choice, &sum);
	return sum;
}

struct site_numbers profile_slots_numbers(const struct profile_process *p,
					  const struct profile_site *site, const bool *slots,
					  bool closed)
{
	return sum_parts(p, site->id, site->kind, (struct choice){ .slots = slots }, closed);
}

struct site_numbers site_numbers_of_counters(const struct profile_process *p, site_id site,
					     enum profile_kind kind,
					     const struct site_counters_row *counters, bool closed)
{
	return sum_parts(p, site, kind, (struct choice){ .one = counters }, closed);
}

/* A site with a single interval has one part, which is the site itself. */
int site_parts(const struct profile_process *p, struct arena *arena,
	       const struct site_numbers ***ret)
{
	const struct site_numbers **parts =
		ARENA_ARRAY(arena, const struct site_numbers *, p->rows->site_count + 1);

	for (size_t i = 0; parts && i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];
		uint32_t at = p->counters_of[site->id.v], end = p->counters_of[site->id.v + 1];

		for (struct part part = part_from(p, at, end); part.from < end;
		     part = part_from(p, part.to, end)) {
			bool whole = part.from == at && part.to == end;
			struct site_numbers *n =
				whole ? NULL : ARENA_NEW(arena, struct site_numbers);

			if (n)
				*n = sum_counters(p, part, site->kind, (struct choice){ 0 }, NULL);
			else if (!whole)
				return -1;
			parts[part_site(p, part.from)] = whole ? &site->numbers : n;
		}
	}
	*ret = parts;
	return parts ? 0 : -1;
}

static uint64_t count_stacks(const struct profile_process *p, struct arena *arena)
{
	size_t words = p->rows->node_count / 64 + 1;
	uint64_t *seen = ARENA_ARRAY(arena, uint64_t, words);
	uint64_t count = 0;

	for (size_t i = 0; seen && i < p->site_count; i++) {
		uint32_t node = p->sites[i].node.v;
		uint64_t bit = UINT64_C(1) << (node % 64);

		count += (seen[node / 64] & bit) == 0;
		seen[node / 64] |= bit;
	}
	return count;
}

/* Derives the site's interval and first use from its parts. */
static void set_intervals(const struct profile_process *p, struct profile_site *site)
{
	uint32_t end = p->counters_of[site->id.v + 1];

	site->born_ns = UINT64_MAX;
	for (uint32_t i = p->counters_of[site->id.v]; i < end; i++) {
		const struct site_counters_row *counters =
			&p->rows->site_counters[p->counters_order[i]];
		const struct site_row *row = &p->rows->sites[counters->site];

		site->born_ns = MIN(site->born_ns, row->born_ns);
		site->interval = MAX(site->interval, row->interval);
		site->has_exact |= row->interval == 0 && (counters->calls || counters->frees);
	}
}

int site_sums_build(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;

	if (order_counters(p, arena) < 0)
		return -1;
	static const enum profile_kind kinds[LIVE_MEMORY_KINDS] = { [LIVE_KIND_HEAP] = PROFILE_HEAP,
								    [LIVE_KIND_MMAP] = PROFILE_MMAP,
								    [LIVE_KIND_POOL] =
									    PROFILE_POOL };
	size_t used = 0, at = 0;

	for (size_t i = 1; i < rows->site_count; i++)
		used += p->counters_of[i + 1] > p->counters_of[i];
	struct profile_site *sites = ARENA_ARRAY(arena, struct profile_site, used);

	if (!sites)
		return -1;
	for (size_t i = 1; i < rows->site_count; i++) {
		const struct site_row *row = &rows->sites[i];

		if (p->counters_of[i + 1] == p->counters_of[i] || row->kind >= LIVE_MEMORY_KINDS)
			continue;
		struct profile_site *site = &sites[at];

		*site = (struct profile_site){
			.id = { (uint32_t)i },
			.node = { fold_node(p, row->node) },
			.tag = { row->tag },
			.kind = kinds[row->kind],
			.entry = row->entry,
		};
		set_intervals(p, site);
		site->numbers = sum_parts(p, site->id, site->kind, (struct choice){ 0 }, true);
		/* Unused sites exist too, such as those created at start-up for allocations without memory for a site. */
		if (site->numbers.calls || site->numbers.frees)
			at++;
	}
	p->sites = sites;
	p->site_count = at;
	p->stacks = count_stacks(p, arena);
	return 0;
}
