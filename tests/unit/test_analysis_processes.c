/* SPDX-License-Identifier: Apache-2.0 */
/* links: analysis model format */
/* The tree of processes: exec, numbers that come again, unknown parents, limits and choices. */
#include "test_model_made.h"

#include <stdio.h>

#include "analysis/analyses.h"
#include "model/build.h"

struct member {
	uint32_t pid, ppid;
	enum process_end end;
	uint64_t peak_bytes;
};

static struct recording made_family(const struct member *members, size_t count)
{
	struct recording r = { .processes = calloc(count, sizeof *r.processes),
			       .process_count = count };

	assert_non_null(r.processes);
	for (size_t i = 0; i < count; i++)
		r.processes[i].process = (struct process_row){
			.pid = members[i].pid,
			.ppid = members[i].ppid,
			.end = members[i].end,
			.peak_bytes = members[i].peak_bytes,
			.started_offset_ns = 1000 * i,
			.duration_ns = 5000,
			.command = strdup("member"),
		};
	return r;
}

/* "depth:pid depth:pid ..." of the rows. */
static void assert_tree(const struct member *members, size_t count, struct query query,
			const char *want)
{
	struct recording r = made_family(members, count);
	struct profile *profile = profile_new(&r, NULL);
	struct result *result =
		analysis_answer(analysis_find("processes"), profile, NULL, &query, NULL);
	char got[256] = "";
	size_t used = 0;

	assert_non_null(result);
	for (size_t i = 0; i < result->table.row_count; i++) {
		const struct result_value *row =
			&result->table.values[i * result->table.column_count];

		used += (size_t)snprintf(got + used, sizeof got - used, "%s%d:%d", i ? " " : "",
					 (int)row[0].number, (int)row[1].number);
	}
	assert_string_equal(got, want);
	result_free(result);
	profile_free(profile);
}

static const struct member family[] = {
	{ 10, 1, END_EXEC, 5 }, /* a shell ... */
	{ 10, 1, END_EXIT, 9 }, /* ... that became a program */
	{ 11, 10, END_EXIT, 1 }, { 12, 11, END_EXIT, 70 },
	{ 13, 10, END_EXIT, 3 }, { 11, 10, END_EXIT, 2 }, /* the number came again */
	{ 14, 11, END_EXIT, 4 },			  /* a child of the second one */
	{ 99, 77, END_EXIT, 8 },			  /* its parent is not known */
};

static void parents_are_who_had_the_number_then(void **state)
{
	(void)state;
	assert_tree(family, ARRAY_SIZE(family), (struct query){ .limit = SIZE_MAX },
		    "0:10 1:10 2:11 3:12 2:13 2:11 3:14 0:99");
}

static void the_heaviest_are_shown_with_their_parents(void **state)
{
	(void)state;
	assert_tree(family, ARRAY_SIZE(family), (struct query){ .limit = 4 },
		    "0:10 1:10 2:11 3:12");
	assert_tree(family, ARRAY_SIZE(family), (struct query){ .limit = 0 }, "");
}

static void only_the_chosen_are_shown(void **state)
{
	(void)state;
	assert_tree(family, ARRAY_SIZE(family),
		    (struct query){ .limit = SIZE_MAX, .filters.process = "11" }, "0:11 0:11");
}

static void a_process_may_claim_to_be_its_own_parent(void **state)
{
	static const struct member odd[] = { { 5, 5, END_EXIT, 1 }, { 5, 5, END_EXIT, 2 } };

	(void)state;
	assert_tree(odd, ARRAY_SIZE(odd), (struct query){ .limit = SIZE_MAX }, "0:5 1:5");
	assert_tree(odd, 0, (struct query){ .limit = SIZE_MAX }, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parents_are_who_had_the_number_then),
		cmocka_unit_test(the_heaviest_are_shown_with_their_parents),
		cmocka_unit_test(only_the_chosen_are_shown),
		cmocka_unit_test(a_process_may_claim_to_be_its_own_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
