/* SPDX-License-Identifier: Apache-2.0 */
/* links: render model format */
/* What the views of whole processes and of time look like, to the byte: see test_golden.h. */
#include "test_course_made.h"
#include "test_golden.h"

static void memory_adds_up_line_by_line(void **state)
{
	(void)state;
	GOLDEN_VIEW(made_course(1), "memory", "memory", 20);
	const struct render_options people = { .columns = 100 };
	const struct query early = { .limit = 20, .at = { MOMENT_TIME, 2 * MADE_SECOND, 0 } };

	compare_golden(render_query(made_course(2), "memory", "text", people, early),
		       "memory-early.txt");
	compare_golden(render_view(made_recording(1), "memory", "text", people, 20),
		       "memory-unknown.txt");
}

static void health_says_what_is_lost_and_that_nothing_is(void **state)
{
	(void)state;
	struct recording damaged = made_recording(2), whole = made_recording(1);
	const struct render_options people = { .columns = 100 };

	damaged.warnings.cut_bytes = 5;
	whole.processes[0].process.health[HEALTH_stacks_cut] = 0;
	compare_golden(render_view(damaged, "health", "text", people, 20), "health.txt");
	compare_golden(render_view(whole, "health", "text", people, 20), "health-whole.txt");
	damaged = made_recording(2);
	damaged.warnings.cut_bytes = 5;
	compare_golden(render_view(damaged, "health", "json", people, SIZE_MAX), "health.json");
	damaged = made_recording(2);
	damaged.warnings.cut_bytes = 5;
	compare_golden(render_view(damaged, "health", "csv", people, SIZE_MAX), "health.csv");
}

static void growth_has_a_verdict_for_each_course(void **state)
{
	(void)state;
	GOLDEN_VIEW(made_course(1), "growth", "growth", 20);
}

static void timeline_is_a_chart_with_its_peak(void **state)
{
	(void)state;
	const struct render_options ascii = { .columns = 80 };

	GOLDEN_VIEW(made_course(1), "timeline", "timeline", 12);
	compare_golden(render_view(made_course(2), "timeline", "text", ascii, 7),
		       "timeline-ascii.txt");
}

/* The course of a larger program: what was hundreds are millions. */
static struct recording wasteful(void)
{
	struct recording r = made_course(1);
	struct process_rows *rows = &r.processes[0];
	struct site_counters_row *growing = &rows->site_counters[0],
				 *parsed = &rows->site_counters[1];

	growing->frees = growing->freed_bytes = growing->freed_fragmentation = growing->temporary =
		0;
	growing->reallocs = (struct live_reallocs){ 0 };
	growing->bytes = 25600;
	growing->fragmentation = 800;
	*parsed = (struct site_counters_row){ .site = 4,
					      .slot = 0,
					      .calls = 500000,
					      .bytes = 20000000,
					      .frees = 480000,
					      .freed_bytes = 19000000,
					      .temporary = 400000,
					      .fragmentation = 4000000,
					      .peak_bytes = 1000000,
					      .peak_blocks = 20000,
					      .lifetime_ms_sum = 960000,
					      .reallocs = { .calls = 9000,
							    .moved_calls = 8000,
							    .moved_bytes = 7000000,
							    .grown_calls = 9000,
							    .old_bytes = 8000000,
							    .new_bytes = 16000000 } };
	rows->process.calls = rows->process.bytes = rows->process.frees = 0;
	rows->process.freed_bytes = rows->process.temporary = rows->process.fragmentation = 0;
	rows->process.map_calls = rows->process.map_bytes = rows->process.unmap_calls = 0;
	rows->process.unmap_bytes = 0;
	made_totals(rows);
	return r;
}

static void advice_has_evidence_and_savings(void **state)
{
	(void)state;
	GOLDEN_VIEW(wasteful(), "advice", "advice", 3);
}

static void the_summary_says_what_grows_and_where_to_look_next(void **state)
{
	(void)state;
	const struct render_options people = { .columns = 100 };
	const struct query query = { .limit = 20, .again = "heapgauge report made.hg" };

	compare_golden(render_query(wasteful(), "summary", "text", people, query),
		       "summary-growing.txt");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_adds_up_line_by_line),
		cmocka_unit_test(health_says_what_is_lost_and_that_nothing_is),
		cmocka_unit_test(growth_has_a_verdict_for_each_course),
		cmocka_unit_test(timeline_is_a_chart_with_its_peak),
		cmocka_unit_test(advice_has_evidence_and_savings),
		cmocka_unit_test(the_summary_says_what_grows_and_where_to_look_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
