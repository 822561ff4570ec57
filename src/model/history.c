/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the rows about time to types of the model.
 *
 * build.c checked the rows: a snapshot's changes are inside their table and name existing sites.
 * Nothing is copied until requested.
 */
#include "model/history.h"

#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "format/recording/rows.h"
#include "model/estimates.h"
#include "model/same_sites.h"
#include "model/site_sums.h"
#include "util/cleanup.h"

size_t profile_sample_count(const struct profile_process *p)
{
	return p->rows->series_count;
}

void profile_limit_live(const struct profile_process *p, uint64_t *bytes, uint64_t *bound)
{
	uint64_t most = saturating_add(p->peak_bytes, p->peak_bound_bytes);
	uint64_t high = MIN(saturating_add(*bytes, *bound), most);
	uint64_t low = MIN(saturating_sub(*bytes, *bound), high);

	*bytes = MIN(*bytes, most);
	*bound = MAX(*bytes - low, high - *bytes);
}

struct profile_sample profile_sample(const struct profile_process *p, size_t index)
{
	ASSERT(index < p->rows->series_count);
	const struct series_row *row = &p->rows->series[index];
	struct profile_sample sample = {
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
		.live_bound = { row->live_bound_bytes, row->live_bound_blocks },
	};

	profile_limit_live(p, &sample.live_bytes, &sample.live_bound.bytes);
	return sample;
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

	struct profile_snapshot snapshot = {
		.at_ns = row->at_ns,
		.live_bytes = row->live_bytes,
		.live_blocks = row->live_blocks,
		.rss_bytes = row->rss_bytes,
		.change_count = changes,
		.counted = row->counted && p->rows->snapshot_counts,
		.live_bound = { row->live_bound_bytes, row->live_bound_blocks },
	};

	profile_limit_live(p, &snapshot.live_bytes, &snapshot.live_bound.bytes);
	return snapshot;
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

struct site_counts site_counts_of(const struct site_numbers *n)
{
	return (struct site_counts){
		.calls = n->calls,
		.bytes = n->bytes,
		.frees = n->frees,
		.freed_bytes = n->freed_bytes,
		.temporary_calls = n->temporary_calls,
		.fragmentation_bytes = n->fragmentation_bytes,
		.calls_variance = estimate_variance(n, VARIANCE_CALLS, n->calls),
		.bytes_variance = estimate_variance(n, VARIANCE_BYTES, n->bytes),
		.frees_variance = estimate_variance(n, VARIANCE_FREES, n->frees),
		.freed_bytes_variance = estimate_variance(n, VARIANCE_FREED_BYTES, n->freed_bytes),
	};
}

/* Numbers are untrusted: they are never more than at the end, and frees never more than calls. */
static void add_counts(struct site_counts *sum, const struct snapshot_site *live,
		       const struct snapshot_counts *at, const struct site_numbers *part)
{
	uint64_t calls = MIN(at->calls, part->calls), bytes = MIN(at->bytes, part->bytes);
	uint64_t frees = saturating_sub(calls, (uint64_t)MAX(live->blocks, (int64_t)0));
	uint64_t freed_bytes = saturating_sub(bytes, (uint64_t)MAX(live->bytes, (int64_t)0));

	sum->calls = saturating_add(sum->calls, calls);
	sum->bytes = saturating_add(sum->bytes, bytes);
	sum->frees = saturating_add(sum->frees, frees);
	sum->freed_bytes = saturating_add(sum->freed_bytes, freed_bytes);
	sum->temporary_calls =
		saturating_add(sum->temporary_calls, MIN(at->temporary, part->temporary_calls));
	sum->fragmentation_bytes = saturating_add(
		sum->fragmentation_bytes, MIN(at->fragmentation, part->fragmentation_bytes));
	sum->calls_variance += estimate_variance(part, VARIANCE_CALLS, calls);
	sum->bytes_variance += estimate_variance(part, VARIANCE_BYTES, bytes);
	sum->frees_variance += estimate_variance(part, VARIANCE_FREES, frees);
	sum->freed_bytes_variance += estimate_variance(part, VARIANCE_FREED_BYTES, freed_bytes);
}

struct site_counts *profile_counts_at(const struct profile_process *p, size_t snapshot,
				      struct arena *arena)
{
	AUTO(arena_release) struct arena scratch = ARENA_INIT;
	const struct process_rows *rows = p->rows;
	struct site_counts *all = ARENA_ARRAY(arena, struct site_counts, rows->site_count + 1);
	uint32_t *last = ARENA_ARRAY(&scratch, uint32_t, rows->site_count + 1);
	const struct site_numbers **parts;

	ASSERT(rows->snapshot_counts);
	if (!all || !last || site_parts(p, &scratch, &parts) < 0)
		return NULL;
	for (size_t i = 0; i <= snapshot; i++)
		for (uint32_t j = 0; j < rows->snapshots[i].sites_count; j++) {
			uint32_t at = rows->snapshots[i].sites_at + j;

			last[rows->snapshot_sites[at].site] = at + 1;
		}
	for (uint32_t i = 1; i < rows->site_count; i++)
		if (last[i] && parts[i])
			add_counts(&all[same_site(p, i)], &rows->snapshot_sites[last[i] - 1],
				   &rows->snapshot_counts[last[i] - 1], parts[i]);
	return all;
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
	/* Where nothing was recorded, all blocks would be free memory of the allocator. */
	bool known = m->sheet != 0 && strcmp(p->mode, "dormant") != 0;

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
		.mapped_bytes = known ? m->mapped_bytes : 0,
		.beyond_bytes = known ? m->held_bytes : 0,
		.inherited_bytes = known ? m->inherited_bytes : 0,
		.static_bytes = known ? m->static_bytes : 0,
		.unrecorded_bytes = known ? m->unrecorded_bytes : 0,
		.changed_bytes = known ? m->changed_bytes : 0,
		.untouched_bytes = known ? m->untouched_bytes : 0,
		.mapped_untouched_bytes = known ? saturating_sub(m->map_live_bytes, mapped) : 0,
	};
}
