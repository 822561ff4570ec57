/* SPDX-License-Identifier: Apache-2.0 */
/* links: tui render analysis model symbols format util base */
/* The keys of `heapgauge top` and its lines of totals, without a terminal. */
#include "tui/question.h"

#include <ncurses.h>
#include <string.h>

#include "tui/totals.h"
#include "unit.h"

static struct looking looking_at(pid_t pid)
{
	struct looking l = { .question = { .view = pid ? VIEW_SITES : VIEW_PROCESSES,
					   .interval_ns = 1000000000 } };

	question_process(&l.question, pid);
	return l;
}

static void press(struct looking *l, const char *keys)
{
	const struct shown shown = { .lines = 100, .page = 10 };

	for (; *keys; keys++)
		looking_press(l, (unsigned char)*keys, &shown);
}

static const char *order_of(const struct looking *l)
{
	return top_orders[l->question.order].name;
}

static void no_two_keys_are_the_same(void **state)
{
	char keys[64] = "q? b/<>+-\tjk\n";

	(void)state;
	for (size_t i = 0; top_views[i].name; i++) {
		assert_null(strchr(keys, top_views[i].key));
		strncat(keys, &top_views[i].key, 1);
	}
	for (size_t i = 0; top_orders[i].name; i++) {
		assert_null(strchr(keys, top_orders[i].key));
		strncat(keys, &top_orders[i].key, 1);
	}
}

static void every_order_is_a_question_that_analyses_understand(void **state)
{
	(void)state;
	for (size_t i = 0; top_orders[i].name; i++) {
		struct looking l = looking_at(1);
		struct error error = ERROR_INIT;
		struct query query;

		l.question.order = i;
		assert_int_equal(question_query(&l.question, &query, &error), 0);
		assert_true(query.has_cost);
		assert_string_equal(query.file, "process 1");
	}
}

static void letters_choose_views_and_orders(void **state)
{
	struct looking l = looking_at(7);
	uint64_t serial = l.question.serial;

	(void)state;
	assert_string_equal(order_of(&l), "live");
	press(&l, "C");
	assert_string_equal(order_of(&l), "calls");
	press(&l, "t");
	assert_string_equal(top_views[l.question.view].name, "tree");
	assert_int_equal(l.question.serial, serial + 2);
	press(&l, "L>");
	assert_string_equal(order_of(&l), "growth");
	press(&l, "<<");
	assert_string_equal(order_of(&l), "realloc");
	press(&l, "$"); /* means nothing */
	assert_int_equal(l.question.serial, serial + 6);
	assert_false(l.quit);
}

static void tab_goes_through_all_views_but_the_choice(void **state)
{
	struct looking l = looking_at(7);
	size_t steps = 0;

	(void)state;
	do {
		press(&l, "\t");
		steps++;
		assert_int_not_equal(l.question.view, VIEW_PROCESSES);
		assert_true(top_view_exists(l.question.view));
	} while (l.question.view != VIEW_SITES && steps < 20);
	assert_in_range(steps, 5, 10);
}

static void a_filter_is_typed_changed_and_taken_back(void **state)
{
	const struct shown shown = { 0 };
	struct looking l = looking_at(7);

	(void)state;
	press(&l, "/ca\xc3\xa9");
	assert_true(l.typing);
	looking_press(&l, KEY_BACKSPACE, &shown); /* both bytes of it */
	press(&l, "che");
	assert_string_equal(l.question.filter, "");
	press(&l, "q"); /* a letter, here */
	assert_false(l.quit);
	looking_press(&l, 127, &shown);
	press(&l, "\n");
	assert_false(l.typing);
	assert_string_equal(l.question.filter, "cache");
	press(&l, "/x\x1b");
	assert_string_equal(l.question.filter, "cache");
	press(&l, "/\x15\n"); /* Ctrl-U */
	assert_string_equal(l.question.filter, "");
	press(&l, "/");
	for (int i = 0; i < 1000; i++)
		press(&l, "y");
	press(&l, "\n");
	assert_int_equal(strlen(l.question.filter), QUESTION_TEXT - 1);
}

static void a_filter_that_is_no_regular_expression_is_an_error(void **state)
{
	struct looking l = looking_at(7);
	struct error error = ERROR_INIT;
	struct query query;

	(void)state;
	press(&l, "/(\n");
	assert_int_equal(question_query(&l.question, &query, &error), -1);
	assert_non_null(strstr(error.message, "not a regular expression"));
	filters_release(&query.filters);
}

