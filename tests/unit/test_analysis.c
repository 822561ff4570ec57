/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis */
/* The views as data: order, limits, keys, labels, and sums that must equal the totals. */
#include "test_model_made.h"

#include "analysis/advice/findings.h"
#include "analysis/analyses.h"
#include "analysis/result/build.h"
#include "analysis/result/runtime_frames.h"
#include "model/build.h"

struct fixture {
	struct profile *profile;
	struct names *names;
	struct locations *locations;
	struct result *result;
};

static struct fixture run_view(struct recording r, const char *view, size_t limit)
{
	const struct query query = { .file = "made.hg", .limit = limit };
	struct fixture f = { .profile = profile_new(&r, NULL), .names = names_new(NULL) };

	f.locations = locations_new(f.names);
	assert_non_null(f.profile);
	assert_non_null(analysis_find(view));
	f.result = analysis_answer(analysis_find(view), f.profile, f.locations, &query, NULL);
	assert_non_null(f.result);
	assert_string_equal(f.result->view, view);
	return f;
}

static void release(struct fixture *f)
{
	result_free(f->result);
	locations_free(f->locations);
	names_free(f->names);
	profile_free(f->profile);
}

static const struct result_value *cell(const struct result *r, size_t row, const char *column)
{
	for (size_t i = 0; i < r->table.column_count; i++)
		if (r->table.columns[i].name && strcmp(r->table.columns[i].name, column) == 0)
			return &r->table.values[row * r->table.column_count + i];
	fail_msg("no column %s", column);
	return NULL;
}

static const struct result_value *head(const struct result *r, const char *name)
{
	for (size_t i = 0; i < r->head.count; i++)
		if (strcmp(r->head.at[i].name, name) == 0)
			return &r->head.at[i].value;
	fail_msg("no field %s", name);
	return NULL;
}

/* Renderers rely on it; only what is unknown is a text without one. */
static void assert_units_are_the_columns(const struct result_table *t)
{
	for (size_t i = 0; i < t->row_count; i++)
		for (size_t j = 0; j < t->column_count; j++) {
			const struct result_value *v = &t->values[i * t->column_count + j];

			if (v->unit != UNIT_TEXT || v->text)
				assert_int_equal(v->unit, t->columns[j].unit);
		}
}

static void every_row_of_the_table_is_whole(void **state)
{
	(void)state;
	assert_string_equal(analyses[0].name, "summary"); /* the default */
	for (const struct analysis *a = analyses; a->name; a++) {
		assert_non_null(a->help);
		assert_ptr_equal(analysis_find(a->name), a);
		for (size_t n = a->needs_pages ? 1 : 0; n < 3; n++) {
			struct fixture f = run_view(made_recording(n), a->name, SIZE_MAX);

			assert_non_null(f.result->table.name);
			assert_units_are_the_columns(&f.result->table);
			release(&f);
		}
	}
	assert_null(analysis_find("no such view"));
}

static void sites_are_heaviest_first(void **state)
{
	(void)state;
	struct fixture f = run_view(made_recording(2), "sites", SIZE_MAX);
	const struct result *r = f.result;

	/* Peak 41000, 300, 200 (child), 50; then by leaked: the mapping; then by total. */
	static const uint64_t sites[] = { 3, 4, 1, 6, 7, 5 };

	assert_int_equal(r->table.row_count, ARRAY_SIZE(sites));
	for (size_t i = 0; i < ARRAY_SIZE(sites); i++)
		assert_int_equal(cell(r, i, "site")->number, sites[i]);
	assert_int_equal(cell(r, 2, "pid")->number, 4800);
	assert_string_equal(cell(r, 4, "kind")->text, "mmap");
	assert_int_equal(cell(r, 0, "stack")->frames.count, 3);
	assert_string_equal(cell(r, 0, "stack")->frames.at[0]->function, "server+0x3000");
	assert_true(cell(r, 0, "stack")->frames.at[0]->address_exact);
	assert_int_equal(cell(r, 1, "sizes")->bars.count, 2);
	assert_int_equal(cell(r, 0, "realloc")->fields.count, 7);
	assert_int_equal(head(r, "site_count")->number, 6);
	assert_int_equal(r->table.left_out_count, 0);
	release(&f);
}

static void limit_says_what_it_hides(void **state)
{
	(void)state;
	struct fixture f = run_view(made_recording(2), "sites", 2);
	const struct result_table *t = &f.result->table;

	assert_int_equal(t->row_count, 2);
	assert_int_equal(head(f.result, "site_count")->number, 6);
	assert_true(t->left_out_count > 4);
	assert_int_equal(t->left_out[0].number, 4);
	assert_int_equal(t->left_out[2].number, 250);
	assert_int_equal(t->left_out[4].share.part, 250);
	assert_int_equal(t->left_out[4].share.whole, 41550);
	release(&f);

	f = run_view(made_recording(2), "summary", 1);
	assert_int_equal(f.result->table.row_count, 1);
	assert_int_equal(f.result->table.left_out[0].number, 1);
	release(&f);
}

