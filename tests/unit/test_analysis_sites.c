/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis */
/*
 * The views of sites, sizes and threads on random profiles, against blocks that are counted one by
 * one: sums, parts, limits, filters.
 */
#include "test_analysis_random.h"

#include <unistd.h>

#include "analysis/analyses.h"
#include "model/build.h"

enum { ROUNDS = 12 };

static struct world_fixture {
	struct random_world world;
	struct profile *profile;
	struct names *names;
	struct locations *locations;
} f;

static void begin(uint64_t seed)
{
	struct recording r = random_recording(&f.world, seed);

	f.profile = profile_new(&r, NULL);
	f.names = names_new(NULL);
	f.locations = locations_new(f.names);
	assert_non_null(f.profile);
}

static void end(void)
{
	locations_free(f.locations);
	names_free(f.names);
	profile_free(f.profile);
}

static struct query whole_query(void)
{
	return (struct query){ .file = "random.hg", .limit = SIZE_MAX };
}

static struct result *run(const char *view, const struct query *query)
{
	struct error error = ERROR_INIT;
	struct result *result =
		analysis_answer(analysis_find(view), f.profile, f.locations, query, &error);

	if (!result)
		fail_msg("%s: %s", view, error.message);
	return result;
}

static struct query of_cost(const char *cost)
{
	struct query q = whole_query();

	assert_int_equal(cost_parse(cost, &q.cost, &q.at, NULL), 0);
	q.has_cost = true;
	return q;
}

static const struct result_value *cell(const struct result *r, size_t row, const char *column)
{
	for (size_t i = 0; i < r->table.column_count; i++)
		if (r->table.columns[i].name && strcmp(r->table.columns[i].name, column) == 0)
			return &r->table.values[row * r->table.column_count + i];
	fail_msg("no column %s", column);
	return NULL;
}

static const struct result_value *field(const struct result *r, const char *name)
{
	for (size_t i = 0; i < r->head.count; i++)
		if (strcmp(r->head.at[i].name, name) == 0)
			return &r->head.at[i].value;
	fail_msg("no field %s", name);
	return NULL;
}

static uint64_t head(const struct result *r, const char *name)
{
	return field(r, name)->number;
}

/* All that the bars of a field count. */
static uint64_t head_bars(const struct result *r, const char *name)
{
	struct result_bars bars = field(r, name)->bars;
	uint64_t total = 0;

	for (size_t i = 0; i < bars.count; i++)
		total += bars.at[i].count;
	return total;
}

static uint64_t sum(const struct result *r, const char *column)
{
	uint64_t total = 0;

	for (size_t i = 0; i < r->table.row_count; i++) {
		const struct result_value *v = cell(r, i, column);

		total += v->unit == UNIT_TEXT ? 0 : v->number;
	}
	return total;
}

/* A question whose answer can be counted: what one block adds to it. */
struct counted {
	const char *cost, *column;
	uint64_t (*of)(const struct random_block *b);
};

static uint64_t is_peak(const struct random_block *b)
{
	return block_at_peak(b) ? b->size : 0;
}
static uint64_t is_left(const struct random_block *b)
{
	return block_freed(b) ? 0 : b->size;
}
static uint64_t is_left_block(const struct random_block *b)
{
	return !block_freed(b);
}
static uint64_t size_of(const struct random_block *b)
{
	return b->size;
}
static uint64_t is_call(const struct random_block *b)
{
	(void)b;
	return 1;
}
static uint64_t is_temporary(const struct random_block *b)
{
	return b->temporary;
}
static uint64_t waste_of(const struct random_block *b)
{
	return b->waste;
}
static uint64_t life_of(const struct random_block *b)
{
	return block_freed(b) ? (uint64_t)(b->died - b->born) * 1000000 : 0;
}
static uint64_t copied_of(const struct random_block *b)
{
	return b->copied;
}

static const struct counted questions[] = {
	{ "peak", "peak_bytes", is_peak },
	{ "leaked", "not_freed_bytes", is_left },
	{ "live", "live_bytes", is_left },
	{ "blocks", "live_blocks", is_left_block },
	{ "total", "total_bytes", size_of },
	{ "calls", "calls", is_call },
	{ "temporary", "temporary_calls", is_temporary },
	{ "waste", "internal_fragmentation_bytes", waste_of },
	{ "lifetime", "lifetime_ns", life_of },
	{ "realloc", "copied_bytes", copied_of },
};

