/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks and their snapshots: for the collector, which takes them from the profile as they appear (target_sample.c), and for a
 * single read of a profile (inspect.c). Without a collector all of them are still in the profile, as far as they fitted. No
 * state. Any thread.
 */
#include "collect/profile/marks.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/compiler.h"

enum { MARKS_MAX = 65536 }; /* per process; further marks are ignored */

uint32_t mark_rows_add(mark_rows *marks, enum live_mark_kind kind, uint64_t at_ns, const char *name)
{
	struct mark_row row = { .at_ns = at_ns, .kind = kind };

	if (marks->count >= MARKS_MAX)
		return 0;
	row.name = strdup(name);
	if (!row.name || !vector_push(marks, row)) {
		free(row.name);
		return 0;
	}
	return (uint32_t)marks->count;
}

void mark_rows_release(mark_rows *marks)
{
	for (size_t i = 0; i < marks->count; i++)
		free(marks->at[i].name);
	vector_release(marks);
}

uint64_t mark_at_ns(const struct live_mark_read *mark, uint64_t started_mono_ns)
{
	return mark->mono_ns ? saturating_sub(mark->mono_ns, started_mono_ns)
			     : saturating_mul(mark->at_ms, 1000000ull);
}

static int compare_marks(const void *left, const void *right)
{
	const struct mark_row *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	return a->snapshot < b->snapshot ? -1 : a->snapshot > b->snapshot;
}

void mark_rows_give(mark_rows *marks, struct snapshots *snapshots, struct process_rows *rows)
{
	snapshots_give(snapshots, rows);
	rows->marks = marks->at;
	rows->mark_count = marks->count;
	for (size_t i = 0; i < rows->snapshot_count; i++) {
		uint32_t number = rows->snapshots[i].mark;

		if (number != 0 && number <= rows->mark_count)
			rows->marks[number - 1].snapshot = (uint32_t)i + 1;
	}
	if (rows->mark_count > 0)
		qsort(rows->marks, rows->mark_count, sizeof *rows->marks, compare_marks);
	marks->at = NULL;
	marks->count = 0;
}

/* False: it is not in the profile. */
static bool take_saved(const struct profile_copy *c, const struct live_mark_read *mark,
		       uint64_t at_ns, uint32_t number, struct snapshots *snapshots)
{
	struct snapshot_row row = { .at_ns = at_ns, .mark = number };
	struct live_sites sites;
	size_t before = snapshots->named;

	/* A snapshot that a collector has read may be overwritten. The control page was copied after the ring. */
	if (!mark->saved || mark->saved_at < c->control.saved_read ||
	    live_read_saved_sites(c->memory, c->bytes, mark, &sites) < 0)
		return false;
	struct live_now live = live_sum_heap(c->memory, c->bytes, &sites);

	row.live_bytes = live.bytes;
	row.live_blocks = live.blocks;
	row.live_bound_bytes = live.bytes_bound;
	row.live_bound_blocks = live.blocks_bound;
	snapshots_add(snapshots, &row, &sites);
	return snapshots->named > before;
}

void mark_rows_of_copy(const struct profile_copy *c, struct process_rows *rows)
{
	struct snapshots snapshots;
	mark_rows marks = { 0 };
	struct live_mark_read mark;
	uint64_t lost = 0, last_ns = 0;

	snapshots_init(&snapshots);
	for (size_t i = 0; live_mark_get(c->memory, c->bytes, i, &mark); i++) {
		last_ns = MAX(last_ns, mark_at_ns(&mark, profile_copy_head(c)->started_mono_ns));
		uint32_t number = mark_rows_add(&marks, mark.kind, last_ns, mark.name);

		if (mark.kind == LIVE_MARK_SNAPSHOT && mark.saved &&
		    (number == 0 || !take_saved(c, &mark, last_ns, number, &snapshots)))
			lost++;
	}
	mark_rows_give(&marks, &snapshots, rows);
	snapshots_release(&snapshots);
	rows->process.health[HEALTH_lost_snapshots] += lost;
}
