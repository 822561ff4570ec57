/* SPDX-License-Identifier: Apache-2.0 */
/* links: model */
/* The profile against the rows it was made from: sums, stacks, distributions, and rows that lie. */
#include "test_model_made.h"

#include "model/ages.h"
#include "model/build.h"
#include "model/frames/names.h"
#include "model/history.h"

static struct profile *made_profile(size_t processes)
{
	struct recording r = made_recording(processes);
	struct profile *p = profile_new(&r, NULL);

	assert_non_null(p);
	assert_null(r.processes);
	return p;
}

static const struct profile_site *site_of(const struct profile_process *p, uint32_t id)
{
	for (size_t i = 0; i < p->site_count; i++)
		if (p->sites[i].id.v == id)
			return &p->sites[i];
	return NULL;
}

static void totals_are_taken_over(void **state)
{
	(void)state;
	struct profile *profile = made_profile(2);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(profile->process_count, 2);
	assert_int_equal(profile->peak_bytes, 41400);
	assert_int_equal(p->pid, 4711);
	assert_int_equal(p->calls, 113);
	assert_int_equal(p->bytes, 47690);
	assert_int_equal(p->frees, 98);
	assert_int_equal(p->live_blocks, 15);
	assert_int_equal(p->live_bytes, 47690 - 41580);
	assert_int_equal(p->peak_bytes, 41350);
	assert_int_equal(p->mmap_live_bytes, 1 << 19);
	assert_int_equal(p->end, PROFILE_SIGNALLED);
	assert_string_equal(p->mode, "exact");
	assert_int_equal(p->threads, 2);
	/* Sites 1 and 2 were never used; 3..7 have five different stacks. */
	assert_int_equal(p->site_count, 5);
	assert_int_equal(p->stacks, 5);
	assert_int_equal(p->health.count, 1);
	assert_string_equal(p->health.at[0].name, "stacks_cut");
	assert_int_equal(p->health.at[0].count, 14);
	assert_int_equal(profile->warnings.count, 0);
	profile_free(profile);
}

static void site_is_the_sum_of_its_counters(void **state)
{
	(void)state;
	struct profile *profile = made_profile(1);
	const struct profile_process *p = &profile->processes[0];
	const struct profile_site *one = site_of(p, 3), *two = site_of(p, 4);

	assert_int_equal(one->numbers.calls, 100);
	assert_int_equal(one->numbers.live_blocks, 10);
	assert_int_equal(one->numbers.live_fragmentation_bytes, 80);
	assert_int_equal(one->numbers.reallocs.moved_bytes, 512);
	assert_int_equal(one->numbers.max_bytes, 43000);
	assert_true(one->numbers.max_exact);

	assert_int_equal(two->numbers.calls, 10);
	assert_int_equal(two->numbers.bytes, 720);
	assert_int_equal(two->numbers.live_bytes, 300);
	assert_int_equal(two->numbers.live_blocks, 4);
	assert_int_equal(two->numbers.peak_bytes, 300);
	assert_int_equal(two->numbers.peak_blocks, 4);
	assert_int_equal(two->numbers.max_bytes, 420);
	assert_false(two->numbers.max_exact);
	assert_int_equal(site_of(p, 7)->kind, PROFILE_MMAP);
	assert_null(site_of(p, 1));
	profile_free(profile);
}

static void distributions_of_threads_are_merged(void **state)
{
	(void)state;
	struct profile *profile = made_profile(1);
	const struct profile_process *p = &profile->processes[0];
	struct arena arena = ARENA_INIT;
	struct profile_bars bars;

	assert_int_equal(profile_sizes(p, (site_id){ 3 }, NULL, &arena, &bars), 0);
	assert_int_equal(bars.count, 2);
	assert_int_equal(bars.at[1].low, 4096);
	assert_int_equal(bars.at[1].count, 10);

	/* 5 of exactly 64 bytes in one thread, classes in the other: the class takes them in. */
	assert_int_equal(profile_sizes(p, (site_id){ 4 }, NULL, &arena, &bars), 0);
	assert_int_equal(bars.count, 2);
	assert_int_equal(bars.at[0].low, 48);
	assert_int_equal(bars.at[0].count, 1);
	assert_int_equal(bars.at[1].low, 64);
	assert_int_equal(bars.at[1].high, 95);
	assert_int_equal(bars.at[1].count, 9);

	assert_int_equal(profile_lifetimes(p, (site_id){ 3 }, NULL, &arena, &bars), 0);
	assert_int_equal(bars.count, 2);
	assert_int_equal(bars.at[0].high, 1);
	assert_int_equal(bars.at[0].count, 60);

	assert_int_equal(profile_sizes(p, (site_id){ 5 }, NULL, &arena, &bars), 0);
	assert_int_equal(bars.count, 0);
	arena_release(&arena);
	profile_free(profile);
}

