/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* The collector's memory of time: bounded, and complete after every thinning. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "collect/profile/series.h"

static void the_series_thins_and_keeps_its_end(void **state)
{
	struct series series;
	uint64_t at = 0;

	(void)state;
	series_init(&series);
	for (unsigned i = 0; i < 20000; i++) {
		struct series_row row = { .at_ns = at, .calls = i };

		series_add(&series, &row);
		assert_true(series.points.count <= SERIES_POINTS_MAX);
		assert_int_equal(series.points.at[series.points.count - 1].calls, i);
		assert_true(series.next_ns > at);
		at = series.next_ns;
	}
	assert_true(series.points.count > SERIES_POINTS_MAX / 2);
	assert_true(series.interval_ns > SERIES_INTERVAL_NS);
	for (size_t i = 1; i < series.points.count; i++)
		assert_true(series.points.at[i].at_ns > series.points.at[i - 1].at_ns);
	series_release(&series);
}

enum { SITES = 50 };

/* The state of every site after the first `count` snapshots. */
static void replay(const struct snapshots *snapshots, size_t count, int64_t bytes[SITES])
{
	memset(bytes, 0, SITES * sizeof *bytes);
	for (size_t i = 0; i < count; i++) {
		const struct snapshot_row *row = &snapshots->rows.at[i];

		for (size_t j = 0; j < row->sites_count; j++) {
			const struct snapshot_site *site = &snapshots->sites.at[row->sites_at + j];

			assert_true(site->site > 0 && site->site < SITES);
			if (j > 0)
				assert_true(site->site > site[-1].site);
			bytes[site->site] = site->bytes;
		}
	}
}

/* named: every so many-th was asked for; 0 = none. */
static void thin(unsigned named)
{
	struct snapshots snapshots;
	int64_t(*truth)[SITES] = calloc(3000, sizeof *truth);
	int64_t replayed[SITES];
	uint64_t seed = 7;
	unsigned asked = 0, kept = 0;

	assert_non_null(truth);
	snapshots_init(&snapshots);
	for (unsigned i = 0; i < 3000; i++) {
		struct snapshot_site *now = calloc(SITES, sizeof *now);
		struct snapshot_row row = { .at_ns = i };

		if (named && i % named == 3)
			row.mark = ++asked;

		assert_non_null(now);
		for (unsigned j = 0; j < SITES; j++) {
			int64_t before = i > 0 ? truth[i - 1][j] : 0;

			if (j > 0)
				truth[i][j] = unit_random(&seed) % 8
						      ? before
						      : (int64_t)(unit_random(&seed) % 100);
			now[j] = (struct snapshot_site){ .site = j, .bytes = truth[i][j] };
		}
		snapshots_add(&snapshots, &row, &(struct live_sites){ now, NULL, SITES });
		assert_true(snapshots.rows.count - asked < SNAPSHOTS_MAX);
		assert_int_equal(snapshots.rows.at[snapshots.rows.count - 1].at_ns, i);
	}
	assert_true(snapshots.rows.count >= SNAPSHOTS_MAX / 4);
	for (size_t i = 0; i < snapshots.rows.count; i++) {
		if (snapshots.rows.at[i].mark != 0)
			assert_int_equal(snapshots.rows.at[i].mark, ++kept);
		replay(&snapshots, i + 1, replayed);
		assert_memory_equal(replayed, truth[snapshots.rows.at[i].at_ns], sizeof replayed);
	}
	assert_int_equal(kept, asked);
	snapshots_release(&snapshots);
	free(truth);
}

static void every_snapshot_that_stays_is_complete(void **state)
{
	(void)state;
	thin(0);
}

static void snapshots_that_were_asked_for_all_stay(void **state)
{
	(void)state;
	thin(7);
	thin(4);
}

static void a_snapshot_holds_only_what_changed(void **state)
{
	struct snapshots snapshots;

	(void)state;
	snapshots_init(&snapshots);
	for (unsigned i = 0; i < 3; i++) {
		struct snapshot_site *now = calloc(10, sizeof *now);
		struct snapshot_row row = { .at_ns = i };

		assert_non_null(now);
		for (unsigned j = 0; j < 10; j++)
			now[j] = (struct snapshot_site){ .site = j,
							 .bytes = j == 4 ? (int64_t)i : j == 7 };
		snapshots_add(&snapshots, &row, &(struct live_sites){ now, NULL, 10 });
	}
	assert_int_equal(snapshots.rows.at[0].sites_count, 1); /* site 4 was still 0 */
	assert_int_equal(snapshots.sites.at[0].site, 7);
	assert_int_equal(snapshots.rows.at[1].sites_count, 1);
	assert_int_equal(snapshots.sites.at[1].site, 4);
	assert_int_equal(snapshots.rows.at[2].sites_count, 1);
	snapshots_release(&snapshots);
}

