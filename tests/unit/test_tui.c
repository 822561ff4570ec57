/* SPDX-License-Identifier: Apache-2.0 */
/* links: tui render analysis model symbols format util base */
/* The keys of `heapgauge top` and its lines of totals, without a terminal. */
#include "tui/view_state.h"

#include <ncurses.h>
#include <string.h>

#include "tui/totals.h"
#include "unit.h"

static struct ui_state ui_of(pid_t pid)
{
	struct ui_state ui = { .current = { .view = pid ? VIEW_SITES : VIEW_PROCESSES,
					    .interval_ns = 1000000000 } };

	view_state_set_process(&ui.current, pid);
	return ui;
}

static void press(struct ui_state *ui, const char *keys)
{
	const struct shown shown = { .lines = 100, .page = 10 };

	for (; *keys; keys++)
		ui_handle_key(ui, (unsigned char)*keys, &shown);
}

static const char *order_of(const struct ui_state *ui)
{
	return top_orders[ui->current.order].name;
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
		struct ui_state ui = ui_of(1);
		struct error error = ERROR_INIT;
		struct query query;

		ui.current.order = i;
		assert_int_equal(view_state_query(&ui.current, &query, &error), 0);
		assert_true(query.has_cost);
		assert_string_equal(query.file, "process 1");
	}
}

static void letters_choose_views_and_orders(void **state)
{
	struct ui_state ui = ui_of(7);
	uint64_t serial = ui.current.serial;

	(void)state;
	assert_string_equal(order_of(&ui), "live");
	press(&ui, "C");
	assert_string_equal(order_of(&ui), "calls");
	press(&ui, "t");
	assert_string_equal(top_views[ui.current.view].name, "tree");
	assert_int_equal(ui.current.serial, serial + 2);
	press(&ui, "L>");
	assert_string_equal(order_of(&ui), "growth");
	press(&ui, "<<");
	assert_string_equal(order_of(&ui), "realloc");
	press(&ui, "$"); /* means nothing */
	assert_int_equal(ui.current.serial, serial + 6);
	assert_false(ui.quit);
}

static void tab_goes_through_all_views_but_the_choice(void **state)
{
	struct ui_state ui = ui_of(7);
	size_t steps = 0;

	(void)state;
	do {
		press(&ui, "\t");
		steps++;
		assert_int_not_equal(ui.current.view, VIEW_PROCESSES);
		assert_true(top_view_exists(ui.current.view));
	} while (ui.current.view != VIEW_SITES && steps < 20);
	assert_in_range(steps, 5, 10);
}

static void a_filter_is_typed_changed_and_taken_back(void **state)
{
	const struct shown shown = { 0 };
	struct ui_state ui = ui_of(7);

	(void)state;
	press(&ui, "/ca\xc3\xa9");
	assert_true(ui.typing);
	ui_handle_key(&ui, KEY_BACKSPACE, &shown); /* both bytes of it */
	press(&ui, "che");
	assert_string_equal(ui.current.filter, "");
	press(&ui, "q"); /* a letter, here */
	assert_false(ui.quit);
	ui_handle_key(&ui, 127, &shown);
	press(&ui, "\n");
	assert_false(ui.typing);
	assert_string_equal(ui.current.filter, "cache");
	press(&ui, "/x\x1b");
	assert_string_equal(ui.current.filter, "cache");
	press(&ui, "/\x15\n"); /* Ctrl-U */
	assert_string_equal(ui.current.filter, "");
	press(&ui, "/");
	for (int i = 0; i < 1000; i++)
		press(&ui, "y");
	press(&ui, "\n");
	assert_int_equal(strlen(ui.current.filter), FILTER_SIZE - 1);
}

static void a_filter_that_is_no_regular_expression_is_an_error(void **state)
{
	struct ui_state ui = ui_of(7);
	struct error error = ERROR_INIT;
	struct query query;

	(void)state;
	press(&ui, "/(\n");
	assert_int_equal(view_state_query(&ui.current, &query, &error), -1);
	assert_non_null(strstr(error.message, "not a regular expression"));
	filters_release(&query.filters);
}

static void ctrl_c_quits_wherever_one_is(void **state)
{
	static const char *const before[] = { "", "?", "/abc", " ", "t" };

	(void)state;
	for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
		struct ui_state ui = ui_of(7);

		press(&ui, before[i]);
		assert_false(ui.quit);
		press(&ui, "\x03");
		assert_true(ui.quit);
	}
}

static void moving_stays_inside_what_is_shown(void **state)
{
	const struct shown shown = { .lines = 100, .page = 10 },
			   little = { .lines = 3, .page = 10 };
	struct ui_state ui = ui_of(7);

	(void)state;
	ui_handle_key(&ui, KEY_UP, &shown);
	assert_int_equal(ui.first_line, 0);
	ui_handle_key(&ui, KEY_NPAGE, &shown);
	assert_int_equal(ui.first_line, 9);
	ui_handle_key(&ui, KEY_END, &shown);
	assert_int_equal(ui.first_line, 90);
	ui_handle_key(&ui, KEY_DOWN, &shown);
	assert_int_equal(ui.first_line, 90);
	ui_handle_key(&ui, KEY_END, &little);
	assert_int_equal(ui.first_line, 0);
}

static void one_of_several_processes_is_chosen(void **state)
{
	static const pid_t pids[] = { 11, 22, 33 };
	const struct shown shown = {
		.lines = 4, .page = 10, .processes = pids, .process_count = 3
	};
	struct ui_state ui = ui_of(0);

	(void)state;
	ui_handle_key(&ui, 's', &shown); /* of whom? */
	assert_int_equal(ui.current.view, VIEW_PROCESSES);
	ui_handle_key(&ui, KEY_DOWN, &shown);
	ui_handle_key(&ui, '\r', &shown);
	assert_int_equal(ui.current.pid, 22);
	assert_int_equal(ui.current.view, VIEW_SITES);
	assert_string_equal(ui.current.report_command, "heapgauge report --pid 22");
	ui_handle_key(&ui, 'o', &shown);
	ui_handle_key(&ui, KEY_END, &shown);
	ui_handle_key(&ui, KEY_DOWN, &shown);
	ui_handle_key(&ui, '\r', &shown);
	assert_int_equal(ui.current.pid, 33);
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
				     .peak_rss_bytes = 16384,
				     .rss_bytes = 8192,
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
