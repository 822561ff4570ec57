/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data over time: the series of totals, the memory rows, and the snapshots of changed sites. A snapshot stores for each site
 * the difference to its previous value, and bytes as a residual to the blocks at the site's means. Pure functions; any thread.
 * Invariant: after reading, the sites of a snapshot follow those of the previous one, are valid and ascending.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "base/varint.h"
#include "format/recording/chunks.h"

/* doc: chunk_series: frees as the difference to calls less live blocks. */
#define SERIES_SHAPE U64_SHAPE(struct series_row, sizeof(struct series_row))

void chunk_series_put(struct payload *out, const struct process_rows *rows)
{
	struct series_row *columns = columns_new(out, rows->series_count, sizeof *columns);

	for (size_t i = 0; columns && i < rows->series_count; i++) {
		columns[i] = rows->series[i];
		columns[i].frees =
			residual_put(columns[i].frees, columns[i].calls - columns[i].live_blocks);
	}
	table_put(out, SERIES_SHAPE, columns, rows->series_count);
	free(columns);
}

void chunk_series_get(struct source *in, struct process_rows *rows)
{
	rows->series = table_get(in, SERIES_SHAPE, &rows->series_count);
	for (size_t i = 0; i < rows->series_count; i++) {
		struct series_row *row = &rows->series[i];

		row->frees = residual_get(row->frees, row->calls - row->live_blocks);
	}
}

/* doc: chunk_snapshots */
static const struct field snapshot_fields[] = {
	FIELD(struct snapshot_row, at_ns),
	FIELD(struct snapshot_row, live_bytes),
	FIELD(struct snapshot_row, live_blocks),
	FIELD(struct snapshot_row, rss_bytes),
	FIELD(struct snapshot_row, sites_count),
	FIELD(struct snapshot_row, counted),
	FIELD(struct snapshot_row, live_bound_bytes),
	FIELD(struct snapshot_row, live_bound_blocks),
};
struct change_columns {
	uint64_t gap; /* sites skipped since the previous one */
	uint64_t blocks, bytes;
};
#define CHANGE_SHAPE U64_SHAPE(struct change_columns, sizeof(struct change_columns))

/* The last value of each site, and the mean size of its blocks. */
struct last_value {
	uint64_t blocks, bytes, mean_bytes;
};

static void fill_means(struct last_value *last, const struct process_rows *rows)
{
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		struct last_value *site = &last[rows->site_counters[i].site];

		if (site->mean_bytes == 0)
			site->mean_bytes = site_counters_mean_size(&rows->site_counters[i]);
	}
}

static void change_put(struct change_columns *to, struct last_value *last,
		       const struct snapshot_site *site)
{
	uint64_t blocks = (uint64_t)site->blocks - last->blocks;
	uint64_t bytes = (uint64_t)site->bytes - last->bytes;

	to->blocks = residual_put(blocks, 0);
	to->bytes = residual_put(bytes, blocks * last->mean_bytes);
	last->blocks = (uint64_t)site->blocks;
	last->bytes = (uint64_t)site->bytes;
}

static void change_get(const struct change_columns *from, struct last_value *last,
		       struct snapshot_site *site)
{
	uint64_t blocks = residual_get(from->blocks, 0);

	last->blocks += blocks;
	last->bytes += residual_get(from->bytes, blocks * last->mean_bytes);
	site->blocks = (int64_t)last->blocks;
	site->bytes = (int64_t)last->bytes;
}

/* What was counted is in a table of its own behind the changes, so that a recording without it is read without its memory. */
#define COUNTS_SHAPE U64_SHAPE(struct snapshot_counts, sizeof(struct snapshot_counts))

struct last_counts {
	struct last_value live;
	struct snapshot_counts is;
	uint64_t mean_fragmentation;
};