static void a_site_whose_live_bytes_are_the_same_may_have_allocated(void **state)
{
	struct snapshots snapshots;

	(void)state;
	snapshots_init(&snapshots);
	for (unsigned i = 0; i < 4; i++) {
		struct live_sites now = { calloc(3, sizeof *now.live), NULL, 3 };
		struct snapshot_row row = { .at_ns = i };

		assert_non_null(now.live);
		now.live[1] = (struct snapshot_site){ .site = 1, .bytes = 10, .blocks = 1 };
		now.live[2].site = 2;
		if (i != 2) {
			now.counts = calloc(3, sizeof *now.counts);
			assert_non_null(now.counts);
			now.counts[1] = (struct snapshot_counts){ .calls = 1, .bytes = 10 };
			now.counts[2] = (struct snapshot_counts){ .calls = 5 + i, .temporary = i };
		}
		snapshots_add(&snapshots, &row, &now);
		assert_int_equal(snapshots.rows.at[i].counted, i != 2);
	}
	assert_int_equal(snapshots.rows.at[0].sites_count, 2);
	assert_int_equal(snapshots.rows.at[1].sites_count, 1);
	assert_int_equal(snapshots.rows.at[2].sites_count, 0); /* not counted: as before */
	assert_int_equal(snapshots.rows.at[3].sites_count, 1);
	assert_int_equal(snapshots.sites.at[3].site, 2);
	assert_int_equal(snapshots.counts.at[3].calls, 8);
	snapshots_release(&snapshots);
}

static void many_changed_sites_thin_the_snapshots_too(void **state)
{
	enum { MANY = 40000 };
	struct snapshots snapshots;

	(void)state;
	snapshots_init(&snapshots);
	for (unsigned i = 1; i < 40; i++) {
		struct snapshot_site *now = calloc(MANY, sizeof *now);
		struct snapshot_row row = { .at_ns = i };

		assert_non_null(now);
		for (unsigned j = 0; j < MANY; j++)
			now[j] = (struct snapshot_site){ .site = j, .blocks = i };
		snapshots_add(&snapshots, &row, &(struct live_sites){ now, NULL, MANY });
		assert_true(snapshots.sites.count <= SNAPSHOTS_KEPT * MANY);
	}
	assert_true(snapshots.rows.count >= 2);
	assert_int_equal(snapshots.sites.at[snapshots.sites.count - 1].blocks, 39);
	snapshots_release(&snapshots);
}

static void a_slow_snapshot_makes_the_next_one_wait(void **state)
{
	struct snapshots snapshots;
	struct snapshot_row row = { .at_ns = 1000 };

	(void)state;
	snapshots_init(&snapshots);
	snapshots_add(&snapshots, &row,
		      &(struct live_sites){ calloc(1, sizeof(struct snapshot_site)), NULL, 1 });
	snapshots_cost(&snapshots, SNAPSHOT_INTERVAL_NS / 100);
	assert_int_equal(snapshots.interval_ns, SNAPSHOT_INTERVAL_NS);
	snapshots_cost(&snapshots, SNAPSHOT_INTERVAL_NS);
	assert_int_equal(snapshots.interval_ns, 50 * SNAPSHOT_INTERVAL_NS);
	assert_int_equal(snapshots.next_ns, 1000 + 50 * SNAPSHOT_INTERVAL_NS);
	snapshots_release(&snapshots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_series_thins_and_keeps_its_end),
		cmocka_unit_test(every_snapshot_that_stays_is_complete),
		cmocka_unit_test(snapshots_that_were_asked_for_all_stay),
		cmocka_unit_test(a_snapshot_holds_only_what_changed),
		cmocka_unit_test(a_site_whose_live_bytes_are_the_same_may_have_allocated),
		cmocka_unit_test(many_changed_sites_thin_the_snapshots_too),
		cmocka_unit_test(a_slow_snapshot_makes_the_next_one_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
