/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
/* Sites of the rows that differ by their sampling interval alone, against sums made without any order: numbers, variances, bars,
 * ages, and what was held at snapshots. */
#include "test_model_made.h"

#include <math.h>

#include "model/ages.h"
#include "model/build.h"
#include "model/estimates.h"
#include "model/history.h"
#include "model/image/paths.h"
#include "model/image/reach.h"
#include "model/threads.h"
#include "util/cleanup.h"

enum { NODES = 4, SNAPSHOTS = 6, SIZE = 64 };

static void random_rows(struct process_rows *rows, uint64_t *seed)
{
	static const uint64_t intervals[] = { 0, 1024, 65536 };
	size_t sites = 2 + unit_random(seed) % 20, site_counters = 1 + unit_random(seed) % 60;

	rows->site_count = sites;
	rows->sites = calloc(sites, sizeof *rows->sites);
	rows->nodes = calloc(NODES, sizeof *rows->nodes);
	rows->node_count = NODES;
	rows->frames = calloc(1, sizeof *rows->frames);
	rows->frame_count = 1;
	rows->site_counters = calloc(site_counters, sizeof *rows->site_counters);
	rows->site_counters_count = rows->bar_count = rows->age_count = site_counters;
	rows->bars = calloc(site_counters, sizeof *rows->bars);
	rows->ages = calloc(site_counters, sizeof *rows->ages);
	for (size_t i = 1; i < sites; i++)
		rows->sites[i] = (struct site_row){
			.node = (uint32_t)(unit_random(seed) % NODES),
			.kind = unit_random(seed) % 4 == 0,
			.born_ns = unit_random(seed) % 1000,
			.interval = intervals[unit_random(seed) % ARRAY_SIZE(intervals)],
		};
	for (uint32_t i = 0; i < site_counters; i++) {
		struct site_counters_row *c = &rows->site_counters[i];

		c->site = 1 + (uint32_t)(unit_random(seed) % (sites - 1));
		c->slot = (uint32_t)(unit_random(seed) % 3);
		c->calls = 1 + unit_random(seed) % 1000;
		c->bytes = c->calls * SIZE;
		c->frees = unit_random(seed) % c->calls;
		c->freed_bytes = c->frees * SIZE;
		c->peak_blocks = (int64_t)(unit_random(seed) % c->calls);
		c->peak_bytes = c->peak_blocks * SIZE;
		c->max_bytes = c->bytes;
		c->sizes_at = i;
		c->sizes_count = 1;
		rows->bars[i] = (struct bar){ SIZE, SIZE, c->calls };
		rows->ages[i] = (struct age_row){ i, 3, c->calls - c->frees, 0 };
		if (rows->sites[c->site].interval)
			c->samples = (struct live_samples){
				.count = 1 + unit_random(seed) % c->calls,
				.calls_variance = unit_random(seed) % 100000,
				.bytes_variance = unit_random(seed) % 100000,
			};
	}
	made_totals(rows);
}

static void random_snapshots(struct process_rows *rows, uint64_t *seed)
{
	size_t used = 0;

	rows->snapshots = calloc(SNAPSHOTS, sizeof *rows->snapshots);
	rows->snapshot_sites = calloc(SNAPSHOTS * rows->site_count, sizeof *rows->snapshot_sites);
	rows->snapshot_count = SNAPSHOTS;
	for (size_t i = 0; i < SNAPSHOTS; i++) {
		rows->snapshots[i] =
			(struct snapshot_row){ .at_ns = i, .sites_at = (uint32_t)used };
		for (uint32_t site = 1; site < rows->site_count; site++)
			if (unit_random(seed) % 3)
				rows->snapshot_sites[used++] =
					(struct snapshot_site){ site,
								(int64_t)(unit_random(seed) % 5000),
								(int64_t)(unit_random(seed) % 50) };
		rows->snapshots[i].sites_count = (uint32_t)used - rows->snapshots[i].sites_at;
	}
	rows->snapshot_site_count = used;
}

/* Each site has a row in each table, whose numbers tell which it is. */
static void random_image(struct process_rows *rows, uint64_t *seed)
{
	struct image_rows *image = &rows->image;
	size_t count = rows->site_count - 1;

	*image = (struct image_rows){ .reach = calloc(1, sizeof *image->reach),
				      .reach_sites = calloc(count, sizeof *image->reach_sites),
				      .retained = calloc(count, sizeof *image->retained),
				      .holders = calloc(count, sizeof *image->holders),
				      .paths = calloc(count, sizeof *image->paths),
				      .types = calloc(1, sizeof *image->types),
				      .site_types = calloc(count, sizeof *image->site_types),
				      .reach_count = 1,
				      .reach_site_count = count,
				      .retained_count = count,
				      .holder_count = count,
				      .path_count = count,
				      .type_count = 1,
				      .site_type_count = count };
	image->types[0].name = strdup("N2ns5EntryE");
	for (uint32_t i = 0; i < count; i++) {
		uint64_t bytes = 1 + unit_random(seed) % 1000;

		image->reach_sites[i] = (struct reach_site_row){ i + 1, REACH_DIRECT, 1, bytes, 0 };
		image->retained[i] = (struct retained_row){ i + 1, i + 1, 0, bytes * 1000 + i };
		image->holders[i] = (struct holder_row){ REACH_GLOBAL, 1, bytes, strdup("root") };
		image->paths[i] = (struct path_row){ .site = i + 1, .blocks = i + 1 };
		image->site_types[i] = (struct site_type_row){ i + 1, 0, 1, bytes, 0 };
	}
}

