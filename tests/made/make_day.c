/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/*
 * Prints how many bytes the recording of a process takes that ran for SECONDS, without running that long:
 *
 *	make_day SECONDS SITES
 *
 * What a recording holds of time is the series, the snapshots and the memory sheets. They are fed here as the collector feeds them,
 * whenever one is due, by a clock that jumps from one to the next. All SITES change from one snapshot to the next.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "collect/profile/series.h"
#include "format/recording/recording.h"
#include "made.h"

static void add_snapshot(struct snapshots *snapshots, uint64_t at_ns, size_t sites)
{
	struct snapshot_site *now = zeroed(sites, sizeof *now);
	struct snapshot_counts *counts = zeroed(sites, sizeof *counts);
	struct snapshot_row row = { .at_ns = at_ns };

	for (size_t i = 1; i < sites; i++) {
		now[i] = (struct snapshot_site){ .site = (uint32_t)i,
						 .bytes = (int64_t)(next_random() % 100000),
						 .blocks = (int64_t)(next_random() % 100) };
		counts[i] = (struct snapshot_counts){ .calls = at_ns / 1000, .bytes = at_ns / 10 };
		row.live_bytes += (uint64_t)now[i].bytes;
		row.live_blocks += (uint64_t)now[i].blocks;
	}
	snapshots_add(snapshots, &row, &(struct live_sites){ now, counts, sites });
}

static struct series_row point_at(uint64_t at_ns)
{
	return (struct series_row){ .at_ns = at_ns,
				    .live_bytes = 50000000 + next_random() % 1000000,
				    .live_blocks = 100000 + next_random() % 1000,
				    .calls = at_ns / 1000,
				    .bytes = at_ns / 10,
				    .frees = at_ns / 1000 - 100000,
				    .rss_bytes = 80000000,
				    .threads = 4 };
}

/* Sites with counters, which the snapshots are about. */
static void add_sites(struct process_rows *rows, size_t sites)
{
	rows->nodes = zeroed(1, sizeof *rows->nodes);
	rows->node_count = 1;
	rows->sites = zeroed(sites, sizeof *rows->sites);
	rows->site_count = sites;
	rows->site_counters = zeroed(sites, sizeof *rows->site_counters);
	rows->site_counters_count = sites - 1;
	for (size_t i = 1; i < sites; i++)
		rows->site_counters[i - 1] =
			(struct site_counters_row){ .site = (uint32_t)i,
						    .calls = next_random() % 1000000,
						    .bytes = next_random() % 100000000 };
}

static void live_through(uint64_t end_ns, size_t sites, struct process_rows *ret)
{
	struct series series;
	struct snapshots snapshots;
	struct memories memories;

	series_init(&series);
	snapshots_init(&snapshots);
	memories_init(&memories);
	for (uint64_t at = 0; at < end_ns;) {
		if (at >= series.next_ns) {
			struct series_row point = point_at(at);

			series_add(&series, &point);
		}
		if (at >= snapshots.next_ns)
			add_snapshot(&snapshots, at, sites);
		if (at >= memories.next_ns) {
			struct memory_row row = { .at_ns = at, .rss_bytes = 80000000 + at % 7919 };

			memories_add(&memories, &row, 1000000);
		}
		at = MIN(series.next_ns, snapshots.next_ns);
		at = MIN(at, memories.next_ns);
	}
	ret->series = series.points.at;
	ret->series_count = series.points.count;
	snapshots_give(&snapshots, ret);
	ret->memory = memories.rows.at;
	ret->memory_count = memories.rows.count;
}

int main(int argc, char **argv)
{
	struct process_rows rows = { 0 };
	struct recording recording = { .processes = &rows, .process_count = 1 };
	struct format_error error = { "" };
	void *bytes;
	size_t length;

	if (argc != 3 || strtoull(argv[2], NULL, 10) == 0)
		return 2;
	size_t sites = strtoull(argv[2], NULL, 10);

	add_sites(&rows, sites);
	live_through(strtoull(argv[1], NULL, 10) * 1000000000, sites, &rows);
	if (recording_encode(&recording, &bytes, &length, &error) < 0)
		die(error.message);
	printf("%zu bytes: %zu points, %zu snapshots of %zu sites, %zu memory sheets\n", length,
	       rows.series_count, rows.snapshot_count, rows.snapshot_site_count, rows.memory_count);
	return 0;
}