static bool of_site(const struct random_block *b, const struct result *r, size_t row)
{
	return (b->process + 1) * 100 == cell(r, row, "pid")->number &&
	       b->site == cell(r, row, "site")->number;
}

static uint64_t truth(uint64_t (*of)(const struct random_block *), bool heap_only)
{
	uint64_t total = 0;

	for (size_t i = 0; i < RANDOM_BLOCKS; i++)
		if (!heap_only || random_kind(f.world.blocks[i].site) == LIVE_KIND_HEAP)
			total += of(&f.world.blocks[i]);
	return total;
}

static void rows_and_their_sums_are_what_the_blocks_say(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		begin(seed);
		for (size_t q = 0; q < ARRAY_SIZE(questions); q++) {
			struct query query = of_cost(questions[q].cost);
			struct result *r = run("sites", &query);
			uint64_t before = UINT64_MAX;

			for (size_t row = 0; row < r->table.row_count; row++) {
				uint64_t want = 0, got = cell(r, row, questions[q].column)->number;

				for (size_t i = 0; i < RANDOM_BLOCKS; i++)
					if (of_site(&f.world.blocks[i], r, row))
						want += questions[q].of(&f.world.blocks[i]);
				assert_int_equal(got, want);
				assert_true(got <= before); /* heaviest first */
				before = got;
			}
			assert_int_equal(sum(r, questions[q].column),
					 truth(questions[q].of, false));
			assert_int_equal(head(r, "shown"), truth(questions[q].of, false));
			assert_int_equal(head(r, "total"), truth(questions[q].of, false));
			result_free(r);
			query.kinds = KINDS_HEAP;
			r = run("sites", &query);
			assert_int_equal(head(r, "shown"), truth(questions[q].of, true));
			result_free(r);
		}
		end();
	}
}

static void what_focus_shows_and_ignore_shows_is_the_whole(void **state)
{
	(void)state;
	static const enum rule_kind pairs[][2] = { { RULE_FOCUS, RULE_IGNORE },
						   { RULE_MODULE, RULE_NOT_MODULE } };
	static const char *const patterns[][2] = { { "0x[135]000", "app" },
						   { "libother", "app$" } };

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		begin(seed);
		for (size_t q = 0; q < ARRAY_SIZE(questions); q++) {
			size_t pair = q % 2, rows = 0;
			uint64_t shown = 0;
			struct query all = of_cost(questions[q].cost);
			struct result *whole = run("sites", &all);

			for (size_t side = 0; side < 2; side++) {
				struct query query = of_cost(questions[q].cost);

				assert_int_equal(filters_add(&query.filters, pairs[pair][side],
							     patterns[pair][seed % 2], NULL),
						 0);
				struct result *r = run("sites", &query);

				rows += r->table.row_count;
				shown += head(r, "shown");
				assert_int_equal(head(r, "shown"), sum(r, questions[q].column));
				assert_int_equal(head(r, "total"), head(whole, "total"));
				assert_true(r->sentence_count >= 2);
				assert_string_equal(r->sentences[1].label, "shown");
				result_free(r);
				filters_release(&query.filters);
			}
			assert_int_equal(rows, whole->table.row_count);
			assert_int_equal(shown, head(whole, "shown"));
			result_free(whole);
		}
		end();
	}
}

static void limits_and_thresholds_hide_what_they_say(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct query query = of_cost("total");
		size_t count;

		begin(seed);
		query.kinds = KINDS_HEAP;
		struct result *all = run("sites", &query);

		count = all->table.row_count;
		result_free(all);
		for (size_t limit = 0; limit <= count + 1; limit += 7) {
			query.limit = limit;
			struct result *r = run("sites", &query);
			const struct result_table *t = &r->table;

			assert_int_equal(t->row_count, MIN(limit, count));
			assert_int_equal(head(r, "site_count"), count);
			if (limit >= count) {
				assert_int_equal(t->left_out_count, 0);
			} else {
				assert_int_equal(t->left_out[0].number, count - limit);
				assert_int_equal(t->left_out[2].number + sum(r, "total_bytes"),
						 head(r, "shown"));
			}
			result_free(r);
		}
		query.limit = SIZE_MAX;
		query.has_threshold = true;
		query.threshold_percent = 5;
		struct result *r = run("sites", &query);

		assert_in_range(r->table.row_count, 1, 20);
		for (size_t i = 0; i < r->table.row_count; i++)
			assert_true(cell(r, i, "total_bytes")->number * 20 >= head(r, "shown"));
		assert_int_equal(r->table.left_out[2].number + sum(r, "total_bytes"),
				 head(r, "shown"));
		result_free(r);
		end();
	}
}