static bool is_part(const struct profile_process *p, const struct profile_site *site, uint32_t row)
{
	const struct site_row *r = &p->rows->sites[row];

	return r->node == site->node.v && r->tag == site->tag.v && r->kind == (uint32_t)site->kind;
}

/* One part: what the counters of a site of the rows add up to. */
static struct site_numbers part_of(const struct profile_process *p, uint32_t row)
{
	struct site_numbers n = { 0 };

	for (size_t i = 0; i < p->rows->site_counters_count; i++) {
		const struct site_counters_row *c = &p->rows->site_counters[i];

		if (c->site != row)
			continue;
		n.calls += c->calls;
		n.bytes += c->bytes;
		n.frees += c->frees;
		n.peak_bytes += (uint64_t)c->peak_bytes;
		n.samples += c->samples.count;
		n.calls_variance += (double)c->samples.calls_variance / 256;
		n.bytes_variance += (double)c->samples.bytes_variance * 256;
	}
	return n;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (1 + fabs(a));
}

static double share(double variance, uint64_t part, uint64_t whole)
{
	return whole ? variance * (double)part / (double)whole : 0;
}

static void check_numbers(const struct profile_process *p, const struct profile_site *site)
{
	struct site_numbers want = { 0 };
	uint64_t born = UINT64_MAX, interval = 0;
	bool exact = false;

	for (uint32_t row = 1; row < p->rows->site_count; row++) {
		struct site_numbers part = part_of(p, row);

		if (!is_part(p, site, row) || !part.calls)
			continue;
		assert_true(row >= site->id.v);
		born = MIN(born, p->rows->sites[row].born_ns);
		interval = MAX(interval, p->rows->sites[row].interval);
		exact |= p->rows->sites[row].interval == 0;
		want.calls += part.calls;
		want.bytes += part.bytes;
		want.frees += part.frees;
		want.samples += part.samples;
		want.calls_variance += part.calls_variance;
		want.bytes_variance += part.bytes_variance;
		want.peak_bytes += part.peak_bytes;
		want.peak_bytes_variance += share(part.bytes_variance, part.peak_bytes, part.bytes);
	}
	assert_int_equal(site->numbers.calls, want.calls);
	assert_int_equal(site->numbers.bytes, want.bytes);
	assert_int_equal(site->numbers.frees, want.frees);
	assert_int_equal(site->numbers.samples, want.samples);
	assert_int_equal(site->numbers.peak_bytes, want.peak_bytes);
	assert_int_equal(site->numbers.live_blocks, want.calls - want.frees);
	assert_true(near(site->numbers.calls_variance, want.calls_variance));
	assert_true(near(site->numbers.bytes_variance, want.bytes_variance));
	assert_true(near(site->numbers.peak_bytes_variance, want.peak_bytes_variance));
	assert_int_equal(site->born_ns, born);
	assert_int_equal(site->interval, interval);
	assert_int_equal(site->has_exact, exact);
}

/* The site counters are all there, with the variance of their own interval. */
static void check_site_counters(const struct profile_process *p, const struct profile_site *site,
				struct arena *arena)
{
	struct profile_bars sizes;
	struct profile_ages ages;
	uint64_t calls = 0;
	double variance = 0;

	for (size_t i = 0; i < profile_counters_count(p, site->id); i++)
		calls += profile_counters(p, site->id, i).numbers.calls;
	assert_int_equal(calls, site->numbers.calls);
	for (size_t i = 0; i < p->rows->site_counters_count; i++) {
		uint64_t interval = p->rows->sites[p->rows->site_counters[i].site].interval;

		if (is_part(p, site, p->rows->site_counters[i].site) && interval)
			variance += (double)p->rows->site_counters[i].calls *
				    estimate_block_variance(SIZE, interval);
	}
	assert_int_equal(profile_sizes(p, site->id, NULL, arena, &sizes), 0);
	assert_int_equal(sizes.count, 1);
	assert_int_equal(sizes.at[0].count, calls);
	assert_true(near(sizes.at[0].variance, variance));
	assert_int_equal(profile_ages(p, NULL, arena, &ages), 0);
	assert_int_equal(ages.first[site->id.v + 1] - ages.first[site->id.v], 1);
	assert_int_equal(ages.at[ages.first[site->id.v]].blocks, site->numbers.live_blocks);
}

