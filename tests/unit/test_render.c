/* SPDX-License-Identifier: Apache-2.0 */
/* links: render model format */
/*
 * What people and programs see, to the byte: each output of a hand-made recording is compared with a
 * file of tests/golden. HEAPGAUGE_UPDATE_GOLDEN=1 writes them anew; read the difference before you
 * commit it.
 */
#include "test_golden.h"

static void summary_text(void **state)
{
	(void)state;
	const struct render_options people = { .columns = 100, .stack_frames = 8 };
	const struct render_options exact = { .exact_bytes = true };

	compare_golden(render_view(made_recording(1), "summary", "text", people, 20),
		       "summary.txt");
	compare_golden(render_view(made_recording(2), "summary", "text", people, 20),
		       "summary-two.txt");
	compare_golden(render_view(made_recording(1), "summary", "text", exact, 20),
		       "summary-bytes.txt");
	compare_golden(render_view((struct recording){ 0 }, "summary", "text", people, 20),
		       "summary-nothing.txt");
}

/* Those who were not recorded, and a peak that has no time. */
static void summary_of_a_short_run_with_missed_programs(void **state)
{
	(void)state;
	const struct render_options people = { .columns = 100, .stack_frames = 8 };
	static const struct missed_row missed[] = {
		{ MISSED_static, 1, (char *)"/bin/one" },
		{ MISSED_static, 8, (char *)"/bin/two" },
		{ MISSED_static, 1, (char *)"/bin/three" },
		{ MISSED_static, 1, (char *)"/bin/four" },
		{ MISSED_unconnected, 2, (char *)"" },
		{ MISSED_child, 1, (char *)"/bin/parent" },
	};
	struct recording r = made_recording(1);

	r.processes[0].process.peak_at_ns = 0;
	r.run.missed = calloc(ARRAY_SIZE(missed), sizeof *r.run.missed);
	assert_non_null(r.run.missed);
	for (size_t i = 0; i < ARRAY_SIZE(missed); i++) {
		r.run.missed[i] = missed[i];
		r.run.missed[i].path = strdup(missed[i].path);
	}
	r.run.missed_count = ARRAY_SIZE(missed);
	compare_golden(render_view(r, "summary", "text", people, 20), "summary-missed.txt");
}

static void sites_text(void **state)
{
	(void)state;
	const struct render_options people = { .columns = 100, .stack_frames = 8 };
	const struct render_options shallow = { .columns = 100, .stack_frames = 1 };

	compare_golden(render_view(made_recording(1), "sites", "text", people, 20), "sites.txt");
	compare_golden(render_view(made_recording(2), "sites", "text", shallow, 2),
		       "sites-limit.txt");
}

static void json(void **state)
{
	(void)state;
	const struct render_options options = { 0 };
	struct recording damaged = made_recording(2);

	damaged.warnings.cut_bytes = 5;
	compare_golden(render_view(made_recording(1), "summary", "json", options, SIZE_MAX),
		       "summary.json");
	compare_golden(render_view(damaged, "summary", "json", options, SIZE_MAX),
		       "summary-two.json");
	compare_golden(render_view(made_recording(1), "sites", "json", options, SIZE_MAX),
		       "sites.json");
	compare_golden(render_view((struct recording){ 0 }, "sites", "json", options, SIZE_MAX),
		       "sites-nothing.json");
}

/* Colours are escape sequences around the same text, and nothing else. */
static void colours_change_no_character(void **state)
{
	(void)state;
	const struct render_options plain = { .columns = 100, .stack_frames = 4 };
	struct render_options coloured = plain;

	size_t bold = 0, yellow = 0;

	coloured.colours = true;
	for (const struct analysis *a = analyses; a->name; a++) {
		AUTO_FREE char *without =
			render_view(made_recording(2), a->name, "text", plain, 20);
		AUTO_FREE char *with =
			render_view(made_recording(2), a->name, "text", coloured, 20);
		char *to = with;

		assert_null(strchr(without, '\033'));
		bold += strstr(with, "\033[1m") != NULL;
		yellow += strstr(with, "\033[33m!") != NULL;
		for (const char *from = with; *from;) {
			if (*from == '\033')
				from = strchr(from, 'm') + 1;
			else
				*to++ = *from++;
		}
		*to = '\0';
		assert_string_equal(with, without);
	}
	assert_true(bold > 10 && yellow > 10);
}