static void fill_count_means(struct last_counts *last, const struct process_rows *rows)
{
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		const struct site_counters_row *counters = &rows->site_counters[i];
		struct last_counts *site = &last[counters->site];

		if (site->live.mean_bytes == 0)
			site->live.mean_bytes = site_counters_mean_size(counters);
		if (site->mean_fragmentation == 0 && counters->calls != 0)
			site->mean_fragmentation = counters->fragmentation / counters->calls;
	}
}

struct live_change {
	uint64_t blocks, bytes;
};

static struct live_change live_change(struct last_counts *last, const struct snapshot_site *site)
{
	struct live_change change = { (uint64_t)site->blocks - last->live.blocks,
				      (uint64_t)site->bytes - last->live.bytes };

	last->live.blocks = (uint64_t)site->blocks;
	last->live.bytes = (uint64_t)site->bytes;
	return change;
}

/* The bytes by which the site grew, and those of the blocks that were allocated and are not live. */
static uint64_t usual_bytes(struct live_change change, uint64_t calls, uint64_t mean_bytes)
{
	return change.bytes + (calls - change.blocks) * mean_bytes;
}

static struct snapshot_counts counts_put(struct last_counts *last, const struct snapshot_site *site,
					 struct snapshot_counts now)
{
	struct live_change change = live_change(last, site);
	uint64_t calls = now.calls - last->is.calls;
	struct snapshot_counts columns = {
		.calls = residual_put(calls, change.blocks),
		.bytes = residual_put(now.bytes - last->is.bytes,
				      usual_bytes(change, calls, last->live.mean_bytes)),
		.temporary = residual_put(now.temporary - last->is.temporary, 0),
		.fragmentation = residual_put(now.fragmentation - last->is.fragmentation,
					      calls * last->mean_fragmentation),
	};

	last->is = now;
	return columns;
}

static struct snapshot_counts counts_get(struct last_counts *last, const struct snapshot_site *site,
					 struct snapshot_counts columns)
{
	struct live_change change = live_change(last, site);
	uint64_t calls = residual_get(columns.calls, change.blocks);

	last->is.calls += calls;
	last->is.bytes +=
		residual_get(columns.bytes, usual_bytes(change, calls, last->live.mean_bytes));
	last->is.temporary += residual_get(columns.temporary, 0);
	last->is.fragmentation +=
		residual_get(columns.fragmentation, calls * last->mean_fragmentation);
	return last->is;
}

static void put_counts(struct payload *out, const struct process_rows *rows, size_t count)
{
	struct snapshot_counts *columns = columns_new(out, count, sizeof *columns);
	struct last_counts *last = columns_new(out, rows->site_count, sizeof *last);
	size_t used = 0;

	if (last)
		fill_count_means(last, rows);
	for (size_t i = 0; last && i < rows->snapshot_count && !out->bytes.failed; i++)
		for (size_t j = 0; j < rows->snapshots[i].sites_count; j++, used++) {
			size_t at = rows->snapshots[i].sites_at + j;
			const struct snapshot_site *site = &rows->snapshot_sites[at];

			columns[used] =
				counts_put(&last[site->site], site, rows->snapshot_counts[at]);
		}
	table_put(out, COUNTS_SHAPE, columns, count);
	payload_cost(out, rows->site_count, sizeof *last);
	free(last);
	free(columns);
}

/* Pre: the changes were read, and are valid. */
static void get_counts(struct source *in, struct process_rows *rows)
{
	size_t count = 0;

	rows->snapshot_counts = table_get(in, COUNTS_SHAPE, &count);
	if (in->cursor.failed || count == 0)
		return;
	struct last_counts *last = source_alloc(in, rows->site_count, sizeof *last);

	if (!last || count != rows->snapshot_site_count) {
		cursor_fail(&in->cursor);
		free(last);
		return;
	}
	fill_count_means(last, rows);
	for (size_t i = 0; i < count; i++) {
		const struct snapshot_site *site = &rows->snapshot_sites[i];

		rows->snapshot_counts[i] =
			counts_get(&last[site->site], site, rows->snapshot_counts[i]);
	}
	free(last);
}

