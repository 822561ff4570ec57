/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* When conditions ask for a snapshot. */
#include "unit.h"

#include <signal.h>

#include "collect/triggers.h"

static struct trigger on(const char *text)
{
	struct triggers triggers = { 0 };
	struct error error = ERROR_INIT;

	assert_int_equal(triggers_on(&triggers, text, &error), 0);
	struct trigger trigger = triggers.list.at[0];

	triggers_release(&triggers);
	return trigger;
}

static void words_become_conditions(void **state)
{
	(void)state;
	assert_int_equal(on("rss>80%").kind, TRIGGER_RSS);
	assert_true(on("rss>80%").percent);
	assert_int_equal(on("rss>2GiB").limit, 2ull << 30);
	assert_int_equal(on("cgroup>90%").kind, TRIGGER_CGROUP);
	assert_int_equal(on("live>64MiB").limit, 64ull << 20);
	assert_int_equal(on("calls>1.5M").limit, 1500000);
	assert_int_equal(on("signal=USR2").limit, SIGUSR2);
	assert_int_equal(on("signal=SIGUSR1").limit, SIGUSR1);
}

static void what_is_none_is_refused(void **state)
{
	static const char *const bad[] = { "",	       "rss",	      "rss>",	    "rss>0",
					   "rss>120%", "cgroup>2GiB", "calls>50%",  "live>10%",
					   "signal=",  "signal=KILL", "swap>1GiB",  "rss<80%",
					   "calls>-1", "live>1XB",    "rss>80%more" };
	struct triggers triggers = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error error = ERROR_INIT;

		assert_int_equal(triggers_on(&triggers, bad[i], &error), -1);
		assert_true(error.message[0]);
	}
	assert_int_equal(triggers_every(&triggers, "0", NULL), -1);
	assert_int_equal(triggers_every(&triggers, "10 s", NULL), 0);
	assert_int_equal(triggers.list.at[0].limit, 10000000000);
	triggers_release(&triggers);
}

static void a_threshold_fires_when_it_is_passed_and_again_after_it_was_left(void **state)
{
	static const struct {
		uint64_t live;
		bool fires;
	} course[] = {
		{ 50, false },	{ 100, false }, { 101, true }, { 150, false }, { 95, false },
		{ 120, false }, { 90, false },	{ 101, true }, { 0, false },   { 999, true }
	};
	const struct trigger trigger = on("live>100");
	struct trigger_state remembered = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(course); i++) {
		const struct trigger_input input = { .live_bytes = course[i].live };

		assert_int_equal(trigger_fires(&trigger, &remembered, &input), course[i].fires);
	}
}

static void calls_and_times_fire_at_every_multiple(void **state)
{
	static const struct {
		uint64_t calls;
		bool fires;
	} course[] = { { 0, false },  { 9, false }, { 10, true },  { 11, false },
		       { 19, false }, { 35, true }, { 39, false }, { 40, true } };
	const struct trigger trigger = on("calls>10");
	struct trigger_state remembered = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(course); i++) {
		const struct trigger_input input = { .calls = course[i].calls };

		assert_int_equal(trigger_fires(&trigger, &remembered, &input), course[i].fires);
	}
}

static void shares_are_of_what_the_process_may_have(void **state)
{
	const struct trigger rss = on("rss>50%"), group = on("cgroup>50%");
	struct trigger_state first = { 0 }, second = { 0 };
	const uint64_t gib = 1ull << 30;
	const struct trigger_input input = { .rss_bytes = 3 * gib,
					     .memory_bytes = 4 * gib,
					     .group_limit_bytes = 10 * gib,
					     .group_bytes = 6 * gib };
	const struct trigger_input none = { .rss_bytes = 3 * gib,
					    .memory_bytes = 8 * gib,
					    .group_bytes = 6 * gib };

	(void)state;
	assert_false(trigger_fires(&rss, &first, &none));
	assert_false(trigger_fires(&group, &second, &none)); /* no limit, no share */
	assert_true(trigger_fires(&rss, &first, &input));
	assert_true(trigger_fires(&group, &second, &input));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_conditions),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(a_threshold_fires_when_it_is_passed_and_again_after_it_was_left),
		cmocka_unit_test(calls_and_times_fire_at_every_multiple),
		cmocka_unit_test(shares_are_of_what_the_process_may_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
