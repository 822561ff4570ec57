/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the rows of chunk_pages to numbers of a process and of its sites. The decoder has checked that sites ascend and exist. Of sites
 * that are merged the numbers are added: a page with blocks of two of them is in any_bytes twice, and not in sole_bytes. Pure.
 */
#include "model/memory/pages.h"

#include "base/checked.h"
#include "format/recording/rows.h"
#include "model/same_sites.h"

#define NS_IN_MS UINT64_C(1000000)

/* Those of a program that another one replaced are gone, and have the pid of its successor. */
bool profile_has_pages(const struct profile_process *p)
{
	return p->rows->pages.sum_count && p->end != PROFILE_BECAME;
}

bool profile_any_pages(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile_has_pages(&profile->processes[i]))
			return true;
	return false;
}

bool profile_pages(const struct profile_process *p, struct profile_pages *ret)
{
	const struct pages_row *row = p->rows->pages.sums;

	*ret = (struct profile_pages){ 0 };
	if (!profile_has_pages(p))
		return false;
	*ret = (struct profile_pages){
		.at_ns = row->at_ns,
		.rss_bytes = row->rss_bytes,
		.sites_bytes = row->sites_bytes,
		.free_bytes = row->free_bytes,
		.unrecorded_bytes = row->unrecorded_bytes,
		.static_bytes = row->static_bytes,
		.stack_bytes = row->stack_bytes,
		.shared_bytes = row->shared_bytes,
		.file_bytes = row->file_bytes,
		.own_bytes = row->own_bytes,
		.changed_bytes = row->changed_bytes,
		.waste_bytes = row->waste_bytes,
		.trim_bytes = row->trim_bytes,
		.changed_blocks = row->changed_blocks,
		.knows_huge = row->knows_huge != 0,
		.at_exit = row->at_exit != 0,
		.has_inherited = row->unknown_blocks & PAGES_INHERITED,
		.has_unrecorded = row->unknown_blocks & PAGES_UNRECORDED,
		.heap_count = p->rows->pages.heap_count,
	};
	return true;
}

static void add(struct site_pages *to, const struct site_pages_row *row)
{
	to->blocks = saturating_add(to->blocks, row->blocks);
	to->live_bytes = saturating_add(to->live_bytes, row->live_bytes);
	to->resident_bytes = saturating_add(to->resident_bytes, row->resident_bytes);
	to->sole_bytes = saturating_add(to->sole_bytes, row->sole_bytes);
	to->any_bytes = saturating_add(to->any_bytes, row->any_bytes);
	to->pinned_bytes = saturating_add(to->pinned_bytes, row->pinned_bytes);
	to->arena_bytes =
		saturating_add(to->arena_bytes, saturating_sub(row->sole_bytes, row->packed_bytes));
	to->swapped_bytes = saturating_add(to->swapped_bytes, row->swapped_bytes);
	to->huge_bytes = saturating_add(to->huge_bytes, row->huge_bytes);
	to->untouched_bytes = saturating_add(to->untouched_bytes, row->untouched_bytes);
	to->zero_bytes = saturating_add(to->zero_bytes, row->zero_bytes);
}

int pages_build(struct profile_process *p, struct arena *arena)
{
	const struct pages_rows *pages = &p->rows->pages;

	if (pages->site_count == 0 || !profile_has_pages(p))
		return 0;
	struct site_pages *sites = ARENA_ARRAY(arena, struct site_pages, p->rows->site_count);

	if (!sites)
		return -1;
	for (size_t i = 0; i < pages->site_count; i++)
		add(&sites[same_site(p, (uint32_t)pages->sites[i].site)], &pages->sites[i]);
	p->pages = sites;
	return 0;
}

struct site_pages profile_site_pages(const struct profile_process *p, site_id site)
{
	return p->pages && site.v < p->rows->site_count ? p->pages[site.v]
							: (struct site_pages){ 0 };
}

const struct profile_site *profile_find_site(const struct profile_process *p, uint64_t id)
{
	return id < p->rows->site_count ? same_site_find(p, (uint32_t)id) : NULL;
}

struct profile_heap profile_heap_at(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->pages.heap_count);
	const struct heap_row *row = &p->rows->pages.heaps[index];

	return (struct profile_heap){
		.start = row->start,
		.size_bytes = row->size_bytes,
		.resident_bytes = row->resident_bytes,
		.free_bytes = row->free_bytes,
		.is_main = row->is_main != 0,
		.held_bytes = row->held_bytes,
		.holder_blocks = row->holder_blocks,
		.holder_bytes = row->holder_bytes,
		.holder_age_ns = saturating_mul(row->holder_age_ms, NS_IN_MS),
		.holder = same_site_find(p, (uint32_t)row->holder_site),
	};
}
