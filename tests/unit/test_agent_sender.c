/* SPDX-License-Identifier: Apache-2.0 */
/* links: agent export util base */
/* What the sender does after each answer. It sends to a real server in tests/e2e/agent. */
#include "agent/push/sender.h"

#include <string.h>

#include "base/compiler.h"
#include "util/clock.h"
#include "unit.h"

static struct sender_decision answered(int status, size_t items)
{
	struct http_reply reply = { .outcome = HTTP_ANSWERED, .status = status };

	return sender_decide(&reply, items, 1, 0);
}

static void check(int status, enum sender_class class, enum sender_action of_one,
		  enum sender_action of_several)
{
	for (size_t items = 1; items <= 5; items += 4) {
		struct sender_decision d = answered(status, items);
		bool waits = d.action == SENDER_RETRY || d.action == SENDER_OTHERS;

		assert_int_equal(d.class, class);
		assert_int_equal(d.action, items == 1 ? of_one : of_several);
		assert_int_equal(waits, d.wait_ns > 0);
	}
}

static void answers_decide_what_happens_to_a_batch(void **state)
{
	static const int refusing[] = { 400, 413, 422 }, unauthorized[] = { 401, 403 };
	static const int unavailable[] = { 408, 500, 502, 503, 504, 599 };
	static const int unexpected[] = {
		0, 100, 301, 302, 307, 404, 405, 409, 410, 415, 499, 600
	};

	(void)state;
	check(200, SENDER_OK, SENDER_DELETE, SENDER_DELETE);
	check(204, SENDER_OK, SENDER_DELETE, SENDER_DELETE);
	check(429, SENDER_LIMITED, SENDER_OTHERS, SENDER_OTHERS);
	for (size_t i = 0; i < ARRAY_SIZE(refusing); i++)
		check(refusing[i], SENDER_REFUSED, SENDER_DROP, SENDER_SINGLY);
	for (size_t i = 0; i < ARRAY_SIZE(unauthorized); i++)
		check(unauthorized[i], SENDER_UNAUTHORIZED, SENDER_RETRY, SENDER_RETRY);
	for (size_t i = 0; i < ARRAY_SIZE(unavailable); i++)
		check(unavailable[i], SENDER_UNAVAILABLE, SENDER_OTHERS, SENDER_OTHERS);
	for (size_t i = 0; i < ARRAY_SIZE(unexpected); i++)
		check(unexpected[i], SENDER_UNEXPECTED, SENDER_RETRY, SENDER_RETRY);
}

static void without_an_answer_the_batch_is_kept(void **state)
{
	static const struct {
		enum http_outcome outcome;
		enum sender_class class;
	} cases[] = { { HTTP_NETWORK, SENDER_NETWORK },
		      { HTTP_TLS, SENDER_TLS },
		      { HTTP_LOCAL, SENDER_LOCAL } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct http_reply reply = { .outcome = cases[i].outcome, .status = 200 };
		struct sender_decision d = sender_decide(&reply, 3, 1, 0);

		assert_int_equal(d.class, cases[i].class);
		assert_int_equal(d.action, SENDER_RETRY);
		assert_true(d.wait_ns >= NS_PER_S);
	}
}

static void the_delay_doubles_from_one_second_to_five_minutes(void **state)
{
	struct http_reply reply = { .outcome = HTTP_NETWORK };
	uint64_t random = 1, previous_least = 0;

	(void)state;
	for (unsigned failures = 1; failures < 100; failures++) {
		uint64_t least = UINT64_MAX, most = 0, expected;

		for (int i = 0; i < 2000; i++) {
			uint64_t wait_ns =
				sender_decide(&reply, 1, failures, unit_random(&random)).wait_ns;

			least = MIN(least, wait_ns);
			most = MAX(most, wait_ns);
		}
		expected = failures < 9 ? NS_PER_S << (failures - 1) : 150 * NS_PER_S;
		expected = MIN(expected, 150 * NS_PER_S);
		assert_in_range(least, expected, expected + expected / 100);
		assert_in_range(most, 2 * expected - expected / 100, 2 * expected);
		assert_true(least >= previous_least || previous_least - least < expected / 100);
		previous_least = least;
	}
	assert_true(sender_decide(&reply, 1, UINT32_MAX, UINT64_MAX).wait_ns <= 300 * NS_PER_S);
}

static void the_store_may_say_when_to_return_within_bounds(void **state)
{
	struct http_reply reply = { .outcome = HTTP_ANSWERED, .status = 429, .retry_after_s = 7 };

	(void)state;
	assert_int_equal(sender_decide(&reply, 1, 1, 0).wait_ns, 7 * NS_PER_S);
	assert_int_equal(sender_decide(&reply, 1, 50, 0).wait_ns, 7 * NS_PER_S);
	assert_in_range(sender_decide(&reply, 1, 1, UINT64_MAX).wait_ns, 7 * NS_PER_S,
			8 * NS_PER_S);
	reply.retry_after_s = UINT64_MAX;
	assert_int_equal(sender_decide(&reply, 1, 1, 0).wait_ns, 300 * NS_PER_S);
	reply.status = 400; /* nothing to wait for */
	assert_int_equal(sender_decide(&reply, 1, 1, 0).wait_ns, 0);
}

static void each_class_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (enum sender_class i = 0; i < SENDER_CLASSES; i++)
		for (enum sender_class j = 0; j < i; j++)
			assert_string_not_equal(sender_class_name(i), sender_class_name(j));
	for (enum queue_drop i = 0; i < QUEUE_DROPS; i++)
		for (enum queue_drop j = 0; j < i; j++)
			assert_string_not_equal(queue_drop_name(i), queue_drop_name(j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_decide_what_happens_to_a_batch),
		cmocka_unit_test(without_an_answer_the_batch_is_kept),
		cmocka_unit_test(the_delay_doubles_from_one_second_to_five_minutes),
		cmocka_unit_test(the_store_may_say_when_to_return_within_bounds),
		cmocka_unit_test(each_class_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
