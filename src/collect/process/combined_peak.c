/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/process/combined_peak.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/compiler.h"

/* A lower bound of the bytes that a process held between point `i` of its series and the next. */
static uint64_t held_after(const struct process_rows *rows, size_t i)
{
	const struct series_row *row = &rows->series[i];
	uint64_t here = saturating_sub(row->live_bytes, row->live_bound_bytes);

	return i + 1 < rows->series_count
		       ? MIN(here, saturating_sub(row[1].live_bytes, row[1].live_bound_bytes))
		       : here;
}

static bool push(struct combined_peak *t, uint64_t at_ns, uint64_t low, uint64_t high)
{
	const struct combined_peak_step step = { .at_ns = at_ns,
						 .low = low,
						 .high = high,
						 .process = t->processes,
						 .order = t->steps.count };

	return vector_push(&t->steps, step);
}

void combined_peak_add(struct combined_peak *t, const struct process_rows *rows)
{
	const struct process_row *p = &rows->process;
	uint64_t start = p->started_offset_ns;
	uint64_t last = saturating_add(start, p->duration_ns), end = saturating_add(last, 1);
	uint64_t peak_at = MIN(saturating_add(start, p->peak_at_ns), last), before = 0;
	uint64_t most = saturating_add(p->peak_bytes, p->peak_bound_bytes);
	bool done = push(t, start, 0, most);

	for (size_t i = 0; i < rows->series_count && done; i++) {
		uint64_t at = MIN(saturating_add(start, rows->series[i].at_ns), last);
		uint64_t held = MIN(held_after(rows, i), p->peak_bytes);

		if (at <= peak_at)
			before = held;
		done = push(t, at, held, most);
	}
	/* The exact peak counts for an instant, whatever the series says. */
	done = done && push(t, peak_at, p->peak_bytes, most) && push(t, peak_at, before, most) &&
	       push(t, end, 0, 0);
	t->processes++;
	t->failed |= !done;
}

static int compare(const void *left, const void *right)
{
	const struct combined_peak_step *a = left, *b = right;

	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	if ((a->high == 0) != (b->high == 0)) /* ends come before starts */
		return a->high == 0 ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

bool combined_peak_find(struct combined_peak *t, struct run_row *run)
{
	struct combined_peak_step *now = calloc(t->processes + 1, sizeof *now);
	uint64_t low = 0, high = 0, most = 0;

	if (!now || t->failed) {
		free(now);
		return false;
	}
	run->peak_bytes = run->peak_at_ns = 0;
	if (t->steps.count)
		qsort(t->steps.at, t->steps.count, sizeof *t->steps.at, compare);
	for (size_t i = 0; i < t->steps.count; i++) {
		const struct combined_peak_step *step = &t->steps.at[i];
		struct combined_peak_step *old = &now[step->process];

		low = saturating_add(low - old->low, step->low);
		high = saturating_add(high - old->high, step->high);
		*old = *step;
		most = MAX(most, high);
		if (low > run->peak_bytes) {
			run->peak_bytes = low;
			run->peak_at_ns = step->at_ns;
		}
	}
	run->peak_bound_bytes = saturating_sub(most, run->peak_bytes);
	free(now);
	return true;
}

void combined_peak_release(struct combined_peak *t)
{
	vector_release(&t->steps);
}
