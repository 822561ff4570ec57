/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thinning. A point of the series is independent, so every other one can be dropped. A snapshot contains only the changes since
 * the previous one, so a dropped snapshot is merged into the next: each remaining one is complete, as if those in between had
 * never been taken.
 *
 * Owned by one target; used by one thread at a time.
 * Invariant: the sites of a snapshot are ascending, without duplicates, and stored after those of the previous snapshot.
 */
#include "collect/profile/series.h"

#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"
#include "util/cleanup.h"

#define MEMORY_INTERVAL_MAX_NS 1000000000ull
enum { MEMORY_SHARE = 100 };

void series_init(struct series *series)
{
	*series = (struct series){ .interval_ns = SERIES_INTERVAL_NS };
}

void series_release(struct series *series)
{
	vector_release(&series->points);
}

static void series_thin(struct series *series)
{
	size_t kept = 0;

	/* Keeps the odd ones, which include the newest. */
	for (size_t i = 1; i < series->points.count; i += 2)
		series->points.at[kept++] = series->points.at[i];
	series->points.count = kept;
	series->interval_ns *= 2;
}

void series_add(struct series *series, const struct series_row *row)
{
	if (series->points.count >= SERIES_POINTS_MAX)
		series_thin(series);
	(void)vector_push(&series->points, *row);
	series->next_ns = row->at_ns + series->interval_ns;
}

void memories_init(struct memories *memories)
{
	*memories = (struct memories){ .interval_ns = SNAPSHOT_INTERVAL_NS,
				       .earliest_ns = MEMORY_FIRST_NS };
}

void memories_release(struct memories *memories)
{
	vector_release(&memories->rows);
}

/* A new maximum by at least 1/64, so that a growing process is not read at every new page. */
static bool is_new_maximum(uint64_t bytes, uint64_t most)
{
	return bytes > most + most / 64;
}

bool memories_is_due(const struct memories *memories, uint64_t at_ns, uint64_t rss_bytes,
		     uint64_t live_bytes)
{
	if (at_ns < memories->earliest_ns)
		return false;
	return at_ns >= memories->next_ns || is_new_maximum(rss_bytes, memories->most_rss_bytes) ||
	       is_new_maximum(live_bytes, memories->most_live_bytes);
}

static bool has_most(const struct memories *memories, const struct memory_row *row)
{
	return row->asked || row->at_ns == memories->most_rss_ns ||
	       row->at_ns == memories->most_live_ns;
}

static void note_most(uint64_t *most, uint64_t *most_ns, uint64_t bytes, uint64_t at_ns)
{
	if (bytes > *most) {
		*most = bytes;
		*most_ns = at_ns;
	}
}

static void memories_thin(struct memories *memories)
{
	size_t kept = 0;

	for (size_t i = 0; i < memories->rows.count; i++)
		if (i % 2 || has_most(memories, &memories->rows.at[i]))
			memories->rows.at[kept++] = memories->rows.at[i];
	memories->rows.count = kept;
	memories->interval_ns *= 2;
}

/* Whether the new row may replace the last one, which is too close to the one before it. */
static bool is_last_dispensable(const struct memories *memories)
{
	if (memories->rows.count < 2)
		return false;
	const struct memory_row *last = memories->rows.at + memories->rows.count - 1;

	return !has_most(memories, last) && last->at_ns < last[-1].at_ns + memories->interval_ns;
}

void memories_note_flow(struct memories *memories, struct memory_row *row, struct memory_flow now)
{
	struct memory_flow *before = &memories->flow;
	struct memory_row *last =
		memories->rows.count ? &memories->rows.at[memories->rows.count - 1] : NULL;

	if (last)
		last->changed_bytes = saturating_add(
			last->changed_bytes,
			saturating_sub(now.allocated_bytes, before->allocated_bytes));
	if (row)
		row->changed_bytes =
			saturating_add(row->changed_bytes,
				       saturating_sub(now.released_bytes, before->released_bytes));
	*before = now;
}

