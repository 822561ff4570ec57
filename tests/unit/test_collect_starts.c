/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Announcements in the ring of a profile: who is expected, heard from, taken back, missed. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/run/process_log.h"

enum { NUMBER = 7, PID = 100 };

struct stage {
	struct target target;
	struct live_header *head;
	struct process_log starts;
};

static void stage_init(struct stage *s)
{
	*s = (struct stage){ .target = { .id = NUMBER } };
	s->head = aligned_alloc(LIVE_PAGE, sizeof *s->head);
	assert_non_null(s->head);
	memset(s->head, 0, sizeof *s->head);
	s->head->pid = PID;
	s->target.profile = LIVE_PROFILE_INIT;
	s->target.profile.head = s->head;
	s->target.profile.is_lent = true;
	s->target.known.exe = (char *)"/bin/parent";
}

static void stage_release(struct stage *s)
{
	process_log_release(&s->starts);
	free(s->head);
}

static struct live_ticket ticket_of(uint32_t number)
{
	return (struct live_ticket){ .profile = NUMBER, .serial = number };
}

/* As the recorder does it. Returns the ticket. */
static struct live_ticket announce(struct stage *s, enum missed_reason reason, const char *path,
				   uint32_t pid)
{
	uint32_t number = (uint32_t)++s->head->starts;
	struct live_start *entry = &s->head->start[number % LIVE_STARTS];

	*entry = (struct live_start){
		.serial = number, .reason = reason, .pid = pid, .path_bytes = (uint32_t)strlen(path)
	};
	memcpy(entry->path, path, strlen(path));
	return ticket_of(number);
}

static struct run_row finish(struct stage *s)
{
	struct run_row run = { 0 };

	process_log_finish(&s->starts, &run);
	return run;
}

static void who_is_heard_from_is_not_missed(void **state)
{
	struct stage s;
	struct run_row run;
	struct live_ticket first, second;

	(void)state;
	stage_init(&s);
	first = announce(&s, MISSED_unconnected, "/bin/one", 0);
	second = announce(&s, MISSED_unconnected, "/bin/two", 0);
	process_log_update(&s.starts, &s.target, false);
	process_log_update(&s.starts, &s.target, false); /* nobody is read twice */
	assert_int_equal(s.starts.pending.count, 2);
	process_log_connected(&s.starts, second);
	process_log_connected(&s.starts, second); /* a ticket is good for one */
	process_log_connected(&s.starts, (struct live_ticket){ 0 });
	run = finish(&s);
	assert_int_equal(run.missed_count, 1);
	assert_string_equal(run.missed[0].path, "/bin/one");
	assert_int_equal(run.missed[0].count, 1);
	assert_int_equal(first.serial, 1);
	run_row_release(&run);
	stage_release(&s);
}

/* The counter is the target's word. */
static void a_counter_at_its_end_is_read_like_any_other(void **state)
{
	static const uint64_t ends[] = { UINT64_MAX - 1, UINT32_MAX, UINT64_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct stage s;
		struct run_row run;

		stage_init(&s);
		s.head->starts = ends[i];
		process_log_update(&s.starts, &s.target, false);
		s.head->starts = ends[i] - 1;
		announce(&s, MISSED_unconnected, "/bin/last", 0);
		process_log_update(&s.starts, &s.target, false);
		run = finish(&s);
		assert_string_equal(run.missed[0].path, "/bin/last");
		run_row_release(&run);
		stage_release(&s);
	}
}

/* V7: files are found in any order, so that a child may be heard from before its parent is. */
static void who_is_heard_from_before_its_announcer_is_not_missed(void **state)
{
	struct stage s;
	struct run_row run;

	(void)state;
	stage_init(&s);
	process_log_connected_early(&s.starts, ticket_of(2));
	process_log_connected_early(&s.starts, (struct live_ticket){ 0 });
	announce(&s, MISSED_unconnected, "/bin/one", 0);
	announce(&s, MISSED_unconnected, "/bin/two", s.head->pid);
	process_log_update(&s.starts, &s.target, true);
	assert_int_equal(s.starts.pending.count, 1);
	assert_int_equal(s.starts.early.count, 0);
	assert_true(s.target.has_become);
	run = finish(&s);
	assert_int_equal(run.missed_count, 1);
	assert_string_equal(run.missed[0].path, "/bin/one");
	run_row_release(&run);
	stage_release(&s);
}

static void what_was_taken_back_before_or_after_a_look_is_not_missed(void **state)
{
	struct stage s;
	struct run_row run;

	(void)state;
	stage_init(&s);
	announce(&s, MISSED_static, "/bin/early", 0);
	s.head->start[1].failed = 1;
	announce(&s, MISSED_unconnected, "/bin/late", 0);
	process_log_update(&s.starts, &s.target, false);
	s.head->start[2].failed = 1;
	process_log_update(&s.starts, &s.target, false);
	assert_int_equal(s.starts.pending.count, 0);
	run = finish(&s);
	assert_int_equal(run.missed_count, 0);
	run_row_release(&run);
	stage_release(&s);
}

static void a_target_that_has_ended_takes_nothing_back(void **state)
{
	struct stage s;
	struct run_row run;

	(void)state;
	stage_init(&s);
	announce(&s, MISSED_static, "/bin/still", 0);
	announce(&s, MISSED_static, "/bin/failed", 0);
	announce(&s, MISSED_unconnected, "/bin/expected", 0);
	s.head->start[2].failed = 1;
	process_log_update(&s.starts, &s.target, true);
	assert_int_equal(s.starts.pending.count, 1); /* a hello may still come */
	assert_int_equal(s.starts.missed.count, 1);
	process_log_connected(&s.starts, ticket_of(3));
	run = finish(&s);
	assert_int_equal(run.missed_count, 1);
	assert_string_equal(run.missed[0].path, "/bin/still");
	run_row_release(&run);
	stage_release(&s);
}

