/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis model format m */
/* Verdicts on courses whose answer is known: lines, bounds, saws, steps, noise; and on whole recordings. */
#include "test_course_made.h"

#include <math.h>

#include "analysis/analyses.h"
#include "analysis/query/moments.h"
#include "analysis/advice/trend.h"
#include "model/build.h"

static struct trend fit(int64_t (*f)(int64_t part))
{
	struct floor floors[TREND_PARTS];

	for (int64_t i = 0; i < TREND_PARTS; i++)
		floors[i] = (struct floor){ (uint64_t)i * MADE_SECOND, f(i) };
	return trend_fit(floors);
}

static int64_t line(int64_t i)
{
	return 5000 + 1024 * i;
}
static int64_t drift(int64_t i)
{
	return 900000 + 5000 * i;
}
static int64_t falling(int64_t i)
{
	return 90000 - 1024 * i;
}
static int64_t flat(int64_t i)
{
	(void)i;
	return 777;
}
static int64_t full_at_half(int64_t i)
{
	return 1000 * (i < 4 ? i : 4);
}
static int64_t full_at_three_quarters(int64_t i)
{
	return 1000 * (i < 6 ? i : 6);
}
static int64_t levelling(int64_t i)
{
	return (int64_t)(100000 * (1 - exp(-0.7 * (double)i)));
}
static int64_t saw(int64_t i)
{
	return 4000 * (i % 3);
}
static int64_t doubling(int64_t i)
{
	return i < 3 ? 1000 : i < 6 ? 2000 : 4000;
}
static int64_t late_break(int64_t i)
{
	return i < 7 ? 1000 + 100 * i : 0;
}
static int64_t ragged(int64_t i)
{
	return 1000 * i + (i % 2 ? 700 : 0);
}

static void a_line_grows_at_its_slope(void **state)
{
	(void)state;
	struct trend t = fit(line);

	assert_int_equal(t.verdict, TREND_GROWING);
	assert_int_equal(t.per_second, 1024);
	assert_int_equal(t.slowest, 1024);
	assert_int_equal(t.fastest, 1024);
	assert_int_equal(t.first, 5000);
	assert_int_equal(t.last, 5000 + 7 * 1024);
	/* S = 28 of 28, sigma = sqrt(8 * 7 * 21 / 18): (28 - 1) / 8.083 = 3.340, two-sided 0.99916. */
	assert_int_equal(t.confidence_per_mille, 999);
	assert_int_equal(fit(ragged).verdict, TREND_GROWING);
	assert_in_range(fit(ragged).per_second, 900, 1200);
	assert_true(fit(ragged).slowest < fit(ragged).fastest);
}

static void what_stops_or_returns_is_bounded(void **state)
{
	(void)state;
	assert_int_equal(fit(flat).verdict, TREND_BOUNDED);
	assert_int_equal(fit(flat).per_second, 0);
	assert_int_equal(fit(flat).confidence_per_mille, 0);
	assert_int_equal(fit(falling).verdict, TREND_BOUNDED);
	assert_int_equal(fit(falling).per_second, -1024);
	assert_int_equal(fit(full_at_half).verdict, TREND_BOUNDED);
	assert_int_equal(fit(full_at_three_quarters).verdict, TREND_BOUNDED); /* N14 */
	assert_int_equal(fit(levelling).verdict, TREND_BOUNDED);
	assert_int_equal(fit(saw).verdict, TREND_BOUNDED);
	assert_int_equal(fit(late_break).verdict, TREND_BOUNDED);
}

static void few_steps_are_no_line(void **state)
{
	(void)state;
	assert_int_equal(fit(doubling).verdict, TREND_UNKNOWN);
}

static void a_rise_by_a_few_percent_may_be_drift(void **state)
{
	(void)state;
	assert_int_equal(fit(drift).verdict, TREND_UNKNOWN);
}

