/* SPDX-License-Identifier: Apache-2.0 */
/* links: model symbols format util base */
/* Whose memory a forked process has: its parent's, and that one's parent's. */
#include "model/unrecorded.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/recording/rows.h"
#include "unit.h"

#define MIB (1ull << 20)

static struct memory_row memory[] = { { .heap_bytes = 100 * MIB, .rss_bytes = 100 * MIB } };
static const struct process_rows looked_at = { .memory = memory, .memory_count = 1 };

static struct profile_process process(uint32_t pid, uint32_t ppid, uint64_t peak_bytes)
{
	return (struct profile_process){ .pid = pid,
					 .ppid = ppid,
					 .peak_bytes = peak_bytes,
					 .exe = "/bin/x",
					 .command = "x",
					 .mode = "exact",
					 .allocator = "glibc",
					 .linked_in = "",
					 .rows = &looked_at };
}

static void a_parent_is_the_last_that_had_its_number(void **state)
{
	struct profile_process p[] = { process(1, 0, 90 * MIB), process(1, 0, 20 * MIB),
				       process(2, 1, 10 * MIB) };
	const struct profile profile = { .processes = p, .process_count = 3 };

	(void)state;
	assert_int_equal(unrecorded_gap_of(&profile, &p[2]).missing_bytes, 70 * MIB);
	assert_int_equal(unrecorded_gap_of(&profile, &p[1]).missing_bytes, 80 * MIB);
	assert_int_equal(unrecorded_gap_of(&profile, &p[0]).missing_bytes, 10 * MIB);
}

/* Each was looked for among all others, for each of its descendants: that was a matter of days. */
static void a_long_line_of_forks_is_followed_in_time(void **state)
{
	enum { COUNT = 20000 };
	struct profile_process *p = calloc(COUNT, sizeof *p);
	const struct profile profile = { .processes = p, .process_count = COUNT };

	(void)state;
	assert_non_null(p);
	for (uint32_t i = 0; i < COUNT; i++)
		p[i] = process(i + 1, i, MIB);
	assert_int_equal(unrecorded_gap_of(&profile, &p[9]).missing_bytes, 90 * MIB);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_true(unrecorded_gap_of(&profile, &p[i]).missing_bytes < 100 * MIB);
	free(p);
}

/* Two looks at 100 MiB in no recorded block, of which so much may have changed in between. */
static bool is_reported(uint64_t first_changed, uint64_t second_changed)
{
	struct memory_row rows[] = {
		{ .sheet = 1, .anonymous_bytes = 100 * MIB, .unrecorded_bytes = 100 * MIB },
		{ .sheet = 1, .anonymous_bytes = 100 * MIB, .unrecorded_bytes = 100 * MIB },
	};
	const struct process_rows looks = { .memory = rows, .memory_count = 2 };
	struct profile_process p = process(1, 0, 100 * MIB);
	const struct profile profile = { .processes = &p, .process_count = 1 };
	struct unrecorded_gap gap;

	rows[0].changed_bytes = first_changed;
	rows[1].changed_bytes = second_changed;
	p.rows = &looks;
	return unrecorded_is_reported(&profile, &p, &gap);
}

static void memory_that_changed_during_a_look_is_not_missing(void **state)
{
	(void)state;
	assert_true(is_reported(0, 0));
	assert_true(is_reported(20 * MIB, 30 * MIB));
	assert_false(is_reported(0, 98 * MIB)); /* a single look is not certain */
	assert_false(is_reported(98 * MIB, 0));
	assert_false(is_reported(UINT64_MAX, UINT64_MAX));
}

/* Calls `judge` with a process of which one file has mapped 100 MiB. */
static uint64_t of_mapped(const char *file, uint64_t found, const char *allocator,
			  uint64_t (*judge)(const struct profile_process *))
{
	char path[32];
	struct memory_row rows[] = {
		{ .sheet = 1, .anonymous_bytes = 100 * MIB, .mapped_bytes = 100 * MIB },
		{ .sheet = 1, .anonymous_bytes = 100 * MIB, .mapped_bytes = 100 * MIB },
	};
	uint64_t frames[] = { 0, live_frame_pack(1, 0x10, false) };
	struct node_row nodes[] = { { 0 }, { .frame = 1 } };
	struct site_row site_rows[] = { { 0 }, { .node = 1 } };
	struct unrecorded_row files[] = { { .path = path, .found = found } };
	const struct process_rows looks = { .memory = rows,
					    .memory_count = 2,
					    .frames = frames,
					    .frame_count = 2,
					    .nodes = nodes,
					    .node_count = 2,
					    .sites = site_rows,
					    .site_count = 2,
					    .unrecorded = files,
					    .unrecorded_count = 1 };
	const struct profile_module modules[] = { { .path = "" }, { .path = path } };
	const struct profile_site sites[] = {
		{ .id = { 1 }, .kind = PROFILE_MMAP, .numbers.max_bytes = 100 * MIB }
	};
	struct profile_process p = process(1, 0, 0);

	snprintf(path, sizeof path, "%s", file);
	p.rows = &looks;
	p.modules = modules;
	p.module_count = 2;
	p.sites = sites;
	p.site_count = 1;
	p.allocator = allocator;
	p.mmap_peak_bytes = 60 * MIB;
	return judge(&p);
}

