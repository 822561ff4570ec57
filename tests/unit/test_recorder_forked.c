/* SPDX-License-Identifier: Apache-2.0 */
/* links: recorder-checked format base */
/* The first calls of a forked child come from several threads at once: one of them starts the child's profile, and the calls of the
 * others are recorded or counted. The threads are created by the test's own pthread_create, which calls no hook. Delays of the
 * checking build keep the child between two steps of its start-up for longer. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooked.h"
#include "recorder/checks/chaos.h"
#include "recorder/hooks/free.h"
#include "unit.h"

enum { CHILDREN = 200, THREADS = 2, CALLS = 20, OFTEN = 60000, WRONG_NUMBERS = 4 };

static int waiting; /* spun upon, so that all threads are runnable when the last one arrives */

static void *allocate(void *unused)
{
	__atomic_add_fetch(&waiting, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) < THREADS)
		;
	/* Never freed: a free that is not recorded would be counted too. */
	for (int i = 0; i < CALLS; i++)
		hooked_malloc(100);
	return unused;
}

static uint64_t accounted_for(void)
{
	const uint64_t *health = memory.head->health;
	uint64_t sum = health[HEALTH_early_calls] + health[HEALTH_unregistered_calls];

	for (uint32_t i = 0; i < memory.head->used[LIVE_SLOTS]; i++)
		sum += memory_slot(i)->calls;
	return sum;
}

__attribute__((noreturn)) static void run_child(void)
{
	const uint64_t calls = (uint64_t)THREADS * CALLS;
	pthread_t thread[THREADS];

	signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
	signal(SIGILL, SIG_DFL);
	alarm(60);

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, allocate, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	if (accounted_for() != calls)
		fprintf(stderr, "%llu of %llu calls\n", (unsigned long long)accounted_for(),
			(unsigned long long)calls);
	_exit(accounted_for() == calls ? 0 : WRONG_NUMBERS);
}

static void fork_children(uint32_t delay)
{
	chaos.delay = delay;
	hooked_free(hooked_malloc(100)); /* the parent has a profile */
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (child == 0)
			run_child();
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	chaos.delay = 0;
}

static void no_call_of_a_new_child_is_lost(void **state)
{
	(void)state;
	fork_children(0);
}

static void a_new_child_starts_once(void **state)
{
	(void)state;
	fork_children(OFTEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_call_of_a_new_child_is_lost),
		cmocka_unit_test(a_new_child_starts_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
