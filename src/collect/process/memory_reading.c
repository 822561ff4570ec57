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
	row->live_bytes = totals.live.bytes;
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

static struct memory_flow flow_of(const struct live_totals *t)
{
	return (struct memory_flow){
		.allocated_bytes =
			saturating_add(saturating_add(t->bytes, t->fragmentation), t->map_bytes),
		.released_bytes = saturating_add(
			saturating_add(t->freed_bytes, t->freed_fragmentation), t->unmap_bytes),
	};
}

static bool read_flow(const struct live_profile *profile, struct memory_flow *ret)
{
	AUTO(live_profile_reader_release) struct live_profile reader = LIVE_PROFILE_INIT;
	struct live_totals totals;

	if (!profile || !live_profile_reader(profile, &reader) ||
	    !live_profile_read_totals(&reader, &totals))
		return false;
	*ret = flow_of(&totals);
	return true;
}

/* smaps is read before the records. Memory that is released in between is in smaps alone, and looks unrecorded. */
bool memory_read(struct memory_reading *reading, pid_t pid, const struct live_profile *profile,
		 struct inherited *inherited)
{
	AUTO(block_map_release) struct block_map map = { .pagemap = -1 };
	struct live_totals after;
	bool is_counted = read_flow(profile, &reading->began);

	if (!memory_read_mappings(reading, pid))
		return false;
	/* Blocks in huge pages of hugetlbfs would look as if they had never been written to. */
	bool is_known = is_counted && reading->list.hugetlb_bytes == 0 &&
			is_profile_whole(profile, &reading->list) && block_map_read(profile, &map);

	/* Of now, not of when a sample was prepared: the worker may have been delayed. The profile itself belongs to the loop. */
	if (is_known)
		memory_read_live(&map.reader, &reading->row);
	sheet_fill(pid, &reading->list, is_known ? &map : NULL, inherited, &reading->row);
	if (is_known) {
		bool is_read = live_profile_read_totals(&map.reader, &after);
		uint64_t released = is_read ? saturating_sub(flow_of(&after).released_bytes,
							     reading->began.released_bytes)
					    : UINT64_MAX;

		reading->row.changed_bytes = saturating_add(reading->row.changed_bytes, released);
	}
	read_system(&reading->row);
	return true;
}
