/* SPDX-License-Identifier: Apache-2.0 */
/* links: collect format util base */
/* Which rank a process has, and which ranks a list names. */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "collect/kernel/ranks.h"

static void lists_name_ranks(void **state)
{
	static const struct {
		const char *text;
		int in[4], out[4];
	} cases[] = {
		{ "0", { 0, 0, 0, 0 }, { 1, 2, RANK_NONE, 10 } },
		{ "0,3-5", { 0, 3, 4, 5 }, { 1, 2, 6, RANK_NONE } },
		{ "7-7,2", { 7, 2, 7, 2 }, { 0, 1, 3, 8 } },
		{ "2147483647",
		  { 2147483647, 2147483647, 2147483647, 2147483647 },
		  { 0, 1, 2, 3 } },
	};
	struct error error = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ranks ranks = { 0 };

		assert_int_equal(ranks_parse(cases[i].text, &ranks, &error), 0);
		for (size_t j = 0; j < 4; j++) {
			assert_true(ranks_have(&ranks, cases[i].in[j]));
			assert_false(ranks_have(&ranks, cases[i].out[j]));
		}
	}
}

static void without_a_list_all_are_meant(void **state)
{
	struct ranks all = { 0 };

	(void)state;
	assert_true(ranks_have(&all, 0));
	assert_true(ranks_have(&all, RANK_NONE));
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const texts[] = { "",     ",",	   "0,",	   "a",	  "1-",
					     "-1",   "5-3",	   "1-2-3",	   "1 2", "0x1",
					     "1,,2", "2147483648", "3-99999999999" };
	struct ranks ranks = { 0 };
	char many[3 * RANKS_RANGES_MAX + 8] = "1";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct error error = ERROR_INIT;

		assert_int_equal(ranks_parse(texts[i], &ranks, &error), -1);
		assert_non_null(strstr(error.message, "--ranks takes"));
		assert_int_equal(ranks.count, 0);
	}
	for (int i = 1; i < RANKS_RANGES_MAX; i++)
		memcpy(many + strlen(many), ",1", 3);
	struct error error = ERROR_INIT;

	assert_int_equal(ranks_parse(many, &ranks, &error), 0);
	memcpy(many + strlen(many), ",1", 3);
	assert_int_equal(ranks_parse(many, &ranks, &error), -1);
}

/* With this environment. */
static int rank_with(char *const *environment)
{
	char **before = environ;
	int rank;

	environ = (char **)(uintptr_t)environment;
	rank = rank_own();
	environ = before;
	return rank;
}

#define ENVIRONMENT(...) ((char *const[]){ __VA_ARGS__, NULL })
#define ENTRY(text) ((char[]){ text })

static void launchers_say_it_in_the_environment(void **state)
{
	(void)state;
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("PMI_RANK=3"))), 3);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("PMIX_RANK=0"))), 0);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("A=b"), ENTRY("OMPI_COMM_WORLD_RANK=12"))),
			 12);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("SLURM_PROCID=4"), ENTRY("SLURM_STEP_ID=0"))),
			 4);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("SLURM_PROCID=4"))), RANK_NONE);
	/* mpirun in a step */
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("SLURM_PROCID=0"), ENTRY("SLURM_STEP_ID=0"),
					       ENTRY("PMIX_RANK=7"))),
			 7);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("PMI_RANK=x"))), RANK_NONE);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("PMI_RANK="))), RANK_NONE);
	assert_int_equal(rank_with(ENVIRONMENT(ENTRY("MY_PMI_RANK=3"), ENTRY("PMI_RANK_OF=4"))),
			 RANK_NONE);
	assert_int_equal(rank_with((char *const[]){ NULL }), RANK_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_name_ranks),
		cmocka_unit_test(without_a_list_all_are_meant),
		cmocka_unit_test(what_is_no_list_is_refused),
		cmocka_unit_test(launchers_say_it_in_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
