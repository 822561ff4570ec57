/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base */
/* What a recorder without a collector makes of the kernel's texts. */
#include "recorder/process/self_budget.h"

#include "unit.h"

static void numbers_stand_behind_their_field(void **state)
{
	static const char events[] = "low 0\nhigh 3\nmax 17\noom 2\noom_kill 5\noom_group_kill 1\n";
	static const char control[] = "oom_kill_disable 1\nunder_oom 0\noom_kill 4\n";

	(void)state;
	assert_int_equal(self_budget_number(events, "\noom_kill ", 9), 5);
	assert_int_equal(self_budget_number(control, "\noom_kill ", 9), 4);
	assert_int_equal(self_budget_number("MemFree:  12 kB\nMemAvailable:   4711 kB\n",
					    "MemAvailable:", 0),
			 4711);
	assert_int_equal(self_budget_number("", "\noom_kill ", 9), 9);
	assert_int_equal(self_budget_number("x max", "x", 9), 9);
	assert_true(self_budget_number("x 99999999999999999999999999", "x", 9) >= 1ull << 60);
}

static void there_is_always_some_room(void **state)
{
	struct live_own own = { 0 };
	struct live_budget budget = self_budget_find(&own);

	(void)state;
	assert_true(budget.bytes > 0);
	assert_true(budget.bytes <= 1ull << 30);
	assert_true(budget.limit_bytes >= budget.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_stand_behind_their_field),
		cmocka_unit_test(there_is_always_some_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