/* What an image says of all parts. */
static void check_image(const struct profile_process *p, const struct profile_site *site)
{
	const struct image_rows *image = &p->rows->image;
	uint64_t blocks = 0, bytes = 0, typed = 0, retained = 0, holder = 0;
	struct profile_type_cursor at = { 0 };
	struct profile_site_type type;

	for (uint32_t i = 0; i + 1 < p->rows->site_count; i++) {
		if (!is_part(p, site, i + 1))
			continue;
		blocks++;
		bytes += image->reach_sites[i].bytes;
		holder = image->retained[i].bytes > retained ? i + 1 : holder;
		retained = MAX(retained, image->retained[i].bytes);
	}
	struct profile_reach reach = profile_site_reach(p, site->id);
	struct profile_path path = profile_site_path(p, site->id);

	assert_int_equal(reach_unreachable_blocks(&reach), blocks);
	assert_int_equal(reach_unreachable_bytes(&reach), bytes);
	assert_int_equal(reach.retained_bytes, retained);
	assert_int_equal(path.root, holder);
	assert_int_equal(path.count, 1);
	assert_int_equal(profile_path_step(p, path.first).blocks, holder);
	for (; profile_site_type_next(p, site->id, &at, &type); blocks--)
		typed += type.bytes;
	assert_int_equal(blocks, 0);
	assert_int_equal(typed, bytes);
}

static void check_snapshot(const struct profile_process *p, size_t snapshot, struct arena *arena)
{
	const struct process_rows *rows = p->rows;
	struct site_live *live = profile_live_at(p, snapshot, arena);
	struct live_variance *variances = profile_live_variances(p, snapshot, arena);
	struct live_variance sum = profile_snapshot_variances(p, arena)[snapshot];
	double heap = 0;

	for (size_t i = 0; i < p->site_count; i++) {
		const struct profile_site *site = &p->sites[i];
		int64_t bytes = 0;
		double variance = 0;

		for (uint32_t row = 1; row < rows->site_count; row++) {
			const struct snapshot_site *last = NULL;
			struct site_numbers part = part_of(p, row);

			for (size_t j = 0; j < rows->snapshot_site_count; j++)
				if (rows->snapshot_sites[j].site == row &&
				    j < rows->snapshots[snapshot].sites_at +
						    rows->snapshots[snapshot].sites_count)
					last = &rows->snapshot_sites[j];
			if (!last || !is_part(p, site, row))
				continue;
			bytes += last->bytes;
			variance += share(part.bytes_variance, (uint64_t)last->bytes, part.bytes);
		}
		assert_int_equal(live[site->id.v].bytes, bytes);
		assert_true(near(variances[site->id.v].bytes, variance));
		heap += site->kind == PROFILE_HEAP ? variance : 0;
	}
	assert_true(fabs(sum.bytes - heap) <= 1e-6 * (1 + heap));
	/* A change is told once. */
	for (size_t i = 0; i < profile_snapshot(p, snapshot).change_count; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(profile_change(p, snapshot, i).site.v,
					     profile_change(p, snapshot, j).site.v);
}

static void sites_of_several_intervals_are_one(void **state)
{
	uint64_t seed = 21;
	size_t fewer = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		struct recording r = { .processes = calloc(1, sizeof *r.processes),
				       .process_count = 1 };
		AUTO(arena_release) struct arena arena = ARENA_INIT;

		random_rows(&r.processes[0], &seed);
		random_snapshots(&r.processes[0], &seed);
		random_image(&r.processes[0], &seed);
		struct profile *profile = profile_new(&r, NULL);
		const struct profile_process *p = &profile->processes[0];

		for (size_t i = 0; i < p->site_count; i++) {
			for (size_t j = 0; p->same && j < i; j++)
				assert_false(is_part(p, &p->sites[i], p->sites[j].id.v));
			if (!p->same)
				continue;
			check_numbers(p, &p->sites[i]);
			check_site_counters(p, &p->sites[i], &arena);
			check_image(p, &p->sites[i]);
		}
		for (size_t i = 0; p->same && i < SNAPSHOTS; i++)
			check_snapshot(p, i, &arena);
		fewer += p->same != NULL;
		assert_int_equal(profile->warnings.count, 0);
		profile_free(profile);
	}
	assert_true(fewer > 150);
}

/* A recording that was read is written as it was: the rows keep their sites. */
static void the_rows_stay_as_they_are(void **state)
{
	struct recording r = mixed_recording(1024, 4096);
	struct process_rows *rows = &r.processes[0];

	(void)state;
	rows->sites[4].node = rows->sites[3].node;
	uint32_t site = rows->site_counters[0].site;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_non_null(p->same);
	assert_int_equal(p->rows->site_counters[0].site, site);
	assert_int_equal(p->rows->sites[4].interval, 4096);
	assert_string_equal(p->mode, "sampled");
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sites_of_several_intervals_are_one),
		cmocka_unit_test(the_rows_stay_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
