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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_adds_up_line_by_line),
		cmocka_unit_test(health_says_what_is_lost_and_that_nothing_is),
		cmocka_unit_test(growth_has_a_verdict_for_each_course),
		cmocka_unit_test(timeline_is_a_chart_with_its_peak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
