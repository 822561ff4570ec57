/* SPDX-License-Identifier: Apache-2.0 */
/* links: render model format */
/*
 * A recording may hold any numbers: damaged, made up, or added up to more than 64 bits. Every view must
 * survive them in every format; the sanitizers watch. What the views say of such numbers does not matter.
 */
#include "test_course_made.h"
#include "test_golden.h"

enum { ROUNDS = 150 };

/* Small, large, huge or none: what breaks sums and differences. */
static uint64_t wild(uint64_t *random)
{
	static const uint64_t edges[] = { 0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1 };
	uint64_t choice = unit_random(random) % 8;

	return choice < ARRAY_SIZE(edges) ? edges[choice] : unit_random_length(random);
}

#define WILD(field) (field) = (__typeof__(field))wild(random)

static void wild_site_counters(struct process_rows *rows, uint64_t *random)
{
	for (size_t i = 0; i < rows->site_counters_count; i++) {
		struct site_counters_row *c = &rows->site_counters[i];

		WILD(c->calls);
		WILD(c->bytes);
		WILD(c->frees);
		WILD(c->freed_bytes);
		WILD(c->peak_bytes);
		WILD(c->peak_blocks);
		WILD(c->max_bytes);
		WILD(c->temporary);
		WILD(c->fragmentation);
		WILD(c->freed_fragmentation);
		WILD(c->lifetime_ms_sum);
		WILD(c->reallocs.calls);
		WILD(c->reallocs.moved_calls);
		WILD(c->reallocs.moved_bytes);
		WILD(c->reallocs.grown_calls);
		WILD(c->reallocs.old_bytes);
		WILD(c->reallocs.new_bytes);
		WILD(c->samples.count);
		WILD(c->samples.calls_variance);
		WILD(c->samples.frees_variance);
		WILD(c->samples.bytes_variance);
		WILD(c->samples.freed_variance);
	}
	for (size_t i = 0; i < rows->bar_count; i++)
		WILD(rows->bars[i].count);
}

static void wild_course(struct process_rows *rows, uint64_t *random)
{
	for (size_t i = 0; i < rows->series_count; i++) {
		WILD(rows->series[i].at_ns);
		WILD(rows->series[i].live_bytes);
		WILD(rows->series[i].calls);
		WILD(rows->series[i].rss_bytes);
	}
	rows->snapshot_counts = calloc(rows->snapshot_site_count, sizeof *rows->snapshot_counts);
	assert_non_null(rows->snapshot_counts);
	for (size_t i = 0; i < rows->snapshot_count; i++) {
		rows->snapshots[i].counted = 1;
		if (unit_random(random) % 4 == 0)
			WILD(rows->snapshots[i].at_ns);
		WILD(rows->snapshots[i].live_bytes);
	}
	for (size_t i = 0; i < rows->snapshot_site_count; i++) {
		WILD(rows->snapshot_sites[i].bytes);
		WILD(rows->snapshot_sites[i].blocks);
		WILD(rows->snapshot_counts[i].calls);
		WILD(rows->snapshot_counts[i].bytes);
		WILD(rows->snapshot_counts[i].temporary);
		WILD(rows->snapshot_counts[i].fragmentation);
	}
	for (size_t i = 0; i < rows->memory_count; i++) {
		WILD(rows->memory[i].at_ns);
		WILD(rows->memory[i].live_bytes);
		WILD(rows->memory[i].fragmentation_bytes);
		WILD(rows->memory[i].map_live_bytes);
		WILD(rows->memory[i].rss_bytes);
		WILD(rows->memory[i].heap_bytes);
		WILD(rows->memory[i].anonymous_bytes);
		WILD(rows->memory[i].file_bytes);
		WILD(rows->memory[i].cgroup_usage_bytes);
	}
}

static void wild_process(struct process_rows *rows, uint64_t *random)
{
	struct process_row *p = &rows->process;

	WILD(p->ppid);
	WILD(p->started_offset_ns);
	WILD(p->duration_ns);
	WILD(p->calls);
	WILD(p->bytes);
	WILD(p->frees);
	WILD(p->freed_bytes);
	WILD(p->temporary);
	WILD(p->peak_bytes);
	WILD(p->peak_blocks);
	WILD(p->peak_at_ns);
	WILD(p->peak_rss_bytes);
	WILD(p->own_bytes);
	WILD(p->map_calls);
	WILD(p->map_bytes);
	WILD(p->health[unit_random(random) % HEALTH_COUNT]);
	for (size_t i = 0; i < rows->site_count; i++) {
		WILD(rows->sites[i].born_ns);
		WILD(rows->sites[i].interval);
	}
}

