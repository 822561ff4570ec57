/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of the rows that an image adds to a recording. A writer sorts them by site, but a file may not be: they are searched one by one,
 * from the first of a site that a binary search finds, and a file that is not sorted shows less. Pure; any thread.
 */
#include "model/image/reach.h"

#include "base/checked.h"
#include "format/recording/rows.h"
#include "model/same_sites.h"
#include "util/search.h"

bool profile_has_reach(const struct profile_process *p)
{
	return p->rows->image.reach_count > 0;
}

bool profile_any_reach(const struct profile *profile)
{
	for (size_t i = 0; i < profile->process_count; i++)
		if (profile_has_reach(&profile->processes[i]))
			return true;
	return false;
}

static void add(struct profile_reach *sum, const struct reach_site_row *row)
{
	sum->blocks[row->class] = saturating_add(sum->blocks[row->class], row->blocks);
	sum->bytes[row->class] = saturating_add(sum->bytes[row->class], row->bytes);
	sum->interior_blocks = saturating_add(sum->interior_blocks, row->interior_blocks);
}

/* The first row of a site or of a later one. */
static size_t first_row(const struct process_rows *rows, uint32_t site)
{
	return FIRST_WHERE(i, rows->image.reach_site_count,
			   rows->image.reach_sites[i].site >= site);
}

/* What several parts retain is not the sum, since one may retain another: at least as much as each. */
static void add_retained(const struct process_rows *rows, uint32_t site, struct profile_reach *sum)
{
	size_t low =
		FIRST_WHERE(i, rows->image.retained_count, rows->image.retained[i].site >= site);

	if (low == rows->image.retained_count || rows->image.retained[low].site != site)
		return;
	sum->retained_bytes = MAX(sum->retained_bytes, rows->image.retained[low].bytes);
}

struct profile_reach profile_site_reach(const struct profile_process *p, site_id site)
{
	const struct process_rows *rows = p->rows;
	struct profile_reach sum = { 0 };

	for (uint32_t part = site.v; part; part = same_site_next(p, part)) {
		for (size_t i = first_row(rows, part);
		     i < rows->image.reach_site_count && rows->image.reach_sites[i].site == part;
		     i++)
			add(&sum, &rows->image.reach_sites[i]);
		add_retained(rows, part, &sum);
	}
	return sum;
}

struct profile_reach profile_process_reach(const struct profile_process *p)
{
	struct profile_reach sum = { 0 };

	for (size_t i = 0; i < p->rows->image.reach_site_count; i++)
		add(&sum, &p->rows->image.reach_sites[i]);
	return sum;
}

struct profile_image profile_image(const struct profile_process *p)
{
	const struct reach_row *row = p->rows->image.reach;

	return profile_has_reach(p)
		       ? (struct profile_image){ row->stopped_ns, row->in_flight,
						 row->unreadable_bytes, row->references,
						 row->taken <= REACH_CORE
							 ? (enum reach_taken)row->taken
							 : REACH_STOPPED }
		       : (struct profile_image){ 0 };
}

static uint64_t sum_unreachable(const uint64_t by_class[REACH_CLASSES])
{
	uint64_t sum = 0;

	for (unsigned i = REACH_ROOT_CLASSES; i < REACH_CLASSES; i++)
		sum = saturating_add(sum, by_class[i]);
	return sum;
}

uint64_t reach_unreachable_bytes(const struct profile_reach *reach)
{
	return sum_unreachable(reach->bytes);
}

uint64_t reach_unreachable_blocks(const struct profile_reach *reach)
{
	return sum_unreachable(reach->blocks);
}

const char *reach_class_name(enum reach_class class)
{
#define NAME(id, name, sentence) [id] = name,
	static const char *const names[REACH_CLASSES] = { REACH_CLASS_TABLE(NAME) };
#undef NAME
	return names[class];
}