static void noise_rarely_looks_like_growth(void **state)
{
	enum { RUNS = 20000 };
	uint64_t random = 88172645463325252u;
	unsigned growing = 0;

	(void)state;
	for (size_t run = 0; run < RUNS; run++) {
		struct floor floors[TREND_PARTS];

		for (size_t i = 0; i < TREND_PARTS; i++)
			floors[i] = (struct floor){ i * MADE_SECOND,
						    (int64_t)(unit_random(&random) % 1000000) };
		growing += trend_fit(floors).verdict == TREND_GROWING;
	}
	/* One-sided at 1.96 deviations: 2.5 %; the other conditions only take some away. */
	assert_in_range(growing, RUNS / 1000, RUNS / 40);
}

static void huge_numbers_do_no_harm(void **state)
{
	(void)state;
	struct floor floors[TREND_PARTS];

	for (size_t i = 0; i < TREND_PARTS; i++)
		floors[i] = (struct floor){ i, i % 2 ? INT64_MAX / 2 : INT64_MIN / 2 };
	assert_int_equal(trend_fit(floors).verdict, TREND_BOUNDED);
	for (size_t i = 0; i < TREND_PARTS; i++)
		floors[i].at_ns = 0;
	assert_int_equal(trend_fit(floors).per_second, 0);
}

/* What trends_make finds, against floors made from every site's value at every moment. */
static struct trend naive(uint32_t site)
{
	struct floor floors[TREND_PARTS];
	/* The last snapshot is at 12.5 s, the process' end at 12.6: all count. From 12.5 / 3 s on. */
	double to = COURSE_MOMENTS * 0.5, from = to / 3;

	for (size_t i = 0; i < TREND_PARTS; i++)
		floors[i] = (struct floor){ 0, INT64_MAX };
	for (int64_t i = 0; i < COURSE_MOMENTS; i++) {
		double at = 0.5 * (double)(i + 1);
		size_t part = (size_t)MIN((at - from) * TREND_PARTS / (to - from), 7.0);

		if (at >= from && course_bytes(site, i) < floors[part].bytes)
			floors[part] =
				(struct floor){ (uint64_t)(at * 1e9), course_bytes(site, i) };
	}
	return trend_fit(floors);
}

static void sites_are_judged_from_their_snapshots(void **state)
{
	static const enum trend_verdict verdicts[] = { TREND_GROWING, TREND_BOUNDED,
						       TREND_BOUNDED };
	struct recording r = made_course(1);
	struct arena arena = ARENA_INIT;
	struct trends trends;

	(void)state;
	r.processes[0].sites[6].born_ns = 11 * (uint64_t)MADE_SECOND;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(trends_make(p, &arena, &trends), 0);
	for (size_t i = 0; i < p->site_count; i++) {
		struct trend t = trend_of_site(&trends, &p->sites[i]);
		uint32_t id = p->sites[i].id.v;

		if (id == 6) {
			assert_int_equal(t.verdict, TREND_UNKNOWN);
			assert_in_range(t.moments, 1, TREND_MOMENTS - 1);
			continue;
		}
		if (id > 5) /* it changes at no moment */
			continue;
		struct trend want = naive(id);

		assert_int_equal(t.verdict, verdicts[id - 3]);
		assert_int_equal(t.verdict, want.verdict);
		assert_int_equal(t.first, want.first);
		assert_int_equal(t.last, want.last);
		if (id == 3)
			assert_int_equal(t.per_second, 2048);
		if (id != 4) /* where nothing changes, nobody knows when the floor was */
			assert_int_equal(t.per_second, want.per_second);
		assert_int_equal(t.moments, 17);
	}
	assert_int_equal(trend_of_site(&trends, &p->sites[0]).confidence_per_mille, 999);
	arena_release(&arena);
	profile_free(profile);
}

/* C13: the floors rise by four blocks, however large they are. */
static void a_few_blocks_are_no_trend(void **state)
{
	struct recording r = made_course(1);
	struct process_rows *rows = &r.processes[0];
	struct arena arena = ARENA_INIT;
	struct trends trends;

	(void)state;
	for (size_t i = 0; i < rows->snapshot_site_count; i++)
		if (rows->snapshot_sites[i].site == 3)
			rows->snapshot_sites[i].blocks = rows->snapshot_sites[i].bytes / 4096;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(trends_make(p, &arena, &trends), 0);
	assert_int_equal(trend_of_site(&trends, &p->sites[0]).verdict, TREND_UNKNOWN);
	assert_int_equal(trends_growth(&trends).sites, 0);
	arena_release(&arena);
	profile_free(profile);
}

