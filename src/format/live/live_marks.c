/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the marks of a live profile, and the numbers of every site: now, or saved at a mark. The target writes the ring of
 * saved values; the mark that refers to them publishes them, and the target does not overwrite them before the collector has
 * confirmed that it read them. A target that violates this corrupts only its own numbers. Any thread.
 */
#include "format/live/live_marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "format/live/live_read.h"
#include "format/live/live_view.h"

static void copy_name(const struct live_view *view, uint32_t name, char to[LIVE_TAG_TEXT_MAX + 1])
{
	const struct live_tag *tags = live_view_at(view, LIVE_TAGS);
	struct live_tag tag = { 0 };

	if (name > 0 && name < live_view_used(view, LIVE_TAGS))
		memcpy(&tag, &tags[name], sizeof tag);
	live_view_tag_text(view, &tag, to);
}

bool live_mark_get(const void *memory, uint64_t mapped_bytes, size_t index,
		   struct live_mark_read *ret)
{
	struct live_view view;
	const struct live_mark *marks;
	struct live_mark mark;

	if (live_view_init(&view, memory, mapped_bytes) ||
	    index >= live_view_used(&view, LIVE_MARKS))
		return false;
	marks = live_view_at(&view, LIVE_MARKS);
	if (__atomic_load_n(&marks[index].there, __ATOMIC_ACQUIRE) == 0)
		return false;
	memcpy(&mark, &marks[index], sizeof mark);
	*ret = (struct live_mark_read){
		.kind = mark.kind == LIVE_MARK_SNAPSHOT ? LIVE_MARK_SNAPSHOT : LIVE_MARK_POINT,
		.mono_ns = mark.mono_ns,
		.at_ms = mark.at_ms,
		.saved = mark.saved_count != 0,
		.saved_at = mark.saved_at,
		.saved_count = mark.saved_count,
		.site_counters_count = mark.site_counters_count,
	};
	if (mark.saved_arrays >= LIVE_SAVED_ARRAYS &&
	    mark.site_counters_count <= mark.saved_count / mark.saved_arrays)
		ret->saved_stride = mark.saved_count / mark.saved_arrays;
	copy_name(&view, mark.name, ret->name);
	return true;
}

void live_sites_release(struct live_sites *sites)
{
	free(sites->live);
	free(sites->counts);
	free(sites->moves);
	*sites = (struct live_sites){ 0 };
}

/* Allocates zeroed values for the published sites; -1: out of memory. */
static int new_sites(const struct live_view *view, struct live_sites *ret)
{
	size_t count = live_view_used(view, LIVE_SITES);

	*ret = (struct live_sites){ calloc(count + 1, sizeof *ret->live),
				    calloc(count + 1, sizeof *ret->counts), count,
				    calloc(count + 1, sizeof *ret->moves) };
	if (!ret->live || !ret->counts || !ret->moves) {
		live_sites_release(ret);
		return -1;
	}
	for (size_t i = 0; i < count; i++)
		ret->live[i].site = (uint32_t)i;
	return 0;
}

/* The site of these counters; 0, which is none: they are not published yet, or it is not in `sites`. */
static uint32_t site_of(const struct live_site_counters *counters, const struct live_sites *sites)
{
	uint32_t site = __atomic_load_n(&counters->site, __ATOMIC_ACQUIRE);

	return site < sites->count ? site : 0;
}

/* Modulo 2^64: the numbers are untrusted. */
static void site_add(struct snapshot_site *site, uint64_t blocks, uint64_t bytes)
{
	site->blocks = (int64_t)((uint64_t)site->blocks + blocks);
	site->bytes = (int64_t)((uint64_t)site->bytes + bytes);
}

static void counts_add(struct snapshot_counts *sum, struct snapshot_counts part)
{
	sum->calls += part.calls;
	sum->bytes += part.bytes;
	sum->temporary += part.temporary;
	sum->fragmentation += part.fragmentation;
}

/* Site 0 gets what belongs to no site. */
static void clear_none(struct live_sites *sites)
{
	sites->live[0] = (struct snapshot_site){ 0 };
	sites->counts[0] = (struct snapshot_counts){ 0 };
}

int live_read_sites(const void *memory, uint64_t mapped_bytes, const struct live_copy_moves *moves,
		    struct live_sites *ret)
{
	struct live_view view;
	const struct live_site_counters *site_counters;
	size_t site_counters_count, i;