void memories_add(struct memories *memories, const struct memory_row *row, uint64_t took_ns)
{
	note_most(&memories->most_rss_bytes, &memories->most_rss_ns, row->rss_bytes, row->at_ns);
	note_most(&memories->most_live_bytes, &memories->most_live_ns, row->live_bytes, row->at_ns);
	if (is_last_dispensable(memories))
		memories->rows.count--;
	if (memories->rows.count - memories->named >= MEMORIES_MAX)
		memories_thin(memories);
	if (vector_push(&memories->rows, *row) && row->asked) {
		if (memories->named < MEMORIES_MAX)
			memories->named++;
		else
			memories->rows.at[memories->rows.count - 1].asked = 0;
	}
	memories->earliest_ns = row->at_ns + took_ns * MEMORY_SHARE;
	memories->next_ns = row->at_ns + MIN(memories->interval_ns, MEMORY_INTERVAL_MAX_NS);
}

void snapshots_init(struct snapshots *snapshots)
{
	*snapshots = (struct snapshots){ .interval_ns = SNAPSHOT_INTERVAL_NS,
					 .next_ns = SNAPSHOT_INTERVAL_NS };
}

void snapshots_release(struct snapshots *snapshots)
{
	vector_release(&snapshots->rows);
	vector_release(&snapshots->sites);
	vector_release(&snapshots->counts);
	live_sites_release(&snapshots->last);
}

void snapshots_give(struct snapshots *snapshots, struct process_rows *rows)
{
	bool counted = false;

	rows->snapshots = snapshots->rows.at;
	rows->snapshot_count = snapshots->rows.count;
	rows->snapshot_sites = snapshots->sites.at;
	rows->snapshot_site_count = snapshots->sites.count;
	for (size_t i = 0; i < rows->snapshot_count; i++)
		counted |= rows->snapshots[i].counted != 0;
	if (counted) {
		rows->snapshot_counts = snapshots->counts.at;
		snapshots->counts.at = NULL;
	}
	snapshots->rows.at = NULL;
	snapshots->sites.at = NULL;
}

/* The changed sites of a snapshot, with their counts. */
struct changes {
	struct snapshot_site *sites;
	struct snapshot_counts *counts;
	size_t count;
};

static struct changes changes_of(const struct snapshots *snapshots, size_t row)
{
	const struct snapshot_row *of = &snapshots->rows.at[row];

	/* There may be no array yet. */
	if (of->sites_count == 0)
		return (struct changes){ 0 };
	return (struct changes){ snapshots->sites.at + of->sites_at,
				 snapshots->counts.at + of->sites_at, of->sites_count };
}

static void change_push(struct changes *to, const struct changes *from, size_t at)
{
	to->sites[to->count] = from->sites[at];
	to->counts[to->count++] = from->counts[at];
}

/* Appends the union of two ascending lists to `to`, values from the later one. */
static void merge(const struct changes *earlier, const struct changes *later, struct changes *to)
{
	size_t i = 0, j = 0;

	while (i < earlier->count && j < later->count) {
		if (earlier->sites[i].site < later->sites[j].site) {
			change_push(to, earlier, i++);
			continue;
		}
		i += earlier->sites[i].site == later->sites[j].site;
		change_push(to, later, j++);
	}
	while (i < earlier->count)
		change_push(to, earlier, i++);
	while (j < later->count)
		change_push(to, later, j++);
}

/* Drops every other snapshot, starting at the newest, except requested ones. A dropped snapshot is merged into the next one,
 * which is kept: no two adjacent snapshots are dropped. */
static void choose(const struct snapshots *snapshots, bool *gone)
{
	bool keep = true;

	for (size_t i = snapshots->rows.count; i > 0; i--) {
		if (snapshots->rows.at[i - 1].mark != 0)
			continue;
		gone[i - 1] = !keep;
		keep = !keep;
	}
}