static void site_sums_equal_the_process_totals(void **state)
{
	(void)state;
	struct fixture sites = run_view(made_recording(2), "sites", SIZE_MAX);
	struct fixture summary = run_view(made_recording(2), "summary", SIZE_MAX);
	static const struct {
		const char *site, *process;
	} pairs[] = {
		{ "calls", "calls" },
		{ "total_bytes", "total_bytes" },
		{ "frees", "frees" },
		{ "not_freed_bytes", "not_freed_bytes" },
		{ "not_freed_blocks", "not_freed_blocks" },
		{ "peak_bytes", "peak_bytes" },
		{ "peak_blocks", "peak_blocks" },
		{ "temporary_calls", "temporary_calls" },
	};

	for (size_t p = 0; p < 2; p++) {
		uint64_t pid = cell(summary.result, p, "pid")->number;

		for (size_t k = 0; k < ARRAY_SIZE(pairs); k++) {
			uint64_t sum = 0;

			for (size_t i = 0; i < sites.result->table.row_count; i++)
				if (cell(sites.result, i, "pid")->number == pid &&
				    strcmp(cell(sites.result, i, "kind")->text, "heap") == 0)
					sum += cell(sites.result, i, pairs[k].site)->number;
			assert_int_equal(sum, cell(summary.result, p, pairs[k].process)->number);
		}
	}
	release(&sites);
	release(&summary);
}

static bool has_note(const struct result *r, const char *text)
{
	for (size_t i = 0; i < r->note_count; i++)
		if (strstr(r->notes[i].text, text))
			return true;
	return false;
}

static void summary_tells_health_and_warnings(void **state)
{
	(void)state;
	struct recording r = made_recording(2);

	r.warnings.bad_chunks = 3;
	r.processes[1].process.health[HEALTH_stacks_cut] = 2;
	struct fixture f = run_view(r, "summary", SIZE_MAX);

	assert_int_equal(cell(f.result, 0, "health")->fields.count, 1);
	assert_string_equal(cell(f.result, 0, "health")->fields.at[0].name, "stacks_cut");
	assert_int_equal(head(f.result, "warnings")->fields.count, 1);
	assert_string_equal(head(f.result, "warnings")->fields.at[0].name, "bad_chunks");
	/* Both processes' cut stacks are one note. */
	assert_int_equal(f.result->note_count, 2);
	assert_int_equal(f.result->notes[1].count, 16);
	assert_true(has_note(f.result, "damaged"));
	assert_false(has_note(f.result, "0 ALLOCATIONS"));
	release(&f);
}

static void nothing_recorded_is_said_loudly(void **state)
{
	(void)state;
	for (size_t processes = 0; processes < 2; processes++) {
		struct recording r = { .processes = calloc(2, sizeof *r.processes),
				       .process_count = processes };
		struct fixture f = run_view(r, "summary", SIZE_MAX);

		assert_true(f.result->note_count > 0);
		assert_non_null(strstr(f.result->notes[0].text, "0 ALLOCATIONS RECORDED"));
		release(&f);
		r = (struct recording){ .processes = calloc(2, sizeof *r.processes),
					.process_count = processes };
		f = run_view(r, "sites", SIZE_MAX);
		assert_non_null(strstr(f.result->notes[0].text, "0 ALLOCATIONS RECORDED"));
		release(&f);
	}
}

static const char *label_of(struct result *result, const struct result_frame *frames, size_t count)
{
	struct location all[8] = { 0 };
	const struct location *pointers[8];

	for (size_t i = 0; i < count; i++) {
		all[i].frame = frames[i];
		all[i].frame.full = frames[i].function;
		location_classify(&all[i]);
		all[i].own = frames[i].own;
		all[i].module = frames[i].module[0]; /* a number is enough */
		pointers[i] = &all[i];
	}
	return location_label(result, locations_owner((struct location_chain){ pointers, count }));
}