/* Which sites belong to a view, and that each has its own cost first. */
static void each_question_has_the_sites_that_answer_it(void **state)
{
	(void)state;
	static const struct {
		const char *view, *column;
		uint64_t (*belongs)(const struct random_block *b),
			(*of)(const struct random_block *b);
	} views[] = {
		{ "leaks", "not_freed_bytes", is_left_block, is_left },
		{ "temporary", "temporary_calls", is_temporary, is_temporary },
		{ "reallocs", "copied_bytes", NULL, copied_of },
		{ "peak", "peak_bytes", NULL, is_peak },
	};

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		begin(seed);
		for (size_t v = 0; v < ARRAY_SIZE(views); v++) {
			struct query query = whole_query();
			struct result *r = run(views[v].view, &query);
			bool belongs[RANDOM_PROCESSES][RANDOM_SITES + 1] = { 0 };
			size_t sites = 0;

			for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
				const struct random_block *b = &f.world.blocks[i];
				bool in = views[v].belongs	     ? views[v].belongs(b) != 0
					  : views[v].of == copied_of ? b->moved
								     : block_at_peak(b);

				if (random_kind(b->site) == LIVE_KIND_HEAP)
					belongs[b->process][b->site] |= in;
			}
			for (size_t p = 0; p < RANDOM_PROCESSES; p++)
				for (size_t s = 1; s <= RANDOM_SITES; s++)
					sites += belongs[p][s];
			assert_int_equal(r->table.row_count, sites);
			for (size_t i = 0; i < sites; i++)
				assert_true(belongs[cell(r, i, "pid")->number / 100 - 1]
						   [cell(r, i, "site")->number]);
			assert_int_equal(sum(r, views[v].column), truth(views[v].of, true));
			result_free(r);
		}
		end();
	}
}

static int compare_numbers(const void *left, const void *right)
{
	const unsigned *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* R10: the sum of what long-lived processes free is more than 64 bits of nanoseconds; the mean is not. */
static void a_mean_lifetime_is_right_where_the_sum_is_too_large_for_ns(void **state)
{
	const uint64_t year_ms = 365 * 24 * 3600 * UINT64_C(1000);

	(void)state;
	assert_int_equal(mean_lifetime_ns(1000000 * year_ms, 1000000), year_ms * 1000000);
	assert_int_equal(mean_lifetime_ns(UINT64_MAX, UINT64_MAX), 1000000);
	assert_int_equal(mean_lifetime_ns(3, 2), 1500000);
	assert_int_equal(mean_lifetime_ns(UINT64_MAX, 1), UINT64_MAX);
}

static void lifetimes_bound_the_median_and_the_longest(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct query query = whole_query();

		begin(seed);
		struct result *r = run("lifetimes", &query);
		uint64_t before = UINT64_MAX;

		assert_int_equal(head_bars(r, "lifetimes"), sum(r, "frees"));
		for (size_t row = 0; row < r->table.row_count; row++) {
			unsigned lived[RANDOM_BLOCKS];
			size_t count = 0;
			uint64_t brief = 0;

			for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
				const struct random_block *b = &f.world.blocks[i];

				if (!of_site(b, r, row) || !block_freed(b))
					continue;
				lived[count++] = b->died - b->born;
				brief += b->died == b->born;
			}
			qsort(lived, count, sizeof *lived, compare_numbers);
			uint64_t median = lived[(count - 1) / 2] * UINT64_C(1000000);
			uint64_t longest = lived[count - 1] * UINT64_C(1000000);
			uint64_t half = cell(r, row, "median_lifetime_ns")->number;
			uint64_t all = cell(r, row, "max_lifetime_ns")->number;

			assert_true(median < half && half <= MAX(2 * median, UINT64_C(1000000)));
			assert_true(longest < all && all <= MAX(2 * longest, UINT64_C(1000000)));
			assert_int_equal(cell(r, row, "short_lived_frees")->number, brief);
			assert_int_equal(cell(r, row, "frees")->number, count);
			assert_true(brief <= before);
			before = brief;
		}
		result_free(r);
		end();
	}
}