static void wild_pages(struct process_rows *rows, uint64_t *random)
{
	struct pages_rows *pages = &rows->pages;

	for (size_t i = 0; i < pages->sum_count; i++) {
		WILD(pages->sums[i].rss_bytes);
		WILD(pages->sums[i].sites_bytes);
		WILD(pages->sums[i].free_bytes);
		WILD(pages->sums[i].waste_bytes);
		WILD(pages->sums[i].trim_bytes);
		WILD(pages->sums[i].unknown_blocks);
		WILD(pages->sums[i].changed_bytes);
	}
	for (size_t i = 0; i < pages->site_count; i++) {
		WILD(pages->sites[i].blocks);
		WILD(pages->sites[i].live_bytes);
		WILD(pages->sites[i].resident_bytes);
		WILD(pages->sites[i].sole_bytes);
		WILD(pages->sites[i].pinned_bytes);
		WILD(pages->sites[i].packed_bytes);
		WILD(pages->sites[i].zero_bytes);
	}
	for (size_t i = 0; i < pages->map_count; i++)
		WILD(pages->map[i].left_out_bytes);
	for (size_t i = 0; i < pages->heap_count; i++) {
		WILD(pages->heaps[i].start);
		WILD(pages->heaps[i].free_bytes);
		WILD(pages->heaps[i].held_bytes);
		WILD(pages->heaps[i].holder_bytes);
		WILD(pages->heaps[i].holder_site);
		WILD(pages->heaps[i].holder_age_ms);
	}
}

/* What pages are refused without. */
static struct recording exact_recording(struct recording r)
{
	for (size_t i = 0; i < r.process_count; i++)
		for (size_t k = 0; k < r.processes[i].site_count; k++)
			r.processes[i].sites[k].interval = 0;
	return r;
}

static struct recording wild_recording(uint64_t *random)
{
	struct recording r = made_course(2);

	WILD(r.run.duration_ns);
	WILD(r.run.peak_bytes);
	WILD(r.run.peak_at_ns);
	for (size_t i = 0; i < r.process_count; i++) {
		wild_site_counters(&r.processes[i], random);
		wild_course(&r.processes[i], random);
		wild_process(&r.processes[i], random);
		wild_pages(&r.processes[i], random);
	}
	return r;
}

static void every_view_survives_any_numbers(void **state)
{
	const struct render_options options = { .columns = 80, .stack_frames = 3, .utf8 = true };
	uint64_t random = 88172645463325252u;

	(void)state;
	for (size_t round = 0; round < ROUNDS; round++) {
		uint64_t seed = random;

		for (const struct analysis *a = analyses; a->name; a++)
			for (const struct renderer *r = renderers; r->run; r++) {
				random = seed; /* the same recording for all */
				struct recording wild = wild_recording(&random);

				free(render_view(a->needs_pages ? exact_recording(wild) : wild,
						 a->name, r->name, options,
						 round % 2 ? SIZE_MAX : 5));
			}
	}
}

static void windows_survive_any_numbers(void **state)
{
	static const enum cost_id costs[] = { COST_LIVE,      COST_TOTAL, COST_CALLS,
					      COST_TEMPORARY, COST_WASTE, COST_RATE };
	const struct render_options options = { .columns = 80, .stack_frames = 3, .utf8 = true };
	uint64_t random = 88172645463325252u;

	(void)state;
	for (size_t round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < ARRAY_SIZE(costs); i++) {
			struct recording r = wild_recording(&random);
			struct query query = { .limit = SIZE_MAX,
					       .has_cost = true,
					       .cost = costs[i],
					       .at = { .kind = MOMENT_END },
					       .minus = { .kind = MOMENT_SNAP, .number = 1 } };

			/* No moment of a process is before its first snapshot. */
			for (size_t j = 0; j < r.process_count; j++) {
				if (r.processes[j].snapshot_count > 0)
					r.processes[j].snapshots[0].at_ns = 0;
				r.processes[j].process.started_offset_ns = 0;
			}
			free(render_query(r, round % 2 ? "sites" : "tree", "json", options, query));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_view_survives_any_numbers),
		cmocka_unit_test(windows_survive_any_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