/* A program that frees everything at its end still grew. */
static void the_last_breath_does_not_count(void **state)
{
	struct recording r = made_course(1);
	struct process_rows *rows = &r.processes[0];
	struct arena arena = ARENA_INIT;
	struct trends trends;
	struct snapshot_row *last = &rows->snapshots[COURSE_MOMENTS - 1];

	(void)state;
	rows->process.duration_ns = last->at_ns;
	for (size_t i = 0; i < last->sites_count; i++)
		rows->snapshot_sites[last->sites_at + i].bytes = 0;
	struct profile *profile = profile_new(&r, NULL);

	assert_int_equal(trends_make(&profile->processes[0], &arena, &trends), 0);
	assert_int_equal(trends.snapshots, COURSE_MOMENTS - 1);
	assert_int_equal(trend_of_site(&trends, &profile->processes[0].sites[0]).verdict,
			 TREND_GROWING);
	arena_release(&arena);
	profile_free(profile);
}

/* A recording that began long after the process did: the time before it has no snapshots. */
static void only_the_recorded_time_is_judged(void **state)
{
	const uint64_t age_ns = 1000 * (uint64_t)MADE_SECOND;
	struct recording r = made_course(1);
	struct process_rows *rows = &r.processes[0];
	struct arena arena = ARENA_INIT;
	struct trends trends;

	(void)state;
	rows->process.duration_ns += age_ns;
	for (size_t i = 0; i < rows->snapshot_count; i++)
		rows->snapshots[i].at_ns += age_ns;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(trends_make(p, &arena, &trends), 0);
	assert_true(trends.from_ns > age_ns);
	assert_int_equal(trend_of_site(&trends, &p->sites[0]).verdict, TREND_GROWING);
	assert_int_equal(trends_growth(&trends).per_second, 2048);
	arena_release(&arena);
	profile_free(profile);
}

/* The course as samples of that interval; the variance of allocated bytes is that of blocks much smaller than it. */
static struct profile *sampled_course(struct recording *r, uint64_t interval)
{
	struct process_rows *rows = &r->processes[0];

	for (size_t i = 0; i < rows->site_count; i++)
		if (rows->sites[i].kind == LIVE_KIND_HEAP)
			rows->sites[i].interval = interval;
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		struct site_counters_row *c = &rows->site_counters[i];

		if (!rows->sites[c->site].interval)
			continue;
		c->samples.count = 100;
		c->samples.bytes_variance = c->bytes * interval >> LIVE_VARIANCE_SHIFT;
	}
	return profile_new(r, NULL);
}

static void a_sampled_site_is_not_bounded_if_its_growth_could_be_unseen(void **state)
{
	static const struct {
		uint64_t interval;
		enum trend_verdict
			filled; /* of site 4, which holds 5,000 bytes from the tenth moment on */
	} cases[] = { { 512, TREND_UNKNOWN }, { 16, TREND_UNKNOWN }, { 1, TREND_BOUNDED } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct recording r = made_course(1);
		struct profile *profile = sampled_course(&r, cases[i].interval);
		const struct profile_process *p = &profile->processes[0];
		struct arena arena = ARENA_INIT;
		struct trends trends;

		assert_int_equal(trends_make(p, &arena, &trends), 0);
		struct trend filled = trend_of_site(&trends, &p->sites[1]);

		assert_int_equal(p->sites[1].id.v, 4);
		assert_int_equal(filled.verdict, cases[i].filled);
		assert_int_equal(filled.is_uncertain, cases[i].filled == TREND_UNKNOWN);
		assert_int_equal(trend_of_site(&trends, &p->sites[0]).verdict, TREND_GROWING);
		/* Mappings are counted, not sampled. */
		for (size_t k = 0; k < p->site_count; k++)
			if (p->sites[k].kind == PROFILE_MMAP)
				assert_int_equal(trend_of_site(&trends, &p->sites[k]).verdict,
						 TREND_BOUNDED);
		arena_release(&arena);
		profile_free(profile);
	}
}