static void leaks_tell_how_old_they_are(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct query query = whole_query();

		begin(seed);
		struct result *r = run("leaks", &query);

		assert_int_equal(head_bars(r, "ages"), sum(r, "not_freed_blocks"));
		for (size_t row = 0; row < r->table.row_count; row++) {
			uint64_t oldest = 0, older = 0, bytes = 0, blocks = 0;
			uint64_t half = cell(r, row, "median_age_ns")->number;
			const struct result_bars ages = cell(r, row, "ages")->bars;

			for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
				const struct random_block *b = &f.world.blocks[i];
				uint64_t age = (RANDOM_TICKS - b->born) * UINT64_C(1000000);

				if (!of_site(b, r, row) || block_freed(b))
					continue;
				oldest = MAX(oldest, age);
				bytes += b->size;
				older += age >= half ? b->size : 0;
			}
			for (size_t i = 0; i < ages.count; i++)
				blocks += ages.at[i].count;
			assert_int_equal(blocks, cell(r, row, "not_freed_blocks")->number);
			assert_in_range(oldest, cell(r, row, "max_age_ns")->number,
					2 * cell(r, row, "max_age_ns")->number);
			assert_true(2 * older >= bytes);
			assert_string_equal(cell(r, row, "state")->text, "not freed at exit");
		}
		result_free(r);
		end();
	}
}

static void threads_pass_on_what_the_blocks_say(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct query query = whole_query();

		begin(seed);
		struct result *r = run("threads", &query);

		assert_int_equal(r->table.row_count, RANDOM_PROCESSES * RANDOM_SLOTS);
		for (size_t row = 0; row < r->table.row_count; row++) {
			uint64_t by_others = 0, for_others = 0, held = 0, calls = 0;
			unsigned process = (unsigned)cell(r, row, "pid")->number / 100 - 1;
			unsigned slot = (unsigned)cell(r, row, "slot")->number;

			for (size_t i = 0; i < RANDOM_BLOCKS; i++) {
				const struct random_block *b = &f.world.blocks[i];
				bool passed = block_freed(b) && b->freer != b->slot;

				if (b->process != process || random_kind(b->site) != LIVE_KIND_HEAP)
					continue;
				calls += b->slot == slot;
				by_others += b->slot == slot && passed ? b->size : 0;
				for_others += b->freer == slot && passed ? b->size : 0;
				held += b->slot == slot && !block_freed(b) ? b->size : 0;
			}
			assert_int_equal(cell(r, row, "calls")->number, calls);
			assert_int_equal(cell(r, row, "freed_by_others_bytes")->number, by_others);
			assert_int_equal(cell(r, row, "freed_for_others_bytes")->number,
					 for_others);
			assert_int_equal(cell(r, row, "live_bytes")->number, held);
			struct result_fields of = cell(r, row, "freed_by_owner")->fields;
			uint64_t matrix = 0;

			for (size_t i = 0; i < of.count; i++)
				matrix += of.at[i].value.fields.at[1].value.number;
			assert_int_equal(matrix, for_others);
		}
		assert_int_equal(sum(r, "live_bytes"), truth(is_left, true));
		assert_int_equal(sum(r, "freed_by_others_bytes"),
				 head(r, "cross_thread_freed_bytes"));
		result_free(r);
		end();
	}
}

static void sizes_add_up_to_the_calls_and_bytes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct query query = whole_query();

		begin(seed);
		struct result *r = run("sizes", &query);

		assert_int_equal(sum(r, "calls"), truth(is_call, true));
		assert_int_equal(sum(r, "total_bytes"), truth(size_of, true));
		assert_int_equal(head(r, "internal_fragmentation_bytes"), truth(waste_of, true));
		/* Sites with a number that 4 divides ask for 64 bytes alone, others may by chance. */
		for (size_t i = 0; i < r->table.row_count; i++)
			if (cell(r, i, "low_bytes")->number == 64 &&
			    cell(r, i, "high_bytes")->number == 64)
				assert_int_equal(
					cell(r, i, "mean_internal_fragmentation_bytes")->number, 0);
		result_free(r);
		query.has_cost = true;
		query.cost = COST_MAX;
		struct error error = ERROR_INIT;

		assert_null(analysis_answer(analysis_find("sizes"), f.profile, f.locations, &query,
					    &error));
		assert_non_null(strstr(error.message, "calls, total, waste, live and blocks"));
		end();
	}
}