static void no_class_of_lifetimes_reaches_beyond_the_run(void **state)
{
	(void)state;
	struct recording r = made_recording(1);
	struct arena arena = ARENA_INIT;
	struct profile_bars bars;

	r.processes[0].bars[6] = (struct bar){ 2048, 4096, 30 };
	r.processes[0].process.duration_ns = 3200400000;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(profile_lifetimes(p, (site_id){ 3 }, NULL, &arena, &bars), 0);
	assert_int_equal(bars.count, 2);
	assert_int_equal(bars.at[0].high, 1);
	assert_int_equal(bars.at[1].low, 2048);
	assert_int_equal(bars.at[1].high, 3201);
	assert_int_equal(profile_age_limit(p, 4096, 8192), 4097); /* not an empty class */
	arena_release(&arena);
	profile_free(profile);
}

/* The births of the other frees are unknown. */
static void lifetimes_are_of_those_frees_whose_births_are_known(void **state)
{
	(void)state;
	struct recording r = made_recording(1);

	r.processes[0].bars[5].count = 15;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(site_of(p, 3)->numbers.frees, 90);
	assert_int_equal(site_of(p, 3)->numbers.aged_frees, 45);
	assert_int_equal(site_of(p, 7)->numbers.aged_frees, 0);
	profile_free(profile);
}

static void what_was_live_is_never_above_the_peak_and_its_bound(void **state)
{
	static const struct {
		uint64_t bytes, bound, least, most;
	} readings[] = { { 80, 0, 80, 80 },	{ 80, 10, 70, 90 },   { 100, 0, 100, 100 },
			 { 80, 1000, 0, 110 },	{ 108, 10, 98, 110 }, { 1000, 0, 110, 110 },
			 { 1000, 950, 50, 110 } };
	struct profile_process p = { .peak_bytes = 100, .peak_bound_bytes = 10 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		uint64_t bytes = readings[i].bytes, bound = readings[i].bound;

		profile_limit_live(&p, &bytes, &bound);
		assert_true(bytes <= 110);
		/* What may be true is still within. */
		assert_true(bytes <= readings[i].least + bound);
		assert_true(bytes + bound >= readings[i].most);
		assert_true(bound <= 110);
	}
}

static void stacks_are_leaf_first_and_keep_their_marks(void **state)
{
	(void)state;
	struct profile *profile = made_profile(1);
	const struct profile_process *p = &profile->processes[0];
	struct arena arena = ARENA_INIT;
	struct profile_frame *frames;

	assert_int_equal(profile_stack(p, (node_id){ 3 }, &arena, &frames), 3);
	assert_int_equal(frames[0].offset, 0x3000);
	assert_true(frames[0].exact);
	assert_int_equal(frames[2].offset, 0x1000);
	assert_int_equal(frames[2].module.v, 1);
	assert_int_equal(profile_stack(p, (node_id){ 6 }, &arena, &frames), 2);
	assert_int_equal(frames[1].mark, MARK_CUT);
	assert_int_equal(profile_stack(p, (node_id){ 8 }, &arena, &frames), 2);
	assert_int_equal(frames[0].mark, MARK_NONE);
	assert_int_equal(frames[0].offset, 0xffff1234);
	assert_int_equal(frames[1].mark, MARK_STOPPED);
	assert_int_equal(profile_stack(p, (node_id){ 9 }, &arena, &frames), 1);
	assert_int_equal(frames[0].mark, MARK_OTHER);
	assert_int_equal(profile_stack(p, (node_id){ 0 }, &arena, &frames), 0);
	arena_release(&arena);
	profile_free(profile);
}

/* The stack's innermost frame, or the one so many callers outwards. */
static const struct named_frame *named_at(struct names *names, const struct profile_process *p,
					  uint32_t node, size_t outwards, struct arena *arena)
{
	struct profile_frame *frames;
	struct named_stack named;

	assert_int_equal(profile_stack(p, (node_id){ node }, arena, &frames), 2);
	assert_int_equal(names_frame(names, p, frames[outwards], arena, &named), 0);
	return named.at;
}

static void frames_without_names_show_their_place(void **state)
{
	(void)state;
	struct profile *profile = made_profile(1);
	const struct profile_process *p = &profile->processes[0];
	struct arena arena = ARENA_INIT;

	for (int symbols = 0; symbols < 2; symbols++) {
		struct names_options options = { .use_symbols = symbols };
		struct names *names = names_new(&options);

		const struct named_frame *leaf = named_at(names, p, 6, 0, &arena);
		const struct named_frame *cut = named_at(names, p, 6, 1, &arena);

		assert_string_equal(leaf->function, "libhttp.so.1+0x4000");
		assert_string_equal(leaf->module, "/no/such/libhttp.so.1");
		assert_null(leaf->file);
		assert_string_equal(cut->function, "[outer frames truncated]");
		assert_string_equal(cut->module, "");
		assert_string_equal(named_at(names, p, 8, 0, &arena)->function, "0xffff1234");
		assert_string_equal(named_at(names, p, 8, 1, &arena)->function, "[unwind stopped]");

		struct profile_notes notes;

		assert_int_equal(names_notes(names, &arena, &notes), 0);
		assert_int_equal(notes.count, symbols ? 2 : 0);
		if (symbols) {
			assert_non_null(strstr(notes.at[0].text, "libhttp.so.1"));
			assert_non_null(strstr(notes.at[1].text, "/tmp/perf-4711.map is gone"));
		}
		names_free(names);
	}
	arena_release(&arena);
	profile_free(profile);
}

