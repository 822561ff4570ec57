/* SPDX-License-Identifier: Apache-2.0 */
/* Proves that a vfork child which allocates before its thread ever did takes no slot for itself, while other threads start
 * and end around it: no slot is given to two threads, and what is not recorded is counted. */
#include "target.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static struct truth busy_truth = TRUTH(take_busy);
static atomic_int going;

static NOINLINE void *take_busy(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	truth_take(&busy_truth, n);
	return p;
}

static NOINLINE void *take_in_child(size_t n)
{
	void *p = malloc(n);
	KEEP(p);
	return p;
}

static void work(int count)
{
	for (int i = 0; i < count; i++) {
		free(take_busy(48));
		truth_drop(&busy_truth, 48);
	}
}

static NOINLINE void vfork_once(void)
{
	int status;
	pid_t child = vfork();

	if (child == 0) {
		take_in_child(32); /* forbidden by the letter, done in the wild */
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void *victim(void *argument)
{
	vfork_once();
	atomic_store(&going, 1);
	work(20000);
	return argument;
}

static void *brief(void *argument)
{
	work(10);
	return argument;
}

static void *other(void *argument)
{
	while (!atomic_load(&going)) {
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, brief, NULL) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	work(20000);
	return argument;
}

int main(void)
{
	for (int i = 0; i < long_form(20, 400); i++) {
		pthread_t first, second;

		atomic_store(&going, 0);
		CHECK(pthread_create(&second, NULL, other, NULL) == 0);
		CHECK(pthread_create(&first, NULL, victim, NULL) == 0);
		CHECK(pthread_join(first, NULL) == 0);
		CHECK(pthread_join(second, NULL) == 0);
	}
	truth_print(&busy_truth, "");
	say("EXPECT site=take_in_child kind=heap calls<=%ld\nHEALTH_MAYBE unregistered_calls\n",
	    long_form(20, 400));
	return 0;
}
