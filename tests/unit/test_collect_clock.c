/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* R10: the clock that a collector keeps for a process, in its fiftieth day (2^32 ms are 49.7 days) and its tenth year. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect/process/target.h"
#include "format/live/live_marks.h"
#include "live_made.h"
#include "unit.h"

#define NS_PER_MS 1000000ull
#define DAY_MS (24 * 3600 * 1000ull)
#define TOTAL LIVE_TOTAL_MIN

/* Three seconds of ticks, over the end of the 32 bits in the middle. */
static void ticks(uint64_t from_ms)
{
	struct target target = { .started_ns = 7777, .profile = LIVE_PROFILE_INIT };
	uint64_t last = from_ms;

	target.profile.control.clock_ms = from_ms;
	for (uint64_t ms = from_ms + 1; ms < from_ms + 3000; ms++) {
		target_tick(&target, target.started_ns + ms * NS_PER_MS);
		uint64_t shown = target.profile.control.clock_ms;

		assert_true(shown >= last && shown <= ms && ms - shown <= 1);
		last = shown;
	}
	assert_int_equal(target.stopped_ms, 0);
	target_tick(&target, target.started_ns + (last + STOPPED_MS) * NS_PER_MS);
	assert_int_equal(target.stopped_ms, STOPPED_MS);
}

static void the_clock_runs_on_for_ten_years_without_a_gap(void **state)
{
	(void)state;
	ticks(0);
	ticks((1ull << 32) - 1500);
	ticks(50 * DAY_MS);
	ticks(3653 * DAY_MS);
	ticks(2 * (1ull << 32) - 1500);
}

static void the_control_page_shows_all_of_it(void **state)
{
	struct target target = { .started_ns = 1, .profile = LIVE_PROFILE_INIT };
	struct live_header head = { .total_bytes = 0 };
	uint64_t ms = 3653 * DAY_MS + 5, there = 0;

	(void)state;
	target.profile.head = &head;
	target.profile.held.fd = memfd_create("control", MFD_CLOEXEC);
	assert_true(target.profile.held.fd >= 0);
	target_tick(&target, target.started_ns + ms * NS_PER_MS);
	assert_int_equal(pread(target.profile.held.fd, &there, sizeof there,
			       offsetof(struct live_control, clock_ms)),
			 sizeof there);
	assert_int_equal(there, ms);
	close(target.profile.held.fd);
}

static void every_time_of_a_profile_is_read_as_it_was_written(void **state)
{
	const uint64_t ms = 3653 * DAY_MS + 77;
	struct live_header *head =
		mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct made made;
	struct process_rows rows;
	struct live_mark_read mark;

	(void)state;
	assert_ptr_not_equal(head, MAP_FAILED);
	assert_int_equal(live_header_init(head, TOTAL), 0);
	made_start(&made, head);
	uint32_t module = made_module(&made, "/bin/x");
	uint32_t site = made_site(&made, 1, LIVE_KIND_HEAP);

	made_counts(&made, site, 0, 64, 10, 4);
	((struct live_module *)made_at(&made, LIVE_MODULES))[module].mapped_ms = ms;
	((struct live_module *)made_at(&made, LIVE_MODULES))[module].unmapped_ms = ms + 1;
	((struct live_site *)made_at(&made, LIVE_SITES))[site].born_ms = ms + 2;
	made_append(&made, LIVE_THREADS, 1);
	*(struct live_thread *)made_at(&made, LIVE_THREADS) =
		(struct live_thread){ .tid = 1, .started_ms = ms + 3 };
	head->peak.peak_ms = ms + 4;
	made_append(&made, LIVE_MARKS, 1);
	*(struct live_mark *)made_at(&made, LIVE_MARKS) =
		(struct live_mark){ .there = 1, .at_ms = ms + 5 };
	assert_int_equal(live_read_rows(head, TOTAL, NULL, LIVE_MODE_EXACT, &rows, NULL), 0);
	assert_int_equal(rows.modules[module].mapped_ns, ms * NS_PER_MS);
	assert_int_equal(rows.modules[module].unmapped_ns, (ms + 1) * NS_PER_MS);
	assert_int_equal(rows.sites[site].born_ns, (ms + 2) * NS_PER_MS);
	assert_int_equal(rows.threads[0].started_ns, (ms + 3) * NS_PER_MS);
	assert_int_equal(rows.process.peak_at_ns, (ms + 4) * NS_PER_MS);
	assert_true(live_mark_get(head, TOTAL, 0, &mark));
	assert_int_equal(mark.at_ms, ms + 5);
	process_rows_release(&rows);
	munmap(head, TOTAL);
}

/* Whoever was stopped meanwhile; but a clock of another time name space tells nothing. */
static void a_process_began_when_it_says_however_late_it_is_heard_from(void **state)
{
	const uint64_t run_start_ns = 5000 * NS_PER_MS, now_ns = run_start_ns + DAY_MS * NS_PER_MS;
	static const struct {
		uint64_t says_ms, is_ms;
	} starts[] = { { 5000, 5000 },
		       { 5001, 5001 },
		       { 5000 + DAY_MS, 5000 + DAY_MS },
		       { 4999, 5000 + DAY_MS },
		       { 5001 + DAY_MS, 5000 + DAY_MS } };
	const struct collect_options options = { .budget_bytes = 1 << 20 };
	const struct cgroups cgroups = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		struct live_profile profile = LIVE_PROFILE_INIT;

		profile.head = aligned_alloc(_Alignof(struct live_header), sizeof *profile.head);
		assert_non_null(profile.head);
		memset(profile.head, 0, sizeof *profile.head);
		profile.head->started_mono_ns = starts[i].says_ms * NS_PER_MS;
		struct target *target = target_take_over(&profile, 0, -1, &options, &cgroups,
							 run_start_ns, now_ns, NULL);

		assert_non_null(target);
		assert_int_equal(target->started_ns, starts[i].is_ms * NS_PER_MS);
		target_free(target);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_runs_on_for_ten_years_without_a_gap),
		cmocka_unit_test(the_control_page_shows_all_of_it),
		cmocka_unit_test(every_time_of_a_profile_is_read_as_it_was_written),
		cmocka_unit_test(a_process_began_when_it_says_however_late_it_is_heard_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
