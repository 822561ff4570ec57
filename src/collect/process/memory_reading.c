/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/process/memory_reading.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "collect/kernel/pagemap.h"
#include "collect/kernel/procfs.h"
#include "collect/kernel/stack_guards.h"
#include "util/cleanup.h"

void memory_reading_release(struct memory_reading *reading)
{
	smaps_release(&reading->list);
	free(TAKE(reading->text));
}

bool memory_read_mappings(struct memory_reading *reading, pid_t pid)
{
	AUTO_CLOSE int pagemap = pagemap_open(pid);

	reading->text = procfs_file(pid, "smaps", NULL);
	return reading->text && smaps_parse(reading->text, &reading->list) &&
	       stack_guards_find(pagemap, &reading->list);
}

/* An allocator may report a different usable size for a block while it is live: negative counts as 0. */
uint64_t memory_live_fragmentation(const struct live_totals *totals)
{
	int64_t fragmentation = (int64_t)(totals->fragmentation - totals->freed_fragmentation);

	return (uint64_t)MAX(fragmentation, (int64_t)0);
}

void memory_read_live(struct live_profile *reader, struct memory_row *row)
{
	struct live_totals totals;

	if (!live_profile_read_totals(reader, &totals))
		return;
	row->live_bytes = saturating_sub(totals.bytes, totals.freed_bytes);
	row->fragmentation_bytes = memory_live_fragmentation(&totals);
	row->map_live_bytes = totals.map_live_bytes;
}

static void read_system(struct memory_row *row)
{
	struct procfs_system system = procfs_system();

	row->system_bytes = system.total_bytes;
	row->system_available_bytes = system.available_bytes;
	row->system_cached_bytes = system.cached_bytes;
	row->system_swap_bytes = system.swapped_bytes;
}

/* In the memory of the process, what was swapped out of the profile looks like holes: blocks would be missing. */
static bool is_profile_whole(const struct live_profile *profile, const struct smaps *list)
{
	for (size_t i = 0; profile->held.fd < 0 && i < list->list.count; i++)
		if (list->list.at[i].kind == MAPPING_OWN && list->list.at[i].swap_bytes > 0)
			return false;
	return true;
}

bool memory_read(struct memory_reading *reading, pid_t pid, const struct live_profile *profile,
		 struct inherited *inherited)
{
	AUTO(block_map_release) struct block_map map = { .pagemap = -1 };

	if (!memory_read_mappings(reading, pid))
		return false;
	/* Blocks in huge pages of hugetlbfs would look as if they had never been written to. */
	bool is_known = profile && reading->list.hugetlb_bytes == 0 &&
			is_profile_whole(profile, &reading->list) && block_map_read(profile, &map);

	/* Of now, not of when a sample was prepared: the worker may have been delayed. The profile itself belongs to the loop. */
	if (is_known)
		memory_read_live(&map.reader, &reading->row);
	sheet_fill(pid, &reading->list, is_known ? &map : NULL, inherited, &reading->row);
	read_system(&reading->row);
	return true;
}
