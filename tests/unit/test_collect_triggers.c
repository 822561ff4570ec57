/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* When conditions ask for a snapshot. */
#include "unit.h"

#include <signal.h>

#include "collect/process/triggers.h"

static struct trigger on(const char *text)
{
	struct triggers triggers = { 0 };
	struct error error = ERROR_INIT;

	assert_int_equal(triggers_on(&triggers, text, false, &error), 0);
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
	assert_int_equal(on("pressure>2.5%").limit, 250);
	assert_int_equal(on("pressure-full>5%").kind, TRIGGER_PRESSURE_FULL);
	assert_int_equal(on("site>100MiB").limit, 100ull << 20);
	assert_int_equal(on("growth>50MiB/min").limit, 50ull << 20);
	assert_int_equal(on("growth>50MiB/min").window_ns, 60000000000);
	assert_int_equal(on("growth>1GiB/10min").window_ns, 600000000000);
	assert_int_equal(on("growth>1GiB/90s").window_ns, 90000000000);
	assert_int_equal(on("every=10s").limit, 10000000000);
}

static void what_is_none_is_refused(void **state)
{
	static const char *const bad[] = { "",
					   "rss",
					   "rss>",
					   "rss>0",
					   "rss>120%",
					   "cgroup>2GiB",
					   "calls>50%",
					   "live>10%",
					   "signal=",
					   "signal=KILL",
					   "swap>1GiB",
					   "rss<80%",
					   "calls>-1",
					   "live>1XB",
					   "rss>80%more",
					   "pressure>1MiB",
					   "pressure>101%",
					   "site>5%",
					   "growth>5MiB",
					   "growth>/min",
					   "growth>5MiB/",
					   "growth>5MiB/1ms",
					   "every=",
					   "every=0",
					   "growth>5MiB/a very long word that is no time at all" };
	struct triggers triggers = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error error = ERROR_INIT;

		assert_int_equal(triggers_on(&triggers, bad[i], false, &error), -1);
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
		const struct trigger_input input = { .live_bytes =
							     trigger_range_of(course[i].live, 0) };

		assert_int_equal(trigger_fires(&trigger, &remembered, &input), course[i].fires);
	}
}

/* Neither does it count as below again only because it is not known. */
static void a_number_within_a_bound_fires_only_if_it_is_certainly_above(void **state)
{
	static const struct {
		uint64_t live, bound;
		bool fires;
	} course[] = {
		{ 1000, 900, false }, { 101, 1, false }, { 102, 1, true }, { 50, 60, false },
		{ 110, 0, false },    { 60, 29, false }, { 110, 0, true },
	};
	const struct trigger live = on("live>100"), site = on("site>100");
	struct trigger_state first = { 0 }, second = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(course); i++) {
		const struct trigger_range held = trigger_range_of(course[i].live, course[i].bound);
		const struct trigger_input input = { .live_bytes = held };

		assert_int_equal(trigger_fires(&live, &first, &input), course[i].fires);
		assert_int_equal(trigger_fires_by_site(&site, &second,
						       (struct trigger_range[]){ held, held }, 2,
						       0),
				 course[i].fires);
	}
	trigger_state_release(&second);
}

/* 1 +- 50 and then 149 +- 50 bytes: it may have grown by 48 only. */
static void growth_within_bounds_fires_only_if_it_is_certain(void **state)
{
	static const struct {
		uint64_t held, bound;
		bool fires;
	} course[] = { { 1, 50, false }, { 149, 50, false }, { 149, 0, false }, { 152, 0, true } };
	const struct trigger trigger = on("growth>100/10s");
	struct trigger_state remembered = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(course); i++) {
		const struct trigger_range held = trigger_range_of(course[i].held, course[i].bound);

		assert_int_equal(trigger_fires_by_site(&trigger, &remembered,
						       (struct trigger_range[]){ held, held }, 2,
						       (i + 1000) * 1000000000),
				 course[i].fires);
	}
	trigger_state_release(&remembered);
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

/* What stacks 1 and 2 hold at that time; whether the trigger fires. */
struct held {
	uint64_t at_ns;
	uint64_t first, second;
	bool fires;
};