/* view-NAME.txt, .json and .csv: of two processes, so that every column that depends on it is there. */
static void every_view_in_every_format(void **state)
{
	(void)state;
	const struct render_options people = { .columns = 100, .stack_frames = 4, .utf8 = true };
	char name[64];

	for (const struct analysis *a = analyses; a->name; a++)
		for (const struct renderer *r = renderers; r->run; r++) {
			bool text = r == renderers;

			snprintf(name, sizeof name, "view-%s.%s", a->name, text ? "txt" : r->name);
			compare_golden(render_view(made_recording(2), a->name, r->name, people,
						   text ? 20 : SIZE_MAX),
				       name);
		}
}

/* A result made by hand, for what no recording of ours has. */
static const struct result_column two_columns[] = {
	{ "number", "NUMBER", UNIT_BYTES },
	{ "name", "NAME", UNIT_TEXT },
};

static struct result made_result(const struct result_value *values, size_t rows)
{
	return (struct result){ .view = "made",
				.table = { .name = "rows",
					   .columns = two_columns,
					   .column_count = 2,
					   .values = values,
					   .row_count = rows } };
}

static void numbers_stay_exact_and_names_stay_harmless(void **state)
{
	(void)state;
	const struct result_value values[] = {
		value_bytes(UINT64_MAX),
		value_text("esc\x1b[2J \xc3\xa4 \xff \"q\""),
	};
	const struct render_options exact = { .exact_bytes = true };
	struct result result = made_result(values, 1);
	struct sink sink = { 0 };

	assert_int_equal(render(&result, "json", exact, &sink, NULL), 0);
	const char *text = buffer_string(&sink.text);

	assert_non_null(strstr(text, "18446744073709551615"));
	assert_non_null(strstr(text, "esc\\u001b[2J \xc3\xa4 \xef\xbf\xbd \\\"q\\\""));
	buffer_clear(&sink.text);
	assert_int_equal(render(&result, "text", exact, &sink, NULL), 0);
	text = buffer_string(&sink.text);
	assert_non_null(strstr(text, "18,446,744,073,709,551,615 B"));
	assert_non_null(strstr(text, "esc?[2J \xc3\xa4"));
	assert_null(strchr(text, '\x1b'));
	buffer_release(&sink.text);
}

static void large_output_leaves_in_pieces_and_a_full_disk_is_told(void **state)
{
	enum { ROWS = 50000 };
	struct result_value *values = calloc(2 * ROWS, sizeof *values);

	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		values[2 * i] = value_bytes(i);
		values[2 * i + 1] = value_text("a name");
	}
	struct result result = made_result(values, ROWS);

	for (const struct renderer *r = renderers; r->run; r++) {
		struct sink sink = { 0 };
		struct error error = ERROR_INIT;

		assert_int_equal(
			render(&result, r->name, (struct render_options){ 0 }, &sink, NULL), 0);
		assert_true(sink.writes > 2);
		assert_non_null(strstr(buffer_string(&sink.text), "49999")
					? ""
					: strstr(buffer_string(&sink.text), "48.8 KiB"));
		buffer_release(&sink.text);

		struct sink broken = { .broken = true };

		assert_int_equal(
			render(&result, r->name, (struct render_options){ 0 }, &broken, &error),
			-1);
		assert_string_equal(error.message, "the disk is full");
		assert_int_equal(broken.writes, 1);
	}
	free(values);
}

static void estimates_stand_beside_their_errors(void **state)
{
	const struct render_options people = { .utf8 = true }, ascii = { 0 };
	static const char *const views[] = { "summary", "sites", "tree", "threads", "tags" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		char name[64];

		snprintf(name, sizeof name, "sampled-%s.txt", views[i]);
		compare_golden(render_view(mixed_recording(0, 4096), views[i], "text",
					   i % 2 ? ascii : people, 20),
			       name);
	}
	compare_golden(render_view(mixed_recording(0, 4096), "flame", "json", people, SIZE_MAX),
		       "sampled-flame.json");
	compare_golden(render_view(mixed_recording(0, 4096), "sites", "json", people, SIZE_MAX),
		       "sampled-sites.json");
	compare_golden(render_view(mixed_recording(0, 4096), "sizes", "csv", people, SIZE_MAX),
		       "sampled-sizes.csv");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_stand_beside_their_errors),
		cmocka_unit_test(summary_text),
		cmocka_unit_test(summary_of_a_short_run_with_missed_programs),
		cmocka_unit_test(sites_text),
		cmocka_unit_test(json),
		cmocka_unit_test(every_view_in_every_format),
		cmocka_unit_test(colours_change_no_character),
		cmocka_unit_test(numbers_stay_exact_and_names_stay_harmless),
		cmocka_unit_test(large_output_leaves_in_pieces_and_a_full_disk_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
