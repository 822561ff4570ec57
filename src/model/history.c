/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the rows about time to types of the model.
 *
 * build.c checked the rows: a snapshot's changes are inside their table and name existing sites.
 * Nothing is copied until requested.
 */
#include "model/history.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
#include "model/same_sites.h"

size_t profile_sample_count(const struct profile_process *p)
{
	return p->rows->series_count;
}

struct profile_sample profile_sample(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->series_count);
	const struct series_row *row = &p->rows->series[index];

	return (struct profile_sample){
		.at_ns = row->at_ns,
		.live_bytes = row->live_bytes,
		.live_blocks = row->live_blocks,
		.calls = row->calls,
		.bytes = row->bytes,
		.frees = row->frees,
		.rss_bytes = row->rss_bytes,
		.threads = row->threads,
		.map_live_bytes = row->map_live_bytes,
		.own_bytes = row->own_bytes,
	};
}

size_t profile_snapshot_count(const struct profile_process *p)
{
	return p->rows->snapshot_count;
}

struct profile_snapshot profile_snapshot(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->snapshot_count);
	const struct snapshot_row *row = &p->rows->snapshots[index];
	size_t changes = p->same ? p->same->changes_at[index + 1] - p->same->changes_at[index]
				 : row->sites_count;

	return (struct profile_snapshot){ row->at_ns, row->live_bytes, row->live_blocks,
					  row->rss_bytes, changes };
}

size_t profile_site_ids(const struct profile_process *p)
{
	return p->rows->site_count;
}

struct profile_change profile_change(const struct profile_process *p, size_t snapshot,
				     size_t change)
{
	ASSERT(change < profile_snapshot(p, snapshot).change_count);
	const struct snapshot_site *site =
		p->same ? &p->same->changes[p->same->changes_at[snapshot] + change]
			: &p->rows->snapshot_sites[p->rows->snapshots[snapshot].sites_at + change];

	return (struct profile_change){ { site->site }, { site->bytes, site->blocks } };
}

struct site_live *profile_live_at(const struct profile_process *p, size_t snapshot,
				  struct arena *arena)
{
	struct site_live *live = ARENA_ARRAY(arena, struct site_live, p->rows->site_count + 1);

	for (size_t i = 0; live && i <= snapshot; i++) {
		size_t changes = profile_snapshot(p, i).change_count;

		for (size_t j = 0; j < changes; j++) {
			struct profile_change change = profile_change(p, i, j);

			live[change.site.v] = change.live;
		}
	}
	return live;
}

size_t profile_moment_count(const struct profile_process *p)
{
	return p->rows->mark_count;
}

struct profile_moment profile_moment(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->mark_count);
	const struct mark_row *row = &p->rows->marks[index];

	return (struct profile_moment){ row->at_ns, row->name ? row->name : "",
					row->kind == LIVE_MARK_SNAPSHOT, row->snapshot };
}

size_t profile_memory_count(const struct profile_process *p)
{
	return p->rows->memory_count;
}

struct profile_memory profile_memory_at(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->memory_count);
	const struct memory_row *m = &p->rows->memory[index];
	uint64_t mapped = saturating_add(m->mapped_bytes, m->mapped_shared_bytes);
	bool known = m->sheet != 0;

	return (struct profile_memory){
		.known = true,
		.has_parts = known,
		.at_ns = m->at_ns,
		.live_bytes = m->live_bytes,
		.fragmentation_bytes = m->fragmentation_bytes,
		.map_live_bytes = m->map_live_bytes,
		.rss_bytes = m->rss_bytes,
		.swap_bytes = m->swap_bytes,
		.heap_bytes = m->heap_bytes,
		.anonymous_bytes = m->anonymous_bytes,
		.stack_bytes = m->stack_bytes,
		.file_bytes = m->file_bytes,
		.shared_bytes = m->shared_bytes,
		.own_bytes = m->own_bytes,
		.private_bytes = saturating_add(m->heap_bytes, m->anonymous_bytes),
		.cgroup_limit_bytes = m->cgroup_limit_bytes,
		.cgroup_usage_bytes = m->cgroup_usage_bytes,
		.vm_bytes = m->vm_bytes,
		.stack_reserved_bytes = m->stack_reserved_bytes,
		.stack_largest_bytes = m->stack_largest_bytes,
		.system_bytes = m->system_bytes,
		.system_available_bytes = m->system_available_bytes,
		.system_cached_bytes = m->system_cached_bytes,
		.system_swap_bytes = m->system_swap_bytes,
		.mapped_bytes = m->mapped_bytes,
		.beyond_bytes = m->held_bytes,
		.inherited_bytes = m->inherited_bytes,
		.static_bytes = m->static_bytes,
		.unrecorded_bytes = m->unrecorded_bytes,
		.untouched_bytes = m->untouched_bytes,
		.mapped_untouched_bytes = known ? saturating_sub(m->map_live_bytes, mapped) : 0,
	};
}
