/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sites that differ only in their sampling interval or in omitted frames, and sums their live numbers at the snapshots.
 *
 * Most recordings have a single interval and need no table. The rows are not modified: they may be written again.
 *
 * Invariant: of[i] <= i, and of[of[i]] == of[i].
 */
#include "model/same_sites.h"

#include <stdlib.h>

#include "base/hash.h"
#include "model/frames/fold.h"
#include "util/cleanup.h"
#include "util/search.h"

static bool has_intervals(const struct process_rows *rows)
{
	for (size_t i = 2; i < rows->site_count; i++)
		if (rows->sites[i].interval != rows->sites[1].interval)
			return true;
	return false;
}

static bool are_same(const struct profile_process *p, size_t left, size_t right)
{
	const struct site_row *a = &p->rows->sites[left], *b = &p->rows->sites[right];

	return fold_node(p, a->node) == fold_node(p, b->node) && a->tag == b->tag &&
	       a->kind == b->kind && a->entry == b->entry;
}

/* With a seed that no file can know: sites that all hash to one place would take forever. */
static uint64_t hash_of(const struct profile_process *p, size_t site, uint64_t seed)
{
	const struct site_row *row = &p->rows->sites[site];
	uint64_t hash = hash_combine(hash_mix(seed), fold_node(p, row->node));

	return hash_combine(hash,
			    (uint64_t)row->tag << 32 ^ (uint64_t)row->kind << 16 ^ row->entry);
}

/* Returns the number of sites that are part of another; -1 if out of memory. Site 0 is invalid. */
static ptrdiff_t find_same(const struct profile_process *p, uint32_t *of)
{
	size_t mask = 1;
	ptrdiff_t found = 0;

	while (mask < p->rows->site_count * 2)
		mask = mask * 2 + 1;
	AUTO_FREE uint32_t *first = calloc(mask + 1, sizeof *first);

	if (!first)
		return -1;
	for (size_t i = 1; i < p->rows->site_count; i++) {
		size_t at = (size_t)hash_of(p, i, (uintptr_t)first) & mask;

		while (first[at] && !are_same(p, first[at], i))
			at = (at + 1) & mask;
		found += first[at] != 0;
		if (!first[at])
			first[at] = (uint32_t)i;
		of[i] = first[at];
	}
	return found;
}

/* Modulo 2^64: input is hostile, and the numbers may overflow. */
static int64_t moved(int64_t sum, int64_t from, int64_t to)
{
	return (int64_t)((uint64_t)sum - (uint64_t)from + (uint64_t)to);
}

struct held {
	struct snapshot_site own, sum; /* by site of the rows; by merged site */
	uint32_t
		change; /* index + 1 of the sum's change; one of an older snapshot is not above at[i] */
};

static int add_changes(const struct process_rows *rows, struct same_sites *same,
		       struct arena *arena)
{
	AUTO_FREE struct held *held = calloc(rows->site_count, sizeof *held);
	size_t total = 0;
	uint32_t used = 0;

	/* In a damaged file, two snapshots may share rows. */
	for (size_t i = 0; i < rows->snapshot_count; i++)
		total += rows->snapshots[i].sites_count;
	struct snapshot_site *changes = ARENA_ARRAY(arena, struct snapshot_site, total);
	uint32_t *at = ARENA_ARRAY(arena, uint32_t, rows->snapshot_count + 1);

	if (!held || !changes || !at || total >= UINT32_MAX)
		return -1;
	for (size_t i = 0; i < rows->snapshot_count; i++) {
		const struct snapshot_row *row = &rows->snapshots[i];

		at[i] = used;
		for (size_t j = 0; j < row->sites_count; j++) {
			const struct snapshot_site *now = &rows->snapshot_sites[row->sites_at + j];
			struct snapshot_site *own = &held[now->site].own;
			struct held *shown = &held[same->of[now->site]];

			shown->sum.bytes = moved(shown->sum.bytes, own->bytes, now->bytes);
			shown->sum.blocks = moved(shown->sum.blocks, own->blocks, now->blocks);
			shown->sum.site = same->of[now->site];
			*own = *now;
			if (shown->change <= at[i])
				shown->change = ++used;
			changes[shown->change - 1] = shown->sum;
		}
	}
	at[rows->snapshot_count] = used;
	same->changes = changes;
	same->changes_at = at;
	return 0;
}

/* The parts of each site in a chain, in the order of the rows. */
static int chain(const struct process_rows *rows, struct same_sites *same, struct arena *arena)
{
	uint32_t *next = ARENA_ARRAY(arena, uint32_t, rows->site_count);
	AUTO_FREE uint32_t *last = calloc(rows->site_count, sizeof *last);

	if (!next || !last)
		return -1;
	for (uint32_t i = 1; i < rows->site_count; i++) {
		next[last[same->of[i]]] = i;
		last[same->of[i]] = i;
	}
	next[0] = 0;
	same->next = next;
	return 0;
}

int same_sites_build(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;

	if (!p->fold && !has_intervals(rows))
		return 0;
	struct same_sites *same = ARENA_NEW(arena, struct same_sites);
	uint32_t *of = ARENA_ARRAY(arena, uint32_t, rows->site_count);
	ptrdiff_t found = same && of ? find_same(p, of) : -1;

	if (found <= 0)
		return found < 0 ? -1 : 0;
	same->of = of;
	p->same = same;
	return chain(rows, same, arena) < 0 ? -1 : add_changes(rows, same, arena);
}

const struct profile_site *same_site_find(const struct profile_process *p, uint32_t row_site)
{
	uint32_t id = same_site(p, row_site);
	size_t low = FIRST_WHERE(i, p->site_count, p->sites[i].id.v >= id);

	return low < p->site_count && p->sites[low].id.v == id ? &p->sites[low] : NULL;
}