/* Cells in random order, several to a site, negative ones among them: against sums made naively. */
static void random_site_counters(struct process_rows *rows, uint64_t *seed)
{
	size_t sites = 2 + unit_random(seed) % 50, site_counters = unit_random(seed) % 300;

	rows->site_count = sites;
	rows->sites = calloc(sites, sizeof *rows->sites);
	rows->nodes = calloc(1, sizeof *rows->nodes);
	rows->node_count = 1;
	rows->site_counters = calloc(site_counters + 1, sizeof *rows->site_counters);
	rows->site_counters_count = site_counters;
	for (size_t i = 1; i < sites; i++)
		rows->sites[i].kind = unit_random(seed) % 4 == 0;
	for (size_t i = 0; i < site_counters; i++) {
		struct site_counters_row *c = &rows->site_counters[i];

		c->site = 1 + (uint32_t)(unit_random(seed) % (sites - 1));
		c->slot = (uint32_t)i;
		c->calls = unit_random(seed) % 1000;
		c->bytes = c->calls * (unit_random(seed) % 100);
		c->frees = unit_random(seed) % 1000;
		c->freed_bytes = c->frees * (unit_random(seed) % 100);
		c->peak_bytes = (int64_t)(unit_random(seed) % 2000) - 1000;
		c->temporary = unit_random(seed) % 100;
		c->reallocs.moved_bytes = unit_random(seed) % 100;
	}
	rows->process.mode = LIVE_MODE_EXACT;
	made_totals(rows);
}

static void check_random_site(const struct profile_process *p, uint32_t id)
{
	const struct process_rows *rows = p->rows;
	const struct profile_site *site = site_of(p, id);
	struct site_numbers want = { 0 };
	int64_t peak = 0;

	for (size_t i = 0; i < rows->site_counters_count; i++) {
		const struct site_counters_row *c = &rows->site_counters[i];

		if (c->site != id)
			continue;
		want.calls += c->calls;
		want.bytes += c->bytes;
		want.frees += c->frees;
		want.freed_bytes += c->freed_bytes;
		want.temporary_calls += c->temporary;
		want.reallocs.moved_bytes += c->reallocs.moved_bytes;
		peak += c->peak_bytes;
	}
	if (!want.calls && !want.frees) {
		assert_null(site);
		return;
	}
	assert_non_null(site);
	assert_int_equal(site->numbers.calls, want.calls);
	assert_int_equal(site->numbers.bytes, want.bytes);
	assert_int_equal(site->numbers.frees, want.frees);
	assert_int_equal(site->numbers.freed_bytes, want.freed_bytes);
	assert_int_equal(site->numbers.temporary_calls, want.temporary_calls);
	assert_int_equal(site->numbers.reallocs.moved_bytes, want.reallocs.moved_bytes);
	assert_int_equal(site->numbers.peak_bytes, peak > 0 ? peak : 0);
	assert_int_equal(site->numbers.live_bytes,
			 want.bytes > want.freed_bytes ? want.bytes - want.freed_bytes : 0);
}

static void random_sites_equal_naive_sums_and_totals(void **state)
{
	uint64_t seed = 42;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct recording r = { .processes = calloc(1, sizeof *r.processes),
				       .process_count = 1 };

		random_site_counters(&r.processes[0], &seed);
		struct profile *profile = profile_new(&r, NULL);
		const struct profile_process *p = &profile->processes[0];
		uint64_t calls[PROFILE_KINDS] = { 0 }, bytes[PROFILE_KINDS] = { 0 };

		for (uint32_t id = 1; id < p->rows->site_count; id++)
			check_random_site(p, id);
		for (size_t i = 0; i < p->site_count; i++) {
			calls[p->sites[i].kind] += p->sites[i].numbers.calls;
			bytes[p->sites[i].kind] += p->sites[i].numbers.bytes;
		}
		assert_int_equal(calls[PROFILE_HEAP], p->calls);
		assert_int_equal(bytes[PROFILE_HEAP], p->bytes);
		assert_int_equal(calls[PROFILE_MMAP], p->mmap_calls);
		assert_int_equal(bytes[PROFILE_MMAP], p->mmap_bytes);
		assert_int_equal(profile->warnings.count, 0);
		profile_free(profile);
	}
}