	if (live_view_init(&view, memory, mapped_bytes))
		return -1;
	site_counters = live_view_at(&view, LIVE_SITE_COUNTERS);
	site_counters_count = live_view_used(&view, LIVE_SITE_COUNTERS);
	/* Loaded after the counters that refer to it; sites created later are left out with their blocks. */
	if (new_sites(&view, ret) < 0)
		return -1;
	for (i = 0; i < site_counters_count; i++) {
		const struct live_site_counters *c = &site_counters[i];
		const struct snapshot_counts counts = { LIVE_LOAD(c->calls), LIVE_LOAD(c->bytes),
							LIVE_LOAD(c->temporary),
							LIVE_LOAD(c->fragmentation) };
		uint32_t site = site_of(c, ret);

		site_add(&ret->live[site], counts.calls - LIVE_LOAD(c->frees),
			 counts.bytes - LIVE_LOAD(c->freed_bytes));
		counts_add(&ret->counts[site], counts);
		if (moves && i < moves->site_counters.count)
			live_moves_add_one(&ret->moves[site], moves->site_counters.at[i]);
	}
	for (; moves && i < moves->site_counters.count; i++)
		live_moves_add_missing(&ret->moves[0], moves->site_counters.at[i]);
	clear_none(ret);
	return 0;
}

int live_read_saved_sites(const void *memory, uint64_t mapped_bytes,
			  const struct live_mark_read *mark, struct live_sites *ret)
{
	struct live_view view;
	const struct live_site_counters *site_counters;
	const struct live_saved *saved;
	size_t site_counters_count, size, at, stride = mark->saved_stride;

	if (live_view_init(&view, memory, mapped_bytes))
		return -1;
	size = view.region[LIVE_SAVED].bytes / sizeof *saved;
	at = size ? (size_t)(mark->saved_at % size) : 0;
	if (!range_within(at, stride ? mark->saved_count : mark->site_counters_count, size))
		return -1;
	saved = (const struct live_saved *)live_view_at(&view, LIVE_SAVED) + at;
	site_counters = live_view_at(&view, LIVE_SITE_COUNTERS);
	site_counters_count =
		MIN((size_t)mark->site_counters_count, live_view_used(&view, LIVE_SITE_COUNTERS));
	if (new_sites(&view, ret) < 0)
		return -1;
	for (size_t i = 1; i < site_counters_count; i++) {
		uint32_t site = site_of(&site_counters[i], ret);

		site_add(&ret->live[site], LIVE_LOAD(saved[i].blocks), LIVE_LOAD(saved[i].bytes));
		if (!stride)
			continue;
		const struct live_saved *all = &saved[LIVE_SAVED_ALLOCATED * stride + i];
		const struct live_saved *other = &saved[LIVE_SAVED_OTHER * stride + i];

		counts_add(&ret->counts[site],
			   (struct snapshot_counts){ LIVE_LOAD(all->blocks), LIVE_LOAD(all->bytes),
						     LIVE_LOAD(other->blocks),
						     LIVE_LOAD(other->bytes) });
	}
	clear_none(ret);
	if (stride)
		live_moves_add_missing(&ret->moves[0],
				       (struct live_moved){ LIVE_LOAD(saved[0].blocks),
							    LIVE_LOAD(saved[0].bytes) });
	if (!stride) {
		free(ret->counts);
		ret->counts = NULL;
	}
	return 0;
}

struct live_moved live_site_bound(const struct live_sites *sites, size_t site)
{
	struct live_moves moves = sites->moves[site];

	live_moves_add(&moves, &sites->moves[0]);
	return live_moves_bound(&moves);
}

struct live_now live_sum_heap(const void *memory, uint64_t mapped_bytes,
			      const struct live_sites *sites)
{
	struct live_view view;
	struct snapshot_site sum = { 0 };
	struct live_moves moves = sites->moves[0];

	if (live_view_init(&view, memory, mapped_bytes))
		return (struct live_now){ 0 };
	const struct live_site *all = live_view_at(&view, LIVE_SITES);

	for (size_t i = 1; i < sites->count; i++) {
		if (LIVE_LOAD(all[i].kind) != LIVE_KIND_HEAP)
			continue;
		site_add(&sum, (uint64_t)sites->live[i].blocks, (uint64_t)sites->live[i].bytes);
		live_moves_add(&moves, &sites->moves[i]);
	}
	return live_now_of((uint64_t)sum.bytes, (uint64_t)sum.blocks, &moves);
}
