/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis */
/*
 * Rows full of nonsense: a recording may hold any numbers. Every view must give a result or an error
 * in words; the sanitizers watch the rest.
 */
#include "test_analysis_random.h"

#include "analysis/analyses.h"
#include "model/build.h"

enum { ROUNDS = 8 };

/* Some bytes of the array become others, some numbers as large as they can be. */
static void spoil(uint64_t *seed, void *array, size_t bytes)
{
	unsigned char *at = array;

	for (size_t i = 0; i < bytes / 40 + 1 && bytes >= 8; i++) {
		size_t where = unit_random(seed) % (bytes / 8) * 8;
		uint64_t what = unit_random(seed) % 3 ? unit_random_length(seed) : UINT64_MAX;

		memcpy(at + where, &what, 8);
	}
}

static void spoil_process(uint64_t *seed, struct process_rows *rows)
{
	spoil(seed, rows->nodes, rows->node_count * sizeof *rows->nodes);
	spoil(seed, rows->sites, rows->site_count * sizeof *rows->sites);
	spoil(seed, rows->cells, rows->cell_count * sizeof *rows->cells);
	spoil(seed, rows->bars, rows->bar_count * sizeof *rows->bars);
	spoil(seed, rows->ages, rows->age_count * sizeof *rows->ages);
	spoil(seed, rows->foreign, rows->foreign_count * sizeof *rows->foreign);
	for (size_t i = 0; i < rows->thread_count; i++) /* but for the name, which ends */
		spoil(seed, &rows->threads[i], offsetof(struct thread_row, name));
}

static void run_all(const struct profile *profile, struct places *places, const struct query *q)
{
	for (const struct analysis *a = analyses; a->name; a++) {
		struct error error = ERROR_INIT;
		struct result *result = a->run(profile, places, q, &error);

		assert_true(result || error.message[0]);
		result_free(result);
	}
}

static void no_view_breaks_on_nonsense(void **state)
{
	(void)state;
	static struct random_world world;

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct recording r = random_recording(&world, seed);
		uint64_t state_of_chance = seed * 7919;

		for (size_t i = 0; i < r.process_count; i++)
			spoil_process(&state_of_chance, &r.processes[i]);
		struct profile *profile = profile_new(&r, NULL);
		struct names *names = names_new(NULL);
		struct places *places = places_new(names);
		struct query query = { .file = "hostile.hg", .limit = seed % 9 };

		assert_non_null(profile);
		run_all(profile, places, &query);
		query.limit = SIZE_MAX;
		query.kinds = KINDS_ALL;
		for (enum cost_id cost = 0; cost < COST_COUNT; cost++) {
			query.has_cost = true;
			query.cost = cost;
			query.filters.thread = seed % 2 ? "thread" : NULL;
			run_all(profile, places, &query);
			query.minus.kind = cost_rows[cost].of_moment ? MOMENT_PEAK : MOMENT_DEFAULT;
			query.fold_recursion = cost % 2;
			run_all(profile, places, &query);
			query.minus.kind = MOMENT_DEFAULT;
		}
		places_free(places);
		names_free(names);
		profile_free(profile);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_view_breaks_on_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