void chunk_snapshots_put(struct payload *out, const struct process_rows *rows)
{
	struct change_columns *columns =
		columns_new(out, rows->snapshot_site_count, sizeof *columns);
	struct last_value *last = columns_new(out, rows->site_count, sizeof *last);
	size_t used = 0;

	if (last)
		fill_means(last, rows);
	for (size_t i = 0; last && i < rows->snapshot_count && !out->bytes.failed; i++) {
		const struct snapshot_row *row = &rows->snapshots[i];
		uint32_t next = 1;

		for (size_t j = 0; j < row->sites_count; j++, used++) {
			const struct snapshot_site *site = &rows->snapshot_sites[row->sites_at + j];

			ASSERT(site->site >= next && site->site < rows->site_count);
			columns[used].gap = site->site - next;
			next = site->site + 1;
			change_put(&columns[used], &last[site->site], site);
		}
	}
	ASSERT(used <= rows->snapshot_site_count);
	table_put(out, TABLE_SHAPE(struct snapshot_row, snapshot_fields), rows->snapshots,
		  rows->snapshot_count);
	table_put(out, CHANGE_SHAPE, columns, used);
	payload_cost(out, used, sizeof *rows->snapshot_sites);
	payload_cost(out, rows->site_count, sizeof *last);
	free(last);
	free(columns);
	if (rows->snapshot_counts && !out->bytes.failed)
		put_counts(out, rows, used);
}

/* Reads the changed sites of one snapshot. False if they are not valid. */
static bool get_changes(struct snapshot_row *row, const struct change_columns *columns, size_t used,
			struct last_value *last, size_t site_count, struct snapshot_site *sites)
{
	uint64_t next = 1;

	if (!last)
		return row->sites_count == 0;
	row->sites_at = (uint32_t)used;
	for (size_t i = used; i < used + row->sites_count; i++) {
		uint64_t id;

		if (!checked_add(next, columns[i].gap, &id) || id >= site_count)
			return false;
		sites[i].site = (uint32_t)id;
		change_get(&columns[i], &last[id], &sites[i]);
		next = id + 1;
	}
	return true;
}

void chunk_snapshots_get(struct source *in, struct process_rows *rows)
{
	size_t change_count = 0, *used = &rows->snapshot_site_count;

	rows->snapshots = table_get(in, TABLE_SHAPE(struct snapshot_row, snapshot_fields),
				    &rows->snapshot_count);
	struct change_columns *columns = table_get(in, CHANGE_SHAPE, &change_count);

	rows->snapshot_sites = source_alloc(in, change_count, sizeof *rows->snapshot_sites);
	struct last_value *last = source_alloc(in, rows->site_count, sizeof *last);

	if (!in->cursor.failed && last)
		fill_means(last, rows);
	for (size_t i = 0; i < rows->snapshot_count && !in->cursor.failed; i++) {
		struct snapshot_row *row = &rows->snapshots[i];

		if (row->sites_count > change_count - *used ||
		    !get_changes(row, columns, *used, last, rows->site_count, rows->snapshot_sites))
			cursor_fail(&in->cursor);
		else
			*used += row->sites_count;
	}
	if (*used != change_count)
		cursor_fail(&in->cursor);
	free(last);
	free(columns);
	if (!in->cursor.failed && cursor_left(&in->cursor) > 0)
		get_counts(in, rows); /* since 1.10 */
}

/* doc: chunk_memory */
#define MEMORY_SHAPE U64_SHAPE(struct memory_row, offsetof(struct memory_row, asked))

void chunk_memory_put(struct payload *out, const struct process_rows *rows)
{
	table_put(out, MEMORY_SHAPE, rows->memory, rows->memory_count);
}

void chunk_memory_get(struct source *in, struct process_rows *rows)
{
	rows->memory = table_get(in, MEMORY_SHAPE, &rows->memory_count);
}