static void suppressions_are_told_and_taken_away(void **state)
{
	(void)state;
	char path[] = "/tmp/test_analysis_sites.XXXXXX";
	static const char text[] = "# known\nleak:app+0x?\nleak:app+0x2000\n";
	int fd = mkstemp(path);

	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	close(fd);
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct query query = whole_query();

		begin(seed);
		struct result *before = run("leaks", &query);

		assert_int_equal(filters_suppress(&query.filters, path, NULL), 0);
		struct result *r = run("leaks", &query);

		assert_int_equal(head(r, "shown") + head(r, "suppressed"), head(before, "shown"));
		assert_true(head(r, "suppressed_sites") > 0);
		for (size_t i = 0; i < r->table.row_count; i++) {
			struct result_frames stack = cell(r, i, "stack")->frames;

			for (size_t j = 0; j < stack.count; j++)
				assert_string_not_equal(stack.at[j]->function, "app+0x2000");
		}
		result_free(before);
		result_free(r);
		filters_release(&query.filters);
		end();
	}
	unlink(path);
}

static const char *title(const struct result *r, const char *column)
{
	for (size_t i = 0; i < r->table.column_count; i++)
		if (r->table.columns[i].name && strcmp(r->table.columns[i].name, column) == 0)
			return r->table.columns[i].title ? r->table.columns[i].title : "";
	return "none";
}

static void what_still_runs_is_not_at_its_exit(void **state)
{
	(void)state;
	static const char *const titles[] = { "NOT FREED", "AT END", "LIVE" };
	struct query query = whole_query();

	for (size_t running = 0; running < 3; running++) {
		struct recording r = random_recording(&f.world, 9);

		r.process_count = 2;
		process_rows_release(&r.processes[2]);
		for (size_t i = 0; i < running; i++)
			r.processes[i].process.end = i ? END_EXEC : END_RUNNING;
		f.profile = profile_new(&r, NULL);
		f.names = names_new(NULL);
		f.locations = locations_new(f.names);
		struct result *result = run("leaks", &query);

		assert_string_equal(title(result, "not_freed_bytes"), titles[running]);
		assert_string_equal(title(result, "state"), running == 1 ? "STATE" : "");
		for (size_t i = 0; i < result->table.row_count; i++)
			assert_string_equal(cell(result, i, "state")->text,
					    cell(result, i, "pid")->number / 100 <= running
						    ? "live"
						    : "not freed at exit");
		result_free(result);
		end();
	}
}

static void what_makes_no_sense_is_refused_in_words(void **state)
{
	(void)state;
	static const struct {
		const char *view, *words;
		struct query query;
	} wrong[] = {
		{ "leaks", "functions", { .has_axis = true, .by = AXIS_FILE } },
		{ "sizes", "functions", { .has_axis = true, .by = AXIS_THREAD } },
		{ "sites", "'--view threads' lists them", { .filters.thread = "nobody" } },
		{ "sites", "'--view processes' lists them", { .filters.process = "77" } },
		{ "threads", "takes are --thread and --process", { .filters.min_size = 1 } },
		{ "threads", "--cost waste", { .has_cost = true, .cost = COST_WASTE } },
		{ "threads", "only at the end", { .at.kind = MOMENT_PEAK } },
	};

	begin(3);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error error = ERROR_INIT;

		assert_null(analysis_answer(analysis_find(wrong[i].view), f.profile, f.locations,
					    &wrong[i].query, &error));
		assert_non_null(strstr(error.message, wrong[i].words));
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_and_their_sums_are_what_the_blocks_say),
		cmocka_unit_test(what_focus_shows_and_ignore_shows_is_the_whole),
		cmocka_unit_test(limits_and_thresholds_hide_what_they_say),
		cmocka_unit_test(each_question_has_the_sites_that_answer_it),
		cmocka_unit_test(a_mean_lifetime_is_right_where_the_sum_is_too_large_for_ns),
		cmocka_unit_test(lifetimes_bound_the_median_and_the_longest),
		cmocka_unit_test(leaks_tell_how_old_they_are),
		cmocka_unit_test(threads_pass_on_what_the_blocks_say),
		cmocka_unit_test(sizes_add_up_to_the_calls_and_bytes),
		cmocka_unit_test(suppressions_are_told_and_taken_away),
		cmocka_unit_test(what_still_runs_is_not_at_its_exit),
		cmocka_unit_test(what_makes_no_sense_is_refused_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
