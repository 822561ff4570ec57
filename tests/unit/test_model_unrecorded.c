/* SPDX-License-Identifier: Apache-2.0 */
/* links: model symbols format util base */
/* Whose memory a forked process has: its parent's, and that one's parent's. */
#include "model/unrecorded.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_parent_is_the_last_that_had_its_number),
		cmocka_unit_test(a_long_line_of_forks_is_followed_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
