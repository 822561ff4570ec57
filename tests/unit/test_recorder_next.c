/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-parts format base Threads::Threads */
/* What the hooks forward to may be looked for by several threads at once, and in a signal handler that interrupts the
 * looking: it can be used by whoever has found it, all the time. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "recorder/hooks/next.h"
#include "recorder/hooks/operators.h"
#include "unit.h"

/* The hooks, which are not linked here, would be in this section. */
__attribute__((used, section(OPERATOR_SECTION))) static void in_section(void)
{
}

enum { THREADS = 4, ROUNDS = 300 };
static struct next expected;
static operator_fn *operators_expected[OPERATORS];
static int wrong, handled;

/* All words but the flag between them. */
static bool is_as_expected(void)
{
	const size_t flag = offsetof(struct next, usable_in_header);
	const size_t behind = offsetof(struct next, malloc_usable_size);

	return memcmp(&next, &expected, flag) == 0 &&
	       memcmp((char *)&next + behind, (char *)&expected + behind, sizeof next - behind) ==
		       0 &&
	       memcmp(next_operator, operators_expected, sizeof operators_expected) == 0;
}

static void use(void)
{
	const struct next *found = next_found();
	void *block = found->malloc(100);

	block = found->realloc(block, 200);
	if (block == NULL || !is_as_expected())
		__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
	found->free(block);
}

static void *look_and_use(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		next_find();
		use();
	}
	return unused;
}

static void on_signal(int number)
{
	(void)number;
	next_find();
	if (!is_as_expected())
		wrong = 1;
	handled++;
}

static void found_once_is_found(void **state)
{
	(void)state;
	next_found();
	expected = next;
	memcpy(operators_expected, next_operator, sizeof operators_expected);
	assert_true((void *)next.malloc == (void *)malloc);
	assert_true((void *)next.mmap != NULL && (void *)next.execve != NULL);
	next_find();
	assert_true(is_as_expected());
}

static void threads_find_the_same_at_once(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_and_use, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wrong, 0);
}

static void a_signal_handler_inside_finds_the_same(void **state)
{
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { 0 };
	struct sigaction action = { .sa_handler = on_signal };

	(void)state;
	assert_int_equal(sigaction(SIGPROF, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_PROF, &often, NULL), 0);
	for (int i = 0; i < 1000000 && handled < 10; i++) {
		next_find();
		assert_true(is_as_expected());
	}
	assert_int_equal(setitimer(ITIMER_PROF, &never, NULL), 0);
	assert_true(handled >= 10);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_once_is_found),
		cmocka_unit_test(threads_find_the_same_at_once),
		cmocka_unit_test(a_signal_handler_inside_finds_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