static void ctrl_c_quits_wherever_one_is(void **state)
{
	static const char *const before[] = { "", "?", "/abc", " ", "t" };

	(void)state;
	for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
		struct looking l = looking_at(7);

		press(&l, before[i]);
		assert_false(l.quit);
		press(&l, "\x03");
		assert_true(l.quit);
	}
}

static void moving_stays_inside_what_is_shown(void **state)
{
	const struct shown shown = { .lines = 100, .page = 10 },
			   little = { .lines = 3, .page = 10 };
	struct looking l = looking_at(7);

	(void)state;
	looking_press(&l, KEY_UP, &shown);
	assert_int_equal(l.first_line, 0);
	looking_press(&l, KEY_NPAGE, &shown);
	assert_int_equal(l.first_line, 9);
	looking_press(&l, KEY_END, &shown);
	assert_int_equal(l.first_line, 90);
	looking_press(&l, KEY_DOWN, &shown);
	assert_int_equal(l.first_line, 90);
	looking_press(&l, KEY_END, &little);
	assert_int_equal(l.first_line, 0);
}

static void one_of_several_processes_is_chosen(void **state)
{
	static const pid_t pids[] = { 11, 22, 33 };
	const struct shown shown = {
		.lines = 4, .page = 10, .processes = pids, .process_count = 3
	};
	struct looking l = looking_at(0);

	(void)state;
	looking_press(&l, 's', &shown); /* of whom? */
	assert_int_equal(l.question.view, VIEW_PROCESSES);
	looking_press(&l, KEY_DOWN, &shown);
	looking_press(&l, '\r', &shown);
	assert_int_equal(l.question.pid, 22);
	assert_int_equal(l.question.view, VIEW_SITES);
	assert_string_equal(l.question.again, "heapgauge report --pid 22");
	looking_press(&l, 'o', &shown);
	looking_press(&l, KEY_END, &shown);
	looking_press(&l, KEY_DOWN, &shown);
	looking_press(&l, '\r', &shown);
	assert_int_equal(l.question.pid, 33);
}

/* ---- totals ---- */

static void expect_line(const struct totals *totals, const struct profile_process *p, size_t line,
			const char *expected)
{
	struct buffer out = BUFFER_INIT;

	totals_line(totals, p, line, true, false, &out);
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
}

static void totals_have_rates_between_the_last_two_readings(void **state)
{
	struct profile_process p = { .duration_ns = 1000000000,
				     .live_bytes = 1000,
				     .bytes = 5000,
				     .calls = 100,
				     .peak_bytes = 2000,
				     .live_blocks = 3,
				     .peak_rss_bytes = 8192,
				     .own_bytes = 4096,
				     .threads = 2 };
	struct totals totals = { 0 };

	(void)state;
	totals_add(&totals, &p);
	expect_line(&totals, &p, 0,
		    " live          1,000 B                 #  peak 2,000 B  3 blocks");
	p.duration_ns += 2000000000;
	p.live_bytes = 500;
	p.bytes += 3000;
	p.calls += 400;
	totals_add(&totals, &p);
	expect_line(&totals, &p, 0,
		    " live            500 B                #-  peak 2,000 B  3 blocks");
	expect_line(&totals, &p, 1,
		    " RSS           8,192 B                ##  recorder 4,096 B  threads 2");
	expect_line(&totals, &p, 2,
		    " calls           200/s                 #  asks 1,500 B/s  grows -250 B/s");
}

static void another_life_of_the_number_begins_anew(void **state)
{
	struct profile_process p = { .duration_ns = 1000, .calls = 100 };
	struct totals totals = { 0 };

	(void)state;
	for (int i = 0; i < 3 * TOTALS_POINTS; i++) {
		p.duration_ns += 1000;
		totals_add(&totals, &p);
	}
	assert_int_equal(totals.count, TOTALS_POINTS);
	p.duration_ns = 5;
	totals_add(&totals, &p);
	assert_int_equal(totals.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_two_keys_are_the_same),
		cmocka_unit_test(every_order_is_a_question_that_analyses_understand),
		cmocka_unit_test(letters_choose_views_and_orders),
		cmocka_unit_test(tab_goes_through_all_views_but_the_choice),
		cmocka_unit_test(a_filter_is_typed_changed_and_taken_back),
		cmocka_unit_test(a_filter_that_is_no_regular_expression_is_an_error),
		cmocka_unit_test(ctrl_c_quits_wherever_one_is),
		cmocka_unit_test(moving_stays_inside_what_is_shown),
		cmocka_unit_test(one_of_several_processes_is_chosen),
		cmocka_unit_test(totals_have_rates_between_the_last_two_readings),
		cmocka_unit_test(another_life_of_the_number_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
