/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made recording with a course: the server of test_model_made.h, looked at every half second for
 * its 12 seconds. One site grows in a line, one fills up to a bound, one goes up and down, and one
 * comes too late to be judged.
 */
#ifndef TEST_COURSE_MADE_H
#define TEST_COURSE_MADE_H

#include "test_model_made.h"

enum { COURSE_MOMENTS = 25, COURSE_SITES = 4 };
#define COURSE_STEP_NS ((uint64_t)MADE_SECOND / 2)

/* What the sites 3 to 6 hold at a moment. */
static inline int64_t course_bytes(uint32_t site, int64_t moment)
{
	switch (site) {
	case 3: /* grows: 1024 bytes every half second */
		return 1024 * (moment + 1);
	case 4: /* fills up to its bound by the tenth moment */
		return 500 * (moment < 10 ? moment : 10);
	case 5: /* saws */
		return 4000 * (moment % 5);
	default: /* comes late */
		return moment < 22 ? 0 : 100 * (moment - 21);
	}
}

static inline void course_snapshots(struct process_rows *rows)
{
	size_t changes = 0;

	rows->snapshots = calloc(COURSE_MOMENTS, sizeof *rows->snapshots);
	rows->snapshot_sites = calloc(COURSE_MOMENTS * COURSE_SITES, sizeof *rows->snapshot_sites);
	rows->snapshot_count = COURSE_MOMENTS;
	assert_non_null(rows->snapshots);
	assert_non_null(rows->snapshot_sites);
	for (size_t i = 0; i < COURSE_MOMENTS; i++) {
		struct snapshot_row *s = &rows->snapshots[i];

		s->at_ns = (i + 1) * COURSE_STEP_NS;
		s->rss_bytes = (1 << 20) + i * 100000;
		s->sites_at = (uint32_t)changes;
		for (uint32_t site = 3; site < 3 + COURSE_SITES; site++) {
			int64_t now = course_bytes(site, (int64_t)i);

			s->live_bytes += (uint64_t)now;
			s->live_blocks += (uint64_t)now / 100;
			if (i > 0 && now == course_bytes(site, (int64_t)i - 1))
				continue;
			rows->snapshot_sites[changes++] =
				(struct snapshot_site){ site, now, now / 100 };
		}
		s->sites_count = (uint32_t)changes - s->sites_at;
	}
	rows->snapshot_site_count = changes;
}

static inline void course_series(struct process_rows *rows)
{
	rows->series_count = 2 * COURSE_MOMENTS;
	free(rows->series);
	rows->series = calloc(rows->series_count, sizeof *rows->series);
	assert_non_null(rows->series);
	for (size_t i = 0; i < rows->series_count; i++) {
		const struct snapshot_row *near = &rows->snapshots[i / 2];

		rows->series[i] = (struct series_row){ .at_ns = (i + 1) * COURSE_STEP_NS / 2,
						       .live_bytes = near->live_bytes,
						       .live_blocks = near->live_blocks,
						       .calls = 1000 * i,
						       .bytes = 64000 * i,
						       .frees = 900 * i,
						       .rss_bytes = near->rss_bytes,
						       .threads = i < 10 ? 1 : 2,
						       .own_bytes = 2 << 20 };
	}
}

static inline void course_memory(struct process_rows *rows)
{
	enum { MIB = 1 << 20 };

	/* The first as an older version wrote it. */
	MADE(rows, memory, memory_count,
	     { .at_ns = 1 * (uint64_t)MADE_SECOND,
	       .live_bytes = 3 * MIB,
	       .fragmentation_bytes = MIB / 8,
	       .rss_bytes = 9 * MIB,
	       .heap_bytes = 4 * MIB,
	       .stack_bytes = MIB / 4,
	       .file_bytes = 3 * MIB,
	       .own_bytes = MIB },
	     { .at_ns = 12 * (uint64_t)MADE_SECOND,
	       .live_bytes = 9 * MIB,
	       .fragmentation_bytes = MIB / 2,
	       .map_live_bytes = 2 * MIB,
	       .rss_bytes = 16 * MIB,
	       .swap_bytes = MIB,
	       .heap_bytes = 6 * MIB,
	       .anonymous_bytes = 4 * MIB,
	       .stack_bytes = MIB / 4,
	       .file_bytes = 3 * MIB,
	       .shared_bytes = MIB / 2,
	       .own_bytes = 2 * MIB,
	       .cgroup_usage_bytes = 20 * MIB,
	       .cgroup_limit_bytes = 64 * MIB,
	       .sheet = 1,
	       .mapped_bytes = MIB,
	       .mapped_shared_bytes = MIB / 4,
	       .held_bytes = MIB - MIB / 4,
	       .inherited_bytes = MIB / 4,
	       .static_bytes = MIB / 2,
	       .unrecorded_bytes = MIB,
	       .untouched_bytes = 3 * MIB });
}

static inline struct recording made_course(size_t processes)
{
	struct recording r = made_recording(processes);
	struct process_rows *rows = &r.processes[0];

	course_snapshots(rows);
	course_series(rows);
	course_memory(rows);
	return r;
}

#endif