/* Blocks of 128 bytes that are never freed, at 600 KiB/s for 3 s, as they look with one sample for each 64 KiB: by chance, some runs
 * seem to stop. */
static void a_linear_leak_is_never_bounded_however_its_samples_fall(void **state)
{
	enum { RUNS = 300, INTERVAL = 64 << 10, BYTES = 600 << 10, SECONDS = 3 };
	uint64_t random = 88172645463325252u;
	size_t growing = 0;

	(void)state;
	for (size_t run = 0; run < RUNS; run++) {
		struct recording r = made_course(1);
		struct process_rows *rows = &r.processes[0];
		struct arena arena = ARENA_INIT;
		struct trends trends;
		int64_t live = 0;

		for (size_t k = 0; k < rows->snapshot_count; k++) {
			struct snapshot_row *snapshot = &rows->snapshots[k];
			/* In hundreds of small steps: Poisson's distribution. */
			for (size_t step = 0; step < 100; step++)
				live += unit_random(&random) % (100 * INTERVAL) <
							BYTES * SECONDS / COURSE_MOMENTS
						? INTERVAL
						: 0;
			snapshot->live_bytes = (uint64_t)live;
			snapshot->live_blocks = (uint64_t)live / 128;
			for (size_t i = 0; i < snapshot->sites_count; i++) {
				struct snapshot_site *site =
					&rows->snapshot_sites[snapshot->sites_at + i];

				site->bytes = site->site == 3 ? live : 0;
				site->blocks = site->bytes / 128;
			}
		}
		for (size_t i = 0; i < rows->site_counters_count; i++)
			if (rows->site_counters[i].site == 3)
				rows->site_counters[i].bytes = (uint64_t)live;
		struct profile *profile = sampled_course(&r, INTERVAL);

		assert_int_equal(trends_make(&profile->processes[0], &arena, &trends), 0);
		enum trend_verdict site =
			trend_of_site(&trends, &profile->processes[0].sites[0]).verdict;

		assert_int_not_equal(site, TREND_BOUNDED);
		assert_int_not_equal(trends_growth(&trends).verdict, TREND_BOUNDED);
		growing += site == TREND_GROWING;
		arena_release(&arena);
		profile_free(profile);
	}
	assert_in_range(growing, RUNS / 2, RUNS);
}

/* A flat heap, of blocks that may have been too few to be sampled at all. */
static void a_sampled_heap_without_samples_is_unknown(void **state)
{
	static const uint64_t intervals[] = { 512 << 10, 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(intervals); i++) {
		struct recording r = made_course(1);
		struct process_rows *rows = &r.processes[0];
		struct arena arena = ARENA_INIT;
		struct trends trends;

		for (size_t k = 0; k < rows->snapshot_count; k++)
			rows->snapshots[k].live_bytes = rows->snapshots[k].live_blocks = 0;
		for (size_t k = 0; k < rows->snapshot_site_count; k++)
			rows->snapshot_sites[k].bytes = rows->snapshot_sites[k].blocks = 0;
		struct profile *profile = sampled_course(&r, intervals[i]);

		assert_int_equal(trends_make(&profile->processes[0], &arena, &trends), 0);
		assert_int_equal(trends_growth(&trends).verdict,
				 intervals[i] ? TREND_UNKNOWN : TREND_BOUNDED);
		arena_release(&arena);
		profile_free(profile);
	}
}