static uint64_t warning_of(const struct profile *p, const char *name)
{
	for (size_t i = 0; i < p->warnings.count; i++)
		if (strcmp(p->warnings.at[i].name, name) == 0)
			return p->warnings.at[i].count;
	return 0;
}

static void rows_that_point_outside_are_counted_and_left_out(void **state)
{
	(void)state;
	struct recording r = made_recording(1);
	struct process_rows *rows = &r.processes[0];
	struct arena arena = ARENA_INIT;
	struct profile_frame *frames;

	rows->nodes[2].parent = 3; /* a cycle: 3's parent is 2 */
	rows->nodes[4].frame = 1000;
	rows->frames[3] = live_frame_pack(77, 1, 0);
	rows->sites[6].node = 1000;
	rows->sites[5].kind = 9;
	rows->site_counters[4].site = 1000;
	rows->site_counters[0].sizes_at = UINT32_MAX;
	rows->site_counters[1].lifetimes_at = 7;
	rows->site_counters[1].lifetimes_count = UINT32_MAX;
	r.warnings.cut_bytes = 17;
	r.warnings.unfinished = 1;
	struct profile *profile = profile_new(&r, NULL);
	const struct profile_process *p = &profile->processes[0];

	assert_int_equal(warning_of(profile, "damaged_rows"), 7);
	assert_int_equal(warning_of(profile, "cut_bytes"), 17);
	assert_int_equal(warning_of(profile, "unfinished"), 1);
	/* The call of the counters that have no site any more. */
	assert_int_equal(warning_of(profile, "unbalanced_calls"), 1);
	assert_int_equal(profile_stack(p, (node_id){ 3 }, &arena, &frames), 2);
	assert_int_equal(frames[0].mark, MARK_DAMAGED);
	assert_int_equal(profile_stack(p, (node_id){ 4 }, &arena, &frames), 2);
	assert_int_equal(frames[0].mark, MARK_DAMAGED);
	arena_release(&arena);
	profile_free(profile);
}

static void empty_recording_is_a_profile(void **state)
{
	(void)state;
	struct recording r = { 0 };
	struct profile *profile = profile_new(&r, NULL);

	assert_int_equal(profile->process_count, 0);
	assert_string_equal(profile->command, "");
	profile_free(profile);

	r = (struct recording){ .processes = calloc(1, sizeof *r.processes), .process_count = 1 };
	profile = profile_new(&r, NULL);
	assert_int_equal(profile->processes[0].site_count, 0);
	assert_string_equal(profile->processes[0].command, "");
	profile_free(profile);
}

static void file_that_is_no_recording_is_an_error(void **state)
{
	struct error error = ERROR_INIT;

	(void)state;
	assert_null(profile_load("/proc/self/exe", &error));
	assert_non_null(strstr(error.message, "/proc/self/exe"));
	error = ERROR_INIT;
	assert_null(profile_load("/no/such/file.hg", &error));
	assert_non_null(strstr(error.message, "/no/such/file.hg"));
}

/* H12: "3,913,450 ms without a tick" of a run of 7 s. */
static void a_clock_stands_still_no_longer_than_the_process_runs(void **state)
{
	struct recording made = made_recording(1);

	(void)state;
	made.processes[0].process.health[HEALTH_clock_stopped_ms] = 3913450;
	struct profile *profile = profile_new(&made, NULL);
	const struct profile_process *p = &profile->processes[0];
	size_t found = 0;

	for (size_t i = 0; i < p->health.count; i++) {
		if (strcmp(p->health.at[i].name, "clock_stopped_ms") != 0)
			continue;
		assert_int_equal(p->health.at[i].count, p->duration_ns / 1000000);
		found++;
	}
	assert_int_equal(found, 1);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clock_stands_still_no_longer_than_the_process_runs),
		cmocka_unit_test(totals_are_taken_over),
		cmocka_unit_test(site_is_the_sum_of_its_counters),
		cmocka_unit_test(distributions_of_threads_are_merged),
		cmocka_unit_test(no_class_of_lifetimes_reaches_beyond_the_run),
		cmocka_unit_test(lifetimes_are_of_those_frees_whose_births_are_known),
		cmocka_unit_test(what_was_live_is_never_above_the_peak_and_its_bound),
		cmocka_unit_test(stacks_are_leaf_first_and_keep_their_marks),
		cmocka_unit_test(frames_without_names_show_their_place),
		cmocka_unit_test(random_sites_equal_naive_sums_and_totals),
		cmocka_unit_test(rows_that_point_outside_are_counted_and_left_out),
		cmocka_unit_test(empty_recording_is_a_profile),
		cmocka_unit_test(file_that_is_no_recording_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
