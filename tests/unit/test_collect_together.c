/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* N4: what processes hold together, against brute force: each holds something else in every millisecond, and is looked at now and then. */
#include <stdlib.h>

#include "base/compiler.h"
#include "collect/process/combined_peak.h"
#include "unit.h"

enum { PROCESSES = 5, TICKS = 60, HISTORIES = 2000, MS = 1000000 };

struct history {
	size_t start, end, peak_at; /* ticks */
	uint64_t held[TICKS];
};

/* What is held only rises or only falls between two looks, so that the lesser of both is held all the time. */
static void make(struct history *h, struct process_rows *rows, uint64_t *random)
{
	h->start = unit_random(random) % (TICKS - 10);
	h->end = h->start + 2 + unit_random(random) % (TICKS - h->start - 2);
	h->peak_at = h->start;
	for (size_t t = h->start; t < h->end; t++) {
		h->held[t] = unit_random(random) % 1000;
		if (h->held[t] > h->held[h->peak_at])
			h->peak_at = t;
	}
	rows->series = calloc(TICKS, sizeof *rows->series);
	assert_non_null(rows->series);
	for (size_t t = h->start; t < h->end; t++)
		rows->series[rows->series_count++] =
			(struct series_row){ .at_ns = (t - h->start) * MS,
					     .live_bytes = h->held[t] };
	rows->process = (struct process_row){ .started_offset_ns = h->start * MS,
					      .duration_ns = (h->end - h->start) * MS - 1,
					      .peak_bytes = h->held[h->peak_at],
					      .peak_at_ns = (h->peak_at - h->start) * MS };
}

static uint64_t truth_of(const struct history *all)
{
	uint64_t most = 0;

	for (size_t t = 0; t < TICKS; t++) {
		uint64_t sum = 0;

		for (size_t i = 0; i < PROCESSES; i++)
			sum += all[i].held[t];
		most = MAX(most, sum);
	}
	return most;
}

static void the_truth_is_within_the_bound(void **state)
{
	uint64_t random = 12345;

	(void)state;
	for (int k = 0; k < HISTORIES; k++) {
		struct history all[PROCESSES] = { 0 };
		struct combined_peak together = { 0 };
		struct run_row run = { 0 };
		uint64_t largest = 0;

		for (size_t i = 0; i < PROCESSES; i++) {
			struct process_rows rows = { 0 };

			make(&all[i], &rows, &random);
			combined_peak_add(&together, &rows);
			largest = MAX(largest, rows.process.peak_bytes);
			free(rows.series);
		}
		assert_true(combined_peak_find(&together, &run));
		uint64_t truth = truth_of(all);

		assert_true(run.peak_bytes >= largest && run.peak_bytes <= truth);
		assert_true(truth <= run.peak_bytes + run.peak_bound_bytes);
		combined_peak_release(&together);
	}
}

static void one_process_is_exact(void **state)
{
	struct process_rows rows = { .process = { .started_offset_ns = 5 * MS,
						  .duration_ns = 20 * MS,
						  .peak_bytes = 100,
						  .peak_at_ns = 7 * MS,
						  .peak_bound_bytes = 3 } };
	struct combined_peak together = { 0 };
	struct run_row run = { 0 };

	(void)state;
	combined_peak_add(&together, &rows);
	assert_true(combined_peak_find(&together, &run));
	assert_int_equal(run.peak_bytes, 100);
	assert_int_equal(run.peak_at_ns, 12 * MS);
	assert_int_equal(run.peak_bound_bytes, 3);
	combined_peak_release(&together);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_truth_is_within_the_bound),
		cmocka_unit_test(one_process_is_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
