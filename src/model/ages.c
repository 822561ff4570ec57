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

static struct profile_age age_of(const struct age_row *row)
{
	return (struct profile_age){
		.low_ms = row->bucket ? UINT64_C(1) << (row->bucket - 1) : 0,
		.high_ms = row->bucket < 64 ? UINT64_C(1) << row->bucket : UINT64_MAX,
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
			at[first[site_of(p, i)]++] = age_of(&rows->ages[i]);
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