static void a_child_is_known_by_its_parents_program(void **state)
{
	struct stage s;
	struct run_row run;

	(void)state;
	stage_init(&s);
	announce(&s, MISSED_child, "", 0);
	announce(&s, MISSED_child, "", 0);
	process_log_update(&s.starts, &s.target, false);
	run = finish(&s);
	assert_int_equal(run.missed_count, 1);
	assert_int_equal(run.missed[0].count, 2);
	assert_string_equal(run.missed[0].path, "/bin/parent");
	run_row_release(&run);
	stage_release(&s);
}

static void only_the_target_itself_becomes_what_it_announces_so(void **state)
{
	struct stage s;

	(void)state;
	stage_init(&s);
	announce(&s, MISSED_static, "/bin/other", PID + 1); /* a vfork's child */
	process_log_update(&s.starts, &s.target, false);
	assert_false(process_log_becomes(&s.starts, &s.target));
	announce(&s, MISSED_static, "/bin/own", PID);
	process_log_update(&s.starts, &s.target, false);
	assert_true(process_log_becomes(&s.starts, &s.target));
	s.head->start[2].failed = 1;
	process_log_update(&s.starts, &s.target, false);
	assert_false(process_log_becomes(&s.starts, &s.target));
	stage_release(&s);
}

/* A collector that was stopped finds a ring that has gone round: the number is right, the names are those of the last. */
static void what_was_overwritten_is_counted_without_a_name(void **state)
{
	enum { ALL = 5 * LIVE_STARTS + 3 };
	struct stage s;
	struct run_row run;
	struct live_ticket tickets[ALL];
	uint64_t named = 0, unnamed = 0;

	(void)state;
	stage_init(&s);
	for (size_t i = 0; i < ALL; i++)
		tickets[i] = announce(&s, MISSED_unconnected, "/bin/many", 0);
	process_log_update(&s.starts, &s.target, false);
	for (size_t i = 0; i < 10; i++)
		process_log_connected(&s.starts, tickets[i]);
	run = finish(&s);
	for (size_t i = 0; i < run.missed_count; i++)
		*(run.missed[i].path[0] ? &named : &unnamed) += run.missed[i].count;
	assert_int_equal(named, LIVE_STARTS);
	assert_int_equal(named + unnamed, ALL - 10);
	run_row_release(&run);
	stage_release(&s);
}

/* It was interrupted for ever; those behind it are seen all the same. */
static void an_announcement_that_is_never_finished_hides_no_other(void **state)
{
	struct stage s;

	(void)state;
	stage_init(&s);
	announce(&s, MISSED_unconnected, "/bin/half", 0);
	s.head->start[1].serial = 0;
	announce(&s, MISSED_unconnected, "/bin/whole", 0);
	process_log_update(&s.starts, &s.target, false);
	assert_int_equal(s.starts.pending.count, 1);
	assert_string_equal(s.starts.pending.at[0].path, "/bin/whole");
	s.head->start[1].serial = 1;
	process_log_update(&s.starts, &s.target, false);
	assert_int_equal(s.starts.pending.count, 2);
	stage_release(&s);
}

static void memory_is_bounded_whatever_is_announced(void **state)
{
	enum { ALL = 20000 };
	struct stage s;
	struct run_row run;
	uint64_t sum = 0;

	(void)state;
	stage_init(&s);
	for (unsigned i = 0; i < ALL; i++) {
		char path[32];

		snprintf(path, sizeof path, "/bin/%u", i);
		announce(&s, i % 2 ? MISSED_static : MISSED_unconnected, path, 0);
		process_log_update(&s.starts, &s.target, false);
		assert_true(s.starts.pending.count <= 4096);
	}
	run = finish(&s);
	assert_true(run.missed_count <= 1002);
	for (size_t i = 0; i < run.missed_count; i++)
		sum += run.missed[i].count;
	assert_int_equal(sum, ALL);
	run_row_release(&run);
	stage_release(&s);
}

/* Numbers beyond all bounds, as a damaged target may leave them. */
static void random_bytes_in_the_ring_do_no_harm(void **state)
{
	uint64_t seed = 20261120;

	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		struct stage s;
		struct run_row run;

		stage_init(&s);
		for (unsigned i = 0; i < LIVE_STARTS; i++) {
			uint8_t *bytes = (uint8_t *)&s.head->start[i];

			for (size_t k = 0; k < sizeof s.head->start[i]; k++)
				bytes[k] = (uint8_t)unit_random(&seed);
			if (i % 2)
				s.head->start[i].serial = i + LIVE_STARTS * (uint32_t)(seed % 1000);
		}
		s.head->starts = unit_random_length(&seed);
		process_log_update(&s.starts, &s.target, false);
		run = finish(&s);
		run_row_release(&run);
		stage_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_heard_from_is_not_missed),
		cmocka_unit_test(a_counter_at_its_end_is_read_like_any_other),
		cmocka_unit_test(who_is_heard_from_before_its_announcer_is_not_missed),
		cmocka_unit_test(what_was_taken_back_before_or_after_a_look_is_not_missed),
		cmocka_unit_test(a_target_that_has_ended_takes_nothing_back),
		cmocka_unit_test(a_child_is_known_by_its_parents_program),
		cmocka_unit_test(only_the_target_itself_becomes_what_it_announces_so),
		cmocka_unit_test(what_was_overwritten_is_counted_without_a_name),
		cmocka_unit_test(an_announcement_that_is_never_finished_hides_no_other),
		cmocka_unit_test(memory_is_bounded_whatever_is_announced),
		cmocka_unit_test(random_bytes_in_the_ring_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
