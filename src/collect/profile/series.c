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

#include "base/compiler.h"

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
	free(snapshots->last);
	snapshots->last = NULL;
	snapshots->last_count = 0;
}

/* Writes the union of two ascending runs to `to`, values from the later one. Returns its length. */
static size_t merge(const struct snapshot_site *earlier, size_t earlier_count,
		    const struct snapshot_site *later, size_t later_count, struct snapshot_site *to)
{
	size_t i = 0, j = 0, used = 0;

	while (i < earlier_count && j < later_count) {
		if (earlier[i].site < later[j].site) {
			to[used++] = earlier[i++];
			continue;
		}
		i += earlier[i].site == later[j].site;
		to[used++] = later[j++];
	}
	while (i < earlier_count)
		to[used++] = earlier[i++];
	while (j < later_count)
		to[used++] = later[j++];
	return used;
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
	size_t count = snapshots->rows.count, kept = 0, used = 0;
	struct snapshot_site *old = snapshots->sites.at;
	struct snapshot_site *merged = calloc(snapshots->sites.count + 1, sizeof *merged);
	bool *gone = calloc(count + 1, sizeof *gone);

	snapshots->interval_ns *= 2;
	if (!merged || !gone) {
		free(merged);
		free(gone);
		return;
	}
	choose(snapshots, gone);
	for (size_t i = 0; i < count; i++) {
		struct snapshot_row row = snapshots->rows.at[i];
		const struct snapshot_row *before =
			i > 0 && gone[i - 1] ? &snapshots->rows.at[i - 1] : NULL;

		if (gone[i])
			continue;
		size_t length = merge(old + (before ? before->sites_at : 0),
				      before ? before->sites_count : 0, old + row.sites_at,
				      row.sites_count, merged + used);

		row.sites_at = (uint32_t)used;
		row.sites_count = (uint32_t)length;
		used += length;
		snapshots->rows.at[kept++] = row;
	}
	ASSERT(used <= snapshots->sites.count);
	free(gone);
	free(old);
	snapshots->sites.at = merged;
	snapshots->sites.capacity = snapshots->sites.count + 1;
	snapshots->sites.count = used;
	snapshots->rows.count = kept;
}

static bool differs(const struct snapshots *snapshots, const struct snapshot_site *site)
{
	if (site->site >= snapshots->last_count)
		return site->bytes != 0 || site->blocks != 0;
	return site->bytes != snapshots->last[site->site].bytes ||
	       site->blocks != snapshots->last[site->site].blocks;
}

void snapshots_add(struct snapshots *snapshots, const struct snapshot_row *row,
		   struct snapshot_site *now, size_t count)
{
	struct snapshot_row added = *row;
	size_t at = snapshots->sites.count;

	added.sites_at = (uint32_t)at;
	if (snapshots->named >= SNAPSHOTS_NAMED_MAX || at >= 8 * (size_t)SNAPSHOT_SITES_MAX)
		added.mark = 0;
	for (size_t i = 1; i < count; i++) {
		if (differs(snapshots, &now[i]) && !vector_push(&snapshots->sites, now[i]))
			goto no_memory;
	}
	added.sites_count = (uint32_t)(snapshots->sites.count - at);
	if (!vector_push(&snapshots->rows, added))
		goto no_memory;
	free(snapshots->last);
	snapshots->last = now;
	snapshots->last_count = count;
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
	snapshots->sites.count = at;
	snapshots->next_ns = row->at_ns + snapshots->interval_ns;
	free(now);
}

void snapshots_cost(struct snapshots *snapshots, uint64_t took_ns)
{
	if (took_ns > snapshots->interval_ns / 50) {
		uint64_t start = snapshots->next_ns - snapshots->interval_ns;

		snapshots->interval_ns = took_ns * 50;
		snapshots->next_ns = start + snapshots->interval_ns;
	}
}