static void follow(const char *text, const struct held *course, size_t count)
{
	const struct trigger trigger = on(text);
	struct trigger_state remembered = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct trigger_range sites[] = { trigger_range_of(1 << 30, 0),
						       trigger_range_of(course[i].first, 0),
						       trigger_range_of(course[i].second, 0) };

		/* The second one is new when it first holds something. */
		if (trigger_fires_by_site(&trigger, &remembered, sites,
					  course[i].second || remembered.sites.count > 2 ? 3 : 2,
					  course[i].at_ns * 1000000000) != course[i].fires)
			fail_msg("%s: row %zu", text, i);
	}
	trigger_state_release(&remembered);
}

static void each_stack_passes_a_limit_for_itself(void **state)
{
	static const struct held course[] = {
		{ 0, 50, 0, false },	{ 1, 101, 0, true },  { 2, 150, 0, false },
		{ 3, 150, 200, true },	{ 4, 150, 0, false }, { 5, 95, 101, true },
		{ 6, 101, 101, false }, { 7, 80, 95, false }, { 8, 101, 101, true },
	};

	(void)state;
	follow("site>100", course, ARRAY_SIZE(course));
}

static void growth_counts_within_its_time(void **state)
{
	static const struct held fast[] = {
		{ 0, 30, 0, false },  { 2, 60, 0, false },   { 4, 101, 0, true },
		{ 5, 150, 0, false }, { 6, 202, 0, true },   { 7, 100, 0, false },
		{ 8, 201, 0, true },  { 9, 201, 101, true }, { 10, 201, 190, false },
	};
	/* 20 each second are 200 in ten, but never more than 220 by the coarsest look. */
	static const struct held late[] = {
		{ 1000, 5000, 0, false },
		{ 1001, 5050, 0, false },
		{ 1002, 5101, 0, true },
	};
	struct held slow[100];

	(void)state;
	follow("growth>100/10s", fast, ARRAY_SIZE(fast));
	follow("growth>100/10s", late, ARRAY_SIZE(late)); /* what it held before is not known */
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
		slow[i] = (struct held){ i, i * 20, 0, false };
	follow("growth>220/10s", slow, ARRAY_SIZE(slow));
}

static void steady_growth_above_the_limit_is_seen(void **state)
{
	const struct trigger trigger = on("growth>100/10s");
	struct trigger_state remembered = { 0 };
	size_t fired = 0;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		const struct trigger_range sites[] = { trigger_range_of(0, 0),
						       trigger_range_of(i * 11 / 10, 0) };

		fired += trigger_fires_by_site(&trigger, &remembered, sites, 2, i * 100000000);
	}
	assert_in_range(fired, 6, 10); /* 1,098 bytes in all */
	trigger_state_release(&remembered);
}

static void pressure_is_compared_as_it_is(void **state)
{
	const struct trigger some = on("pressure>20%"), full = on("pressure-full>5%");
	struct trigger_state first = { 0 }, second = { 0 };
	const struct trigger_input input = { .some_pressure = 2001, .full_pressure = 500 };

	(void)state;
	assert_true(trigger_fires(&some, &first, &input));
	assert_false(trigger_fires(&some, &first, &input));
	assert_false(trigger_fires(&full, &second, &input));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_conditions),
		cmocka_unit_test(each_stack_passes_a_limit_for_itself),
		cmocka_unit_test(growth_counts_within_its_time),
		cmocka_unit_test(steady_growth_above_the_limit_is_seen),
		cmocka_unit_test(pressure_is_compared_as_it_is),
		cmocka_unit_test(what_is_none_is_refused),
		cmocka_unit_test(a_threshold_fires_when_it_is_passed_and_again_after_it_was_left),
		cmocka_unit_test(a_number_within_a_bound_fires_only_if_it_is_certainly_above),
		cmocka_unit_test(growth_within_bounds_fires_only_if_it_is_certain),
		cmocka_unit_test(calls_and_times_fire_at_every_multiple),
		cmocka_unit_test(shares_are_of_what_the_process_may_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
