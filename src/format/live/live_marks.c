/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the marks of a live profile, and the live bytes of every site: now, or saved at a mark. The target writes the ring of
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
	copy_name(&view, mark.name, ret->name);
	return true;
}

/* Allocates zeroed values for the published sites; NULL: out of memory. */
static struct snapshot_site *new_sites(const struct live_view *view, size_t *ret_count)
{
	size_t count = live_view_used(view, LIVE_SITES);
	struct snapshot_site *sites = calloc(count + 1, sizeof *sites);

	for (size_t i = 0; sites && i < count; i++)
		sites[i].site = (uint32_t)i;
	*ret_count = count;
	return sites;
}

/* The site of these counters; NULL: they are not published yet, or it is not in `sites`. */
static struct snapshot_site *site_of(const struct live_site_counters *counters,
				     struct snapshot_site *sites, size_t site_count)
{
	uint32_t site = __atomic_load_n(&counters->site, __ATOMIC_ACQUIRE);

	return site == 0 || site >= site_count ? NULL : &sites[site];
}

/* Modulo 2^64: the numbers are untrusted. */
static void site_add(struct snapshot_site *site, uint64_t blocks, uint64_t bytes)
{
	site->blocks = (int64_t)((uint64_t)site->blocks + blocks);
	site->bytes = (int64_t)((uint64_t)site->bytes + bytes);
}

int live_read_site_live(const void *memory, uint64_t mapped_bytes, struct snapshot_site **ret,
			size_t *ret_count)
{
	struct live_view view;
	const struct live_site_counters *site_counters;
	struct snapshot_site *sites;
	size_t site_counters_count, site_count;

	if (live_view_init(&view, memory, mapped_bytes))
		return -1;
	site_counters = live_view_at(&view, LIVE_SITE_COUNTERS);
	site_counters_count = live_view_used(&view, LIVE_SITE_COUNTERS);
	/* Loaded after the counters that refer to it; sites created later are left out with their blocks. */
	sites = new_sites(&view, &site_count);
	if (!sites)
		return -1;
	for (size_t i = 0; i < site_counters_count; i++) {
		const struct live_site_counters *c = &site_counters[i];
		struct snapshot_site *site = site_of(c, sites, site_count);

		if (site)
			site_add(site, 0 - LIVE_LOAD(c->frees), 0 - LIVE_LOAD(c->freed_bytes));
	}
	live_view_fence();
	site_counters_count = live_view_used(&view, LIVE_SITE_COUNTERS);
	for (size_t i = 0; i < site_counters_count; i++) {
		const struct live_site_counters *c = &site_counters[i];
		struct snapshot_site *site = site_of(c, sites, site_count);

		if (site)
			site_add(site, LIVE_LOAD(c->calls), LIVE_LOAD(c->bytes));
	}
	*ret = sites;
	*ret_count = site_count;
	return 0;
}

int live_read_site_saved(const void *memory, uint64_t mapped_bytes,
			 const struct live_mark_read *mark, struct snapshot_site **ret,
			 size_t *ret_count)
{
	struct live_view view;
	const struct live_site_counters *site_counters;
	const struct live_saved *saved;
	struct snapshot_site *sites;
	size_t site_counters_count, site_count, size, at;

	if (live_view_init(&view, memory, mapped_bytes))
		return -1;
	size = view.region[LIVE_SAVED].bytes / sizeof *saved;
	at = size ? (size_t)(mark->saved_at % size) : 0;
	if (!range_within(at, mark->site_counters_count, size))
		return -1;
	saved = (const struct live_saved *)live_view_at(&view, LIVE_SAVED) + at;
	site_counters = live_view_at(&view, LIVE_SITE_COUNTERS);
	site_counters_count =
		MIN((size_t)mark->site_counters_count, live_view_used(&view, LIVE_SITE_COUNTERS));
	sites = new_sites(&view, &site_count);
	if (!sites)
		return -1;
	for (size_t i = 1; i < site_counters_count; i++) {
		struct snapshot_site *site = site_of(&site_counters[i], sites, site_count);

		if (site)
			site_add(site, LIVE_LOAD(saved[i].blocks), LIVE_LOAD(saved[i].bytes));
	}
	*ret = sites;
	*ret_count = site_count;
	return 0;
}

struct live_sum live_sum_heap(const void *memory, uint64_t mapped_bytes,
			      const struct snapshot_site *sites, size_t count)
{
	struct live_view view;
	struct live_sum sum = { 0 };

	if (live_view_init(&view, memory, mapped_bytes))
		return sum;
	const struct live_site *all = live_view_at(&view, LIVE_SITES);

	for (size_t i = 1; i < count; i++) {
		if (LIVE_LOAD(all[i].kind) != LIVE_KIND_HEAP)
			continue;
		sum.bytes += (uint64_t)sites[i].bytes;
		sum.blocks += (uint64_t)sites[i].blocks;
	}
	return sum;
}
