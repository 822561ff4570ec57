/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts ages by site counters to ages by site: a counting sort, then a sort of each site's rows by age
 * that merges equal ages of several threads.
 *
 * build.c checked the rows: all site counters exist, and every bucket is at most 64.
 */
#include "model/ages.h"

#include <stdlib.h>

#include "base/checked.h"
#include "model/same_sites.h"

static struct profile_age age_of(const struct profile_process *p, const struct age_row *row)
{
	uint64_t low = row->bucket ? UINT64_C(1) << (row->bucket - 1) : 0;
	uint64_t high = row->bucket < 64 ? UINT64_C(1) << row->bucket : UINT64_MAX;

	return (struct profile_age){
		.low_ms = low,
		.high_ms = profile_age_limit(p, low, high),
		.blocks = row->blocks,
		.bytes = row->bytes,
	};
}

static int compare_ages(const void *left, const void *right)
{
	const struct profile_age *a = left, *b = right;

	return a->low_ms < b->low_ms ? -1 : a->low_ms > b->low_ms;
}

/* Sorts the ages in [begin, end) and writes them, with equal ones summed, to `to`. Returns the end of the output. */
static uint32_t merge(struct profile_age *at, uint32_t begin, uint32_t end, uint32_t to)
{
	uint32_t start = to;

	if (end - begin > 1)
		qsort(at + begin, end - begin, sizeof *at, compare_ages);
	for (uint32_t i = begin; i < end; i++) {
		if (to > start && at[to - 1].low_ms == at[i].low_ms) {
			at[to - 1].blocks = saturating_add(at[to - 1].blocks, at[i].blocks);
			at[to - 1].bytes = saturating_add(at[to - 1].bytes, at[i].bytes);
		} else {
			at[to++] = at[i];
		}
	}
	return to;
}

static uint32_t site_of(const struct profile_process *p, size_t age)
{
	return same_site(p, p->rows->site_counters[p->rows->ages[age].counters].site);
}

static bool is_of(const struct process_rows *rows, size_t age, const bool *slots)
{
	return !slots || slots[rows->site_counters[rows->ages[age].counters].slot];
}

int profile_ages(const struct profile_process *p, const bool *slots, struct arena *arena,
		 struct profile_ages *ret)
{
	const struct process_rows *rows = p->rows;
	uint32_t *first = ARENA_ARRAY(arena, uint32_t, rows->site_count + 2);
	struct profile_age *at = ARENA_ARRAY(arena, struct profile_age, rows->age_count);

	if (!first || !at)
		return -1;
	for (size_t i = 0; i < rows->age_count; i++)
		first[site_of(p, i) + 1] += is_of(rows, i, slots);
	for (size_t i = 0; i < rows->site_count; i++)
		first[i + 1] += first[i];
	for (size_t i = 0; i < rows->age_count; i++)
		if (is_of(rows, i, slots))
			at[first[site_of(p, i)]++] = age_of(p, &rows->ages[i]);
	/* Each first[i] has advanced to its end, which is where the next site began. */
	uint32_t begin = 0, to = 0;

	for (size_t i = 0; i < rows->site_count; i++) {
		uint32_t end = first[i];

		first[i] = to;
		to = merge(at, begin, end, to);
		begin = end;
	}
	first[rows->site_count] = to;
	*ret = (struct profile_ages){ at, first, rows->site_count };
	return 0;
}

size_t profile_live_size_count(const struct profile_process *p)
{
	return p->rows->live_size_count;
}

struct profile_live_size profile_live_size(const struct profile_process *p, size_t index)
{
	const struct live_size_row *row = &p->rows->live_sizes[index];
	const struct site_counters_row *counters = &p->rows->site_counters[row->counters];

	return (struct profile_live_size){
		{ same_site(p, counters->site) }, counters->slot, row->low, row->high, row->blocks
	};
}

size_t profile_size_moment_count(const struct profile_process *p)
{
	return p->rows->size_moment_count;
}

struct profile_size_moment profile_size_moment(const struct profile_process *p, size_t index)
{
	const struct size_moment_row *row = &p->rows->size_moments[index];
	const uint64_t class = row->size_class;

	return (struct profile_size_moment){
		.at_ns = row->at_ns,
		.low = class ? UINT64_C(1) << (class - 1) : 0,
		.high = class == PAIR_CLASSES - 1 ? UINT64_MAX : (UINT64_C(1) << class) - 1,
		.blocks = row->blocks,
		.bytes = row->bytes,
	};
}

static void add_to_class(uint64_t sums[PAIR_CLASSES], uint64_t size, uint64_t blocks)
{
	uint64_t *sum = &sums[live_pair_class(size)];

	*sum = saturating_add(*sum, blocks);
}

/* Blocks that were freed within a tick are not counted by pairs, since that would cost every free: they are the calls of their size
 * less those that are live and those that lived longer. */
static void add_short_lives(const struct process_rows *rows,
			    uint64_t sums[PAIR_CLASSES][PAIR_CLASSES])
{
	uint64_t calls[PAIR_CLASSES] = { 0 }, others[PAIR_CLASSES] = { 0 };

	for (size_t i = 0; i < rows->site_counters_count; i++) {
		const struct site_counters_row *row = &rows->site_counters[i];

		for (uint32_t k = 0; k < row->sizes_count; k++)
			if (rows->sites[row->site].kind == LIVE_KIND_HEAP)
				add_to_class(calls, rows->bars[row->sizes_at + k].low,
					     rows->bars[row->sizes_at + k].count);
	}
	for (size_t i = 0; i < rows->live_size_count; i++)
		if (rows->sites[rows->site_counters[rows->live_sizes[i].counters].site].kind ==
		    LIVE_KIND_HEAP)
			add_to_class(others, rows->live_sizes[i].low, rows->live_sizes[i].blocks);
	for (size_t i = 0; i < rows->pair_count; i++) {
		const struct pair_row *row = &rows->pairs[i];

		if (row->kind == LIVE_PAIRS_LIFETIME)
			others[row->first] = saturating_add(others[row->first], row->count);
	}
	for (size_t i = 0; i < PAIR_CLASSES; i++)
		sums[i][0] = saturating_add(sums[i][0], saturating_sub(calls[i], others[i]));
}

void profile_pairs_add(const struct profile_process *p, enum profile_pairs_kind kind,
		       uint64_t sums[PAIR_CLASSES][PAIR_CLASSES])
{
	const struct process_rows *rows = p->rows;
	const uint32_t wanted = kind == PAIRS_REALLOC ? LIVE_PAIRS_REALLOC : LIVE_PAIRS_LIFETIME;

	_Static_assert((int)PAIR_CLASSES == (int)LIVE_PAIR_CLASSES, "classes are as recorded");
	for (size_t i = 0; i < rows->pair_count; i++) {
		const struct pair_row *row = &rows->pairs[i];
		uint64_t *sum = &sums[row->first][row->second];

		if (row->kind == wanted)
			*sum = saturating_add(*sum, row->count);
	}
	if (kind == PAIRS_LIFETIME)
		add_short_lives(rows, sums);
}