/* Most of the heap is one site that the snapshots cannot judge, so the growth of another one is only a part. */
static void growth_beside_unjudged_memory_is_partial(void **state)
{
	struct recording r = made_course(1);
	struct process_rows *rows = &r.processes[0];
	struct arena arena = ARENA_INIT;
	struct trends trends;

	(void)state;
	rows->sites[4].born_ns = 11 * (uint64_t)MADE_SECOND;
	for (size_t i = 0; i < rows->snapshot_site_count; i++)
		if (rows->snapshot_sites[i].site == 4)
			rows->snapshot_sites[i].bytes *= 1000;
	struct profile *profile = profile_new(&r, NULL);

	assert_int_equal(trends_make(&profile->processes[0], &arena, &trends), 0);
	struct growth growth = trends_growth(&trends);

	assert_int_equal(growth.verdict, TREND_GROWING);
	assert_true(growth.is_partial);
	arena_release(&arena);
	profile_free(profile);
}

static void no_snapshots_no_verdict(void **state)
{
	struct recording r = made_recording(1);
	struct profile *profile = profile_new(&r, NULL);
	struct arena arena = ARENA_INIT;
	struct trends trends;

	(void)state;
	assert_int_equal(trends_make(&profile->processes[0], &arena, &trends), 0);
	for (size_t i = 0; i < profile->processes[0].site_count; i++)
		assert_int_equal(trend_of_site(&trends, &profile->processes[0].sites[i]).verdict,
				 TREND_UNKNOWN);
	assert_int_equal(trends.heap.verdict, TREND_UNKNOWN);
	assert_int_equal(trends_growth(&trends).verdict, TREND_UNKNOWN);
	arena_release(&arena);
	profile_free(profile);
}

/* A usual snapshot may be of the same time as one that was asked for, and hold what came later. */
static void a_name_means_its_snapshot_and_not_its_time(void **state)
{
	struct recording r = made_course(1);
	struct process_rows *rows = &r.processes[0];
	struct arena arena = ARENA_INIT;
	struct error error = ERROR_INIT;

	(void)state;
	rows->snapshots[5].at_ns = rows->snapshots[4].at_ns;
	rows->snapshots[4].mark = 1;
	rows->marks = calloc(1, sizeof *rows->marks);
	assert_non_null(rows->marks);
	rows->mark_count = 1;
	rows->marks[0] = (struct mark_row){ .at_ns = rows->snapshots[4].at_ns,
					    .kind = LIVE_MARK_SNAPSHOT,
					    .snapshot = 5,
					    .name = strdup("loaded") };
	struct profile *profile = profile_new(&r, NULL);
	const struct moment asked[] = { { .kind = MOMENT_SNAP, .name = "loaded" },
					{ .kind = MOMENT_SNAP, .number = 5 },
					{ .kind = MOMENT_SNAP, .number = 6 } };

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		struct resolved_moment *found =
			moments_resolve(profile, asked[i], false, &arena, &error);

		assert_non_null(found);
		assert_int_equal(found->kind, RESOLVED_SNAPSHOT);
		assert_int_equal(found->live[3].bytes, course_bytes(3, i < 2 ? 4 : 5));
	}
	arena_release(&arena);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_grows_at_its_slope),
		cmocka_unit_test(what_stops_or_returns_is_bounded),
		cmocka_unit_test(few_steps_are_no_line),
		cmocka_unit_test(a_rise_by_a_few_percent_may_be_drift),
		cmocka_unit_test(noise_rarely_looks_like_growth),
		cmocka_unit_test(huge_numbers_do_no_harm),
		cmocka_unit_test(sites_are_judged_from_their_snapshots),
		cmocka_unit_test(a_few_blocks_are_no_trend),
		cmocka_unit_test(the_last_breath_does_not_count),
		cmocka_unit_test(only_the_recorded_time_is_judged),
		cmocka_unit_test(a_sampled_site_is_not_bounded_if_its_growth_could_be_unseen),
		cmocka_unit_test(a_linear_leak_is_never_bounded_however_its_samples_fall),
		cmocka_unit_test(a_sampled_heap_without_samples_is_unknown),
		cmocka_unit_test(growth_beside_unjudged_memory_is_partial),
		cmocka_unit_test(no_snapshots_no_verdict),
		cmocka_unit_test(a_name_means_its_snapshot_and_not_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
