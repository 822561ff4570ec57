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

#include "model/frames/fold.h"
#include "util/cleanup.h"

struct key {
	uint32_t node, tag, kind, entry, id;
};

static int compare_keys(const void *left, const void *right)
{
	const struct key *a = left, *b = right;

	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	if (a->tag != b->tag)
		return a->tag < b->tag ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->entry != b->entry)
		return a->entry < b->entry ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static bool has_intervals(const struct process_rows *rows)
{
	for (size_t i = 2; i < rows->site_count; i++)
		if (rows->sites[i].interval != rows->sites[1].interval)
			return true;
	return false;
}

/* Whether two sites have the same node and kind, without which none are the same. 1: yes; 0: no; -1: out of memory. Most
 * profiles have no such sites, and looking takes less than sorting. */
static int share_node(const struct profile_process *p)
{
	AUTO_FREE uint64_t *seen = calloc(p->rows->node_count * LIVE_KINDS / 64 + 1, sizeof *seen);

	if (!seen)
		return -1;
	for (size_t i = 1; i < p->rows->site_count; i++) {
		const struct site_row *site = &p->rows->sites[i];
		size_t at = (size_t)fold_node(p, site->node) * LIVE_KINDS + site->kind;
		uint64_t bit = UINT64_C(1) << (at % 64);

		if (seen[at / 64] & bit)
			return 1;
		seen[at / 64] |= bit;
	}
	return 0;
}

/* Returns the number of sites that are part of another; -1 if out of memory. Site 0 is invalid. */
static ptrdiff_t find_same(const struct profile_process *p, uint32_t *of)
{
	const struct process_rows *rows = p->rows;
	AUTO_FREE struct key *keys = calloc(rows->site_count + 1, sizeof *keys);
	ptrdiff_t found = 0;

	if (!keys)
		return -1;
	for (size_t i = 1; i < rows->site_count; i++)
		keys[i] = (struct key){ fold_node(p, rows->sites[i].node), rows->sites[i].tag,
					rows->sites[i].kind, rows->sites[i].entry, (uint32_t)i };
	qsort(keys + 1, rows->site_count - 1, sizeof *keys, compare_keys);
	for (size_t i = 1; i < rows->site_count; i++) {
		const struct key *key = &keys[i], *before = &keys[i - 1];
		bool same = i > 1 && key->node == before->node && key->tag == before->tag &&
			    key->kind == before->kind && key->entry == before->entry;

		of[key->id] = same ? of[before->id] : key->id;
		found += same;
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

int same_sites_build(struct profile_process *p, struct arena *arena)
{
	const struct process_rows *rows = p->rows;

	int shared = p->fold || has_intervals(rows) ? share_node(p) : 0;

	if (shared <= 0)
		return shared;
	struct same_sites *same = ARENA_NEW(arena, struct same_sites);
	uint32_t *of = ARENA_ARRAY(arena, uint32_t, rows->site_count);
	ptrdiff_t found = same && of ? find_same(p, of) : -1;

	if (found <= 0)
		return found < 0 ? -1 : 0;
	same->of = of;
	p->same = same;
	return add_changes(rows, same, arena);
}