static uint64_t missing_of(const struct profile_process *p)
{
	const struct profile profile = { .processes = (struct profile_process *)p,
					 .process_count = 1 };

	return unrecorded_gap_of(&profile, p).missing_bytes;
}

static uint64_t missing_if_file_has(uint64_t found)
{
	return of_mapped("/usr/bin/file", found, "glibc", missing_of);
}

static void arenas_of_an_allocator_are_not_mapped_by_the_program(void **state)
{
	(void)state;
	assert_int_equal(of_mapped("/bin/x", 0, "glibc", unrecorded_program_maps_peak), 60 * MIB);
	assert_int_equal(of_mapped("/bin/x", UNRECORDED_BIT(mimalloc), "glibc",
				   unrecorded_program_maps_peak),
			 0);
	assert_int_equal(of_mapped("/lib/libjemalloc.so.2", 0, "libjemalloc.so.2",
				   unrecorded_program_maps_peak),
			 0);
	assert_int_equal(of_mapped("/usr/bin/python3.11", 0, "glibc", unrecorded_program_maps_peak),
			 0);
}

/* The sum over the maxima of sites may be larger. */
static void arenas_of_python_are_at_most_what_was_mapped_at_one_time(void **state)
{
	(void)state;
	assert_int_equal(of_mapped("/usr/bin/python3.11", 0, "glibc", unrecorded_python_arenas),
			 60 * MIB);
	assert_int_equal(of_mapped("/bin/x", 0, "glibc", unrecorded_python_arenas), 0);
}

/* Python 3.13 contains mimalloc. Its arenas counted as that allocator's. */
static void arenas_of_an_interpreter_with_an_allocator_are_recorded(void **state)
{
	const uint64_t python = UNRECORDED_BIT(cpython), mimalloc = UNRECORDED_BIT(mimalloc);

	(void)state;
	assert_int_equal(missing_if_file_has(0), 0);
	assert_int_equal(missing_if_file_has(python), 0);
	assert_int_equal(missing_if_file_has(mimalloc), 100 * MIB);
	assert_int_equal(missing_if_file_has(python | mimalloc), 0);
	assert_int_equal(missing_if_file_has(python | UNRECORDED_BIT(go)), 100 * MIB);
}

/* The only look, at 10 MiB, shows a heap of 8 MiB. What the resident set had at most beyond that and beyond what was recorded. */
static uint64_t growth_with_files(uint64_t rss_bytes, uint64_t heap_bytes, uint64_t own_bytes,
				  uint64_t file_bytes)
{
	struct memory_row rows[] = { { .at_ns = 7,
				       .sheet = 1,
				       .rss_bytes = 10 * MIB,
				       .heap_bytes = 8 * MIB,
				       .own_bytes = MIB } };
	const struct process_rows looks = { .memory = rows,
					    .memory_count = 1,
					    .process.peak_file_bytes = file_bytes };
	struct profile_process p = process(1, 0, heap_bytes);
	const struct profile profile = { .processes = &p, .process_count = 1 };

	p.rows = &looks;
	p.end = PROFILE_EXITED;
	p.peak_rss_bytes = rss_bytes;
	p.own_bytes = own_bytes;
	struct unrecorded_growth growth = unrecorded_growth_of(&profile, &p);

	assert_int_equal(growth.look_at_ns, growth.bytes ? 7 : 0);
	p.end = PROFILE_RUNNING; /* the look is as of now */
	assert_int_equal(unrecorded_growth_of(&profile, &p).bytes, 0);
	return growth.bytes;
}

static uint64_t growth_to(uint64_t rss_bytes, uint64_t heap_bytes, uint64_t own_bytes)
{
	return growth_with_files(rss_bytes, heap_bytes, own_bytes, 0);
}

static void a_look_says_nothing_about_memory_that_came_later(void **state)
{
	(void)state;
	assert_int_equal(growth_to(10 * MIB, 8 * MIB, MIB), 0);
	assert_int_equal(growth_to(14 * MIB, 8 * MIB, MIB), 0); /* a few MiB are nothing */
	assert_int_equal(growth_to(121 * MIB, 8 * MIB, MIB), 111 * MIB);
	assert_int_equal(growth_to(121 * MIB, 119 * MIB, MIB), 0); /* recorded blocks came */
	assert_int_equal(growth_to(121 * MIB, 58 * MIB, MIB), 61 * MIB);
	assert_int_equal(growth_to(121 * MIB, 8 * MIB, 61 * MIB),
			 51 * MIB);				   /* and the recorder's */
	assert_int_equal(growth_to(121 * MIB, 110 * MIB, MIB), 0); /* not a tenth of it */
	assert_int_equal(growth_with_files(121 * MIB, 8 * MIB, MIB, 110 * MIB), 0);
	assert_int_equal(growth_with_files(121 * MIB, 8 * MIB, MIB, 61 * MIB), 50 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_parent_is_the_last_that_had_its_number),
		cmocka_unit_test(memory_that_changed_during_a_look_is_not_missing),
		cmocka_unit_test(a_look_says_nothing_about_memory_that_came_later),
		cmocka_unit_test(arenas_of_an_allocator_are_not_mapped_by_the_program),
		cmocka_unit_test(arenas_of_python_are_at_most_what_was_mapped_at_one_time),
		cmocka_unit_test(arenas_of_an_interpreter_with_an_allocator_are_recorded),
		cmocka_unit_test(a_long_line_of_forks_is_followed_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