static void snapshots_thin(struct snapshots *snapshots)
{
	size_t count = snapshots->rows.count, kept = 0, most = snapshots->sites.count + 1;
	struct changes merged = { calloc(most, sizeof *merged.sites),
				  calloc(most, sizeof *merged.counts), 0 };
	bool *gone = calloc(count + 1, sizeof *gone);

	snapshots->interval_ns *= 2;
	if (!merged.sites || !merged.counts || !gone) {
		free(merged.sites);
		free(merged.counts);
		free(gone);
		return;
	}
	choose(snapshots, gone);
	for (size_t i = 0; i < count; i++) {
		struct changes before = { 0 }, own = changes_of(snapshots, i);
		struct snapshot_row row = snapshots->rows.at[i];

		if (gone[i])
			continue;
		if (i > 0 && gone[i - 1])
			before = changes_of(snapshots, i - 1);
		row.sites_at = (uint32_t)merged.count;
		merge(&before, &own, &merged);
		row.sites_count = (uint32_t)merged.count - row.sites_at;
		snapshots->rows.at[kept++] = row;
	}
	ASSERT(merged.count < most);
	free(gone);
	free(snapshots->sites.at);
	free(snapshots->counts.at);
	snapshots->sites.at = merged.sites;
	snapshots->counts.at = merged.counts;
	snapshots->sites.capacity = snapshots->counts.capacity = most;
	snapshots->sites.count = snapshots->counts.count = merged.count;
	snapshots->rows.count = kept;
}

static bool differs(const struct live_sites *last, const struct live_sites *now, size_t site)
{
	static const struct snapshot_site nothing;
	static const struct snapshot_counts none;
	const struct snapshot_site *live = site < last->count ? &last->live[site] : &nothing;
	const struct snapshot_counts *counts = site < last->count ? &last->counts[site] : &none;

	return now->live[site].bytes != live->bytes || now->live[site].blocks != live->blocks ||
	       memcmp(&now->counts[site], counts, sizeof *counts) != 0;
}

static bool keep_counts(const struct live_sites *last, struct live_sites *now)
{
	if (now->counts)
		return true;
	now->counts = calloc(now->count + 1, sizeof *now->counts);
	for (size_t i = 0; now->counts && i < MIN(now->count, last->count); i++)
		now->counts[i] = last->counts[i];
	return now->counts;
}

static bool push_changes(struct snapshots *snapshots, const struct live_sites *now)
{
	for (size_t i = 1; i < now->count; i++)
		if (differs(&snapshots->last, now, i) &&
		    !(vector_push(&snapshots->sites, now->live[i]) &&
		      vector_push(&snapshots->counts, now->counts[i])))
			return false;
	return true;
}

void snapshots_add(struct snapshots *snapshots, const struct snapshot_row *row,
		   struct live_sites *now)
{
	struct snapshot_row added = *row;
	size_t at = snapshots->sites.count;

	added.sites_at = (uint32_t)at;
	added.counted = now->counts != NULL;
	if (snapshots->named >= SNAPSHOTS_NAMED_MAX || at >= 8 * (size_t)SNAPSHOT_SITES_MAX)
		added.mark = 0;
	if (!keep_counts(&snapshots->last, now) || !push_changes(snapshots, now))
		goto no_memory;
	added.sites_count = (uint32_t)(snapshots->sites.count - at);
	if (!vector_push(&snapshots->rows, added))
		goto no_memory;
	free(TAKE(now->moves));
	live_sites_release(&snapshots->last);
	snapshots->last = *now;
	*now = (struct live_sites){ 0 };
	snapshots->named += added.mark != 0;
	while (snapshots->rows.count - snapshots->named >= SNAPSHOTS_MAX ||
	       (snapshots->sites.count > SNAPSHOT_SITES_MAX &&
		snapshots->rows.count - snapshots->named > SNAPSHOTS_KEPT)) {
		size_t before = snapshots->rows.count;

		snapshots_thin(snapshots);
		if (snapshots->rows.count == before)
			break;
	}
	if (row->mark == 0)
		snapshots->next_ns = row->at_ns + snapshots->interval_ns;
	return;
no_memory:
	/* Behaves as if it had not been taken: the next snapshot contains its changes too. */
	snapshots->sites.count = snapshots->counts.count = at;
	snapshots->next_ns = row->at_ns + snapshots->interval_ns;
	live_sites_release(now);
}

void snapshots_cost(struct snapshots *snapshots, uint64_t took_ns)
{
	if (took_ns > snapshots->interval_ns / 50) {
		uint64_t start = snapshots->next_ns - snapshots->interval_ns;

		snapshots->interval_ns = took_ns * 50;
		snapshots->next_ns = start + snapshots->interval_ns;
	}
}