static void label_is_the_frame_that_speaks(void **state)
{
	(void)state;
	struct result result = { .arena = ARENA_INIT };
	struct result_frame frames[] = {
		{ .function = "libc.so.6+0x1234", .module = "/lib/libc.so.6" },
		{ .function = "operator new(unsigned long)", .module = "/lib/libstdc++.so.6" },
		{ .function = "std::vector<int>::push_back(int const&)",
		  .file = "/usr/vector.h",
		  .line = 9,
		  .module = "a" },
		{ .function = "g_list_append", .module = "/lib/libglib.so" },
		{ .function = "Cache::insert(Key, Blob)",
		  .file = "/src/cache.cc",
		  .line = 88,
		  .module = "a" },
		{ .function = "main", .file = "/src/main.cc", .line = 3, .module = "a" },
	};

#define LABEL(from, count) label_of(&result, frames + (from), count)
	assert_string_equal(LABEL(0, 6), "g_list_append (libglib.so)");
	assert_string_equal(LABEL(4, 2), "Cache::insert (cache.cc:88)");
	/* Nothing but runtime_frame: the leaf. */
	assert_string_equal(LABEL(0, 3), "libc.so.6+0x1234");
	assert_string_equal(LABEL(2, 1), "std::vector<int>::push_back (vector.h:9)");
	assert_string_equal(LABEL(0, 0), "[no stack]");
	/* A stripped program still says more than libc around it. */
	frames[3].function = "a+0x77";
	frames[3].module = "a";
	assert_string_equal(LABEL(0, 4), "a+0x77");
	assert_string_equal(LABEL(0, 5), "Cache::insert (cache.cc:88)");
	/* C9: but it is not blamed on another module. */
	frames[3].function = "lxml.so+0x77";
	frames[3].module = "lxml.so";
	assert_string_equal(LABEL(0, 5), "lxml.so+0x77");
	/* Except on own code. */
	frames[5].own = true;
	assert_string_equal(LABEL(0, 6), "main (main.cc:3)");
	frames[5].own = false;
	frames[5].function = "(anonymous namespace)::grow(unsigned long)";
	assert_string_equal(LABEL(5, 1), "(anonymous namespace)::grow (main.cc:3)");
	frames[5].function = "main::{lambda(int)#1}::operator()(int) const";
	assert_string_equal(LABEL(5, 1), "main::{lambda(int)#1}::operator() (main.cc:3)");
	frames[5].function = "Map<void (*)(int), 3>::operator<<(char)";
	assert_string_equal(LABEL(5, 1), "Map<void (*)(int), 3>::operator<< (main.cc:3)");
	frames[5].function = "a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on";
	assert_string_equal(LABEL(5, 1),
			    "...goes_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on"
			    " (main.cc:3)");
	/* Cut between characters, not inside one. */
	frames[5].function =
		"a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_\xc3\xa4\xc3\xa4";
	assert_string_equal(
		LABEL(5, 1),
		"...ame_that_goes_on_and_on_and_on_and_on_and_on_and_on_\xc3\xa4\xc3\xa4"
		" (main.cc:3)");
	frames[5].function = "\xc3\xa4_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and";
	assert_string_equal(LABEL(5, 1),
			    "...name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and"
			    " (main.cc:3)");
#undef LABEL
	arena_release(&result.arena);
}

/* The sheet that advice judges by in a run of 10 s, of three: when it held much, when it may have been about to end, and at the end. */
static uint64_t judged_at_ms(uint64_t second_ms, uint64_t second_bytes, uint64_t third_ms)
{
	struct memory_row sheets[] = {
		{ .at_ns = 5000000000, .live_bytes = 1000 },
		{ .at_ns = second_ms * 1000000, .live_bytes = second_bytes },
		{ .at_ns = third_ms * 1000000 },
	};
	const struct process_rows rows = { .memory = sheets, .memory_count = 3 };
	struct profile_process p = { .mode = "exact", .rows = &rows, .duration_ns = 10000000000 };

	p.memory = profile_memory_at(&p, 2);
	return findings_last_sheet(&p).at_ns / 1000000;
}

static void sheets_of_a_program_that_frees_all_at_its_end_are_not_judged(void **state)
{
	(void)state;
	assert_int_equal(judged_at_ms(9800, 100, 9990), 5000);
	assert_int_equal(judged_at_ms(9800, 2000, 9990), 9800);
	assert_int_equal(judged_at_ms(9600, 100, 9990), 9600); /* that was not the end */
	assert_int_equal(judged_at_ms(9100, 100, 9200), 9200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sheets_of_a_program_that_frees_all_at_its_end_are_not_judged),
		cmocka_unit_test(every_row_of_the_table_is_whole),
		cmocka_unit_test(sites_are_heaviest_first),
		cmocka_unit_test(limit_says_what_it_hides),
		cmocka_unit_test(site_sums_equal_the_process_totals),
		cmocka_unit_test(summary_tells_health_and_warnings),
		cmocka_unit_test(nothing_recorded_is_said_loudly),
		cmocka_unit_test(label_is_the_frame_that_speaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
